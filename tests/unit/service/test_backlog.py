"""Backlog: sessions older than the first start cost the daemon nothing, whatever a backfill did with them."""

from __future__ import annotations

from tests.fakes.world import World

OLD = "2026-11-01T09:00:00.000Z"


def test_what_a_backfill_read_is_not_read_again_by_the_daemon() -> None:
    """A backfill leaves cursors at byte 0; they must not make the daemon's start read all of history."""
    world = World()
    session = world.session()
    world.transcripts.append(session.path, session.session.turn("We use uv in this repo, not pip."), at=OLD)
    world.backfill()
    read = world.transcripts.bytes_read

    world.start()
    world.sweep()

    assert world.transcripts.bytes_read == read


def test_an_old_session_that_goes_on_is_read() -> None:
    """Its new turn is live, though a backfill has settled the turns before."""
    world = World()
    session = world.session()
    session.session.at = OLD
    world.transcripts.append(session.path, session.session.turn("We use uv in this repo, not pip."), at=OLD)
    world.backfill()
    world.start()
    world.sweep()
    world.clock.move(seconds=60)
    session.session.at = world.clock.text()

    session.turn("From now on name modules after their owner in this repo.")
    world.distil()

    assert world.outcomes() == ["kept", "kept"]
