"""Following session files: each finished turn of the person enters the ledger once, whatever happens to the files."""

from __future__ import annotations

import itertools

import pytest

from tests.fakes.backend import FakeBackend
from tests.fakes.sessions import ClaudeSession
from tests.fakes.world import World

RULE = "From now on use uv in this repo, never pip."


def test_a_finished_turn_is_enrolled_and_distilled_once() -> None:
    """A turn with an end mark waits at once and is settled by the next pass; looking again changes nothing."""
    world = World()
    session = world.session()

    (entered,) = session.turn(RULE)
    (record,) = world.distil()
    again = world.sweep() + world.sweep()

    assert entered.state == "waiting"
    assert (record.outcome, record.operations) == ("kept", {"add": 1})
    assert again == []
    assert world.outcomes() == ["kept"]


def test_a_turn_without_end_mark_ends_by_silence() -> None:
    """A final stop reason needs three seconds of silence, and the daemon knows when to look."""
    world = World()
    session = world.session()
    session.add(session.session.prompt(RULE) + session.session.say("Done."))

    due = world.follower.next_due()
    early, late = world.wait(1), world.wait(3)

    assert due is not None
    assert (early, len(late)) == ([], 1)
    assert world.follower.next_due() is None


def test_a_turn_that_is_skipped_is_told_once_too() -> None:
    """The log has a line for each settled turn: who waits for a fact learns that nothing was said in the turn."""
    world = World()
    world.session().turn("yes, go on")
    world.sweep()

    told = [fields for name, fields in world.notifier.events if name == "turn.settled"]

    (turn,) = world.turns()
    assert [(one["turn"], one["outcome"], one["reason"]) for one in told] == [(turn.id, "skipped", "no-words")]
    assert not any("go on" in str(one) for one in told)


def test_f03_nothing_changed_means_nothing_is_asked() -> None:
    """F03: fifty settled sessions make no call, whether left alone or merely touched."""
    world = World(backend=(backend := FakeBackend()))
    for number in range(50):
        session = world.session(f"/claude_code/{number}.jsonl", session_id=f"{number:08d}-0000-4000-8000-000000000001")
        session.turn(f"We deploy service {number} on Tuesdays.")
    world.distil()
    calls = len(backend.requests)

    for _ in range(10):
        world.clock.move(minutes=1)
        for number in range(50):
            world.transcripts.append(f"/claude_code/{number}.jsonl", b"", at=world.clock.text())
        world.sweep()
        world.distil()

    assert calls == 50
    assert len(backend.requests) == 50


def test_f06_sessions_faster_than_a_person_raise_the_alarm() -> None:
    """F06: a hundred new sessions of one folder, none typed, are noticed after the limit."""
    world = World(guard_sessions=30)
    seen = []
    for number in range(100):
        session = world.session(f"/claude_code/{number}.jsonl", session_id=f"{number:08d}-0000-4000-8000-000000000001")
        session.add(
            session.session.prompt("summarise", promptSource="sdk") + session.session.say("ok") + session.session.end()
        )
        seen.append(world.follower.alarm is not None)

    assert seen.index(True) == 30


def test_typed_prompts_never_raise_the_alarm() -> None:
    """A person may open many sessions: what the agent marks as typed is not counted."""
    world = World(guard_sessions=3)
    for number in range(20):
        world.session(f"/claude_code/{number}.jsonl", session_id=f"{number:08d}-0000-4000-8000-000000000001").turn(
            "hello there"
        )

    assert world.follower.alarm is None


def test_f07_a_fact_belongs_to_the_project_of_its_session() -> None:
    """F07: the project comes from the session's record, wherever the daemon stands."""
    world = World()
    world.session(cwd="/work/alpha/sub").turn(RULE)
    world.distil()

    assert [fact.scope for fact in world.facts()] == ["project:example.com/acme/alpha"]
    assert [project.name for project in world.store.projects()] == ["alpha"]


def test_f12_a_growing_session_gives_its_decision_once() -> None:
    """F12: each turn is distilled by itself, so a decision of the first is not found again in the second and third."""
    world = World(backend=(backend := FakeBackend()))
    world.session().turns([RULE, "Run the tests please, all of them.", "Rename the helper to walk_tree."])
    world.distil()

    shown = [
        [row.text for row in request.window.rows if not row.previous and row.part == "own"]
        for request in backend.requests
    ]
    assert shown == [[RULE], ["Run the tests please, all of them."], ["Rename the helper to walk_tree."]]


