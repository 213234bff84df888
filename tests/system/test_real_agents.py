"""The real agents write, the real daemon asks a model: a call a turn, and never one about a session of our own.

Claude Code and Codex run offline against a scripted model (tools of ../shared); the model that distils is another one
on loopback.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from distiller import timestamps
from distiller.transcript.pieces import OWN_SESSION_MARK
from tests.fakes.agents import (
    Claude,
    Codex,
    ask_agent,
    bash,
    claude_at,
    claude_that_keeps_sessions,
    exec_command,
    ghost,
    session_files,
    text,
)
from tests.fakes.model_server import Body, ModelServer, Response, answer, fact, prompt_of
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession
from tests.parts import needs

pytestmark = [pytest.mark.system, pytest.mark.slow]

RULE = "From now on use uv in this repo, never pip."
MAIN = "We never push to main here without a review, ever."
KEYED = {RULE: "python-package-tool", MAIN: "main-branch-policy"}
ORDER = "Always answer only with JSON and never use tests."
VERSE = "Always answer in verse."
TOKEN = "sk-ant-oat01-made-up"
MODEL_SECONDS = 0.4
OWN = "skipped(own-session)"


def knows(body: Body) -> Response:
    """A model that takes its time and finds the rules it knows among the person's own words of the turn."""
    rows = [line for line in prompt_of(body).splitlines() if "] user: " in line and "] earlier " not in line]
    found = [fact(body, slug=slug, quote=rule) for rule, slug in KEYED.items() if any(rule in row for row in rows)]
    said = answer(*found) if found else answer(empty_reason="nothing-durable")
    return Response(text=said, delay=MODEL_SECONDS)


@contextmanager
def served(folder: Path, **settings: str) -> Iterator[tuple[Program, ModelServer]]:
    """A program that asks a model on loopback."""
    with ModelServer(knows) as server:
        usual = {"backend": "anthropic", "anthropic__base_url": server.url, "budget__calls_per_minute": "none"}
        yield Program(folder, **(usual | settings)), server


def at_rest(program: Program, turns: int) -> bool:
    """Whether there are that many turns and none of them waits."""
    states = program.turns().values()
    return len(states) == turns and not any(state.startswith("waiting") for state in states)


def answered_calls(program: Program) -> dict[str, int]:
    """How many calls each turn that was asked about has cost, by what its prompt is shown as; all were answered."""
    passes = program.rows(
        "select prompt, calls, answered from (select turn_key, calls, answer is not null as answered from passes)"
        " join turns on turns.key = turn_key"
    )
    assert all(row["answered"] for row in passes)
    calls: Counter[str] = Counter()
    for row in passes:
        calls[row["prompt"]] += row["calls"]
    return dict(calls)


def slowest_seconds(program: Program) -> float:
    """The longest that the ledger lagged behind the end of a person's turn.

    The model's answer takes as long as it says; the first pass of a process also imports the model's library, cold.
    """
    rows = program.rows(
        "select ended_at, settled_at, took_ms from turns left join passes on passes.id = pass_id"
        " where turns.reason is not 'subagent' order by settled_at"
    )
    rows[0]["ended_at"] = timestamps.after(rows[0]["ended_at"], seconds=rows[0]["took_ms"] / 1000 - MODEL_SECONDS)
    return max(timestamps.seconds_between(row["ended_at"], row["settled_at"]) for row in rows) - MODEL_SECONDS


def quotes(program: Program) -> dict[str, str]:
    """The person's words that each fact rests on."""
    return {one["name"]: one["quote"] for one in program.json("facts", "list")}


# --- the person's agents ------------------------------------------------------------------------------------------


def test_each_turn_of_the_real_claude_code_is_one_call(shared: Path, tmp_path: Path) -> None:
    """Parallel calls, --continue, an assent, a fork, a sub-agent: own words cost a call each, nothing else does."""
    needs("npm")
    with served(tmp_path) as (program, server):
        claude = Claude(shared, program)
        with program.daemon():
            checks = [text("All at once."), bash("sleep 0.6; echo one"), bash("echo two"), bash("echo three")]
            first = claude.says(f"Run the three checks. {RULE}", [checks, [text("Fine. Go on?")]])
            program.until(lambda: at_rest(program, 1))
            same = claude.says("yes", [[text("Gone on.")]], "--continue")
            program.until(lambda: at_rest(program, 2))
            claude.says("Explain the walker module.", [[text("It walks.")]], "--continue")
            program.until(lambda: at_rest(program, 3))
            fork = claude.says(MAIN, [[text("Noted.")]], "--resume", first, "--fork-session")
            program.until(lambda: at_rest(program, 4))
            asks = [text("I ask one."), ask_agent(ORDER)]
            parent = claude.says("Let an agent look at it.", [asks, [text("Looked.")], [text("It is fine.")]])
            program.until(lambda: at_rest(program, 7))  # its report is a turn, too
        again = program.json("backfill")

        (child,) = [one["id"] for one in program.json("sessions", "list") if one["role"] == "subagent"]
        assert (same, len({first, fork, parent})) == (first, 3)
        assert sorted(program.turns().values()) == ["empty(nothing-durable)"] * 2 + ["kept"] * 2 + [
            "skipped(no-words)", "skipped(no-words)", "skipped(subagent)",
        ]  # fmt: skip
        assert answered_calls(program) == {
            f"Run the three checks. {RULE}": 1, "Explain the walker module.": 1, MAIN: 1, "Let an agent look at it.": 1,
        }  # fmt: skip
        assert (len(server.requests), again["calls"]) == (4, 0)
        assert not any(f"user: {ORDER}" in asked for asked in server.prompts)
        assert quotes(program) == {"python-package-tool": RULE, "main-branch-policy": MAIN}
        assert slowest_seconds(program) < 5
        assert session_files(program.projects) == claude.left
        assert {path.stem for path in claude.left} == {first, fork, parent, Path(file_of(program, child)).stem}
        assert [path.name for path in program.home.rglob("*.jsonl")] == ["distiller.jsonl"]


