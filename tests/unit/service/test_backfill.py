"""Backfill: every file read, the sums add up, a second run has only what is known; it can be stopped at any time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from distiller.service.backfill import Options
from distiller.service.backfill_report import Report
from tests.fakes.backend import FakeBackend
from tests.fakes.sessions import ClaudeSession
from tests.fakes.world import World

OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip."


def put(world: World, number: int, said: Sequence[str], *, at: str = OLD, cwd: str = "/work/app") -> ClaudeSession:
    """An old session file."""
    session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=at, cwd=cwd)
    for words in said:
        session.later(1)
        session.turn(words)
    world.transcripts.append(f"/claude_code/{number}.jsonl", bytes(session), at=at)
    return session


def total(report: Report) -> int:
    """All parts of the sum."""
    parts = (report.known, report.open, report.kept, report.empty, report.waiting, report.dead)
    return sum(parts) + sum(report.skipped.values())


def test_the_sums_add_up_and_a_second_run_knows_everything() -> None:
    """Kept, empty, skipped and open turns are told apart; run again, all that was settled is known."""
    world = World()
    put(world, 1, [RULE, "Explain the walker module.", "yes"])
    unfinished = put(world, 2, [])
    unfinished.at = world.clock.text()
    open_turn = unfinished.prompt("Run it.") + unfinished.call("c1", "Bash", {"command": "make"})
    world.transcripts.append("/claude_code/2.jsonl", open_turn, at=world.clock.text())

    first, second = world.backfill(), world.backfill()

    assert (first.kept, first.empty, first.skipped, first.open) == (1, 1, {"no-words": 1}, 1)
    assert (second.known, second.open, second.kept, second.empty, second.skipped) == (3, 1, 0, 0, {})
    assert (total(first), total(second)) == (first.turns, second.turns) == (4, 4)
    assert first.facts_added == 1


def test_a_copy_under_another_path_has_nothing_new() -> None:
    """The same files elsewhere are known, turn by turn."""
    world = World()
    session = put(world, 1, [RULE, "Explain the walker module."])
    world.backfill()
    world.transcripts.append("/claude_code/copy/other.jsonl", bytes(session), at=OLD)

    report = world.backfill("/claude_code/copy")

    assert (report.turns, report.known) == (2, 2)


def test_f15_a_program_that_repeats_its_prompt_is_distilled_once() -> None:
    """F15: sixty headless sessions with the same 2 kB prompt: one is distilled, fifty-nine are counted."""
    world = World(backend=(backend := FakeBackend()))
    prompt = "Review the nightly report and say what is new. " * 45
    for number in range(60):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=OLD, entrypoint="sdk-cli")
        text = session.prompt(prompt, promptSource="sdk") + session.say("Nothing new.") + session.end()
        world.transcripts.append(f"/claude_code/{number}.jsonl", text, at=OLD)

    report = world.backfill()

    assert (report.empty, report.skipped) == (1, {"repeat": 59})
    assert len(backend.requests) == 1


def test_files_are_read_newest_first_but_expiring_ones_before_all() -> None:
    """F24: what its agent is about to delete comes first, oldest first; then the newest."""
    world = World(backend=(backend := FakeBackend()))
    ages = {1: 2, 2: 20, 3: 28, 4: 29, 5: 400}
    for number, days in ages.items():
        world.clock.move(days=-days)
        put(world, number, [f"We keep rule number {number} in mind."], at=world.clock.text())
        world.clock.move(days=days)

    world.backfill()

    told = [next(row.text for row in request.window.rows if row.part == "own") for request in backend.requests]
    assert [int(text.split()[4]) for text in told] == [4, 3, 1, 2, 5]


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        (Options(since="2026-11-15T00:00:00.000Z"), 1),
        (Options(project="shop"), 1),
        (Options(project="example.com/acme/*"), 2),
        (Options(agent="codex"), 0),
        (Options(limit=1), 1),
    ],
)
def test_a_backfill_can_be_narrowed(options: Options, kept: int) -> None:
    """By time, project, agent or number of turns; what is left out is not touched."""
    world = World()
    put(world, 1, [RULE], cwd="/work/app")
    put(world, 2, ["We never push to main in this repo."], cwd="/work/shop", at="2026-11-20T09:00:00.000Z")

    report = world.backfill(options=options)

    assert report.kept == kept
    assert total(report) == report.turns


def test_a_stopped_backfill_says_so_and_the_next_goes_on() -> None:
    """At the limit the rest waits or is unread; nothing is lost or done twice."""
    world = World(backend=(backend := FakeBackend()))
    for number in range(5):
        put(world, number, [f"We keep rule number {number} in mind."])

    first = world.backfill(options=Options(limit=2))
    second = world.backfill()

    assert (first.stopped, first.empty) == ("limit", 2)
    assert (second.stopped, second.empty) == (None, 3)
    assert len(backend.requests) == 5


def test_one_unreadable_file_is_listed_and_the_others_are_read() -> None:
    """F47: a file that cannot be read is named with its reason; success is not claimed for it."""
    world = World()
    put(world, 1, [RULE])
    put(world, 2, ["We never push to main in this repo."])
    world.transcripts.failing["/claude_code/1.jsonl"] = PermissionError(13, "Permission denied")

    report = world.backfill()

    assert [(error.file, error.reason) for error in report.errors] == [("/claude_code/1.jsonl", "Permission denied")]
    assert report.kept == 1


def test_a_second_pass_is_asked_for_and_keeps_the_first_ones_facts() -> None:
    """`--again` distils settled turns once more as revisions; facts found before stay unless claimed anew."""
    world = World()
    put(world, 1, [RULE, "Explain the walker module."])
    world.backfill()
    before = world.bodies()

    report = world.backfill(options=Options(again=True))

    assert (report.turns, report.known) == (2, 0)
    assert {row.revision for row in world.turns()} == {2}
    assert world.bodies() == before


def test_a_turn_that_another_process_holds_waits() -> None:
    """A leased turn is counted as waiting, not done twice."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turn(RULE)
    (key,) = world.store.due(at=world.clock.text(), limit=5)
    world.store.claim(key, owner="daemon/1:1", at=world.clock.text())

    report = world.backfill()

    assert (report.waiting, report.known, len(backend.requests)) == (1, 0, 0)


