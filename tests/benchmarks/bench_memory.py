"""Made-up histories in, what `distiller backfill` needs to read them out: peak memory for 1 GB beside 10 MB.

The 1 GB holds one session of 100 MB. F46 is measured too: a 900 MB session with one line of 120 MB in its middle. All
of it is written to a temporary folder (1 GB at a time) and removed.
Run: `python tests/benchmarks/bench_memory.py [megabytes]`
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.benchmarks.measure import MB, OLD, History, LongSession, age, peak_mb, show
from tests.fakes.process import Program

LONG_LINE = 120 * MB


def main() -> None:
    """Measure one history after the other; each has a home of its own."""
    large = int(sys.argv[1]) * MB if len(sys.argv) > 1 else 1000 * MB
    with tempfile.TemporaryDirectory() as folder:
        small_mb = history(Path(folder, "small"), "10 MB", 10 * MB)
        large_mb = history(Path(folder, "large"), "1 GB", large - large // 10, one_file=large // 10)
        show("backfill: memory for 1 GB, times that for 10 MB", large_mb / small_mb, "x", at_most=1.5)
        huge_session(Path(folder, "huge"), 9 * large // 10)


def history(folder: Path, name: str, size: int, *, one_file: int = 0) -> float:
    """Write a history, read it, remove it; peak memory in MB."""
    program, made = Program(folder), History()
    turns = made.write(program.projects, size)
    if one_file:
        data, more = made.session(one_file)
        (program.projects / "-work-p0/one.jsonl").write_bytes(data)
        turns += more
    age(program.projects)
    peak, report, seconds = backfill(program)
    assert report["turns"] == turns, f"{report['turns']} turns read, {turns} written"
    show(f"backfill: peak memory, {name}", peak, "MB", turns=turns)
    show(f"backfill: whole path, {name}", report["bytes"] / MB / seconds, "MB/s", seconds=round(seconds, 1))
    shutil.rmtree(folder)
    return peak


def huge_session(folder: Path, size: int) -> None:
    """F46: one session with a line beyond the limit; the other turns are read, the line is counted."""
    program, made = Program(folder), History()
    session, turns = LongSession(at=OLD), 0
    with (program.projects / "one.jsonl").open("wb") as file:
        while file.tell() < size // 2:
            turns += bool(file.write(made.turn(session)))
        file.write(session.result("toolu_1", "x" * LONG_LINE))
        while file.tell() < size:
            turns += bool(file.write(made.turn(session)))
    age(program.projects)
    peak, report, seconds = backfill(program)
    skipped = program.rows("select lines_too_long as n from cursors")[0]["n"]
    show("F46, huge session: peak memory", peak, "MB", at_most=300, seconds=round(seconds, 1))
    show("F46, huge session: turns not read", turns - report["turns"], "turns", at_most=0, turns=turns)
    show("F46, huge session: lines skipped and counted", skipped, "lines", at_least=1)


def backfill(program: Program) -> tuple[float, dict[str, Any], float]:
    """Read everything in a fresh process: peak memory in MB, its report, seconds."""
    started = time.perf_counter()
    process = program.start("backfill", "--json")
    peak = peak_mb(process)
    said, told = process.communicate()
    assert process.returncode == 0, (told + said).decode()
    return peak, json.loads(said), time.perf_counter() - started


if __name__ == "__main__":
    main()
