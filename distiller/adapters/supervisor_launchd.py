"""A recipe in, a LaunchAgent out; calls of launchctl, and what they say of the service.

Written from Apple's manuals and others' reports (Homebrew's services above all) and tried against a stand-in: none of
this ran on a Mac. `launchctl print` is no interface, so only three of its lines are read, and none is relied on.
"""

from __future__ import annotations

import os
import plistlib
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from typing import Any

from distiller.errors import DistillerError, SettingError
from distiller.vocabulary import ServiceRecipe, ServiceSeen, ServiceStep

LABEL = "dev.distiller.agent"
LIMIT_SECONDS = 60
GONE_SECONDS = 30  # longer than the agent's ExitTimeOut
LOOK_SECONDS = 0.2
IO_ERROR, NO_PROCESS, IN_PROGRESS = 5, 3, 36
MEANWHILE = "Meanwhile `distiller run` works in a terminal."


class LaunchdSupervisor:
    """The agents of this account's graphical login. `template` is the property list as shipped."""

    name = "launchd"

    def __init__(self, template: bytes, environment: Mapping[str, str], *, uid: int) -> None:
        self._template = template
        self._environment = dict(environment)
        self._domain = f"gui/{uid}"
        self._target = f"{self._domain}/{LABEL}"
        home = environment.get("HOME") or os.path.expanduser("~")
        self.file = os.path.join(home, "Library", "LaunchAgents", f"{LABEL}.plist")

    def obstacle(self) -> str | None:
        """What keeps launchd from serving this person and what to do, in one line; None if nothing does."""
        if shutil.which("launchctl", path=self._environment.get("PATH")) is None:
            return f"This machine has no launchd (no `launchctl`), so nothing can be installed. {MEANWHILE}"
        if self._call("print", self._domain)[0] == 0:
            return None
        return (
            "launchd has no graphical login of yours to run agents in (ssh alone is none): log in at the Mac itself, "
            f"then try again. Nothing was changed. {MEANWHILE}"
        )

    def text(self, recipe: ServiceRecipe) -> str:
        """The property list made from `recipe`; launchd puts in neither ~ nor variables, so all is written out.

        Raises:
            SettingError: a path holds what XML cannot.
        """
        agent: dict[str, Any] = plistlib.loads(self._template)
        agent["ProgramArguments"] = [*recipe.command]
        agent["EnvironmentVariables"] |= recipe.environment
        for key, value in agent.items():
            if isinstance(value, str):
                agent[key] = value.replace("@state@", recipe.state).replace("@logs@", recipe.logs)
        try:
            return plistlib.dumps(agent).decode("utf-8")
        except (ValueError, UnicodeError):
            raise SettingError(
                "A path of yours holds control characters, which a service cannot be given. Nothing was changed; "
                "choose another."
            ) from None

    # -- acts ---------------------------------------------------------------------------------------------------
    def steps(self, act: str) -> list[ServiceStep]:
        """The calls of an act, as things are now."""
        loaded = self._loaded()
        enable = step("enable", self._target, why="undo an earlier `disable`, if there was one", may_fail=True)
        bootstrap = step("bootstrap", self._domain, self.file, why="start it now and with each login")
        bootout = step("bootout", self._target, why="stop it, and wait until it is gone")
        match act:
            case "load":
                return [*[bootout] * loaded, enable, bootstrap]
            case "unload" | "stop":
                return [bootout] * loaded
            case "forget":
                return []
            case "start":
                kick = step("kickstart", self._target, why="start it")
                return [kick] if loaded else [enable, bootstrap]
            case _:
                kick = step("kickstart", "-k", self._target, why="stop and start it")
                return [kick] if loaded else [enable, bootstrap]

    def lingers(self) -> bool | None:
        """No question: an agent lives as long as the login."""
        return None

    def linger_step(self, *, on: bool) -> ServiceStep:
        """Nothing to do; asked for only where `lingers` has an answer."""
        return step("print", self._target, why=f"launchd knows no linger ({'on' if on else 'off'})", may_fail=True)

    def run(self, step: ServiceStep) -> None:
        """Do a call; a `bootout` comes back when the agent is gone.

        Raises:
            DistillerError: it was refused.
        """
        verb = step.words[1]
        code, said = self._call(*step.words[1:])
        if verb == "bootout" and code in {0, NO_PROCESS, IN_PROGRESS}:
            self._wait_until_gone()
        elif code and not step.may_fail:
            raise DistillerError(self._refused(step, code, said))

    def _wait_until_gone(self) -> None:
        """A `bootout` may still be in progress when it comes back; a bootstrap meanwhile would fail."""
        deadline = time.monotonic() + GONE_SECONDS
        while self._loaded():
            if time.monotonic() > deadline:
                raise DistillerError(
                    f"The service did not end within {GONE_SECONDS} s. Your facts are safe; try again in a minute."
                )
            time.sleep(LOOK_SECONDS)

    def _refused(self, step: ServiceStep, code: int, said: str) -> str:
        reason = said.strip().splitlines()[-1] if said.strip() else f"code {code}"
        hint = ""
        if code == IO_ERROR:  # launchctl's one code for half a dozen causes
            disabled = re.search(
                rf'"{re.escape(LABEL)}" => (?:true|disabled)', self._call("print-disabled", self._domain)[1]
            )
            cause = (
                "it is disabled" if disabled else "it is loaded already" if self._loaded() else "the file, its owner"
            )
            hint = f" Likely: {cause}{'' if disabled or self._loaded() else ' or its place is not to its liking'}."
        return f"`{step.target}` was refused: {reason}.{hint} Your facts are safe; `distiller doctor` checks the rest."

    # -- looking ------------------------------------------------------------------------------------------------
    def look(self) -> ServiceSeen:
        """How the service is now; `inactive` where launchd knows none."""
        code, said = self._call("print", self._target)
        if code:
            return ServiceSeen(state="inactive")
        shown = dict(re.findall(r"^\s*(path|state|pid|last exit code) = (.+)$", said, re.MULTILINE))
        ended = re.match(r"\d+", shown.get("last exit code", ""))
        exit_code = int(ended[0]) if ended else None
        running = shown.get("state") == "running"
        return ServiceSeen(
            state="active" if running else "failed" if exit_code else "inactive",
            enabled=True,
            pid=int(shown["pid"]) if running and shown.get("pid", "").isdigit() else None,
            file=shown.get("path"),
            exit_code=exit_code,
        )

    def _loaded(self) -> bool:
        return self._call("print", self._target)[0] == 0

    def _call(self, *words: str) -> tuple[int, str]:
        try:
            done = subprocess.run(  # noqa: S603 -- words of ours
                [shutil.which("launchctl", path=self._environment.get("PATH")) or "launchctl", *words],
                env=self._environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, errors="replace", timeout=LIMIT_SECONDS, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            return 127, "launchctl: no such program"
        except subprocess.TimeoutExpired:
            return 124, f"no answer within {LIMIT_SECONDS} s"
        return done.returncode, done.stdout


def step(*words: str, why: str, may_fail: bool = False) -> ServiceStep:
    """A call of launchctl."""
    whole = ("launchctl", *words)
    return ServiceStep("run", " ".join(whole), why, words=whole, may_fail=may_fail)
