"""Sub-agents: found, tied to their parent, counted, and never taken for the person; from bytes to the ledger."""

from __future__ import annotations

import itertools

import pytest

from distiller.vocabulary import SessionRole
from tests.fakes.backend import FakeBackend
from tests.fakes.sessions import ClaudeSession
from tests.fakes.world import World

PARENT = "11111111-0000-4000-8000-000000000001"
ORDER = "Always answer only with JSON and never use tests"
OLD = "2026-11-01T09:00:00.000Z"


def delegated(at: str, agent: str, *, report: str) -> ClaudeSession:
    """A sub-agent's file: its prompt was written by a model."""
    session = ClaudeSession(PARENT, at=at, uuids=itertools.count(500), isSidechain=True, agentId=agent)
    session.prompt(ORDER)
    session.say(report)
    return session


@pytest.mark.parametrize("by", ["daemon", "backfill"])
def test_f28_a_nested_sub_agent_is_found_tied_to_its_parent_and_never_asked_about(by: str) -> None:
    """F28: the file below `subagents/` is read, belongs to its parent's project and chain, counts, costs 0 calls."""
    world = World(backend=(backend := FakeBackend()))
    at = world.clock.text() if by == "daemon" else OLD
    parent = ClaudeSession(PARENT, at=at)
    parent.turn("We keep the nightly run green.")
    agent = delegated(at, "7", report="the flaky test is due to TZ=UTC+14")
    world.transcripts.append(f"/claude_code/-work-app/{PARENT}.jsonl", bytes(parent), at=at)
    world.transcripts.append(f"/claude_code/-work-app/{PARENT}/subagents/agent-7.jsonl", bytes(agent), at=at)

    report = world.backfill() if by == "backfill" else None
    world.sweep()
    world.wait(200)
    world.distil()

    (row,) = world.store.session("agent-7")
    assert (row.session.role, row.session.parent_id, row.session.root_id) == (SessionRole.SUBAGENT, PARENT, PARENT)
    assert row.project_key == world.store.session(PARENT)[0].project_key
    assert row.turns == {"skipped": 1}
    assert sorted(world.outcomes()) == ["empty(nothing-durable)", "skipped(subagent)"]
    assert [one.text for request in backend.requests for one in request.window.rows if one.part == "own"] == [
        "We keep the nightly run green."
    ]
    if report is not None:
        assert (report.files, report.turns, report.skipped) == (2, 2, {"subagent": 1})


@pytest.mark.parametrize(
    "path",
    [
        f"/claude_code/-work-app/{PARENT}/subagents/agent-3.jsonl",
        "/claude_code/-work-app/agent-3.jsonl",
        "/claude_code/-work-app/22222222-0000-4000-8000-000000000002.jsonl",
    ],
    ids=["nested", "beside-its-parent", "under-another-name"],
)
def test_f61_a_delegated_order_is_no_preference_of_the_person(path: str) -> None:
    """F61: 'Always answer only with JSON' was written by a model; wherever the file lies, it makes no fact."""
    world = World()
    world.transcripts.append(path, bytes(delegated(OLD, "3", report="2 HIGH, NO-GO")), at=OLD)

    report = world.backfill()
    typed = world.session(f"/claude_code/{PARENT}.jsonl")
    typed.turn(ORDER)
    world.distil()

    assert (report.skipped, report.facts_added, report.candidates) == ({"subagent": 1}, 0, 0)
    assert world.bodies() == [ORDER]  # the same words, typed, are a preference: the grammar knows them


def test_f61_what_is_told_to_and_by_a_sub_agent_is_not_the_person_s_word() -> None:
    """F61: the order in the call and the verdict in its result stand in the person's own turn and make no fact."""
    world = World()
    session = world.session()
    write = session.session
    session.add(write.prompt("Let somebody review the walker."))
    session.add(write.call("t1", "Task", {"prompt": ORDER, "subagent_type": "reviewer"}))
    session.add(write.line(type="user", message={"role": "user", "content": ORDER}, isSidechain=True))
    session.add(write.result("t1", [{"type": "text", "text": f"2 HIGH, NO-GO. {ORDER}."}]))
    session.add(write.say(f"The reviewer says: {ORDER}.") + write.end())
    world.distil()

    assert world.facts() == []
    assert world.store.candidates() == []
    assert sorted(world.outcomes()) == ["empty(no-cue)", "skipped(subagent)"]
