"""The real program as a process of its own, in a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlite_utils

LIMIT_SECONDS = 60


class Program:
    """`distiller` with one home; sessions of Claude Code are read below `agent/projects`."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.projects = folder / "agent" / "projects"
        self.projects.mkdir(parents=True, exist_ok=True)
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("DISTILLER_", "CLAUDE", "CODEX"))
        }
        self.environment = kept | {
            "HOME": str(folder),
            "DISTILLER_HOME": str(self.home),
            "DISTILLER_AGENTS__CLAUDE_CODE__ROOTS": json.dumps([str(self.projects)]),
            "DISTILLER_AGENTS__CODEX__ENABLED": "false",
            **{f"DISTILLER_{name.upper()}": value for name, value in settings.items()},
        }

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "distiller", *words],
            env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=_heed_ctrl_c,  # noqa: PLW1509 -- no threads here
        )  # fmt: skip

    def run(self, *words: str, cwd: Path | None = None, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "distiller", *words],
            env=self.environment, cwd=cwd or self.folder, input=given, capture_output=True, text=True,
            timeout=LIMIT_SECONDS * 3, check=False,
        )  # fmt: skip

    def json(self, *words: str, cwd: Path | None = None) -> Any:
        """Run a command with --json and decode what it says."""
        done = self.run(*words, "--json", cwd=cwd)
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    @contextmanager
    def daemon(self) -> Iterator[subprocess.Popen[bytes]]:
        """A running daemon."""
        process = self.start("run")
        try:
            self.until(lambda: self.alive(process))
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_SECONDS)

    def alive(self, process: subprocess.Popen[bytes]) -> bool:
        """Whether the daemon of `process` has said that it runs."""
        try:
            state = json.loads((self.home / "state/daemon.json").read_bytes())
        except (OSError, ValueError):
            return False
        return bool(state["pid"] == process.pid)

    def until(self, holds: Callable[[], object], *, seconds: float = LIMIT_SECONDS) -> None:
        """Wait until `holds()` is true."""
        deadline = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < deadline, f"waited {seconds} s; log: {self.log_tail()}"
            time.sleep(0.02)

    def database(self) -> sqlite_utils.Database:
        """The store, to look into."""
        return sqlite_utils.Database(str(self.home / "data/distiller.db"))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Rows of a query; none while there is no store."""
        if not (self.home / "data/distiller.db").exists():
            return []
        database = self.database()
        try:
            return list(database.query(sql))
        except Exception as error:  # a store that is just being made
            if "no such table" in str(error):
                return []
            raise
        finally:
            database.close()

    def turns(self) -> dict[str, str]:
        """State (and reason) of each turn at its highest revision, by key."""
        rows = self.rows("select key, state, reason, max(revision) from turns group by key")
        return {row["key"]: f"{row['state']}({row['reason']})" if row["reason"] else row["state"] for row in rows}

    def facts(self) -> set[tuple[str, str, str, str]]:
        """Scope, name, status and body of all facts."""
        return {
            (row["scope"], row["name"], row["status"], row["body"])
            for row in self.rows("select scope, name, status, body from facts")
        }

    def log_tail(self) -> str:
        """The end of the log, for a failing test."""
        try:
            return (self.home / "logs/distiller.jsonl").read_text()[-2000:]
        except OSError:
            return "(none)"

    def holds(self, needle: str) -> list[str]:
        """Where `needle` stands: in any byte of any file of ours, or in any decompressed column of the store."""
        wanted = needle.encode()
        found = [str(path) for path in self.home.rglob("*") if path.is_file() and wanted in path.read_bytes()]
        database = self.database()
        for table in database.table_names():
            for row in database.query(f"select * from [{table}]"):
                for column, value in row.items():
                    if isinstance(value, bytes) and wanted in unpacked(value):
                        found.append(f"{table}.{column}")
        database.close()
        return found


def unpacked(value: bytes) -> bytes:
    """What a compressed column says."""
    try:
        return zlib.decompress(value)
    except zlib.error:
        return value


def _heed_ctrl_c() -> None:
    """A shell starts what it puts in the background deaf to Ctrl-C, and a test suite hands that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
