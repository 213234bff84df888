"""A session that grows by small appends in, what a real daemon reads for each byte appended out.

The daemon runs as ever, with real events, but its door to the session files counts what goes through. `rchar` of
/proc/PID/io stands beside it: all that the process got from reading anything, so SQLite's checkpoints and the kernel's
events are in it too. Each append is a read of its own: the next one waits until it was taken in. The first half of the
bytes ends a turn at every tenth step; the second half is one turn that never ends.
Run: `python tests/benchmarks/bench_tail.py`
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distiller.adapters.transcripts_files import TAIL_BYTES, FileTranscripts
from distiller.bootstrap import App
from distiller.config import load
from distiller.surfaces import running
from distiller.transcript import formats
from distiller.vocabulary import FileIdentity
from tests.benchmarks.measure import MB, bytes_read, show
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

STEPS = 1100
STEP_BYTES = 10_000
LIMIT_SECONDS = 10
COUNT_FILE = "BENCH_TAIL_COUNT"


class CountingTranscripts(FileTranscripts):
    """Writes down how many bytes of session files were read."""

    total = 0

    def read(self, path: str, start_byte: int, limit_bytes: int) -> bytes:
        data = super().read(path, start_byte, limit_bytes)
        self._count(len(data))
        return data

    def identify(self, path: str, *, head_bytes: int, cursor_byte: int) -> FileIdentity | None:
        found = super().identify(path, head_bytes=head_bytes, cursor_byte=cursor_byte)
        self._count(head_bytes + min(TAIL_BYTES, cursor_byte))
        return found

    def _count(self, more: int) -> None:
        self.total += more
        Path(os.environ[COUNT_FILE]).write_text(f"{self.total:20}")


class CountedProgram(Program):
    """The program whose daemon counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.count_file = folder / "count"
        self.count_file.write_text("0")
        self.environment[COUNT_FILE] = str(self.count_file)

    def start(self, *_words: str) -> subprocess.Popen[bytes]:
        """Start this file as the daemon."""
        return subprocess.Popen([sys.executable, __file__], env=self.environment, cwd=self.folder)

    def count(self) -> int:
        """Bytes of session files read so far."""
        return int(self.count_file.read_text() or 0)


def main() -> None:
    """Let one session grow and print what was read of it."""
    with tempfile.TemporaryDirectory() as folder:
        program = CountedProgram(Path(folder))
        with program.daemon() as process:
            session = ClaudeSession(at=program.json("status")["daemon"]["started_at"])
            session.later(60)
            path = program.projects / "s.jsonl"
            append(program, path, session.turn("Warm up."))
            everything = bytes_read(process.pid)
            closed = grow(program, path, session, turns=True)
            whole = grow(program, path, session, turns=False)
            everything = bytes_read(process.pid) - everything
            program.until(lambda: len(program.turns()) == STEPS // 20 + 1)
            appended, counted = path.stat().st_size, program.count()
    show("tail: bytes read per byte appended", counted / appended, "x", at_most=1.05,
         steps=STEPS, appended_mb=round(appended / MB, 1))  # fmt: skip
    show("tail: the same, a turn at every tenth step", closed, "x")
    show("tail: the same, one open turn", whole, "x")
    show("tail: with all else that the process reads", everything / appended, "x")


def grow(program: CountedProgram, path: Path, session: ClaudeSession, *, turns: bool) -> float:
    """Append half of the steps; bytes read per byte appended."""
    before, size = program.count(), path.stat().st_size
    for step in range(STEPS // 2):
        data = session.prompt(f"Go on with part {step}.") if step % 10 == 0 and (turns or not step) else b""
        call = f"toolu_{turns}_{step}"
        data += session.call(call, "Read", {"file_path": "a.py"}) + session.result(call, "x = 1\n" * (STEP_BYTES // 7))
        if turns and step % 10 == 9:
            data += session.say("Done.") + session.end()
        append(program, path, data)
    return (program.count() - before) / (path.stat().st_size - size)


def append(program: CountedProgram, path: Path, data: bytes) -> None:
    """Append and wait until as much was read."""
    wanted = program.count() + len(data)
    with path.open("ab") as file:
        file.write(data)
    deadline = time.monotonic() + LIMIT_SECONDS
    while program.count() < wanted:
        assert time.monotonic() < deadline, "the daemon does not read what is appended"
        time.sleep(0.002)


def serve() -> int:
    """Be the daemon."""
    app = App(load(os.environ))
    app.transcripts = CountingTranscripts(app.config.agent_roots, formats.sniff)
    return running.run(app)


if __name__ == "__main__":
    if COUNT_FILE in os.environ:
        sys.exit(serve())
    main()
