"""The service under a real `systemd --user`, as an ordinary account: started, killed, hung, stopped, fenced, removed.

The manager runs in namespaces of its own (a tool beside the checkout, root needed); commands reach it over a pipe, so
that a test reads like a person at a shell.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.sessions import ClaudeSession
from tests.parts import SHARED, lacking, needs

pytestmark = [pytest.mark.system, pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TOOL = SHARED / "tools/with-user-systemd"
BOOTED = SHARED / "tools/with-booted-systemd"
ACCOUNT = 4242
LIMIT_SECONDS = 60
RULE = "From now on use uv in this repo, never pip."
SHELL = """
import json, os, subprocess, sys
os.environ["PATH"] = os.environ["HOME"] + "/.local/bin:" + os.environ["PATH"]
for line in sys.stdin:
    done = subprocess.run(json.loads(line), shell=True, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
LAUNCHER = """#!{python}
import sys
sys.path[:0] = {places}
from distiller.surfaces.cli import main
main()
"""
BOOT = """
mkdir -p /home/tester/.local/bin && cp {launcher} /home/tester/.local/bin/ && chown -R tester:tester /home/tester
cd /home/tester
PATH=/home/tester/.local/bin:$PATH
linger() {{ test -e /var/lib/systemd/linger/tester && echo lingers || echo not; }}
status() {{ as-tester /home/tester/.local/bin/distiller service status --json; }}
systemctl start user@4242
as-tester distiller service install --no-sandbox --linger --yes >/dev/null 2>&1; echo $?
linger; status
systemctl restart user@4242
for i in $(seq 100); do status | grep -q '"state":"active"' && break; sleep 0.1; done
status
as-tester distiller service uninstall --purge --yes >/dev/null 2>&1; linger
loginctl enable-linger tester
as-tester distiller service install --no-sandbox --linger --yes >/dev/null 2>&1
as-tester distiller service uninstall --purge --yes >/dev/null 2>&1; linger
find /home/tester | sort
"""
PROBE = """
import json, os, socket, subprocess, sys, tempfile
home, data = os.environ["HOME"], sys.argv[1]
seen = {}
def can(name, act):
    try:
        act()
        seen[name] = True
    except OSError as error:
        seen[name] = error.strerror
def tried(words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        raise OSError(1, done.stderr.strip().rsplit(": ", 1)[-1])
can("write home", lambda: open(home + "/planted", "w"))
can("write agent", lambda: open(home + "/.claude/planted", "w"))
can("write etc", lambda: open("/etc/planted", "w"))
can("write data", lambda: open(data + "/planted", "w").close() or os.unlink(data + "/planted"))
can("read agent", lambda: open(home + "/.claude/settings.json").read())
can("read ssh", lambda: open(home + "/.ssh/id").read())
can("see others' tmp", lambda: os.stat(sys.argv[2]))
can("own tmp", lambda: tempfile.TemporaryFile())
can("new namespace", lambda: tried(["unshare", "-U", "true"]))
can("internet socket", lambda: socket.socket(socket.AF_INET).close())
can("raw packets", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close())
seen["nice"] = os.nice(0)
seen["status"] = {k: v.strip() for k, v in (line.split(":", 1) for line in open("/proc/self/status"))}
if len(sys.argv) > 3:
    script = "os.networkInterfaces(); fs.mkdtempSync(os.tmpdir() + '/x'); console.log(eval('6*7'))"
    seen["node"] = subprocess.run([sys.argv[3], "-e", script], capture_output=True, text=True).stdout.strip()
json.dump(seen, open(data + "/probe.json", "w"))
"""


def python_for_all() -> str | None:
    """An interpreter like ours that every account may start; ours may lie in a closed home."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (os.path.realpath(sys.executable), f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        folders = [Path(path), *Path(path).parents]
        if Path(path).exists() and all(folder.stat().st_mode & stat.S_IXOTH for folder in folders):
            return path
    return None


def put_launcher(path: Path, python: str) -> None:
    """Write a `distiller` that runs this checkout for whoever starts it."""
    path.write_text(LAUNCHER.format(python=python, places=[str(ROOT), sysconfig.get_path("purelib")]))
    path.chmod(0o755)


class Login:
    """An ordinary account that is logged in, with `distiller` in `~/.local/bin`."""

    def __init__(self, home: Path, process: subprocess.Popen[str]) -> None:
        self.home = home
        self._process = process

    def sh(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command line as that account."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(command)}\n")
        self._process.stdin.flush()
        code, out, err = json.loads(self._process.stdout.readline())
        return subprocess.CompletedProcess(command, code, out, err)

    def ok(self, command: str) -> str:
        """Run a command line that must work; what it said."""
        done = self.sh(command)
        assert done.returncode == 0, (command, done.stdout, done.stderr, self.journal())
        return done.stdout.strip()

    def journal(self) -> str:
        """What the journal has of the service."""
        return self.sh("journalctl --user -u distiller --no-pager").stdout

    def shown(self, name: str) -> str:
        """A property of the unit."""
        return self.ok(f"systemctl --user show distiller.service --value -p {name}")

    def status(self) -> Any:
        """`service status --json`."""
        return json.loads(self.sh("distiller service status --json").stdout)

    def until(self, holds: Callable[[], object]) -> None:
        """Wait until `holds()` is true."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while not holds():
            assert time.monotonic() < deadline, self.journal()
            time.sleep(0.05)

    def tree(self) -> dict[str, str]:
        """Every file and folder of the account with what it holds."""
        paths = sorted(self.home.rglob("*"))
        return {str(path): path.read_bytes().decode(errors="replace") if path.is_file() else "" for path in paths}

    def override(self, *lines: str) -> None:
        """Settings of the person's own beside our unit, as `systemctl --user edit` makes them."""
        folder = self.home / ".config/systemd/user/distiller.service.d"
        folder.mkdir(exist_ok=True)
        (folder / "override.conf").write_text("\n".join(["[Service]", *lines, ""]))
        own(folder)
        self.ok("systemctl --user daemon-reload && systemctl --user restart distiller")

    def no_override(self) -> None:
        """Take them back."""
        shutil.rmtree(self.home / ".config/systemd/user/distiller.service.d")
        self.ok("systemctl --user daemon-reload && systemctl --user restart distiller")


def own(folder: Path) -> None:
    """Hand everything in there to the account."""
    for path in (folder, *folder.rglob("*")):
        os.chown(path, ACCOUNT, ACCOUNT)


@pytest.fixture(scope="module")
def login() -> Iterator[Login]:
    """The account's home (in /home, which systemd treats otherwise than the rest) and its session."""
    needs("systemctl", "unshare", "setpriv")
    python = python_for_all()
    if not TOOL.exists() or os.getuid() != 0 or python is None:
        pytest.skip(
            "no systemd --user to test with: needs root, ../shared/tools and a Python that every account may run"
        )
    home = Path(tempfile.mkdtemp(prefix="distiller-test-", dir="/home"))
    try:
        home.chmod(0o755)
        for folder in (".local/bin", ".claude/projects", ".ssh"):
            (home / folder).mkdir(parents=True)
        (home / ".claude/settings.json").write_text("{}")
        (home / ".ssh/id").write_text("a key")
        put_launcher(home / ".local/bin/distiller", python)
        own(home)
        process = subprocess.Popen(
            [TOOL, "--home", home, "--", python, "-u", "-c", SHELL],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        login = Login(home, process)
        try:
            login.ok("true")
        except (ValueError, BrokenPipeError):
            _, said = process.communicate()
            lacking(f"with-user-systemd does not work here: {said.strip()}")
        yield login
        process.communicate()
    finally:
        shutil.rmtree(home)


@pytest.fixture
def installed(login: Login) -> Iterator[Login]:
    """The account with the service installed; afterwards nothing of it is left."""
    before = login.tree()
    login.ok("distiller service install --yes")
    yield login
    login.ok("distiller service uninstall --purge --yes")
    assert login.tree() == before


def test_install_shows_its_plan_first_and_runs_then(login: Login) -> None:
    """Without --yes and a terminal nothing changes, and the plan is shown; with it the service is active."""
    before = login.tree()

    refused = login.sh("distiller service install")
    dry = login.ok("distiller service install --dry-run")
    untouched = login.tree() == before
    absent = login.sh("distiller service status")
    done = login.ok("distiller service install --yes")
    status = login.status()
    again = login.ok("distiller service install --yes")
    login.ok("distiller service uninstall --purge --yes")

    assert (refused.returncode, absent.returncode, untouched) == (2, 1, True)
    assert f"{login.home}/.config/systemd/user/distiller.service" in dry
    assert "systemctl --user enable distiller.service" in dry
    assert f"ExecStart={login.home}/.local/bin/distiller run" in dry
    assert "active" in done
    assert (status["state"], status["enabled"], status["healthy"], status["stale"]) == ("active", True, True, [])
    assert " write " not in again
    assert login.tree() == before


def test_f62_a_killed_service_is_back(installed: Login) -> None:
    """After kill -9 the manager starts it again, and it reads on."""
    installed.override("RestartSec=200ms")
    pid = installed.shown("MainPID")

    installed.ok(f"kill -9 {pid}")
    installed.until(lambda: installed.shown("MainPID") not in {pid, "0"} and installed.status()["state"] == "active")
    session = ClaudeSession(cwd="/work/app", at=installed.ok("date -u +%Y-%m-%dT%H:%M:%S.000Z"))
    session.later(60)
    folder = installed.home / ".claude/projects/-app"
    folder.mkdir()
    (folder / "s.jsonl").write_bytes(session.turn(RULE))
    own(folder)
    installed.until(lambda: RULE in installed.ok("distiller facts list --json"))

    assert installed.shown("NRestarts") == "1"
    shutil.rmtree(folder)
    installed.no_override()


def test_a_hanging_service_is_replaced(installed: Login) -> None:
    """A process that no longer turns its loop (SIGSTOP) is ended by the watchdog and started again; no core is left."""
    watched = installed.shown("WatchdogUSec")
    installed.override("WatchdogSec=1s", "RestartSec=200ms")
    pid = installed.shown("MainPID")
    time.sleep(2)
    fed = installed.shown("MainPID") == pid

    installed.ok(f"kill -STOP {pid}")
    installed.until(lambda: installed.shown("MainPID") not in {pid, "0"} and installed.status()["state"] == "active")

    assert (watched, fed) == ("1min", True)
    assert installed.shown("NRestarts") == "1"
    assert installed.shown("LimitCORE") == "0"
    installed.no_override()


def test_reload_and_stop(installed: Login) -> None:
    """A reload keeps the process; a stop ends it cleanly, long before the manager would lose patience."""
    pid = installed.shown("MainPID")

    installed.ok("systemctl --user reload distiller")
    reloaded = installed.shown("MainPID")
    stopped = installed.ok("distiller service stop")
    result, code = installed.shown("Result"), installed.sh("distiller service status").returncode
    started = installed.ok("distiller service start")

    assert reloaded == pid
    assert "inactive" in stopped
    assert (result, code) == ("success", 1)
    assert "active" in started


def test_systemd_finds_nothing_wrong_with_the_unit(installed: Login) -> None:
    """`systemd-analyze verify` is silent about it, and the journal reads like sentences, not JSON."""
    verified = installed.sh("systemd-analyze --user verify distiller.service")
    journal = installed.ok("journalctl --user -u distiller --no-pager -o cat")
    priority = installed.ok("journalctl --user -u distiller --no-pager -o json -n 1 SYSLOG_IDENTIFIER=distiller")

    assert (verified.returncode, verified.stdout, verified.stderr) == (0, "", "")
    assert "daemon.started" in journal
    assert "{" not in journal
    assert json.loads(priority)["PRIORITY"] in {"5", "6"}


def test_the_fence_holds(installed: Login) -> None:
    """A program in a unit with our unit's own lines writes to our folders alone, reads agents', no ssh key."""
    data = installed.home / ".local/share/distiller"
    unit = (installed.home / ".config/systemd/user/distiller.service").read_text()
    probe = installed.home / "probe.py"
    probe.write_text(PROBE)
    outside = installed.ok("mktemp")
    python = (installed.home / ".local/bin/distiller").read_text().splitlines()[0].removeprefix("#!")
    node = shutil.which("node", path="/usr/bin:/usr/local/bin") or ""
    lines = [line for line in unit.splitlines() if not line.startswith(("Type=", "Exec", "Restart", "Watchdog"))]
    command = f"ExecStart={python} {probe} {data} {outside} {node}"
    at = lines.index("[Service]") + 1
    other = installed.home / ".config/systemd/user/probe.service"
    other.write_text("\n".join([*lines[:at], "Type=oneshot", command, *lines[at:]]))

    installed.ok("systemctl --user daemon-reload")
    ended = installed.sh("systemctl --user start probe")
    said = installed.sh("journalctl --user -u probe --no-pager").stdout
    other.unlink()
    probe.unlink()
    assert ended.returncode == 0, said
    seen = json.loads((data / "probe.json").read_text())
    (data / "probe.json").unlink()

    read_only = "Read-only file system"
    assert [seen[f"write {place}"] for place in ("home", "agent", "etc", "data")] == [read_only] * 3 + [True]
    assert (seen["read agent"], seen["read ssh"]) == (True, "Permission denied")
    hidden = "PrivateTmp=yes" in lines  # not where the program itself runs from a checkout in /tmp
    assert (seen["own tmp"], seen["see others' tmp"]) == (True, "No such file or directory" if hidden else True)
    assert (seen["internet socket"], seen["nice"]) == (True, 10)
    assert seen["raw packets"] is not True
    assert seen["new namespace"] == "Operation not permitted"
    assert (seen["status"]["CapBnd"], seen["status"]["NoNewPrivs"], seen["status"]["Seccomp"]) == ("0" * 16, "1", "2")
    assert seen.get("node") in {None, "42"}


def test_a_unit_that_is_not_ours_any_more_is_stale(installed: Login) -> None:
    """A changed file is told with what to do, an unread one too; installing again mends both."""
    unit = installed.home / ".config/systemd/user/distiller.service"
    unit.write_text(unit.read_text().replace("Nice=10", "Nice=11"))

    told = installed.sh("distiller service status")
    stale = installed.status()["stale"]
    installed.ok("distiller service install --yes")

    assert told.returncode == 1
    assert "Do: distiller service install" in told.stdout
    assert set(stale) == {"file", "reload"}
    assert installed.status()["healthy"] is True


def test_a_place_with_signs_that_mean_something_to_systemd(login: Login) -> None:
    """Blanks, %, $, quotes and backslashes in paths are taken as they are; another home leaves the service alone."""
    before = login.tree()
    place = login.home / "a $b 100%"
    place.mkdir()
    shutil.copy2(login.home / ".local/bin/distiller", place / "distiller")
    own(place)
    program = f"'{place}/distiller' --home '{place}/home \"q\" \\b'"

    installed = login.sh(f"{program} service install --yes")
    state = json.loads(login.sh(f"{program} service status --json").stdout)
    other, refused = login.status(), login.sh("distiller service uninstall --yes")
    live = (place / 'home "q" \\b/state/daemon.json').exists()
    verified = login.sh("systemd-analyze --user verify distiller.service")
    login.ok(f"{program} service uninstall --purge --yes")
    shutil.rmtree(place)

    assert installed.returncode == 0, installed.stderr
    assert (state["state"], state["stale"], live) == ("active", [], True)
    assert (other["stale"], refused.returncode) == (["foreign"], 1)
    assert verified.stderr == ""
    assert login.tree() == before


def test_without_a_manager_one_line_says_what_to_do(login: Login) -> None:
    """No user manager: exit 1, one line with what is missing and the way round, nothing changed."""
    before = login.tree()

    dead = login.sh("XDG_RUNTIME_DIR=/nowhere DBUS_SESSION_BUS_ADDRESS= distiller service install --yes")
    status = login.sh("XDG_RUNTIME_DIR=/nowhere DBUS_SESSION_BUS_ADDRESS= distiller service status --json")
    found = login.sh("env -u XDG_RUNTIME_DIR -u DBUS_SESSION_BUS_ADDRESS distiller service status --json")

    assert (dead.returncode, dead.stderr.count("\n")) == (1, 1)
    assert "XDG_RUNTIME_DIR" in dead.stderr
    assert "distiller run" in dead.stderr
    assert (status.returncode, json.loads(status.stdout)["state"]) == (1, "no-manager")
    assert json.loads(found.stdout)["state"] == "not-installed"
    assert login.tree() == before


def test_uninstall_keeps_what_is_the_persons(login: Login) -> None:
    """A unit that stood there before comes back, other units and the facts stay."""
    folder = login.home / ".config/systemd/user"
    folder.mkdir(parents=True)
    (folder / "distiller.service").write_text("[Service]\nExecStart=/bin/true\n")
    (folder / "other.service").write_text("[Service]\nExecStart=/bin/true\n")
    own(login.home / ".config")
    before = login.tree()

    login.ok("distiller service install --yes")
    login.ok("distiller service uninstall --yes")
    kept = login.tree()
    login.ok("distiller service uninstall --purge --yes")
    after = login.tree()
    shutil.rmtree(login.home / ".config")

    assert before.items() <= kept.items()
    assert str(login.home / ".local/share/distiller/distiller.db") in kept
    assert after == before


def test_linger_and_a_reboot(tmp_path: Path) -> None:
    """On a booted system the service is back after a reboot of the user manager; linger is undone only if we set it.

    The tool boots inside a chroot, where no user namespaces are to be had; hence without the fence.
    """
    needs("unshare", "loginctl")
    python = python_for_all()
    if not BOOTED.exists() or os.getuid() != 0 or python is None:
        pytest.skip("no systemd to boot: needs root, ../shared/tools and a Python that every account may run")
    put_launcher(tmp_path / "distiller", python)
    script = tmp_path / "boot.sh"
    script.write_text(BOOT.format(launcher=tmp_path / "distiller"))

    done = subprocess.run([BOOTED, "--", "bash", script], capture_output=True, text=True, check=False)
    if done.returncode == 77:
        lacking(f"with-booted-systemd does not work here: {done.stderr.strip()}")
    assert done.returncode == 0, (done.stdout, done.stderr)
    code, lingers, before, after, ours, others, *left = done.stdout.splitlines()

    assert (code, lingers, ours, others) == ("0", "lingers", "not", "lingers")
    first, second = json.loads(before), json.loads(after)
    assert (first["state"], first["linger"], second["state"]) == ("active", True, "active")
    assert first["pid"] != second["pid"]
    assert [path.removeprefix("/home/tester") for path in left] == [
        "",
        "/.local",
        "/.local/bin",
        "/.local/bin/distiller",
    ]
