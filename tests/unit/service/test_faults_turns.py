"""Faults that lose or invent turns, each with the input that showed it elsewhere, from bytes to the ledger."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from distiller.vocabulary import Evidence, Request
from tests.fakes.backend import FakeBackend, fact
from tests.fakes.sessions import ClaudeSession
from tests.fakes.store import CrashError, FakeStore
from tests.fakes.world import Growing, World

RULE = "From now on use uv in this repo, never pip."
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."


def said(request: Request) -> list[str]:
    """What the person said in the turn that is asked about."""
    return [row.text for row in request.window.rows if row.part == "own" and not row.previous]


def quotes(world: World) -> list[Evidence]:
    """What all active facts rest on."""
    ids = [one.id for one in world.facts()]
    return [one for found in world.store.evidence(ids).values() for one in found]


def stated(request: Request) -> str:
    """An honest answer where the person said RULE."""
    row = next(row for row in request.window.rows if row.part == "own" and RULE in row.text)
    return fact(request, slug="package-tool", quote=RULE, evidence=[{"row": row.number, "role": "user", "quote": RULE}])


# -- F04: bursts -------------------------------------------------------------------------------------------------


def refuse_six_plans(world: World, session: Growing, *, restart_after: int = 7) -> None:
    """One prompt, six plans refused within 25 s; the daemon looks for work after each of them."""
    session.add(session.session.prompt(RULE))
    for number in range(1, 7):
        session.add(session.session.call(f"plan{number}", "ExitPlanMode", {"plan": "1. Swap pip for uv."}))
        session.add(session.session.result(f"plan{number}", REFUSED, is_error=True))
        if number == restart_after:
            world.start()
        world.wait(2)
        world.sweep()
        world.distil()


def approve(session: Growing) -> None:
    """The seventh plan is approved and carried out."""
    session.add(session.session.call("plan7", "ExitPlanMode", {"plan": "1. Swap pip for uv."}))
    session.add(session.session.result("plan7", "User has approved your plan. You can now start coding."))
    session.add(session.session.say("Done.") + session.session.end())


@pytest.mark.parametrize("restart_after", [7, 3], ids=["one-daemon", "restarted"])
def test_f04_six_refused_plans_and_an_approval_are_one_distillation(restart_after: int) -> None:
    """F04: nothing is asked while plans are refused, one thing once it is over, also with a restart in between."""
    world = World(backend=(backend := FakeBackend(stated)))
    session = world.session()

    refuse_six_plans(world, session, restart_after=restart_after)
    asked_meanwhile = len(backend.requests)
    approve(session)
    world.distil()
    world.wait(3600)
    world.sweep()
    world.distil()

    assert asked_meanwhile == 0
    assert [said(request) for request in backend.requests] == [[RULE]]
    assert world.outcomes() == ["kept"]


@pytest.mark.parametrize("write", [1, 2, 3])
@pytest.mark.parametrize("switch", ["crash_before_commit", "crash_after_commit"])
def test_f04_a_crash_in_the_burst_leaves_no_row_stuck(switch: str, write: int) -> None:
    """F04: killed at any write of the pass, with nobody to give its lease back, the turn is settled all the same."""
    store, backend = FakeStore(), FakeBackend(stated)
    world = World(store=store, backend=backend)
    session = world.session()
    refuse_six_plans(world, session)
    approve(session)
    (key,) = store.due(at=world.clock.text(), limit=5)
    setattr(store, switch, write)
    with pytest.raises(CrashError):
        asyncio.run(world.distilling.distill_turn(key))

    world.clock.move(minutes=6)
    world.start()
    world.sweep()
    world.distil()

    assert world.outcomes() == ["kept"]
    assert [one.name for one in world.facts()] == ["package-tool"]
    assert len(backend.requests) <= 2


# -- F25, F26: what hangs from what ------------------------------------------------------------------------------


@pytest.mark.parametrize("record", [59, 60], ids=["prompt", "answer"])
def test_f25_a_repeated_record_under_another_parent_loses_none_of_130_messages(record: int) -> None:
    """F25: record 101 repeats the uuid of record 59 or 60; the 30 that hang from it are read, and nothing twice."""
    world = World(backend=(backend := FakeBackend()))
    session = ClaudeSession(at=world.clock.text())
    lines = [line for number in range(50) for line in two_records(session, number)]
    repeated = json.loads(lines[record - 1]) | {"parentUuid": json.loads(lines[99])["uuid"]}
    lines.append(session.raw(repeated))
    first, *others = [line for number in range(50, 65) for line in two_records(session, number)]
    lines += [session.raw(json.loads(first) | {"parentUuid": repeated["uuid"]}), *others]
    world.transcripts.append("/claude_code/a.jsonl", b"".join(lines), at=world.clock.text())

    world.sweep()
    world.wait(200)
    world.distil()

    shown = [row for request in backend.requests for row in request.window.rows if not row.previous]
    assert [row.text for row in shown if row.part == "own"] == [f"We keep rule {place} in mind." for place in range(65)]
    assert [row.text for row in shown if row.part == "assistant"] == [f"Rule {place} is kept." for place in range(65)]
    assert len({row.message_id for row in shown}) == 130


def two_records(session: ClaudeSession, number: int) -> list[bytes]:
    """A prompt and its answer, without an end mark."""
    return [session.prompt(f"We keep rule {number} in mind."), session.say(f"Rule {number} is kept.")]


def test_f26_hook_progress_under_the_call_orphans_no_result() -> None:
    """F26: progress hangs from the call, results come in reverse: one turn, each call with its own result."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    write = session.session
    session.add(write.prompt("We check both services before each release."))
    session.add(write.call("t1", "Bash", {"command": "check one"}, message="m"))
    session.add(write.call("t2", "Bash", {"command": "check two"}, message="m"))
    session.add(write.line(type="progress", data={"type": "hook_progress", "hookName": "PostToolUse"}))
    session.add(write.result("t2", "two is fine"))
    session.add(write.result("t1", "one is fine"))
    session.add(write.say("Both are fine.") + write.end())
    world.distil()

    (request,) = backend.requests
    tools = [(row.part, row.call_id, row.text) for row in request.window.rows if row.part in ("call", "result")]
    assert [(part, call) for part, call, _ in tools] == [
        ("call", "t1"), ("call", "t2"), ("result", "t1"), ("result", "t2"),
    ]  # fmt: skip
    assert ["one is fine" in tools[2][2], "two is fine" in tools[3][2]] == [True, True]
    assert world.outcomes() == ["empty(nothing-durable)"]


