"""A service that lives for months: new settings, an upgrade, a manager's watchdog, a second one that waits its turn."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import distiller
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

RULE = "From now on use uv in this repo, never pip."


class Manager:
    """What a service manager hears, over a real datagram socket."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "notify")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(0)
        self.said: list[str] = []

    def heard(self) -> list[str]:
        """All that came so far."""
        while True:
            try:
                self.said.append(self._socket.recv(65536).decode())
            except BlockingIOError:
                return self.said

    def close(self) -> None:
        """Hear nothing any more."""
        self._socket.close()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program that has never run."""
    return Program(tmp_path)


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """A manager that listens."""
    manager = Manager(tmp_path)
    yield manager
    manager.close()


@contextmanager
def managed(program: Program, manager: Manager, **more: str) -> Iterator[subprocess.Popen[bytes]]:
    """A daemon that a manager started."""
    before = dict(program.environment)
    program.environment |= {"NOTIFY_SOCKET": manager.path} | more
    process = program.start("run")
    program.environment = before
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def events(program: Program) -> list[dict[str, Any]]:
    """The lines of the log."""
    file = program.home / "logs/distiller.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def names(program: Program) -> list[str]:
    """What the log's lines are about."""
    return [str(line["event"]) for line in events(program)]


def test_a_manager_hears_that_we_serve_live_and_stop(program: Program, manager: Manager) -> None:
    """READY once it serves, a ping well within the watchdog's time, STOPPING at the end; children do not inherit it."""
    with managed(program, manager, WATCHDOG_USEC="400000") as process:
        program.until(lambda: manager.heard().count("WATCHDOG=1") >= 3)
        own = Path(f"/proc/{process.pid}/environ").read_bytes()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0

    said = manager.heard()
    assert said[0] == "READY=1"
    assert said[1].startswith("STATUS=reading ")
    assert "STOPPING=1" in said
    assert b"NOTIFY_SOCKET" in own  # what the kernel keeps of the start; our own copy is gone, see test_notify


def test_a_loop_that_hangs_is_vouched_for_by_nobody(program: Program, manager: Manager) -> None:
    """A process that is stopped pings no more: the manager's watchdog will see it."""
    with managed(program, manager, WATCHDOG_USEC="400000") as process:
        program.until(lambda: "WATCHDOG=1" in manager.heard())
        process.send_signal(signal.SIGSTOP)
        manager.heard()
        manager.said.clear()
        program.until(lambda: (Path(f"/proc/{process.pid}/stat").read_text().split()[2]) == "T")
        manager.heard()
        manager.said.clear()
        program.run("facts", "list")
        quiet = list(manager.heard())
        process.send_signal(signal.SIGCONT)
        program.until(lambda: "WATCHDOG=1" in manager.heard())

    assert quiet == []


def test_under_a_manager_the_second_daemon_waits_for_the_lock(program: Program, manager: Manager) -> None:
    """It says for whom it waits and takes over when the first one ends; by hand it leaves with 75 at once."""
    with program.daemon() as first, managed(program, manager) as second:
        program.until(lambda: any(f"pid {first.pid}" in text for text in manager.heard()))
        assert second.poll() is None
        first.send_signal(signal.SIGTERM)
        first.wait(10)
        program.until(lambda: program.alive(second))


def test_new_settings_come_into_force_without_a_restart(program: Program) -> None:
    """A change of the file is enough: the same process goes on with it, and nothing in flight is lost."""
    del program.environment["DISTILLER_AGENTS__CLAUDE_CODE__ROOTS"]
    other = program.folder / "elsewhere"
    other.mkdir()
    program.run("config", "set", "agents.claude_code.roots", json.dumps([str(program.projects)]))
    with program.daemon() as process:
        session = ClaudeSession(at=program.json("status")["daemon"]["started_at"])
        session.later(60)
        program.run("config", "set", "agents.claude_code.roots", json.dumps([str(other)]))
        program.until(lambda: "config.reloaded" in names(program))
        program.until(lambda: program.alive(process) and names(program).count("daemon.started") == 2)
        (other / "s.jsonl").write_bytes(session.turn(RULE))
        program.until(program.facts)
        assert process.poll() is None

    assert names(program).count("daemon.stopped") == 1


def test_sighup_reads_the_settings_again(program: Program) -> None:
    """`systemctl reload` is a SIGHUP: unchanged settings change nothing, changed ones come into force."""
    with program.daemon() as process:
        process.send_signal(signal.SIGHUP)
        program.run("config", "set", "logs.level", "warning")
        program.until(lambda: "config.reloaded" in names(program))
        process.send_signal(signal.SIGHUP)
        assert program.json("status")["daemon"]["pid"] == process.pid

    assert names(program).count("config.reloaded") == 1


def test_settings_that_cannot_be_used_change_nothing_and_are_told(program: Program) -> None:
    """A broken file: the service goes on with the old settings, says so, and takes the mended file."""
    program.run("config", "set", "headless", "skip")
    file = program.home / "config/config.toml"
    with program.daemon() as process:
        file.write_text("headless = 'sometimes'\n")
        program.until(lambda: "config.rejected" in names(program))
        program.until((program.home / "state/daemon.json").exists)
        process.send_signal(signal.SIGHUP)
        file.write_text("headless = 'read'\n")
        program.until(lambda: "config.reloaded" in names(program))
        assert process.poll() is None

    (rejected,) = [line for line in events(program) if line["event"] == "config.rejected"]
    assert "headless" in rejected["text"]
    assert "one of: repeats, skip, read" in rejected["text"]


