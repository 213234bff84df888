"""Faults that read, pay for or keep the same thing twice, each with the input that showed it elsewhere."""

from __future__ import annotations

from collections import Counter

from distiller.errors import BackendUnavailableError
from distiller.vocabulary import TurnQuery, TurnState
from tests.fakes.backend import FakeBackend
from tests.fakes.sessions import ClaudeSession
from tests.fakes.world import World

RULE = "From now on use uv in this repo, never pip."
OLD = "2026-11-01T09:00:00.000Z"


def put(world: World, path: str, session: ClaudeSession) -> None:
    """A session file that was there before the daemon."""
    world.transcripts.append(path, bytes(session), at=session.at)


def test_f03_a_restart_over_touched_files_asks_nothing() -> None:
    """F03: fifty settled sessions of which only the times changed cost no call after a restart either."""
    world = World(backend=(backend := FakeBackend()))
    paths = [f"/claude_code/{number}.jsonl" for number in range(50)]
    for number, path in enumerate(paths):
        world.session(path, session_id=f"{number:08d}-0000-4000-8000-000000000001").turn(f"We deploy {number} by hand.")
    world.distil()

    for _ in range(10):
        world.clock.move(minutes=1)
        for path in paths:
            world.transcripts.append(path, b"", at=world.clock.text())
        world.start()
        world.sweep()
        world.distil()

    assert len(backend.requests) == 50


def test_f12_three_turns_and_one_decision_are_one_fact() -> None:
    """F12: the decision of the first turn is there once, with one quote, however often the session grows."""
    world = World()
    world.session().turns([RULE, "Run the tests please, all of them.", "Rename the helper to walk_tree."])
    world.distil()

    (only,) = world.facts()
    assert only.body == RULE
    assert len(world.store.evidence([only.id])[only.id]) == 1
    assert world.outcomes() == ["kept", "empty(no-cue)", "empty(no-cue)"]


def test_f15_sixty_equal_prompts_of_a_program_are_read_once() -> None:
    """F15: sixty headless sessions with one prompt of 2 kB: one is distilled, 59 are skipped and counted as such."""
    world = World(backend=(backend := FakeBackend()))
    prompt = "Check the nightly numbers of every shop and write them down in the report. " * 27
    for number in range(60):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=world.clock.text())
        session.prompt(prompt, entrypoint="sdk-cli", promptSource="sdk")
        session.say(f"Report {number} is written.")
        world.transcripts.append(f"/claude_code/{number}.jsonl", bytes(session) + session.end(), at=session.at)
        world.clock.move(hours=12)
        world.sweep()
        world.distil()

    totals = world.store.totals(day_from=OLD)
    assert len(prompt) > 2000
    assert len(backend.requests) == 1
    assert (totals.states.get("empty"), totals.skipped) == (1, {"repeat": 59})


def test_f53_five_turns_that_always_fail_are_dead_after_twenty_backfills() -> None:
    """F53: each is asked about as often as the waits allow, then shown as dead; later runs leave it alone."""
    failures: list[BaseException] = [BackendUnavailableError("500") for _ in range(500)]
    world = World(backend=(backend := FakeBackend(failures=failures)))
    for number in range(5):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=OLD)
        session.turn(f"We deploy service {number} on Tuesdays.")
        put(world, f"/claude_code/{number}.jsonl", session)

    at_once = [world.backfill() for _ in range(20)]
    asked_at_once = len(backend.requests)
    for _ in range(20):
        world.clock.move(days=2)
        world.backfill()

    asked = Counter(row.text for request in backend.requests for row in request.window.rows if row.part == "own")
    dead = world.store.turns(TurnQuery(states=(TurnState.DEAD,)))
    assert (at_once[0].waiting, at_once[-1].turns, asked_at_once) == (5, 5, 5)
    assert len(asked) == 5
    assert max(asked.values()) <= 9
    assert [row.reason for row in dead] == ["backend-failed"] * 5
    assert world.store.totals(day_from=OLD).dead == {"backend-failed": 5}