# -- F49, F72, F73: bytes ----------------------------------------------------------------------------------------


def half_an_emoji(line: dict[str, Any]) -> bytes:
    """A line that holds the two characters HALF as a lone surrogate, as a cut-off result leaves it."""
    return json.dumps(line).encode().replace(b"HALF", b"\\ud83d") + b"\n"


def test_f49_a_lone_surrogate_beside_a_good_statement_costs_one_character() -> None:
    """F49: the reason of a refusal stands in the torn result itself; it is kept, and all that is shown is UTF-8."""
    world = World(backend=(backend := FakeBackend(stated)))
    session = world.session()
    write = session.session
    session.add(write.prompt("Set it up.") + write.call("c1", "Bash", {"command": "pip install"}))
    told = f"{REFUSED} To tell you how to proceed, the user said:\n{RULE} HALF"
    line = json.loads(write.result("c1", told, is_error=True))
    session.add(half_an_emoji(line) + write.say("Right.") + write.end())

    world.distil()

    (request,) = backend.requests
    assert said(request) == ["Set it up.", f"{RULE} \N{REPLACEMENT CHARACTER}"]
    assert all(row.text.encode() for row in request.window.rows)
    assert world.bodies() == [RULE]


def test_f49_the_rest_of_a_torn_neutral_record_is_read() -> None:
    """F49: a result with half an emoji and the person's statement are blocks of one record; both are read."""
    world = World()
    call = {"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "ls"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": "cut HALF"}
    lines: list[dict[str, Any]] = [
        {"id": "p1", "role": "user", "content": "Look around.", "cwd": "/work/app"},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result, {"type": "text", "text": RULE}]},
        {"role": "assistant", "content": "Noted.", "stop_reason": "end_turn"},
        {"type": "turn_end", "status": "done"},
    ]
    stamped = [half_an_emoji(line | {"timestamp": world.clock.text()}) for line in lines]
    world.transcripts.append("/neutral/a.jsonl", b"".join(stamped), at=world.clock.text())

    world.sweep()
    world.distil()

    assert world.outcomes() == ["kept"]
    assert [one.quote for one in quotes(world)] == [RULE]


WIDE = "Für dieses Repo 😀: from now on use uv in this repo, never pip."


@pytest.mark.parametrize("inside", range(1, 4))
def test_f72_a_record_torn_inside_an_emoji_is_one_event_with_its_words_whole(inside: int) -> None:
    """F72: three pieces, cut inside `ü` and inside the emoji's bytes, a restart before the last: one turn, unharmed."""
    world = World(backend=(backend := FakeBackend()))
    session = ClaudeSession(at=world.clock.text())
    before = session.turn("We begin with a turn that is whole.")
    record = json.dumps(json.loads(session.prompt(WIDE)), ensure_ascii=False).encode() + b"\n"
    first, second = record.index("ü".encode()) + 1, record.index("😀".encode()) + inside
    rest = session.say("Gut.") + session.end()
    for piece in (before + record[:first], record[first:second]):
        world.transcripts.append("/claude_code/a.jsonl", piece, at=world.clock.text())
        world.sweep()
    stored = world.store.cursor("/claude_code/a.jsonl")

    world.start()
    world.sweep()
    world.transcripts.append("/claude_code/a.jsonl", record[second:] + rest, at=world.clock.text())
    world.sweep()
    world.distil()

    assert [said(request) for request in backend.requests] == [["We begin with a turn that is whole."], [WIDE]]
    cursor = world.store.cursor("/claude_code/a.jsonl")
    assert stored is not None
    assert cursor is not None
    assert stored.offset_byte == len(before)
    assert (cursor.offset_byte, cursor.lines_malformed) == (len(before + record + rest), 0)