def test_an_upgrade_under_a_running_service_asks_for_a_restart(tmp_path: Path) -> None:
    """The program's files were replaced: it ends with 4, which the manager takes as "start me again"."""
    program = Program(tmp_path)
    copy = tmp_path / "site"
    shutil.copytree(Path(distiller.__file__).parent, copy / "distiller", ignore=shutil.ignore_patterns("__pycache__"))
    program.environment |= {"PYTHONPATH": str(copy), "DISTILLER_TURNS__SWEEP_SECONDS": "1"}
    process = program.start("run")
    program.until(lambda: program.alive(process))
    installed = copy / "distiller/bootstrap/__init__.py"
    os.utime(installed, (1, 1))

    assert process.wait(40) == 4
    process.communicate()
    assert "daemon.outdated" in names(program)


def test_under_launchd_no_exit_starts_it_again_and_again(program: Program) -> None:
    """Launchd knows no "do not start again": a second daemon and a broken file leave with 0 and one line."""
    program.environment["DISTILLER_MANAGER"] = "launchd"
    with program.daemon():
        second = program.run("run")
    (program.home / "config/config.toml").parent.mkdir(exist_ok=True)

    assert (second.returncode, second.stderr.count("\n")) == (0, 1)
    assert "already runs" in second.stderr


def test_f08_twenty_starts_at_once_are_one_service(program: Program) -> None:
    """F08: one lives, nineteen leave cleanly with 75 and one line, and nothing is left behind."""
    started = [program.start("run") for _ in range(20)]
    program.until(lambda: sum(process.poll() is not None for process in started) == 19)
    left = [process for process in started if process.poll() is None]
    told = [process.communicate()[1].decode() for process in started if process.poll() is not None]
    program.until(lambda: program.alive(left[0]))
    left[0].terminate()
    code = left[0].wait(20)
    left[0].communicate()

    assert (len(left), code) == (1, 0)
    assert {process.returncode for process in started if process is not left[0]} == {75}
    assert all(text.count("\n") == 1 and "already runs" in text for text in told)


def test_f22_a_service_without_its_key_is_unhealthy_and_names_it(program: Program) -> None:
    """F22: started with next to no environment: the first turn waits, `status` fails and says which key, and how."""
    program.environment = {name: program.environment[name] for name in ("DISTILLER_HOME", "PATH")} | {
        "DISTILLER_BACKEND": "anthropic",
        "DISTILLER_AGENTS__CLAUDE_CODE__ROOTS": json.dumps([str(program.projects)]),
        "DISTILLER_AGENTS__CODEX__ENABLED": "false",
    }
    with program.daemon():
        session = ClaudeSession(at=program.json("status")["daemon"]["started_at"])
        session.later(60)
        (program.projects / "s.jsonl").write_bytes(session.turn(RULE))
        program.until(lambda: "waiting(halted)" in program.turns().values())
        status = program.run("status")

    assert status.returncode == 1
    assert "key-missing" in status.stdout
    assert "distiller config set-key anthropic" in status.stdout


def test_f38_a_killed_service_leaves_no_child(program: Program) -> None:
    """F38: kill -9 in the middle of a call: the program that it had started is gone too, the next start clean."""
    slow = program.folder / "claude"
    slow.write_text(f"#!/bin/sh\necho $$ > {program.folder}/child\nexec sleep 300\n")
    slow.chmod(0o755)
    program.environment |= {"DISTILLER_BACKEND": "claude-cli", "DISTILLER_CLAUDE_CLI__PROGRAM": str(slow)}
    program.run("config", "set-key", "claude-cli", given="token\n")
    child = program.folder / "child"
    with program.daemon() as process:
        session = ClaudeSession(at=program.json("status")["daemon"]["started_at"])
        session.later(60)
        (program.projects / "s.jsonl").write_bytes(session.turn(RULE))
        program.until(lambda: child.exists() and child.read_text().strip())
        process.kill()
        process.wait(10)
        pid = int(child.read_text())

        program.until(lambda: not Path(f"/proc/{pid}").exists() or "(sleep) Z" in Path(f"/proc/{pid}/stat").read_text())
    with program.daemon():
        assert program.json("status")["state"] == "running"


def test_f43_reading_never_waits_for_a_backfill(program: Program) -> None:
    """F43: recall in a loop while a backfill writes: no failure, each answer whole."""
    for number in range(150):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at="2026-11-01T09:00:00.000Z")
        for turn in range(10):
            session.later(60)
            session.turn(f"From now on use tool{number} for part {turn} of this repo.")
        (program.projects / f"{number}.jsonl").write_bytes(bytes(session))
    process = program.start("backfill")
    answers = []
    while process.poll() is None:
        answers.append(program.run("recall", "which tool", "--all-projects", "--json"))
    process.communicate()

    assert len(answers) > 3
    assert {answer.returncode for answer in answers} == {0}
    assert all(json.loads(answer.stdout)["state"] == "on" for answer in answers)
