"""10,000 session files that do not change in, what a real daemon uses to watch them out.

Processor time is that of /proc/PID/stat over a whole number of sweeps, once the first is over. Half of the files
were read by a backfill before, so that they have cursors; the other half is backlog.
Run: `python tests/benchmarks/bench_idle.py [seconds]`
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.measure import OLD, LongSession, age, cpu_seconds, memory_mb, show
from tests.fakes.process import Program

FOLDERS = 500
FILES = 20  # in each


def main() -> None:
    """Write the files, let the daemon come to rest, look at it for a while."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 120.0
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder))
        write(program, range(FOLDERS // 2))
        assert program.run("backfill").returncode == 0
        write(program, range(FOLDERS // 2, FOLDERS))
        with program.daemon() as process:
            come_to_rest(process.pid)
            before = cpu_seconds(process.pid)
            time.sleep(seconds)
            used = cpu_seconds(process.pid) - before
            memory = memory_mb(process.pid, "VmRSS")
        calls = program.rows("select coalesce(sum(calls), 0) as n from passes where backend != 'embedded'")[0]["n"]
    files = FOLDERS * FILES
    show("idle: share of one core", 100 * used / seconds, "%", at_most=0.3, seconds=seconds, files=files)
    show("idle: memory", memory, "MB", at_most=60, files=files)
    show("idle: model calls", calls, "calls", at_most=0)


def come_to_rest(pid: int) -> None:
    """Wait until the first look at all files is over: three seconds with next to no work."""
    used = -1.0
    while (now := cpu_seconds(pid)) > used + 0.05:
        used = now
        time.sleep(3)


def write(program: Program, folders: range) -> None:
    """Write the sessions of some folders; all are at rest."""
    for folder in folders:
        place = program.projects / f"-work-p{folder}"
        place.mkdir()
        for file in range(FILES):
            session = LongSession(f"{folder * FILES + file:08x}-0000-4000-8000-000000000001",
                                  cwd=f"/work/p{folder}", at=OLD)  # fmt: skip
            (place / f"{session.session_id}.jsonl").write_bytes(session.turn("Why is the build slow?"))
    age(program.projects)


if __name__ == "__main__":
    main()