def test_a_backfill_that_was_stopped_anywhere_is_caught_up_by_one_more() -> None:
    """All turns of a session that were left waiting are settled by the next run, not one a run."""
    world = World(backend=(backend := FakeBackend()))
    put(world, 1, [f"We keep rule number {number} in mind." for number in range(6)])
    world.backfill(options=Options(limit=1))

    report = world.backfill()

    assert (report.empty, report.known, report.waiting) == (5, 1, 0)
    assert len(backend.requests) == 6


def test_filters_hold_for_what_was_left_waiting_too() -> None:
    """Turns of another project stay as they are, settled or not."""
    world = World(backend=(backend := FakeBackend()))
    put(world, 1, [RULE, "Explain the walker module."], cwd="/work/app")
    world.backfill(options=Options(limit=1))

    report = world.backfill(options=Options(project="shop"))

    assert (report.turns, len(backend.requests)) == (0, 1)


def test_a_second_pass_leaves_what_was_skipped_or_kept() -> None:
    """`--again` reads no paused turn, and a turn whose facts are found again stays kept."""
    world = World()
    put(world, 1, [RULE])
    world.backfill()
    world.pause()
    session = world.session("/claude_code/live.jsonl", session_id="99999999-0000-4000-8000-000000000009")
    session.turn("We never push to main in this repo.")
    world.store.resume(level="all", target="", at=world.clock.text())

    world.backfill(options=Options(again=True))

    assert world.outcomes() == ["kept", "skipped(paused)"]


def test_turns_that_ended_while_paused_stay_unread() -> None:
    """A later backfill does not undo the switch."""
    world = World(backend=(backend := FakeBackend()))
    world.pause()
    session = world.session()
    session.write(session.session.turn(RULE))
    world.store.resume(level="all", target="", at=world.clock.text())

    report = world.backfill()

    assert report.skipped == {"paused": 1}
    assert backend.requests == []