def test_f73_a_line_over_the_cap_does_not_wedge_its_session() -> None:
    """F73: a result under the cap is read, one over it is noted; the turn ends, and so does the one after it."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    write = session.session
    session.add(write.prompt("Read both logs."))
    session.add(write.call("c1", "Read", {"file_path": "a"}) + write.result("c1", "x" * 600_000))
    session.add(write.call("c2", "Read", {"file_path": "b"}) + write.result("c2", "y" * 2_500_000))
    session.add(write.say("Read.") + write.end())
    session.turn("We rotate logs weekly.")
    world.distil()

    cursor = world.store.cursor(session.path)
    assert [said(request) for request in backend.requests] == [["Read both logs."], ["We rotate logs weekly."]]
    assert cursor is not None
    assert (cursor.lines_too_long, cursor.offset_byte) == (1, len(bytes(write)))


# -- F50: whose day ----------------------------------------------------------------------------------------------


def test_f50_a_day_is_reckoned_where_and_when_it_was_typed() -> None:
    """F50: 18:17 at -07:00 is the 14th, though UTC says the 15th and the backfill runs in December."""
    world = World()
    session = ClaudeSession(at="2026-03-14T18:17:00-07:00")
    session.prompt("Since today we use uv here, not pip.")
    session.say("Noted.")
    world.transcripts.append("/claude_code/a.jsonl", bytes(session) + session.end(), at="2026-03-15T01:17:00.000Z")

    world.backfill()

    assert world.bodies() == ["Since today (2026-03-14) we use uv here, not pip."]
    assert [(one.local_date, one.said_at) for one in quotes(world)] == [("2026-03-14", "2026-03-15T01:17:00.000Z")]


def test_f50_a_model_is_told_the_turn_s_day() -> None:
    """F50: what is sent names the day of the turn, and the evidence keeps it, whatever the words are."""
    quote = "since today we use uv"
    world = World(backend=(backend := FakeBackend(lambda asked: fact(asked, slug="package-tool", quote=quote))))
    session = ClaudeSession(at="2026-03-14T18:17:00-07:00")
    session.turn(quote)
    world.transcripts.append("/claude_code/a.jsonl", bytes(session), at="2026-03-15T01:17:00.000Z")

    world.backfill()

    assert [request.window.local_date for request in backend.requests] == ["2026-03-14"]
    assert [one.local_date for one in quotes(world)] == ["2026-03-14"]


# -- F76: compaction ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("opening", "flags"),
    [
        ("What was settled so far.", {"isCompactSummary": True}),
        ("This session is being continued from a previous conversation that ran out of context.", {}),
    ],
    ids=["marked", "known-by-its-words"],
)
def test_f76_a_compaction_summary_is_evidence_of_nothing(opening: str, flags: dict[str, bool]) -> None:
    """F76: three turns, a summary that restates them and makes up more, a fourth turn: four passes, no fact of it."""
    rules = [RULE, "In this repo we always squash commits.", "We always deploy on Fridays in this repo."]
    retold = " ".join([*rules, "We never push to main in this repo.", "From now on always write tests in this repo."])
    world = World()
    session = world.session()
    session.turns(rules)
    session.add(session.session.line(type="system", subtype="compact_boundary", content="Conversation compacted"))
    session.add(session.session.prompt(f"{opening} {retold}", **flags))
    session.turn("We use tabs in this repo, not spaces.")
    records = world.distil()

    assert len(records) == 4
    assert world.outcomes() == ["kept"] * 4
    assert sorted(one.quote for one in quotes(world)) == sorted([*rules, "We use tabs in this repo, not spaces."])
    assert {one.message_id for one in quotes(world)} == {row.key.split(":", 1)[1] for row in world.turns()}


def test_f49_a_statement_beside_a_torn_result_is_read() -> None:
    """F49: the result of one record ends in half an emoji, its text block is the person's: both are read."""
    world = World()
    session = world.session()
    write = session.session
    session.add(write.prompt("Look around.") + write.call("c1", "Bash", {"command": "ls"}))
    line = json.loads(write.result("c1", "cut HALF"))
    line["message"]["content"].append({"type": "text", "text": RULE})
    session.add(half_an_emoji(line) + write.say("Noted.") + write.end())
    world.distil()

    assert world.bodies() == [RULE]
