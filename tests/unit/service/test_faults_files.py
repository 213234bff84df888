"""Faults of whole files: expiring, huge, unreadable or about to be deleted; from bytes to the report."""

from __future__ import annotations

import pytest

from distiller import timestamps
from distiller.vocabulary import Request
from tests.fakes.backend import NOTHING, FakeBackend
from tests.fakes.sessions import ClaudeSession
from tests.fakes.transcripts import FakeTranscripts
from tests.fakes.world import World

DAY = 86400


class Killed(BaseException):
    """The process is stopped in the middle of a call."""


class Faulty(FakeTranscripts):
    """One of its files makes the reader raise, as a fault of ours would."""

    bad = ""

    def read(self, path: str, start_byte: int, limit_bytes: int) -> bytes:
        if path == self.bad:
            raise LookupError("no such piece")
        return super().read(path, start_byte, limit_bytes)


def asked(backend: FakeBackend) -> list[str]:
    """The person's words, in the order in which they were asked about."""
    return [row.text for one in backend.requests for row in one.window.rows if row.part == "own" and not row.previous]


def aged(world: World, days: float) -> None:
    """A session file whose last line was written `days` ago."""
    at = timestamps.after(world.clock.text(), seconds=-DAY * days)
    session = ClaudeSession(f"{round(days):08d}-0000-4000-8000-000000000001", at=at)
    session.turn(f"We decided it {days} days ago.")
    world.transcripts.append(f"/claude_code/{days}.jsonl", bytes(session), at=at)


def test_f24_what_is_about_to_be_deleted_is_read_first_oldest_first() -> None:
    """F24: files of 27 to 29 days come before all others; their deletion afterwards costs no fact."""
    world = World(backend=(backend := FakeBackend()))
    for days in (1, 27, 10, 29, 60, 28):
        aged(world, days)

    world.backfill()

    assert asked(backend) == [f"We decided it {days} days ago." for days in (29, 28, 27, 1, 10, 60)]


def test_f24_a_deleted_session_keeps_its_facts() -> None:
    """F24: the agent deletes what was read; that is no error, and nothing else goes with it."""
    world = World()
    session = world.session()
    session.turn("From now on use uv in this repo, never pip.")
    world.distil()

    world.transcripts.remove(session.path)
    world.sweep()
    report = world.backfill()

    assert world.bodies() == ["From now on use uv in this repo, never pip."]
    assert report.errors == []
    assert {event["level"] for _, event in world.notifier.events} <= {"info"}


