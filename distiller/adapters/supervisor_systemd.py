"""A recipe in, a unit of `systemd --user` out; calls of systemctl and loginctl, and what they say of the service.

What is done here was measured on systemd 252: quoting, exit codes (`is-active` says 1 both for "stopped" and for "no
manager"), and that a manager which reads no new file runs the old text.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping

from distiller.errors import DistillerError, SettingError
from distiller.vocabulary import ServiceRecipe, ServiceSeen, ServiceStep

UNIT = "distiller.service"
LIMIT_SECONDS = 400  # longer than the unit's TimeoutStartSec
NO_NAMESPACES = {217, 218, 226}  # USER, CAPABILITIES, NAMESPACE: the sandbox cannot be built on this machine
LINGERING = "/var/lib/systemd/linger"  # one empty file for each account
LOGIND = "/run/systemd/seats"  # there while it runs (systemd's own way of asking)
MEANWHILE = "Meanwhile `distiller run` works in a terminal."
_SHOWN = (
    "ActiveState", "UnitFileState", "MainPID", "ExecStart", "FragmentPath", "NeedDaemonReload", "Result",
    "ExecMainStatus", "NRestarts", "StatusText", "LoadState",
)  # fmt: skip
_SANDBOX = re.compile(r"^# \[sandbox\n.*?^# sandbox\]\n", re.MULTILINE | re.DOTALL)


class SystemdSupervisor:
    """The manager of this account. `template` is the unit as shipped."""

    name = "systemd"

    def __init__(self, template: str, environment: Mapping[str, str], *, uid: int) -> None:
        self._template = template
        self._environment = dict(environment)
        self._uid = uid
        self._runtime = f"/run/user/{uid}"
        # A login by su, cron or ssh without PAM has no such variable, though the manager may well run.
        if "XDG_RUNTIME_DIR" not in self._environment and os.path.isdir(self._runtime):
            self._environment["XDG_RUNTIME_DIR"] = self._runtime
        home = environment.get("HOME") or os.path.expanduser("~")
        config = environment.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        self.file = os.path.join(config, "systemd", "user", UNIT)

    def obstacle(self) -> str | None:
        """What keeps the manager from serving this person and what to do, in one line; None if nothing does."""
        if shutil.which("systemctl") is None:
            return f"This machine has no systemd (no `systemctl`), so nothing can be installed. {MEANWHILE}"
        code, _, said = self._call("systemctl", "--user", "show", "--property=Version")
        if code == 0:
            return None
        if "XDG_RUNTIME_DIR" not in self._environment:
            why = f"there is no {self._runtime}: log in as this account itself (not by su, sudo or cron)"
            return (
                f"No systemd user manager runs for you: {why}, or let an administrator say `loginctl enable-linger "
                f"{self._account()}`. Nothing was changed. {MEANWHILE}"
            )
        reason = said.strip().splitlines()[-1] if said.strip() else f"systemctl ended with {code}"
        return (
            f"The systemd user manager does not answer ({reason}; XDG_RUNTIME_DIR="
            f"{self._environment['XDG_RUNTIME_DIR']}). Nothing was changed; log in anew, then try again. {MEANWHILE}"
        )

    # -- the unit -----------------------------------------------------------------------------------------------
    def text(self, recipe: ServiceRecipe) -> str:
        """The unit made from `recipe`.

        Raises:
            SettingError: a path holds a line break or another control character.
        """
        folders = (recipe.config, recipe.data, recipe.state, recipe.logs)
        program, *arguments = recipe.command
        writable = [f"ReadWritePaths={quoted(f'-{folder}')}" for folder in dict.fromkeys(folders)]
        if not recipe.private_tmp:
            writable.append("ReadWritePaths=-/tmp -/var/tmp")
        filled = {
            "command": " ".join([quoted(program), *(quoted(word, dollars=True) for word in arguments)]),
            "environment": "\n".join(f"Environment={quoted(f'{k}={v}')}" for k, v in recipe.environment.items()),
            "writable": "\n".join(writable),
            "private_tmp": f"PrivateTmp={'yes' if recipe.private_tmp else 'no'}",
        }
        template = self._template if recipe.sandbox else _SANDBOX.sub("", self._template)
        text = re.sub(r"^@(\w+)@\n", lambda found: f"{filled[found[1]]}\n" if filled[found[1]] else "", template,
                      flags=re.MULTILINE)  # fmt: skip
        return text.replace("@command@", filled["command"])

    # -- acts ---------------------------------------------------------------------------------------------------
    def steps(self, act: str) -> list[ServiceStep]:
        """The commands of an act, as things are now."""
        seen = self.look()
        again = [step("reset-failed", UNIT, why="forget that it failed", may_fail=True)] * (seen.state == "failed")
        match act:
            case "load":
                return [
                    step("daemon-reload", why="let the manager read the file"),
                    step("enable", UNIT, why="start it with each login"),
                    *again,
                    step("restart", UNIT, why="start it now"),
                ]
            case "unload":
                return [step("disable", "--now", UNIT, why="stop it, and start it no more", may_fail=True)]
            case "forget":
                return [step("daemon-reload", why="let the manager forget the file"), *again]
            case "start":
                return [*again, step("start", UNIT, why="start it")]
            case "stop":
                return [step("stop", UNIT, why="stop it until the next login")]
            case _:
                reload = [step("daemon-reload", why="the file has changed")] * seen.needs_reload
                return [*reload, *again, step("restart", UNIT, why="stop and start it")]

    def lingers(self) -> bool | None:
        """Whether the service outlives the last logout; None where there is no logind."""
        if os.path.exists(os.path.join(LINGERING, self._account())):
            return True  # `loginctl show-user` knows nobody who is not logged in
        return False if os.path.isdir(LOGIND) else None

    def linger_step(self, *, on: bool) -> ServiceStep:
        """The command that lets it outlive that, or no longer."""
        words = ("loginctl", "enable-linger" if on else "disable-linger", self._account())
        why = "let it run from boot on and after your logout" if on else "take that back"
        return ServiceStep("run", " ".join(words), why, words=words, may_fail=True)

    def run(self, step: ServiceStep) -> None:
        """Do a command; systemctl comes back when the unit has started or stopped.

        Raises:
            DistillerError: it was refused, or the service did not start.
        """
        code, _, said = self._call(*step.words)
        if code == 0 or step.may_fail:
            return
        if step.words[2:3] and step.words[2] in {"start", "restart"}:
            raise DistillerError(self._not_started())
        lines = said.strip().splitlines()
        raise DistillerError(f"`{step.target}` was refused: {lines[-1] if lines else f'code {code}'}.")

    def _not_started(self) -> str:
        seen = self.look()
        how = f"{seen.result or 'unknown'}, exit code {seen.exit_code}"
        if seen.exit_code in NO_NAMESPACES:
            return (
                f"The service did not start ({how}): this machine does not let a user's service be fenced in. Nothing "
                "of yours was touched; `distiller service install --no-sandbox` leaves the fence out."
            )
        return (
            f"The service did not start ({how}). Your facts are safe; `journalctl --user -u distiller -n 20` and "
            "`distiller doctor` say why, `distiller service uninstall` takes everything back."
        )

    # -- looking ------------------------------------------------------------------------------------------------
    def look(self) -> ServiceSeen:
        """How the service is now; `inactive` where the manager knows none."""
        _, out, _ = self._call("systemctl", "--user", "show", UNIT, f"--property={','.join(_SHOWN)}")
        shown = dict(line.split("=", 1) for line in out.splitlines() if "=" in line)
        program = re.match(r"\{ path=(.*?) ; argv", shown.get("ExecStart", ""))
        pid = int(shown.get("MainPID") or 0)
        return ServiceSeen(
            state=shown.get("ActiveState") or "inactive",
            enabled=shown.get("UnitFileState") == "enabled",
            pid=pid or None,
            program=program[1] if program else None,
            file=shown.get("FragmentPath") or None,
            needs_reload=shown.get("NeedDaemonReload") == "yes",
            result=shown.get("Result") or None,
            exit_code=int(shown["ExecMainStatus"]) if shown.get("ExecMainStatus") else None,
            restarts=int(shown["NRestarts"]) if shown.get("NRestarts") else None,
            text=shown.get("StatusText") or None,
        )

    def _call(self, *words: str) -> tuple[int, str, str]:
        try:
            done = subprocess.run(  # noqa: S603 -- words of ours and the account's name
                words, env=self._environment | {"LC_ALL": "C.UTF-8"}, stdin=subprocess.DEVNULL, capture_output=True,
                text=True, errors="replace", timeout=LIMIT_SECONDS, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            return 127, "", f"{words[0]}: no such program"
        except subprocess.TimeoutExpired:
            return 124, "", f"no answer within {LIMIT_SECONDS} s"
        return done.returncode, done.stdout, done.stderr

    def _account(self) -> str:
        return self._environment.get("USER") or str(self._uid)


def step(*words: str, why: str, may_fail: bool = False) -> ServiceStep:
    """A call of the user's systemctl."""
    whole = ("systemctl", "--user", *words)
    return ServiceStep("run", " ".join(whole), why, words=whole, may_fail=may_fail)


def quoted(word: str, *, dollars: bool = False) -> str:
    """One word of a unit file that means `word`; `dollars` where systemd puts in variables: in arguments."""
    checked(word)
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    text = text.replace("$", "$$") if dollars else text
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else f'"{text}"'


def checked(word: str) -> str:
    """`word`, if a unit file can hold it.

    Raises:
        SettingError: it cannot.
    """
    if re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", word):
        shown = word.encode("unicode_escape").decode()
        raise SettingError(f"{shown}: a service cannot be given such a path. Nothing was changed; choose another.")
    return word
