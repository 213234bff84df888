"""Turns with an end mark in, how long each takes from its last byte to its commit out, beyond any settle time.

A real daemon, real file events, `embedded`: from the return of the last `write` to `settled_at` in the ledger, both by
the clock of this machine, in whole milliseconds. Turns come from eight sessions at once, in several appends each.
Run: `python tests/benchmarks/bench_latency.py`
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from pathlib import Path

from distiller import timestamps
from tests.benchmarks.measure import percentile, show
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

TURNS = 240
SESSIONS = 8
ASKED = (
    "Why does the export time out when part {n} is empty?",
    "From now on name module {n} after its owner in this repo.",
    "Rename helper {n} and update its callers.",
)


def main() -> None:
    """Play the turns and print how long they took."""
    with tempfile.TemporaryDirectory() as folder:
        program = Program(Path(folder))
        with program.daemon():
            at = program.json("status")["daemon"]["started_at"]
            names = [(f"{number:08x}-0000-4000-8000-000000000001", f"/work/p{number}") for number in range(SESSIONS)]
            written = play(program, [ClaudeSession(name, cwd=cwd, at=at) for name, cwd in names])
            program.until(lambda: len(settled(program)) == TURNS)
        took = [1000 * (at - written[key]) for key, at in settled(program).items()]
    show("last byte to commit: p50", percentile(took, 0.5), "ms", turns=len(took))
    show("last byte to commit: p99", percentile(took, 0.99), "ms", at_most=250)
    show("last byte to commit: longest", max(took), "ms")


def play(program: Program, sessions: list[ClaudeSession]) -> dict[str, float]:
    """Write the turns; when the last byte of each was written (seconds since the epoch), by key."""
    dice, written = random.Random(1), {}
    for number in range(TURNS):
        session = sessions[number % SESSIONS]
        session.later(60)
        path = program.projects / f"{session.session_id}.jsonl"
        prompt = session.prompt(dice.choice(ASKED).format(n=number))
        call = f"toolu_{number}"
        work = session.call(call, "Bash", {"command": "make"}) + session.result(call, "ok\n" * dice.randint(1, 5000))
        for data in (prompt, work, session.say("Done.") + session.end()):
            time.sleep(dice.uniform(0.01, 0.08))
            with path.open("ab", buffering=0) as file:
                file.write(data)
        written[f"claude_code:{json.loads(prompt)['uuid']}"] = time.time()
    return written


def settled(program: Program) -> dict[str, float]:
    """When each settled turn was committed (seconds since the epoch), by key."""
    rows = program.rows("select key, settled_at from turns where settled_at is not null")
    return {row["key"]: timestamps.from_text(row["settled_at"]).timestamp() for row in rows}


if __name__ == "__main__":
    main()