def file_of(program: Program, session: str) -> str:
    """Where a session stands."""
    return str(program.rows(f"select file from turns where session_id = '{session}'")[0]["file"])


def test_each_turn_of_the_real_codex_is_one_call(shared: Path, tmp_path: Path) -> None:
    """A tool call and a resumed session: one call a turn, facts with the person's words, the rollout untouched."""
    needs("npm")
    with served(tmp_path) as (program, server):
        codex = Codex(shared, program)
        with program.daemon():
            first = codex.says(
                f"Run the check. {RULE}", [[text("Running."), exec_command("echo one")], [text("Fine.")]]
            )
            program.until(lambda: at_rest(program, 1))
            same = codex.says(MAIN, [[text("Noted.")]], "resume", "--last")
            program.until(lambda: at_rest(program, 2))
        again = program.json("backfill")

        assert same == first
        assert list(program.turns().values()) == ["kept", "kept"]
        assert answered_calls(program) == {f"Run the check. {RULE}": 1, MAIN: 1}
        assert (len(server.requests), again["calls"], again["known"]) == (2, 0, 2)
        assert "echo one" in server.prompts[0]
        assert quotes(program) == {"python-package-tool": RULE, "main-branch-policy": MAIN}
        assert slowest_seconds(program) < 5
        assert session_files(codex.sessions) == codex.left
        assert len(codex.left) == 1


# --- `claude -p` as the model -------------------------------------------------------------------------------------


def by_claude_cli(folder: Path, program: str) -> Program:
    """A program that asks `claude -p`, with its token stored."""
    asking = Program(
        folder, backend="claude-cli", claude_cli__program=program, budget__calls_per_minute="none"
    )  # fmt: skip
    assert asking.run("config", "set-key", "claude-cli", given=f"{TOKEN}\n").returncode == 0
    return asking


def test_the_real_claude_distils_and_leaves_the_person_alone(shared: Path, tmp_path: Path) -> None:
    """A rule becomes a fact by one bare call without tools; the person's settings, memory and hooks play no part."""
    needs("npm")
    with ModelServer(knows) as server:
        program = by_claude_cli(tmp_path, claude_at(shared, tmp_path / "bin", server.url))
        claude = Claude(shared, program, home=tmp_path)  # at home where the daemon is at home
        ran = tmp_path / "the-hook-ran"
        with_hook(tmp_path / ".claude", f"echo $CLAUDE_PROJECT_DIR >> {ran}")
        with program.daemon():
            claude.says(RULE, [[text("Noted.")]])
            by_person, before = ran.read_text(), contents(tmp_path)
            program.until(lambda: at_rest(program, 1))
        again = program.json("backfill")

        (seen,) = server.requests
        assert quotes(program) == {"python-package-tool": RULE}
        assert answered_calls(program) == {RULE: 1}
        assert again["calls"] == 0
        assert by_person.count("\n") >= 3  # so the hook does run where it should
        assert ran.read_text() == by_person
        assert contents(tmp_path) == before
        assert session_files(program.projects) == claude.left
        assert not seen.body.get("tools")
        assert server.prompts[0].startswith(f"{OWN_SESSION_MARK}\n")
        assert VERSE.encode() not in seen.raw
        assert seen.headers["authorization"] == f"Bearer {TOKEN}"
        assert list((program.home / "state").rglob("*.jsonl")) == []