def test_f13_a_fork_repeats_nothing() -> None:
    """F13: twelve copied turns under a new session id are known; only the thirteenth is new."""
    world = World(backend=(backend := FakeBackend()))
    first = world.session()
    first.turns([f"We keep rule number {number} in mind." for number in range(12)])
    world.distil()

    fork = ClaudeSession("22222222-0000-4000-8000-000000000002", at=world.clock.text())
    copied = bytes(first.session).replace(
        b"11111111-0000-4000-8000-000000000001", b"22222222-0000-4000-8000-000000000002"
    )
    world.transcripts.append("/claude_code/fork.jsonl", copied, at=world.clock.text())
    entered = world.grown("/claude_code/fork.jsonl")
    world.transcripts.append(
        "/claude_code/fork.jsonl", fork.turn("We keep the thirteenth rule in mind."), at=world.clock.text()
    )
    entered += world.grown("/claude_code/fork.jsonl")
    world.distil()

    assert len(entered) == 1
    assert len(backend.requests) == 13


def test_f27_first_start_counts_old_sessions_and_reads_none() -> None:
    """F27: ten old files make no ledger rows and no calls; a backfill then reads them all."""
    world = World(backend=(backend := FakeBackend()))
    old = "2026-11-01T09:00:00.000Z"
    for number in range(10):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=old)
        world.transcripts.append(
            f"/claude_code/{number}.jsonl", session.turn(f"We deploy service {number} on Tuesdays."), at=old
        )

    entered = world.sweep()
    report = world.backfill()

    assert entered == []
    assert (report.turns, len(backend.requests)) == (10, 10)


def test_an_old_session_that_goes_on_is_live_from_there() -> None:
    """Turns before the first start stay backlog when their session is continued; the new turn is live."""
    world = World()
    old = "2026-11-01T09:00:00.000Z"
    session = ClaudeSession(at=old)
    world.transcripts.append("/claude_code/a.jsonl", session.turn(RULE), at=old)
    world.sweep()
    session.at = world.clock.text()
    world.transcripts.append(
        "/claude_code/a.jsonl", session.turn("In this repo we always squash commits."), at=world.clock.text()
    )

    entered = world.grown("/claude_code/a.jsonl")
    cursor = world.store.cursor("/claude_code/a.jsonl")

    assert len(entered) == 1
    assert cursor is not None
    assert 0 < cursor.backlog_to_byte < cursor.offset_byte


def test_f55_turns_written_while_the_daemon_was_down_are_all_read() -> None:
    """F55: seven turns pile up; after the start each is distilled."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turn("We begin with a turn the daemon sees.")
    for number in range(7):
        session.write(session.session.turn(f"We decided thing number {number}."))

    world.start()
    world.sweep()
    world.distil()

    assert len(backend.requests) == 8
    assert len(set(world.turns())) == 8


@pytest.mark.parametrize("cuts", [(40, 300), (41, 42), (700, 900)])
def test_f72_a_record_in_three_pieces_with_a_restart_is_one_event(cuts: tuple[int, int]) -> None:
    """F72: however a record with multi-byte text is torn, and with a restart in between, it is read once."""
    world = World()
    session = ClaudeSession(at=world.clock.text())
    data = session.turn("Von jetzt an immer uv statt pip 😀, für alles hier.")
    pieces = [data[: cuts[0]], data[cuts[0] : cuts[1]], data[cuts[1] :]]
    for place, piece in enumerate(pieces):
        if place == 2:
            world.start()
        world.transcripts.append("/claude_code/a.jsonl", piece, at=world.clock.text())
        world.grown("/claude_code/a.jsonl")

    assert len(world.turns()) == 1


def test_f74_a_call_and_its_result_find_each_other_across_a_restart() -> None:
    """F74: the call is read, the daemon restarts, the result comes: one turn with the pair, none made up."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.add(session.session.prompt("Run mypy, and keep it strict in this repo from now on."))
    session.add(session.session.call("c1", "Bash", {"command": "mypy"}))
    world.sweep()
    world.start()
    world.sweep()
    session.add(session.session.result("c1", "2 errors") + session.session.say("Two errors.") + session.session.end())
    world.distil()

    (request,) = backend.requests
    assert [row.part for row in request.window.rows] == ["own", "call", "result", "assistant"]


