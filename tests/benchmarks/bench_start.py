"""Nothing in, how long the short commands take beside `python -c 'import click'` of the same environment out.

All are run in turn, round after round, so that other load on the machine falls on each; a figure is the median of the
rounds' ratios. Bytecode is written first, as an installation does; without it imports take five times as long.
Run: `python tests/benchmarks/bench_start.py`
"""

from __future__ import annotations

import compileall
import os
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import distiller
from tests.benchmarks.measure import NOUNS, show
from tests.fakes.process import Program

ROUNDS = 25
COMPLETION = {"_DISTILLER_COMPLETE": "bash_complete", "COMP_WORDS": "distiller re", "COMP_CWORD": "1"}
COMMAND = str(Path(sysconfig.get_path("scripts"), "distiller"))


def main() -> None:
    """Fill a store with 100 facts, run the commands, print their ratios."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for place in (Path(distiller.__file__).parent, Path(sysconfig.get_path("purelib"))):
        compileall.compile_dir(str(place), quiet=2)
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder))
        del program.environment["DISTILLER_HOME"]  # as people run it: the system says where things are
        fill(program)
        runs = [[seconds(program, *one) for one in COMMANDS] for _ in range(ROUNDS)]
    show("start: import click", 1000 * statistics.median(run[0] for run in runs), "ms")
    for column, (name, reach) in enumerate(REACHES, 1):
        took = 1000 * statistics.median(run[column] for run in runs)
        ratio = statistics.median(run[column] / run[0] for run in runs)
        show(f"start: {name}, times import click", ratio, "x", at_most=reach, took_ms=round(took, 1))


COMMANDS: tuple[tuple[Sequence[str], dict[str, str]], ...] = (
    ((sys.executable, "-c", "import click"), {}),
    ((COMMAND, "--help"), {}),
    ((COMMAND,), COMPLETION),
    ((COMMAND, "recall", "uv"), {}),
)
REACHES = (("--help", 1.3), ("completion", 1.3), ("recall", 2.0))


def fill(program: Program) -> None:
    """Store 100 facts."""
    for number in range(100):
        noun = NOUNS[number % len(NOUNS)]
        done = program.run("facts", "add", f"We use uv for the {noun} of part {number}.")
        assert done.returncode == 0, done.stderr


def seconds(program: Program, words: Sequence[str], more: dict[str, str]) -> float:
    """Wall time of one run."""
    started = time.perf_counter()
    done = subprocess.run(words, env=program.environment | more, cwd=program.folder, capture_output=True, check=True)
    took = time.perf_counter() - started
    assert done.stdout or "click" in words[-1], words
    return took


if __name__ == "__main__":
    main()