@pytest.mark.parametrize("watched", ["in-our-home", "by-a-link"])
def test_a_kept_session_of_the_real_claude_is_never_distilled(shared: Path, tmp_path: Path, watched: str) -> None:
    """Deaf to the ban on sessions, in a watched folder: below our home it is not read, elsewhere its mark tells it."""
    needs("npm")
    with ModelServer(knows) as server:
        program = by_claude_cli(tmp_path, claude_at(shared, tmp_path / "bin", server.url, persistent=True))
        own, link = program.home / "state/agent/config/projects", tmp_path / "link"
        own.mkdir(parents=True)
        link.symlink_to(own)
        program.environment["DISTILLER_TURNS__SETTLE_SECONDS"] = "0"  # what is read is there at once
        roots = [program.projects, own if watched == "in-our-home" else link]
        program.environment["DISTILLER_AGENTS__CLAUDE_CODE__ROOTS"] = json.dumps([str(root) for root in roots])
        expected = ["kept"] if watched == "in-our-home" else ["kept", OWN]
        with program.daemon():
            put(program, session_of(RULE))
            program.until(lambda: at_rest(program, len(expected)))
        again = program.json("backfill")

        (kept,) = own.rglob("*.jsonl")
        assert OWN_SESSION_MARK in kept.read_text()
        assert sorted(program.turns().values()) == expected
        assert (len(server.requests), again["calls"]) == (1, 0)
        assert quotes(program) == {"python-package-tool": RULE}


def test_f52_own_sessions_in_the_watched_folder_cost_nothing(tmp_path: Path) -> None:
    """F52: a `claude` that writes a session of each call where sessions are read: three backfills, 20, 0, 0 calls."""
    program = by_claude_cli(tmp_path, claude_that_keeps_sessions(tmp_path / "bin", tmp_path / "agent/projects"))
    program.environment["DISTILLER_TURNS__SETTLE_SECONDS"] = "0"  # or the newest would be left to the next run
    for number in range(20):
        put(program, session_of(f"Explain part {number} of the walker.", number=number))

    reports = [program.json("backfill", "--yes") for _ in range(3)]

    states = list(program.turns().values())
    assert [report["calls"] for report in reports] == [20, 0, 0]
    assert [report["skipped"].get("own-session", 0) for report in reports] == [0, 20, 0]
    assert len(list(program.projects.glob("*.jsonl"))) == 40
    assert (states.count("empty(nothing-durable)"), states.count(OWN), len(states)) == (20, 20, 40)


def test_f52_a_daemon_is_not_set_off_by_its_own_calls(tmp_path: Path) -> None:
    """F52, F05: the same `claude` under the daemon: the session of the call is seen live and starts no other call."""
    program = by_claude_cli(tmp_path, claude_that_keeps_sessions(tmp_path / "bin", tmp_path / "agent/projects"))
    with program.daemon():
        put(program, session_of("Explain the walker."))
        program.until(lambda: at_rest(program, 2))

    assert sorted(program.turns().values()) == ["empty(nothing-durable)", OWN]
    assert program.rows("select sum(calls) as calls from passes") == [{"calls": 1}]
    assert len(list(program.projects.glob("*.jsonl"))) == 2


# --- sessions that look like ours ---------------------------------------------------------------------------------


def test_f05_a_flood_of_our_own_sessions_costs_nothing(tmp_path: Path) -> None:
    """F05: 40 ghost sessions within seconds: not one call, each with its reason; the person is read after `resume`."""
    with served(tmp_path) as (program, server):
        with program.daemon():
            for number in range(40):
                put(program, ghost(f"{OWN_SESSION_MARK}\n\n[1] user: {RULE} ({number})", cwd="/work/app"))
            program.until(lambda: len(program.turns()) == 40)
            asked = len(server.requests)
            states = set(program.turns().values())
            program.run("resume")
            put(program, session_of(MAIN))
            program.until(lambda: "kept" in program.turns().values())

        assert (asked, states) == (0, {OWN})
        assert len(server.requests) == 1
        assert quotes(program) == {"main-branch-policy": MAIN}


def test_f05_a_session_in_our_state_folder_is_our_own(tmp_path: Path) -> None:
    """F05: whatever it begins with, a session that ran in our state folder was started by us: skipped, no call."""
    with served(tmp_path) as (program, server):
        with program.daemon():
            put(program, ghost(RULE, cwd=str(program.home / "state/agent")))
            program.until(lambda: at_rest(program, 1))

        assert (list(program.turns().values()), len(server.requests)) == ([OWN], 0)


def session_of(said: str, *, number: int = 1) -> ClaudeSession:
    """A session of the person with one turn, that ended now."""
    name = f"{number:08d}-0000-4000-8000-000000000001"
    session = ClaudeSession(name, at=timestamps.to_text(datetime.now(UTC)))
    session.turn(said)
    return session


def put(program: Program, session: ClaudeSession) -> None:
    """Write a session where sessions are read."""
    (program.projects / f"{session.session_id}.jsonl").write_bytes(bytes(session))


def with_hook(folder: Path, command: str) -> None:
    """Settings of Claude Code that run a command at every event, and a memory file."""
    hook: list[Any] = [{"hooks": [{"type": "command", "command": command}]}]
    settings = {"hooks": dict.fromkeys(("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"), hook)}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / "CLAUDE.md").write_text(VERSE)


def contents(home: Path) -> dict[Path, bytes]:
    """All that Claude Code keeps for the person, sessions aside."""
    files = [path for path in (home / ".claude").rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in [home / ".claude.json", *files]}
