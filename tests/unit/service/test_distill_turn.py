"""One turn, from waiting to settled: every way in which a backend can fail leaves it waiting or explained."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from distiller.distill import window
from distiller.errors import BackendHaltedError, BackendUnavailableError
from distiller.service.gate import Budget
from distiller.vocabulary import Lease, Request, TurnQuery, TurnState
from tests.fakes.backend import NOTHING, FakeBackend, fact
from tests.fakes.store import CrashError, FakeStore
from tests.fakes.world import World

RULE = "From now on use uv in this repo, never pip."


def rule(request: Request) -> str:
    """An honest answer to RULE."""
    return fact(request, slug="python-package-tool", quote=RULE)


def waiting(backend: FakeBackend) -> World:
    """A world with one waiting turn that says RULE."""
    world = World(backend=backend, budget=Budget())
    world.session().turn(RULE)
    return world


def test_a_turn_whose_backend_failed_waits_and_is_tried_again() -> None:
    """A waiting turn keeps its text and succeeds later, even if its file is gone."""
    world = waiting(FakeBackend(rule, failures=[BackendUnavailableError("500")]))
    (first,) = world.distil()
    world.transcripts.remove("/claude_code/a.jsonl")

    early = world.distil()
    world.clock.move(minutes=1)
    (second,) = world.distil()

    assert (first.outcome, first.reason) == (TurnState.WAITING, "retry")
    assert early == []
    assert second.outcome is TurnState.KEPT


def test_f53_a_turn_that_always_fails_is_dead_after_its_waits() -> None:
    """F53: eight failures that count, then the turn is dead, shown, and no call is made any more."""
    backend = FakeBackend(failures=[BackendUnavailableError("500") for _ in range(100)])
    world = waiting(backend)

    for _ in range(20):
        world.distil()
        world.clock.move(days=2)

    assert world.outcomes() == ["dead(backend-failed)"]
    assert len(backend.requests) == 8


def test_a_dead_turn_can_be_tried_again() -> None:
    """`retry` makes a dead turn wait again with its text, its failures forgiven."""
    world = waiting(FakeBackend(rule, failures=[BackendUnavailableError("500") for _ in range(8)]))
    for _ in range(8):
        world.distil()
        world.clock.move(days=2)

    keys = world.store.requeue(TurnQuery(states=(TurnState.DEAD,)), at=world.clock.text())
    (record,) = world.distil()

    assert len(keys) == 1
    assert record.outcome is TurnState.KEPT


def test_failures_that_do_not_count_never_kill_a_turn() -> None:
    """Rate limits are obeyed in full and are no fault of the turn."""
    limits: list[BaseException] = [
        BackendUnavailableError("429", retry_after_seconds=45, counts=False) for _ in range(30)
    ]
    world = waiting(FakeBackend(rule, failures=limits))
    for _ in range(30):
        (record,) = world.distil()
        assert (record.outcome, record.reason) == (TurnState.WAITING, "resting")
        world.clock.move(seconds=44)
        assert world.distil() == []
        world.clock.move(seconds=1)

    (record,) = world.distil()
    assert record.outcome is TurnState.KEPT


def test_a_halted_backend_leaves_the_turn_waiting() -> None:
    """What only a person can mend does not count against the turn."""
    world = waiting(FakeBackend(failures=[BackendHaltedError("auth", "401")]))

    (record,) = world.distil()

    assert (record.outcome, record.reason) == (TurnState.WAITING, "halted")
    ((name, fields),) = world.notifier.events
    assert (name, fields["level"], fields["reason"]) == ("daemon.halted", "error", "auth")


def test_a_call_that_is_stopped_gives_the_turn_back_at_once() -> None:
    """SIGTERM in the middle of a call: no half fact, and the next daemon need not wait for a lease to end."""
    world = waiting(FakeBackend(rule, failures=[asyncio.CancelledError()]))
    (key,) = world.store.due(at=world.clock.text(), limit=5)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(world.distilling.distill_turn(key))

    assert world.facts() == []
    assert world.store.due(at=world.clock.text(), limit=5) == [key]


def test_a_saved_answer_is_not_asked_for_again() -> None:
    """Killed between the answer and the commit: the next owner judges the saved answer."""
    backend = FakeBackend(rule)
    world = waiting(backend)
    (key,) = world.store.due(at=world.clock.text(), limit=5)
    lease = world.store.claim(key, owner="dead/1:1", at=world.clock.text())
    assert isinstance(lease, Lease)
    shown = Request(window=window.cut(lease.text, note=None, tokens=2500), near_facts=(), project_key="p")
    given = asyncio.run(backend.distill(shown))
    world.store.save_answer(lease, shown, given, at=world.clock.text())

    world.store.release(["dead/1:1"], at=world.clock.text())
    (record,) = world.distil()

    assert len(backend.requests) == 1
    assert record.outcome is TurnState.KEPT


def test_an_answer_that_is_no_json_is_dead_not_empty() -> None:
    """Nothing durable, model failed, answer unusable: three different ends."""
    world = waiting(FakeBackend(lambda _: "You have hit your monthly spend limit."))

    (record,) = world.distil()

    assert (record.outcome, record.reason) == (TurnState.DEAD, "answer-unusable")


def test_an_empty_answer_says_why() -> None:
    """An answer without facts settles the turn with the reason it gives."""
    world = waiting(FakeBackend(lambda _: NOTHING))

    world.distil()

    assert world.outcomes() == ["empty(nothing-durable)"]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"evidence": [{"row": 1, "role": "user", "quote": "never use docker"}]}, "quote-not-found"),
        ({"evidence": [{"row": 99, "role": "user", "quote": RULE}]}, "unknown-row"),
        ({"slug": "UV!!"}, "bad-slug"),
        ({"summary": "x" * 400}, "too-long"),
        ({"body": "Use uv, and the token is ghp_" + "a" * 36}, "secret"),
        ({"body": "Use uv from /opt/secret/place only."}, "identifier-unseen"),
    ],
)
def test_a_lie_is_refused_with_its_reason(changes: dict[str, Any], code: str) -> None:
    """Invented quotes, rows, names, secrets and paths never become facts; `why` can tell."""
    world = waiting(
        FakeBackend(lambda request: fact(request, **{"slug": "python-package-tool", "quote": RULE} | changes))
    )

    (record,) = world.distil()

    assert world.facts() == []
    assert record.refused == {code: 1}
    assert world.outcomes() == ["empty(refused)"]


def test_a_fault_of_ours_in_one_turn_does_not_stop_the_others() -> None:
    """An unexpected error counts as a failure of that turn; it is told and the next one is distilled."""
    world = waiting(FakeBackend(rule, failures=[ZeroDivisionError("ours")]))

    (record,) = world.distil()

    assert (record.outcome, record.reason) == (TurnState.WAITING, "retry")
    assert "turn.fault" in world.notifier.names()


def test_a_turn_that_ended_before_a_pause_waits_for_its_end() -> None:
    """While memory is off nothing is read into a backend; afterwards the turn is settled."""
    world = waiting(FakeBackend(rule))
    world.pause()

    assert world.distil() == []
    world.store.resume(level="all", target="", at=world.clock.text())
    world.clock.move(minutes=2)

    assert [record.outcome for record in world.distil()] == [TurnState.KEPT]


@pytest.mark.parametrize("switch", ["crash_before_commit", "crash_after_commit"])
@pytest.mark.parametrize("write", [1, 2, 3])
def test_killed_at_any_write_the_turn_is_settled_once(switch: str, write: int) -> None:
    """Killed before or after claim, saved answer or commit: one fact, one call more at most, nothing lost."""
    store, backend = FakeStore(), FakeBackend(rule)
    world = World(store=store, backend=backend)
    world.session().turn(RULE)
    (key,) = store.due(at=world.clock.text(), limit=5)
    setattr(store, switch, write)
    with pytest.raises(CrashError):
        asyncio.run(world.distilling.distill_turn(key))

    store.release(["daemon/test"], at=world.clock.text())
    world.start()
    world.distil()

    assert world.outcomes() == ["kept"]
    assert [fact.name for fact in world.facts()] == ["python-package-tool"]
    assert len(backend.requests) <= 2
