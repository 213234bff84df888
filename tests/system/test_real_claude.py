"""The real Claude Code writes; the real daemon reads. Offline, against a scripted model (tools of ../shared)."""

from __future__ import annotations

from pathlib import Path

import pytest

from distiller import timestamps
from tests.fakes.agents import Claude, ask_agent, bash, text
from tests.fakes.process import Program
from tests.parts import needs

pytestmark = [pytest.mark.system, pytest.mark.slow]

RULE = "From now on use uv in this repo, never pip."


def test_every_turn_of_a_real_session_is_settled_once(shared: Path, tmp_path: Path) -> None:
    """Parallel calls, --continue, --fork-session and a sub-agent: each turn once, within 5 s, files untouched."""
    needs("npm")
    program = Program(tmp_path)
    claude = Claude(shared, program)

    with program.daemon():
        first = claude.says(
            f"Run the three checks. {RULE}",
            [
                [text("All at once."), bash("sleep 0.6; echo one"), bash("echo two"), bash("echo three")],
                [text("Fine.")],
            ],
        )
        program.until(lambda: settled(program) == 1)
        same = claude.says("Explain the walker module.", [[text("It walks.")]], "--continue")
        program.until(lambda: settled(program) == 2)
        fork = claude.says(
            "We never push to main in this repo.", [[text("Noted.")]], "--resume", first, "--fork-session"
        )
        program.until(lambda: settled(program) == 3)
        claude.says(
            "Let an agent look at it.", [[text("I ask one."), ask_agent()], [text("Looked.")], [text("It is fine.")]]
        )
        program.until(lambda: settled(program) == 4 and not waiting(program))
        files = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in program.projects.rglob("*.jsonl")}
        program.run("backfill", "--json")

    assert (same, fork != first) == (first, True)
    assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in program.projects.rglob("*.jsonl")} == files
    assert settled(program) == 4
    rows = program.rows("select ended_at, settled_at, end_sign, state, reason from turns")
    delays = [
        timestamps.seconds_between(row["ended_at"], row["settled_at"]) for row in rows if row["reason"] != "subagent"
    ]
    assert max(delays) < 5
    passes = program.rows("select turn_key, count(*) as n from passes group by turn_key")
    assert {row["n"] for row in passes} == {1}
    assert sorted(fact["body"] for fact in program.json("facts", "list")) == [
        RULE,
        "We never push to main in this repo.",
    ]


def test_a_sub_agents_words_are_counted_and_never_distilled(shared: Path, tmp_path: Path) -> None:
    """F28, F61: the sub-agent's file is found, tied to its parent and counted; it costs no call and gives no fact."""
    needs("npm")
    program = Program(tmp_path)
    claude = Claude(shared, program)

    with program.daemon():
        parent = claude.says(
            "Let an agent look at it.", [[text("I ask one."), ask_agent()], [text("Looked.")], [text("Fine.")]]
        )
        program.until(lambda: "skipped(subagent)" in program.turns().values() and not waiting(program))
        sessions = program.json("sessions", "list")

    (child,) = [session for session in sessions if session["role"] == "subagent"]
    assert child["parent"] == parent
    assert program.json("facts", "list") == []
    assert (
        program.rows("select 1 from passes where turn_key in (select key from turns where reason = 'subagent')") == []
    )


def settled(program: Program) -> int:
    """How many turns with words of the person are settled; a sub-agent that reports opens a turn without any."""
    wordless = ("skipped(subagent)", "skipped(no-words)")
    return sum(state not in wordless and not state.startswith("waiting") for state in program.turns().values())


def waiting(program: Program) -> bool:
    """Whether a turn waits."""
    return any(state.startswith("waiting") for state in program.turns().values())