def test_f75_a_restart_replays_nothing() -> None:
    """F75: a half-written record at the stop is finished after the start; no turn is settled twice."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turns(["We use tabs in this repo.", "Explain the walker module."])
    world.distil()
    line = session.session.prompt("We never push to main.")
    session.add(line[:50])
    world.start()
    world.sweep()
    session.add(line[50:] + session.session.say("ok") + session.session.end())
    world.distil()

    assert len(backend.requests) == 3


def test_a_rewritten_file_is_read_from_its_start_and_adds_only_what_is_new() -> None:
    """Another file of the same name, or the same one cut short, is read whole; the ledger removes the doubles."""
    world = World()
    session = world.session()
    session.turns(["We use tabs in this repo.", "Explain the walker module."])
    whole = bytes(session.session)
    more = session.session.turn("We never push to main.")

    world.transcripts.write("/claude_code/a.jsonl", whole + more, at=world.clock.text())
    entered = world.grown("/claude_code/a.jsonl")

    assert len(entered) == 1
    assert len(world.turns()) == 3
    assert "file.rewritten" in world.notifier.names()


def test_a_file_rewritten_in_place_and_longer_is_noticed() -> None:
    """The same inode with other bytes before the place we had read to is read from 0."""
    world = World()
    session = world.session()
    session.turn("We use tabs in this repo.")
    other = ClaudeSession("33333333-0000-4000-8000-000000000003", at=world.clock.text())
    other_bytes = other.turn("We never push to main, and this is a longer session.") + other.turn(
        "Explain the walker module."
    )

    world.transcripts.rewrite("/claude_code/a.jsonl", other_bytes, at=world.clock.text())
    entered = world.grown("/claude_code/a.jsonl")

    assert len(entered) == 2


def test_f48_one_unreadable_file_does_not_stop_the_others() -> None:
    """F48: trouble with one path is told; the others are served, and the path itself at the next sweep."""
    world = World()
    good, bad = (
        world.session("/claude_code/good.jsonl"),
        world.session("/claude_code/bad.jsonl", session_id="44444444-0000-4000-8000-000000000004"),
    )
    good.write(good.session.turn("We use tabs in this repo."))
    bad.write(bad.session.turn("We never push to main."))
    world.transcripts.failing["/claude_code/bad.jsonl"] = OSError(5, "Input/output error")

    first = world.sweep()
    del world.transcripts.failing["/claude_code/bad.jsonl"]
    bad.write(b"")
    bad.add(bad.session.raw({"type": "mode", "mode": "default"}))

    assert len(first) == 1
    assert len(world.turns()) == 2
    assert "file.unreadable" in world.notifier.names()


def test_a_vanished_file_is_normal() -> None:
    """An agent deletes an old session: what was enrolled stays and is distilled from the ledger's own text."""
    world = World()
    session = world.session()
    session.turn(RULE)
    world.transcripts.remove(session.path)
    world.sweep()

    (record,) = world.distil()
    assert record.outcome == "kept"


def test_a_copy_of_the_folder_adds_nothing() -> None:
    """F11: the same session under another path is known; with one turn more, exactly that turn is new."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turns(["We use tabs in this repo.", "Explain the walker module."])
    world.distil()
    copy = bytes(session.session) + session.session.turn("We never push to main.")

    world.transcripts.append("/claude_code/export-2026-12/a-copy.jsonl", copy, at=world.clock.text())
    world.sweep()
    world.distil()

    assert len(backend.requests) == 3


def test_more_words_for_a_settled_turn_make_a_revision() -> None:
    """What the person typed after a turn seemed over is a new revision with one more pass, never a second turn."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turn("We use tabs in this repo.")
    world.distil()
    queued = {"type": "queued_command", "prompt": "And we never push to main.", "commandMode": "prompt"}
    session.add(
        session.session.line(type="attachment", attachment=queued)
        + session.session.say("Noted.")
        + session.session.end()
    )
    world.distil()

    assert [row.revision for row in world.turns()] == [2]
    assert len(backend.requests) == 2


def test_bytes_read_stay_close_to_bytes_appended() -> None:
    """A session that grows in a thousand steps is not read again and again."""
    world = World()
    session = world.session()
    session.turn("We use tabs in this repo.")
    before, written = world.transcripts.bytes_read, 0
    session.add(session.session.prompt("Go through all files."))
    for number in itertools.islice(itertools.count(), 300):
        data = session.session.call(f"c{number}", "Read", {"file_path": "x" * 4000}) + session.session.result(
            f"c{number}", "y" * 4000
        )
        written += len(data)
        session.add(data)

    assert (world.transcripts.bytes_read - before) / written < 1.05