def huge(at: str, turns: int) -> ClaudeSession:
    """A session of several MB with a line over the cap in the middle of its middle turn."""
    session = ClaudeSession(at=at)
    for number in range(turns):
        session.prompt(f"We decided thing number {number}.")
        session.call(f"c{number}", "Read", {"file_path": "big.log"})
        session.result(f"c{number}", "x" * (2_500_000 if number == turns // 2 else 300_000))
        session.say("Read.")
        session.end()
    return session


@pytest.mark.parametrize("by", ["daemon", "backfill"])
def test_f46_one_giant_line_is_noted_and_every_turn_around_it_is_processed(by: str) -> None:
    """F46: nine turns in 5 MB, a line over the cap in the fifth: nine settled, one line counted, the end reached."""
    world = World(backend=(backend := FakeBackend()))
    session = huge(world.clock.text(), 9)
    world.transcripts.append("/claude_code/a.jsonl", bytes(session), at=world.clock.text())

    world.backfill() if by == "backfill" else world.sweep()
    world.distil()

    assert asked(backend) == [f"We decided thing number {number}." for number in range(9)]
    assert world.store.totals(day_from=session.at).lines_too_long == 1
    cursor = world.store.cursor("/claude_code/a.jsonl")
    assert cursor is not None
    assert max(cursor.offset_byte, cursor.backfilled_to_byte) == len(bytes(session))


def test_f46_a_backfill_that_dies_half_way_goes_on_where_it_was() -> None:
    """F46: each turn is committed by itself; the second run asks only about what the first had not settled."""
    died = False

    def answer(_: Request) -> str:
        nonlocal died
        if len(backend.requests) == 6 and not died:
            died = True
            raise Killed
        return NOTHING

    world = World(backend=(backend := FakeBackend(answer)))
    session = huge("2026-11-01T09:00:00.000Z", 9)
    world.transcripts.append("/claude_code/a.jsonl", bytes(session), at=session.at)

    with pytest.raises(Killed):
        world.backfill()
    report = world.backfill()

    words = [f"We decided thing number {number}." for number in range(9)]
    assert asked(backend) == [*words[:6], *words[5:]]
    assert (report.turns, report.waiting, report.empty) == (9, 0, 4)


def test_f46_a_session_that_grows_behind_a_giant_line_is_not_read_again() -> None:
    """F46: the cursor stands behind what was read, so a restart takes the new turn and not the same batch again."""
    world = World(backend=(backend := FakeBackend()))
    session = huge(world.clock.text(), 3)
    world.transcripts.append("/claude_code/a.jsonl", bytes(session), at=world.clock.text())
    world.sweep()
    world.distil()
    before = world.transcripts.bytes_read

    world.start()
    world.sweep()
    untouched = world.transcripts.bytes_read - before
    world.clock.move(seconds=5)
    session.at = world.clock.text()
    world.transcripts.append("/claude_code/a.jsonl", session.turn("We go on."), at=world.clock.text())
    world.sweep()
    world.distil()

    assert untouched == 0
    assert asked(backend) == [*(f"We decided thing number {number}." for number in range(3)), "We go on."]


def test_f47_a_file_that_makes_the_reader_raise_is_listed_and_the_others_are_read() -> None:
    """F47: a fault of ours in one file is named with its reason in every run, and is never counted as read."""
    world = World(backend=(backend := FakeBackend()))
    world.transcripts = source = Faulty()
    world.start()
    for days in (10, 11, 12):
        aged(world, days)
    source.bad = "/claude_code/11.jsonl"

    reports = [world.backfill(), world.backfill()]
    source.bad = ""
    mended = world.backfill()

    listed = [[(one.file, one.reason) for one in report.errors] for report in reports]
    assert listed == [[("/claude_code/11.jsonl", "LookupError: no such piece")]] * 2
    assert [report.turns for report in reports] == [2, 2]
    assert (mended.errors, mended.known, mended.empty) == ([], 2, 1)
    assert asked(backend) == [f"We decided it {days} days ago." for days in (10, 12, 11)]


def test_f48_a_file_that_makes_the_reader_raise_does_not_stop_the_daemon() -> None:
    """F48: whatever one file does to the reader, the others are served in the same sweep, and it is told."""
    world = World()
    world.transcripts = source = Faulty()
    world.start()
    bad = world.session("/claude_code/bad.jsonl")
    good = world.session("/claude_code/good.jsonl", session_id="22222222-0000-4000-8000-000000000002")
    source.bad = bad.path
    bad.write(bad.session.turn("We use tabs in this repo."))
    good.write(good.session.turn("We never push to main."))

    world.sweep()

    assert [row.file for row in world.turns()] == [good.path]
    assert world.notifier.events[0][1]["file"] == bad.path


@pytest.mark.parametrize(
    "at", ["2027-02-30T09:00:00.000Z", "9999-12-31T23:59:59.999Z"], ids=["no-such-day", "end-of-time"]
)
def test_f47_a_line_with_an_impossible_time_stops_nobody(at: str) -> None:
    """F47, F48: a time that no calendar has is no time; its own turn and the other file's are settled."""
    world = World()
    session = ClaudeSession(at=world.clock.text())
    session.at = at
    session.prompt("We use tabs in this repo, not spaces.")
    session.say("Noted.")
    world.transcripts.append("/claude_code/bad.jsonl", bytes(session), at=world.clock.text())
    world.session("/claude_code/good.jsonl", session_id="22222222-0000-4000-8000-000000000002").turn(
        "From now on use uv in this repo, never pip."
    )

    world.sweep()
    world.wait(200)
    world.sweep()
    world.distil()

    assert "From now on use uv in this repo, never pip." in world.bodies()
    assert world.backfill().errors == []
