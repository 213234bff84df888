"""Every store keeps the promises of `ports.Store`; the fake stands beside SQLite, so that tests may trust it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from distiller.adapters.store_sqlite import open_store
from distiller.errors import ConflictError, LeaseLostError, UsageError
from distiller.ports import Store
from distiller.timestamps import after
from distiller.vocabulary import (
    Candidate,
    Declined,
    EnrolledAs,
    FactKind,
    FactQuery,
    FactStatus,
    Lease,
    Limits,
    Mark,
    NearFact,
    Op,
    Operation,
    Pause,
    Plan,
    Project,
    Proposal,
    Purge,
    RecallRecord,
    Redacted,
    Refusal,
    Retention,
    Role,
    Row,
    Saved,
    Settlement,
    Spending,
    Strength,
    TurnQuery,
    TurnState,
    Usage,
    Verdict,
    WaitingText,
)
from tests.fakes.store import FakeStore
from tests.fakes.store_values import (
    AT,
    add,
    answered,
    asked,
    claim,
    cursor,
    enrolment,
    fact,
    quote,
    session,
    settled,
    waits,
)

replace = msgspec.structs.replace
LATER = after(AT, seconds=3600)


def counter() -> Callable[[], str]:
    """Ids that come out alike in every store."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08x}-id"


@pytest.fixture(params=["fake", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """One store of each kind."""
    made: Store = (
        FakeStore(new_id=counter()) if request.param == "fake" else open_store(str(tmp_path), new_id=counter())
    )
    yield made
    made.close()


def take(store: Store, key: str = "k1", *, at: str = AT, owner: str = "me", limits: Limits | None = None) -> Lease:
    """Claim a turn that must be claimable."""
    lease = store.claim(key, owner=owner, at=at, limits=limits)
    assert isinstance(lease, Lease)
    return lease


def enrol_many(store: Store, count: int) -> None:
    """Turns k0, k1, … of a session each, all due."""
    turns = [enrolment(f"k{n}", message_ids=(f"m{n}",), of=session(f"s{n}")) for n in range(count)]
    store.enrol(turns, None, at=AT)


# --- enrolling ----------------------------------------------------------------------------------------------------


def test_a_new_turn_waits_with_its_text(store: Store) -> None:
    """A finished turn is in the ledger, with its text, in the transaction that moves the cursor."""
    (entered,) = store.enrol([enrolment("k1")], cursor("/s/a.jsonl", 100), at=AT)

    assert (entered.how, entered.state, entered.reason, entered.revision) == (
        EnrolledAs.NEW,
        TurnState.WAITING,
        "queued",
        1,
    )
    (row,) = store.turns(TurnQuery())
    assert (row.key, row.has_text, row.prompt) == ("k1", True, "From now on use uv")
    assert store.cursor("/s/a.jsonl") == cursor("/s/a.jsonl", 100)
    assert store.marks(["k1", "k2"]) == {"k1": Mark("d1", TurnState.WAITING, "queued", None, "p1")}


def test_the_same_turn_again_writes_nothing(store: Store) -> None:
    """F13: a turn that is read again is known, whatever became of it."""
    store.enrol([enrolment("k1")], None, at=AT)
    before = store.turns(TurnQuery())

    (entered,) = store.enrol([enrolment("k1")], None, at=LATER)

    assert (entered.how, entered.state) == (EnrolledAs.KNOWN, TurnState.WAITING)
    assert store.turns(TurnQuery()) == before


def test_a_turn_that_grew_without_new_words_is_known_and_only_its_place_is_updated(store: Store) -> None:
    """Another digest with the same own words changes digest, span and message ids, no more."""
    store.enrol([enrolment("k1")], None, at=AT)

    grown = enrolment("k1", digest="d2", message_ids=("m1", "m2"), end_byte=900)
    (entered,) = store.enrol([grown], None, at=LATER)

    assert (entered.how, entered.revision) == (EnrolledAs.KNOWN, 1)
    (row,) = store.turns(TurnQuery())
    assert (row.end_byte, row.enrolled_at, store.marks(["k1"])["k1"].digest) == (900, AT, "d2")
    (copy,) = store.enrol([enrolment("k9", message_ids=("m1", "m2"))], None, at=LATER)
    assert copy.reason == "copy"


def test_new_words_under_a_settled_key_wait_as_the_next_revision(store: Store) -> None:
    """A settled turn in which the person said more is distilled once more, as revision n+1."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.EMPTY, "nothing-durable"), take(store), at=AT)

    (entered,) = store.enrol([enrolment("k1", digest="d2", words="w2")], None, at=LATER)

    assert (entered.how, entered.revision) == (EnrolledAs.REVISION, 2)
    assert [row.state for row in store.turn("k1")] == [TurnState.WAITING, TurnState.EMPTY]
    assert store.totals(day_from=AT).states == {"waiting": 1}


def test_new_words_while_a_turn_waits_take_the_place_of_the_old_ones(store: Store) -> None:
    """A waiting turn never stands in the ledger twice, and a lease on the old words is lost."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    (entered,) = store.enrol([enrolment("k1", digest="d2", words="w2", own="No, use poetry")], None, at=LATER)

    assert (entered.how, entered.revision) == (EnrolledAs.REVISION, 2)
    with pytest.raises(LeaseLostError):
        store.commit(settled(TurnState.EMPTY, "one-off"), lease, at=LATER)
    fresh = take(store, at=LATER)
    assert (fresh.text.rows[0].text, fresh.saved, fresh.revision) == ("No, use poetry", None, 2)


def test_a_settled_turn_is_distilled_again_when_the_person_asks(store: Store) -> None:
    """`backfill --again` makes a revision even if nothing changed; a waiting turn needs none."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("x",))], None, at=AT)
    store.commit(settled(TurnState.EMPTY, "one-off"), take(store), at=AT)

    entered = store.enrol(
        [enrolment("k1", again=True), enrolment("k2", message_ids=("x",), again=True)], None, at=LATER
    )

    assert [(one.how, one.revision) for one in entered] == [(EnrolledAs.REVISION, 2), (EnrolledAs.KNOWN, 1)]


def test_a_copy_under_another_key_is_skipped(store: Store) -> None:
    """F13: a fork repeats messages; a turn whose own message ids are all entered elsewhere is no new turn."""
    store.enrol([enrolment("k1", message_ids=("m1", "m2"))], None, at=AT)

    entered = store.enrol(
        [
            enrolment("k2", message_ids=("m1", "m2")),
            enrolment("k3", message_ids=("m2", "m3")),
            enrolment("k4", message_ids=()),
        ],
        None,
        at=AT,
    )

    assert [(one.state, one.reason) for one in entered] == [
        (TurnState.SKIPPED, "copy"),
        (TurnState.WAITING, "queued"),
        (TurnState.WAITING, "queued"),
    ]


def test_message_ids_of_another_agent_are_not_the_same(store: Store) -> None:
    """Ids are only unique within an agent."""
    store.enrol([enrolment("k1", message_ids=("m1",))], None, at=AT)

    (entered,) = store.enrol([enrolment("k2", message_ids=("m1",), of=session("s2", agent="codex"))], None, at=AT)

    assert entered.state is TurnState.WAITING


def test_a_turn_that_says_so_itself_is_skipped_without_text(store: Store) -> None:
    """F61: what must not be shown to a backend is not kept for one."""
    (entered,) = store.enrol([enrolment("k1", skip="subagent")], None, at=AT)

    assert (entered.how, entered.state, entered.reason) == (EnrolledAs.SKIPPED, TurnState.SKIPPED, "subagent")
    assert not store.turns(TurnQuery())[0].has_text
    assert store.claim("k1", owner="me", at=AT) is None


@pytest.mark.parametrize(
    ("level", "target"),
    [("all", ""), ("project", "p1"), ("session", "claude_code:s1")],
    ids=["all", "project", "session"],
)
def test_turns_that_ended_inside_a_pause_are_skipped_for_good(store: Store, level: str, target: str) -> None:
    """F34: off means off, also for a backfill that comes later; nothing of the prompt is kept."""
    store.pause(Pause("x", level, target, after(AT, seconds=-60)))
    store.resume(level=level, target=target, at=after(AT, seconds=60))

    inside, later = store.enrol([enrolment("k1"), enrolment("k2", ended_at=LATER, message_ids=("n",))], None, at=LATER)

    assert (inside.reason, later.reason) == ("paused", "queued")
    assert store.turn("k1")[0].prompt == ""


def test_a_pause_of_something_else_does_not_matter(store: Store) -> None:
    """A pause holds for its project or session alone."""
    store.pause(Pause("x", "project", "p2", AT))
    store.pause(Pause("y", "session", "codex:s1", AT))

    (entered,) = store.enrol([enrolment("k1", ended_at=LATER)], None, at=LATER)

    assert entered.state is TurnState.WAITING


def test_words_said_in_a_pause_do_not_come_in_as_a_revision(store: Store) -> None:
    """F34: a known turn that went on inside a pause is held to the switch like a new one."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.EMPTY, "one-off"), take(store), at=AT)
    store.pause(Pause("x", "all", "", after(AT, seconds=60)))

    (entered,) = store.enrol([enrolment("k1", digest="d2", words="w2", ended_at=LATER)], None, at=LATER)

    assert (entered.how, entered.revision, entered.reason) == (EnrolledAs.SKIPPED, 2, "paused")


def test_off_the_record_holds_from_that_turn_on(store: Store) -> None:
    """What was said before stays readable; that turn and all later ones of the session are not."""
    earlier, marked, next_ = store.enrol(
        [
            enrolment("k1", message_ids=("a",), prompt_at=after(AT, seconds=-10)),
            enrolment("k2", message_ids=("b",), prompt_at=after(AT, seconds=50), ended_at=LATER, off_record=True),
            enrolment("k3", message_ids=("c",), ended_at=after(LATER, seconds=9)),
        ],
        None,
        at=LATER,
    )

    assert (earlier.reason, marked.reason, next_.reason) == ("queued", "off-record", "off-record")
    (other,) = store.enrol([enrolment("k4", message_ids=("d",), of=session("s2"), ended_at=LATER)], None, at=LATER)
    assert other.reason == "queued"


def test_a_program_that_repeats_its_prompt_is_read_once(store: Store) -> None:
    """F15: the same long prompt from a script is distilled once."""
    first, second = store.enrol(
        [enrolment("k1", prompt_digest="p"), enrolment("k2", message_ids=("n",), prompt_digest="p")], None, at=AT
    )

    assert (first.reason, second.reason) == ("queued", "repeat")


def test_an_unanswered_project_makes_its_turns_wait(store: Store) -> None:
    """`projects = ask`: the turn waits for the person's yes, and is not due before."""
    store.enrol([enrolment("k1", wait="project")], None, at=AT)

    assert store.due(at=AT, limit=9) == []
    assert store.hold(None, from_reasons=["project"], at=AT) == 1
    assert store.due(at=AT, limit=9) == ["k1"]


def test_a_withdrawn_turn_that_waits_is_skipped(store: Store) -> None:
    """What the person took back before it was read is never read."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    store.enrol([], None, withdrawn=["k1", "unknown"], at=LATER)

    (row,) = store.turn("k1")
    assert (row.state, row.reason, row.has_text, row.revision) == (TurnState.SKIPPED, "withdrawn", False, 1)
    with pytest.raises(LeaseLostError):
        store.renew(lease, at=LATER)


def test_a_withdrawal_after_settling_is_a_revision_and_its_facts_go_to_review(store: Store) -> None:
    """A fact that rests on withdrawn words alone is proposed for removal, once."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), take(store), at=AT)
    (kept,) = store.facts(FactQuery())

    store.enrol([], None, withdrawn=["k1"], at=LATER)
    store.enrol([], None, withdrawn=["k1"], at=LATER)

    newest, first = store.turn("k1")
    assert (newest.revision, newest.state, newest.reason) == (2, TurnState.SKIPPED, "withdrawn")
    assert first.state is TurnState.KEPT
    (proposal,) = store.proposals()
    assert (proposal.kind, proposal.fact_id) == ("withdrawn", kept.id)


def test_a_fact_with_other_evidence_survives_a_withdrawal(store: Store) -> None:
    """Only facts that rested on the withdrawn turn alone are reviewed."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("n",))], None, at=AT)
    store.apply(Plan((add("f1", evidence=(quote("m1", "k1"), quote("m9", "k2"))),)), actor="pass", at=AT)
    store.commit(settled(TurnState.EMPTY, "one-off"), take(store), at=AT)

    store.enrol([], None, withdrawn=["k1"], at=LATER)

    assert store.proposals() == []


def test_a_backfill_moves_its_own_mark_only(store: Store) -> None:
    """Reading from 0 must not move where following goes on."""
    store.enrol([], cursor("/s/a.jsonl", 100), at=AT)

    store.mark_backfilled(replace(cursor("/s/a.jsonl", 7), backfilled_to_byte=70))
    store.mark_backfilled(replace(cursor("/s/b.jsonl", 7), backfilled_to_byte=80))
    store.enrol([], cursor("/s/a.jsonl", 150), at=AT)

    assert {path: (at.offset_byte, at.backfilled_to_byte) for path, at in store.cursors().items()} == {
        "/s/a.jsonl": (150, 70),
        "/s/b.jsonl": (0, 80),
    }


# --- leases -------------------------------------------------------------------------------------------------------


def test_only_one_gets_a_turn(store: Store) -> None:
    """A leased turn is nobody else's, and not due."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    assert store.claim("k1", owner="other", at=AT) is None
    assert store.due(at=AT, limit=9) == []
    assert store.lease_owners(at=AT) == {"me"}
    assert (lease.attempt, lease.text.rows[0].text, lease.agent, lease.root_session_id) == (
        1,
        "From now on use uv in this repo",
        "claude_code",
        "s1",
    )


def test_an_expired_lease_is_taken_over_with_the_answer_that_was_paid_for(store: Store) -> None:
    """A process that died after the call has its answer judged by the next one; both calls stay on the books."""
    store.enrol([enrolment("k1")], None, at=AT)
    dead = take(store, owner="dead", limits=Limits(since=AT, reserved_tokens=500, reserved_usd=0.01))
    reply = answered('{"a": 1}', fault="cut-off")
    store.save_answer(dead, asked(), reply, at=AT)

    lease = take(store, at=LATER)
    record = store.commit(settled(TurnState.EMPTY, "one-off"), lease, at=LATER)

    assert (lease.saved, lease.attempt, lease.generation) == (Saved(asked(), reply), 2, dead.generation + 1)
    with pytest.raises(LeaseLostError):
        store.commit(settled(TurnState.EMPTY, "one-off"), dead, at=LATER)
    assert [(one.id, one.reason) for one in store.passes("k1")] == [
        (record.id, "one-off"),
        (dead.pass_id, "interrupted"),
    ]
    today = store.totals(day_from=AT).today
    assert (today.calls, today.input_tokens, today.cost_usd) == (1, 400, 0.004)


def test_a_lost_pass_without_answer_keeps_its_reservation_as_cost(store: Store) -> None:
    """Nobody knows what a dead process spent: what it had reserved counts against the day's budget."""
    store.enrol([enrolment("k1")], None, at=AT)
    take(store, owner="dead", limits=Limits(since=AT, reserved_tokens=500, reserved_usd=0.01))

    assert store.totals(day_from=AT).today.input_tokens == 500
    store.commit(
        settled(TurnState.EMPTY, "one-off", usage=Usage(input_tokens=7, cost_usd=0.5)), take(store, at=LATER), at=LATER
    )

    today = store.totals(day_from=AT).today
    assert (today.input_tokens, today.cost_usd) == (507, 0.51)
    assert store.totals(day_from=after(AT, seconds=1)).today.input_tokens == 7


def test_a_renewed_lease_holds(store: Store) -> None:
    """Whoever still works on a turn keeps it."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    renewed = store.renew(lease, at=after(AT, seconds=200))

    assert renewed.until == after(AT, seconds=500)
    assert store.claim("k1", owner="other", at=after(AT, seconds=400)) is None


def test_leases_of_the_dead_are_released(store: Store) -> None:
    """A restarted daemon need not wait for its own old leases."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store, owner="dead")

    assert store.release(["dead", "nobody"], at=AT) == 1
    assert (store.lease_owners(at=AT), store.due(at=AT, limit=9)) == (set(), ["k1"])
    with pytest.raises(LeaseLostError):
        store.commit(settled(TurnState.EMPTY, "one-off"), lease, at=AT)
    assert take(store).attempt == 2


def test_due_turns_come_oldest_first_and_one_a_session(store: Store) -> None:
    """A later turn of a session waits behind an earlier one."""
    store.enrol(
        [
            enrolment("k1", message_ids=("a",), ended_at=after(AT, seconds=5)),
            enrolment("k2", message_ids=("b",), ended_at=after(AT, seconds=9)),
            enrolment("k3", message_ids=("c",), of=session("s2")),
        ],
        None,
        at=AT,
    )

    assert store.due(at=LATER, limit=9) == ["k3", "k1"]
    assert store.due(at=LATER, limit=9, newest_first=True) == ["k1", "k3"]
    assert store.due(at=LATER, limit=1) == ["k3"]
    assert store.due(at=LATER, limit=9, only={"k1", "k2"}) == ["k1"]
    take(store, "k1", at=LATER)
    assert store.due(at=LATER, limit=9) == ["k3"]


def test_a_later_turn_passes_one_that_is_due_in_more_than_ten_minutes(store: Store) -> None:
    """F55: a failing turn holds its session back for ten minutes at most."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("b",), ended_at=after(AT, seconds=9))], None, at=AT)
    retry_at = after(AT, seconds=3600)
    store.commit(waits(retry_at), take(store), at=AT)

    assert store.due(at=after(AT, seconds=60), limit=9) == ["k2"]
    assert store.due(at=after(AT, seconds=3001), limit=9) == []
    assert store.due(at=retry_at, limit=9) == ["k1"]


@pytest.mark.parametrize("reason", ["halted", "budget", "project"])
def test_held_turns_are_not_due_until_they_are_let_go(store: Store, reason: str) -> None:
    """F22: while a backend is halted, or its budget spent, turns wait and are counted."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.hold(reason, from_reasons=["queued"], at=AT)

    assert store.due(at=LATER, limit=9) == []
    assert store.totals(day_from=AT).waiting == {reason: 1}
    assert store.hold(None, from_reasons=[reason], at=LATER) == 1
    assert store.due(at=LATER, limit=9) == ["k1"]


def test_a_turn_enrolled_by_hand_is_left_alone_by_the_service_and_holds_none_of_its_turns_back(store: Store) -> None:
    """Who pays for a reading gets it from the command at hand, and nobody waits for it meanwhile."""
    later = enrolment("k2", message_ids=("b",), ended_at=after(AT, seconds=9))
    store.enrol([enrolment("k1", by_hand=True), later], None, at=AT)

    assert store.due(at=LATER, limit=9) == ["k2"]
    assert store.due(at=LATER, limit=9, by_hand=True) == ["k1"]
    assert store.due(at=LATER, limit=9, by_hand=True, only={"k1"}) == ["k1"]


def test_whose_turn_it_is_lasts_until_a_later_revision_says_otherwise(store: Store) -> None:
    """Being read again, dying or being tried again changes nothing; new words or asking again do."""
    store.enrol([enrolment("k1", by_hand=True)], None, at=AT)
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.DEAD, "backend-failed"), take(store), at=AT)
    store.requeue(TurnQuery(), at=AT)
    assert store.due(at=AT, limit=9) == []

    store.enrol([enrolment("k1", digest="d2", words="w2")], None, at=AT)
    assert store.due(at=AT, limit=9) == ["k1"]
    store.commit(settled(TurnState.EMPTY, "one-off"), take(store), at=AT)
    store.enrol([enrolment("k1", digest="d2", words="w2", again=True, by_hand=True)], None, at=AT)
    assert store.due(at=AT, limit=9) == []
    assert store.due(at=AT, limit=9, by_hand=True) == ["k1"]


@pytest.mark.parametrize("reason", ["halted", "budget"])
def test_a_command_is_not_bound_by_what_holds_the_service_back(store: Store, reason: str) -> None:
    """The person's own command takes turns that are halted or over the service's budget, but no failed one early."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("b",), of=session("s2"))], None, at=AT)
    store.commit(replace(waits(AT), reason=reason), take(store), at=AT)
    store.commit(waits(after(LATER, seconds=60)), take(store, "k2"), at=AT)

    assert store.due(at=LATER, limit=9) == []
    assert store.due(at=LATER, limit=9, by_hand=True) == ["k1"]
    assert store.due(at=after(LATER, seconds=60), limit=9, by_hand=True) == ["k1", "k2"]


def test_not_even_a_command_takes_a_turn_of_an_unanswered_project_or_a_leased_one(store: Store) -> None:
    """Yes or no comes first, and whoever works on a turn keeps it."""
    of = [session("s1"), session("s2"), session("s3")]
    waiting = [enrolment(f"k{n}", of=one, message_ids=(f"m{n}",), by_hand=True) for n, one in enumerate(of)]
    store.enrol([replace(waiting[0], wait="project"), *waiting[1:]], None, at=AT)
    take(store, "k1")

    assert store.due(at=AT, limit=9, by_hand=True) == ["k2"]


def test_a_commands_turns_come_in_order_and_do_not_wait_for_what_nobody_will_settle(store: Store) -> None:
    """Of its own turns the earlier goes first; a foreign one goes first only if the service settles it soon."""
    by_hand = {number: number != 1 for number in range(4)}
    turns = [
        enrolment(f"k{n}", message_ids=(f"m{n}",), ended_at=after(AT, seconds=n), by_hand=own)
        for n, own in by_hand.items()
    ]
    store.enrol(turns, None, at=AT)

    assert store.due(at=LATER, limit=9, by_hand=True, only={"k2", "k3", "k0"}) == ["k0"]
    assert store.due(at=LATER, limit=9, by_hand=True, only={"k2", "k3"}) == []
    store.commit(waits(after(LATER, seconds=601)), take(store, "k1", at=LATER), at=LATER)
    assert store.due(at=LATER, limit=9, by_hand=True, only={"k2", "k3"}) == ["k2"]
    assert store.due(at=after(LATER, seconds=1), limit=9, by_hand=True, only={"k2", "k3"}) == []
    store.hold("budget", from_reasons=["retry"], at=LATER)
    assert store.due(at=after(LATER, seconds=1), limit=9, by_hand=True, only={"k2", "k3"}) == ["k2"]


def test_what_holds_the_service_back_does_not_touch_turns_enrolled_by_hand(store: Store) -> None:
    """A halt of the service's backend says nothing of a command with another one."""
    store.enrol([enrolment("k1", by_hand=True), enrolment("k2", message_ids=("b",))], None, at=AT)

    assert store.hold("halted", from_reasons=["queued"], at=AT) == 1
    assert [store.turn(key)[0].reason for key in ("k1", "k2")] == ["queued", "halted"]
    assert store.due(at=AT, limit=9, by_hand=True) == ["k1"]


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize(
    ("level", "target", "left"),
    [
        ("all", "", []),
        ("project", "p1", ["k2"]),
        ("session", "claude_code:s1", ["k2", "k3"]),
        ("session", "codex:s1", ["k1", "k2", "k3"]),
    ],
)
def test_turns_under_an_open_pause_are_not_due(
    store: Store, level: str, target: str, left: list[str], *, by_hand: bool
) -> None:
    """Off means off, for the service and for commands; when the pause is over they are due again."""
    second = enrolment("k2", of=session("s2"), message_ids=("b",), project_key="p2", by_hand=by_hand)
    third = enrolment("k3", of=session("s3"), message_ids=("c",), by_hand=by_hand)
    store.enrol([enrolment("k1", by_hand=by_hand), second, third], None, at=AT)
    store.pause(Pause("one", level, target, after(AT, seconds=1), after(AT, seconds=100)))

    before, during, afterwards = (
        store.due(at=after(AT, seconds=seconds), limit=9, by_hand=by_hand) for seconds in (0, 1, 100)
    )

    assert during == left
    assert before == afterwards == ["k1", "k2", "k3"]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_paused_turn_holds_back_its_session_only_if_its_pause_is_over_soon(store: Store, *, by_hand: bool) -> None:
    """A session that moved to another project goes on while the first one is switched off."""
    moved = enrolment("k2", message_ids=("b",), project_key="p2", ended_at=after(AT, seconds=9), by_hand=by_hand)
    store.enrol([enrolment("k1", by_hand=by_hand), moved], None, at=AT)
    store.pause(Pause("one", "project", "p1", AT, LATER))

    assert store.due(at=after(LATER, seconds=-601), limit=9, by_hand=by_hand) == ["k2"]
    assert store.due(at=after(LATER, seconds=-600), limit=9, by_hand=by_hand) == []
    assert store.due(at=LATER, limit=9, by_hand=by_hand) == ["k1"]


# --- spending -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limits",
    [
        Limits(since=AT, tokens=1000, reserved_tokens=500),
        Limits(since=AT, usd=0.3, reserved_usd=0.1 + 0.05),
        Limits(since=AT, tokens=1000, usd=9, reserved_tokens=500, reserved_usd=0.1),
    ],
    ids=["tokens", "money", "both"],
)
def test_a_claim_beyond_the_budget_is_declined_and_changes_nothing(store: Store, limits: Limits) -> None:
    """F02: open passes count what they reserved; to reach the budget exactly is allowed, to pass it is not."""
    enrol_many(store, 3)
    take(store, "k0", limits=limits)
    take(store, "k1", limits=limits)
    before = (store.turns(TurnQuery()), store.totals(day_from=AT), store.passes("k2"), store.lease_owners(at=AT))

    assert store.claim("k2", owner="me", at=AT, limits=limits) == Declined("budget")

    after_ = (store.turns(TurnQuery()), store.totals(day_from=AT), store.passes("k2"), store.lease_owners(at=AT))
    assert before == after_
    assert take(store, "k2").attempt == 1


def test_what_was_used_takes_the_place_of_what_was_reserved(store: Store) -> None:
    """All four kinds of tokens count; a call of unknown price costs tokens only."""
    limits = Limits(since=AT, tokens=1000, usd=0.02, reserved_tokens=900, reserved_usd=0.02)
    enrol_many(store, 2)
    first = take(store, "k0", limits=limits)
    used = Usage(1, input_tokens=40, output_tokens=30, cache_read_tokens=20, cache_write_tokens=10, cost_usd=None)

    store.save_answer(first, asked(), answered(usage=used), at=AT)

    assert store.totals(day_from=AT).today == used
    assert store.claim("k1", owner="me", at=AT, limits=replace(limits, reserved_tokens=901)) == Declined("budget")
    assert take(store, "k1", limits=limits).attempt == 1


def test_a_purse_counts_its_own_passes_since_its_own_day(store: Store) -> None:
    """A backfill spends its own money; yesterday's is forgiven; what a process that died had reserved is not."""
    daily = Limits(since=AT, tokens=500, reserved_tokens=500)
    backfill = Limits(since="", tokens=500, reserved_tokens=500, purse="backfill-1")
    enrol_many(store, 3)
    take(store, "k0", owner="dead", limits=daily)
    assert store.claim("k1", owner="me", at=AT, limits=daily) == Declined("budget")

    take(store, "k1", limits=backfill)

    assert store.claim("k0", owner="me", at=LATER, limits=daily) == Declined("budget")
    assert store.claim("k2", owner="me", at=LATER, limits=backfill) == Declined("budget")
    assert take(store, "k2", at=LATER, limits=replace(daily, since=LATER)).attempt == 1


def test_no_more_calls_a_minute_than_allowed(store: Store) -> None:
    """F04: whatever the purse; the claim is told when there is room again, and then there is."""
    limits = Limits(since="", calls_per_minute=2, reserved_tokens=1)
    enrol_many(store, 5)
    take(store, "k0", limits=limits)
    second = take(store, "k1", at=after(AT, seconds=10), limits=replace(limits, purse="other"))
    store.commit(settled(TurnState.EMPTY, "one-off", usage=Usage(calls=1)), second, at=after(AT, seconds=11))
    free = take(store, "k2", at=after(AT, seconds=12))  # reserved nothing, and then makes no call
    store.commit(settled(TurnState.EMPTY, "no-cue"), free, at=after(AT, seconds=13))

    now = after(AT, seconds=20)
    until = after(AT, seconds=60)
    assert store.claim("k3", owner="me", at=now, limits=limits) == Declined("burst", until=until)
    stricter = store.claim("k3", owner="me", at=now, limits=replace(limits, calls_per_minute=1))
    assert stricter == Declined("burst", until=after(AT, seconds=70))
    never = store.claim("k3", owner="me", at=now, limits=replace(limits, calls_per_minute=0))
    assert never == Declined("burst", until=after(now, seconds=60))
    assert isinstance(store.claim("k3", owner="me", at=after(until, seconds=-0.001), limits=limits), Declined)
    assert take(store, "k3", at=until, limits=limits).attempt == 1


def test_passes_ahead_of_a_clock_that_was_set_back_are_no_burst(store: Store) -> None:
    """An hour on the wrong clock does not stop an hour's calls."""
    limits = Limits(since="", calls_per_minute=1, reserved_tokens=1)
    enrol_many(store, 2)
    take(store, "k0", at=LATER, limits=limits)

    assert take(store, "k1", at=AT, limits=limits).attempt == 1


def test_a_turn_whose_answer_is_saved_is_never_declined(store: Store) -> None:
    """What was paid is judged, whatever the budget says, and costs nothing more."""
    limits = Limits(since=AT, tokens=1000, usd=1, calls_per_minute=1, reserved_tokens=1000, reserved_usd=1)
    store.enrol([enrolment("k1")], None, at=AT)
    store.save_answer(take(store, owner="dead", limits=limits), asked(), answered(), at=AT)
    paid = store.totals(day_from=AT).today

    lease = take(store, at=LATER, limits=limits)

    assert lease.saved == Saved(asked(), answered())
    assert store.totals(day_from=AT).today == paid


def test_a_second_crash_finds_the_answer_again_and_each_call_counts_once(store: Store) -> None:
    """However often its owner dies, a question is not asked anew; whether it was the repair is known from itself."""
    store.enrol([enrolment("k1")], None, at=AT)
    twice = answered("second", usage=Usage(calls=2, input_tokens=900, cost_usd=0.01), fault="refused")
    first = take(store, owner="dead")
    store.save_answer(first, asked(), answered("first"), at=AT)
    store.save_answer(first, asked(repair="it was cut off"), twice, at=AT)
    second = take(store, owner="dead too", at=LATER)

    third = take(store, at=after(LATER, seconds=3600))

    assert (first.saved, second.saved) == (None, Saved(asked(repair="it was cut off"), twice))
    assert third.saved == Saved(asked(repair="it was cut off"), replace(twice, usage=Usage(cost_usd=0)))
    for lease in (first, second, third):
        assert store.exchange(lease.pass_id) == (asked(repair="it was cut off"), "second")
    assert store.totals(day_from=AT).today == Usage(calls=2, input_tokens=900, cost_usd=0.01)
    assert sum(one.usage.calls for one in store.spending(since="")) == 2


@pytest.mark.parametrize("end", ["queued", "halted", "retry"])
def test_an_answer_that_was_not_judged_is_handed_on_however_its_pass_ended(store: Store, end: str) -> None:
    """Stopped, or without a second answer: what was paid is not asked again, and whose answer it is stays known."""
    limits = Limits(since=AT, tokens=1000, reserved_tokens=1000)
    store.enrol([enrolment("k1")], None, at=AT)
    for seconds in (0, 1):
        lease = take(store, at=after(AT, seconds=seconds), limits=limits)
        if lease.saved is None:
            store.save_answer(lease, asked(), answered("prose"), at=AT)
        used = answered().usage if lease.saved is None else Usage()
        store.commit(replace(waits(AT), reason=end, usage=used), lease, at=AT)

    lease = take(store, at=LATER, limits=limits)

    assert lease.saved == Saved(asked(), answered("prose", usage=Usage()))
    assert store.exchange(lease.pass_id) == (asked(), "prose")
    assert {(one.backend, one.model, one.prompt_version) for one in store.passes("k1")} == {("anthropic", "haiku", "1")}
    today = store.totals(day_from=AT).today
    assert (today.calls, today.input_tokens) == (1, 400)


def test_the_newest_of_several_answers_is_handed_on(store: Store) -> None:
    """A clock that was set back in between does not bring an older answer back."""
    store.enrol([enrolment("k1")], None, at=AT)
    for at, text in ((LATER, "first"), (AT, "second")):
        lease = take(store, at=at)
        store.save_answer(lease, asked(), answered(text), at=at)
        store.commit(waits(at), lease, at=at)

    assert take(store, at=LATER).saved == Saved(asked(), answered("second", usage=Usage()))


@pytest.mark.parametrize("between", [False, True])
def test_a_requeued_dead_turn_is_asked_anew(store: Store, *, between: bool) -> None:
    """An answer that made a turn die is not judged a second time, nor after a pass that came to nothing."""
    limits = Limits(since="", tokens=400, reserved_tokens=5)
    store.enrol([enrolment("k1")], None, at=AT)
    lost = take(store, owner="dead")
    store.save_answer(lost, asked(), answered("prose"), at=AT)
    store.commit(settled(TurnState.DEAD, "answer-unusable", usage=answered().usage), take(store, at=LATER), at=LATER)
    store.requeue(TurnQuery(), at=LATER)
    if between:
        store.commit(waits(LATER), take(store, at=LATER), at=LATER)

    assert store.claim("k1", owner="me", at=LATER, limits=limits) == Declined("budget")
    lease = take(store, at=LATER)
    assert (lease.saved, store.exchange(lease.pass_id)) == (None, (None, None))
    store.save_answer(lease, asked(), answered("better"), at=LATER)
    assert take(store, at=after(LATER, seconds=3600)).saved == Saved(asked(), answered("better"))


def test_the_answer_of_another_revision_or_turn_is_not_handed_on(store: Store) -> None:
    """New words are a new question."""
    enrol_many(store, 2)
    lease = take(store, "k0")
    store.save_answer(lease, asked(), answered(), at=AT)
    store.commit(waits(AT), lease, at=AT)
    store.enrol([enrolment("k0", of=session("s0"), digest="d2", words="w2")], None, at=AT)

    assert [take(store, key).saved for key in ("k0", "k1")] == [None, None]


def test_no_answer_is_handed_on_after_its_days_or_after_an_erasure(store: Store) -> None:
    """What was to be forgotten does not come back in the next pass."""
    enrol_many(store, 2)
    for key in ("k0", "k1"):
        lease = take(store, key)
        store.save_answer(lease, asked("From now on use uv" if key == "k1" else "grün"), answered(), at=AT)
        store.commit(waits(AT), lease, at=AT)
    store.apply(Plan((add("f1", evidence=(quote("u9", "k9"),)),)), actor="pass", at=AT)

    store.erase(["f1"], at=AT)
    assert take(store, "k1").saved is None
    store.expire(Retention(), at=after(AT, seconds=31 * 86400))
    assert take(store, "k0").saved is None


def test_question_and_answer_are_kept_for_people(store: Store) -> None:
    """`why` shows what was asked and what came back; of other passes there is nothing."""
    store.enrol([enrolment("k1")], None, at=AT)
    near = NearFact(1, "package-manager", "Use uv", "project:p1", "f1")
    question = replace(asked('He said:\n"grün" \U0001f600'), near_facts=(near,))
    lease = take(store)
    assert store.exchange(lease.pass_id) == (None, None)

    store.save_answer(lease, question, answered('{"facts": []}'), at=AT)
    store.commit(settled(TurnState.EMPTY, "one-off"), lease, at=AT)

    assert store.exchange(lease.pass_id) == (question, '{"facts": []}')
    assert store.exchange("unknown") == (None, None)


def test_only_the_owner_saves_an_answer(store: Store) -> None:
    """Who has lost the lease writes nothing."""
    store.enrol([enrolment("k1")], None, at=AT)
    dead = take(store, owner="dead")
    take(store, at=LATER)

    with pytest.raises(LeaseLostError):
        store.save_answer(dead, asked(), answered(), at=LATER)

    assert store.exchange(dead.pass_id) == (None, None)


def test_a_pass_record_says_what_failed_and_by_which_prompt(store: Store) -> None:
    """Error and prompt version of a settlement come back with its record."""
    store.enrol([enrolment("k1")], None, at=AT)
    settlement = replace(waits(LATER), error="connection reset", prompt_version="3")

    record = store.commit(settlement, take(store), at=AT)

    assert (record.error, record.prompt_version) == ("connection reset", "3")
    assert store.passes("k1") == [record]


def test_the_last_error_is_told_in_words_and_a_turn_in_line_is_none(store: Store) -> None:
    """What `status` shows is what failed last, not what merely waits, was interrupted or went well."""
    enrol_many(store, 4)
    assert store.totals(day_from=AT).last_error is None
    store.commit(replace(waits(LATER), error="overloaded"), take(store, "k0"), at=AT)
    for number, reason in enumerate(("queued", "behind"), 1):
        queued = Settlement(TurnState.WAITING, reason, Verdict(), Usage(), "embedded", error="no error")
        store.commit(queued, take(store, f"k{number}", at=after(AT, seconds=number)), at=LATER)
    take(store, "k3", at=after(AT, seconds=5), owner="dead")
    store.commit(settled(TurnState.EMPTY, "one-off"), take(store, "k3", at=LATER), at=LATER)

    assert store.totals(day_from=AT).last_error == (AT, "retry", f"overloaded (turn {store.turn('k0')[0].id})")


def test_spending_is_told_by_minute_backend_model_and_purse(store: Store) -> None:
    """Every pass stands in one group with what it holds: ended, interrupted or open; dead answers are counted."""
    haiku: dict[str, Any] = {"backend": "anthropic", "model": "haiku"}
    used = Usage(calls=1, input_tokens=10, output_tokens=1, cost_usd=0.25)
    enrol_many(store, 5)
    for number, reason in enumerate(("answer-unusable", "model-refused", "too-long")):
        settlement = settled(TurnState.DEAD, reason, usage=used, **haiku)
        store.commit(settlement, take(store, f"k{number}", at=after(AT, seconds=number)), at=LATER)
    unpriced = settled(TurnState.EMPTY, "one-off", usage=replace(used, cost_usd=None), **haiku)
    store.commit(unpriced, take(store, "k3", limits=Limits(since="", purse="backfill-1")), at=AT)
    reserved = Limits(since="", reserved_tokens=7, reserved_usd=0.5)
    take(store, "k4", owner="dead", limits=reserved)
    take(store, "k4", at=LATER, limits=reserved)

    found = store.spending(since="")

    minute, later = AT[:16], LATER[:16]
    lost = Usage(input_tokens=7, cost_usd=0.5)
    assert found == [
        Spending(minute, None, None, "daily", 1, 0, lost),
        Spending(minute, "anthropic", "haiku", "backfill-1", 1, 0, replace(used, cost_usd=None)),
        Spending(minute, "anthropic", "haiku", "daily", 3, 2, Usage(3, 30, 3, cost_usd=0.75)),
        Spending(later, None, None, "daily", 1, 0, lost),
    ]
    assert store.spending(since=after(AT, seconds=10)) == found[-1:]


def test_a_turn_tried_twice_in_a_minute_is_one_turn(store: Store) -> None:
    """Spending counts turns, not attempts."""
    store.enrol([enrolment("k1")], None, at=AT)
    for seconds in (0, 1):
        at = after(AT, seconds=seconds)
        store.commit(replace(waits(at), usage=Usage(calls=1)), take(store, at=at), at=at)

    (found,) = store.spending(since=AT)

    assert (found.turns, found.usage.calls) == (1, 2)


# --- a further call -----------------------------------------------------------------------------------------------


def test_a_further_call_is_reserved_on_top_and_a_kill_leaves_it_spent(store: Store) -> None:
    """A repair is paid for before it is made: nobody knows whether it was when its process died."""
    limits = Limits(since=AT, tokens=1000, usd=0.02, reserved_tokens=500, reserved_usd=0.01)
    enrol_many(store, 2)
    lease = take(store, "k0", owner="dead", limits=limits)
    used = Usage(calls=1, input_tokens=400, output_tokens=100, cost_usd=0.01)
    store.save_answer(lease, asked(), answered("prose", usage=used), at=AT)

    assert store.reserve(lease, limits, at=AT) is None

    reserved = replace(used, calls=2, input_tokens=900, cost_usd=0.02)
    assert store.totals(day_from=AT).today == reserved
    assert store.claim("k1", owner="me", at=AT, limits=replace(limits, reserved_tokens=1)) == Declined("budget")
    assert take(store, "k0", at=LATER, limits=limits).saved == Saved(asked(), answered("prose", usage=reserved))
    assert store.totals(day_from=AT).today == reserved


def test_what_a_further_call_used_takes_the_place_of_what_it_reserved(store: Store) -> None:
    """Each answer, and the end of the pass, say what all its calls used."""
    limits = Limits(since=AT, reserved_tokens=500, reserved_usd=0.01)
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store, limits=limits)
    store.save_answer(lease, asked(), answered("prose"), at=AT)
    store.reserve(lease, limits, at=AT)
    both = Usage(calls=2, input_tokens=700, output_tokens=90, cost_usd=0.006)

    store.save_answer(lease, asked(repair="prose"), answered(usage=both), at=AT)
    assert store.totals(day_from=AT).today == both
    store.commit(settled(TurnState.EMPTY, "one-off", usage=replace(both, took_ms=5)), lease, at=AT)
    assert store.totals(day_from=AT).today == replace(both, took_ms=5)


@pytest.mark.parametrize(
    ("limits", "no"),
    [
        (Limits(since=AT, tokens=899, reserved_tokens=500), Declined("budget")),
        (Limits(since=AT, usd=0.013, reserved_usd=0.01), Declined("budget")),
        (Limits(since="", calls_per_minute=1), Declined("burst", until=after(AT, seconds=60))),
    ],
    ids=["tokens", "money", "burst"],
)
def test_a_further_call_that_does_not_fit_is_declined_and_changes_nothing(
    store: Store, limits: Limits, no: Declined
) -> None:
    """What the pass holds itself counts too; its lease and its answer stay."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)
    used = Usage(calls=1, input_tokens=400, cost_usd=0.004)
    store.save_answer(lease, asked(), answered(usage=used), at=AT)

    assert store.reserve(lease, limits, at=AT) == no

    assert store.totals(day_from=AT).today == used
    assert store.commit(settled(TurnState.EMPTY, "one-off"), lease, at=AT).reason == "one-off"


def test_who_has_lost_the_lease_reserves_nothing(store: Store) -> None:
    """A pass that was taken over makes no further call."""
    store.enrol([enrolment("k1")], None, at=AT)
    dead = take(store, owner="dead")
    take(store, at=LATER)
    before = store.totals(day_from=AT)

    with pytest.raises(LeaseLostError):
        store.reserve(dead, Limits(since=AT, reserved_tokens=5), at=LATER)

    assert store.totals(day_from=AT) == before


def test_a_repair_of_an_answer_that_was_handed_on_is_reserved_like_any_call(store: Store) -> None:
    """The claim cost nothing; the one call that follows does, and counts as one."""
    limits = Limits(since=LATER, tokens=500, calls_per_minute=1, reserved_tokens=500, reserved_usd=0.01)
    enrol_many(store, 2)
    store.save_answer(take(store, "k0", owner="dead"), asked(), answered("prose"), at=AT)
    lease = take(store, "k0", at=LATER, limits=limits)

    assert store.reserve(lease, limits, at=LATER) is None

    assert store.passes("k0")[0].usage == Usage(calls=1, input_tokens=500, cost_usd=0.01)
    burst = replace(limits, tokens=None)
    assert store.claim("k1", owner="me", at=LATER, limits=burst) == Declined("burst", until=after(LATER, seconds=60))


def test_a_reserved_call_of_unknown_price_costs_tokens_only(store: Store) -> None:
    """An unknown price is not made a known one of nothing."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)
    store.save_answer(lease, asked(), answered(usage=Usage(calls=1, input_tokens=400)), at=AT)

    store.reserve(lease, Limits(since=AT, reserved_tokens=500), at=AT)

    assert store.totals(day_from=AT).today == Usage(calls=2, input_tokens=900, cost_usd=None)


def test_a_burst_counts_calls_not_passes(store: Store) -> None:
    """A pass that asked twice counts twice until both are a minute old; a reserved call counts like a made one."""
    limits = Limits(since="", calls_per_minute=3, reserved_tokens=1)
    enrol_many(store, 3)
    twice = settled(TurnState.EMPTY, "one-off", usage=Usage(calls=2))
    store.commit(twice, take(store, "k0", limits=limits), at=AT)
    lease = take(store, "k1", at=after(AT, seconds=10), limits=limits)

    now = after(AT, seconds=20)
    assert store.claim("k2", owner="me", at=now, limits=limits) == Declined("burst", until=after(AT, seconds=60))
    assert store.reserve(lease, replace(limits, calls_per_minute=4), at=now) is None
    five = replace(limits, calls_per_minute=4)
    assert store.claim("k2", owner="me", at=now, limits=five) == Declined("burst", until=after(AT, seconds=60))
    two = replace(limits, calls_per_minute=2)
    assert store.claim("k2", owner="me", at=now, limits=two) == Declined("burst", until=after(AT, seconds=70))
    assert take(store, "k2", at=after(AT, seconds=60), limits=limits).attempt == 1


def test_passes_of_a_clock_that_was_ahead_do_not_spend_the_day(store: Store) -> None:
    """The purse counts from `since` up to `until`, which is left out, for claims and for further calls."""
    limits = Limits(since=AT, until=LATER, tokens=500, reserved_tokens=500)
    enrol_many(store, 3)
    take(store, "k0", at=LATER, limits=limits)

    lease = take(store, "k1", at=after(LATER, seconds=-0.001), limits=limits)

    assert store.claim("k2", owner="me", at=AT, limits=limits) == Declined("budget")
    assert store.reserve(lease, limits, at=AT) == Declined("budget")
    assert store.reserve(lease, replace(limits, until=after(LATER, seconds=-0.001)), at=AT) is None


@pytest.mark.parametrize(
    ("reported", "kept"),
    [
        (Usage(-1, -5, -5, -5, -5, -0.5, -1), Usage(cost_usd=0)),
        (
            Usage(10**30, 10**30, 10**30, 10**30, 10**30, 10**400, 10**30),
            Usage(10**12, 10**12, 10**12, 10**12, 10**12, 10**6, 10**12),
        ),
        (Usage(cost_usd=float("nan")), Usage()),
        (Usage(cost_usd=float("inf")), Usage()),
        (Usage(cost_usd=float("-inf")), Usage()),
    ],
    ids=["negative", "huge", "nan", "infinite", "minus-infinite"],
)
def test_no_usage_that_a_backend_reports_breaks_the_books(store: Store, reported: Usage, kept: Usage) -> None:
    """An answer is kept and a turn settled whatever it is said to have cost; sums and limits go on working."""
    limits = Limits(since=AT, calls_per_minute=2, reserved_tokens=1)
    enrol_many(store, 2)
    lease = take(store, "k0")

    store.save_answer(lease, asked(), answered(usage=reported), at=AT)
    assert store.totals(day_from=AT).today == kept
    assert store.commit(settled(TurnState.EMPTY, "one-off", usage=reported), lease, at=AT).usage == kept
    assert store.totals(day_from=AT).today == kept
    assert isinstance(store.claim("k1", owner="me", at=AT, limits=limits), Declined if kept.calls else Lease)


# --- settling -----------------------------------------------------------------------------------------------------


def test_a_kept_turn_has_its_fact_its_evidence_and_its_record_at_once(store: Store) -> None:
    """Fact, quote, history, pass record, note and the turn's state come with one commit; the text is freed."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    record = store.commit(
        settled(TurnState.KEPT, kept=(claim("package-manager"),), note="They use uv."), lease, at=LATER
    )

    (kept,) = store.facts(FactQuery())
    assert (kept.scope, kept.name, kept.rev, kept.source_pass_id) == ("project:p1", "package-manager", 1, lease.pass_id)
    assert [one.quote for one in store.evidence([kept.id])[kept.id]] == ["From now on use uv"]
    assert [(entry.op, entry.actor, entry.pass_id) for entry in store.history()] == [(Op.ADD, "pass", lease.pass_id)]
    (row,) = store.turns(TurnQuery())
    assert (row.state, row.has_text, row.settled_at, row.pass_id) == (TurnState.KEPT, False, LATER, lease.pass_id)
    assert (record.outcome, record.operations, record.fact_names) == (TurnState.KEPT, {"add": 1}, ("package-manager",))
    assert store.passes("k1") == [record]
    assert store.session("s1")[0].note == "They use uv."


def test_a_kept_turn_that_adds_nothing_is_already_known(store: Store) -> None:
    """F11: the same words in another turn settle it as empty; a second pass over the first takes nothing back."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), take(store), at=AT)
    facts, history = store.facts(FactQuery()), store.history()
    store.enrol([enrolment("k1", again=True), enrolment("k2", message_ids=("n",))], None, at=LATER)

    again, other = (
        store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), take(store, key, at=LATER), at=LATER)
        for key in ("k1", "k2")
    )

    assert (again.outcome, again.reason, again.operations) == (TurnState.KEPT, None, {})
    assert (other.outcome, other.reason, other.operations) == (TurnState.EMPTY, "already-known", {})
    assert (store.facts(FactQuery()), store.history()) == (facts, history)


def test_a_turn_whose_every_claim_was_refused_says_so(store: Store) -> None:
    """*Nothing durable* and *answer not believed* stay two things; the codes are counted."""
    store.enrol([enrolment("k1")], None, at=AT)
    refusals = (Refusal("secret", "api-key"), Refusal("secret", "other-key"), Refusal("order", "must-upload"))
    settlement = replace(settled(TurnState.KEPT), verdict=Verdict(refusals=refusals))

    record = store.commit(settlement, take(store), at=AT)

    assert (record.outcome, record.reason, record.refused) == (TurnState.EMPTY, "refused", {"secret": 2, "order": 1})
    assert record.refusals == refusals


def test_a_candidate_counts_as_kept(store: Store) -> None:
    """An implied preference is remembered for a second session, with its quote, and answers nothing yet."""
    store.enrol([enrolment("k1")], None, at=AT)
    settlement = replace(settled(TurnState.KEPT), verdict=Verdict(candidates=(claim("short-answers"),)))

    record = store.commit(settlement, take(store), at=AT)

    (candidate,) = store.candidates()
    assert (record.outcome, record.operations, store.facts(FactQuery())) == (TurnState.KEPT, {"candidate": 1}, [])
    assert [one.message_id for one in store.evidence([candidate.id])[candidate.id]] == ["u1"]


def test_a_waiting_settlement_gives_the_lease_back(store: Store) -> None:
    """F21: a turn whose backend was away keeps its text and its place; failures that do not count are not counted."""
    store.enrol([enrolment("k1")], None, at=AT)
    retry_at = after(AT, seconds=60)

    record = store.commit(waits(retry_at), take(store), at=AT)

    (row,) = store.turns(TurnQuery())
    assert (record.outcome, row.state, row.reason, row.attempts, row.retry_at) == (
        TurnState.WAITING,
        TurnState.WAITING,
        "retry",
        1,
        retry_at,
    )
    assert store.due(at=AT, limit=9) == []
    store.commit(replace(waits(retry_at), counts_as_attempt=False), take(store, at=retry_at), at=retry_at)
    assert store.turns(TurnQuery())[0].attempts == 1


def test_a_dead_turn_keeps_its_text_and_can_be_requeued(store: Store) -> None:
    """F53: given up is a state with a reason, and `retry` starts afresh."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("n",), skip="no-words")], None, at=AT)
    store.commit(settled(TurnState.DEAD, "backend-failed"), take(store), at=AT)
    assert store.totals(day_from=AT).dead == {"backend-failed": 1}

    assert store.requeue(TurnQuery(states=(TurnState.DEAD, TurnState.SKIPPED)), at=LATER) == ["k1"]

    (row,) = store.turns(TurnQuery(states=(TurnState.WAITING,)))
    assert (row.key, row.attempts, row.reason, row.settled_at) == ("k1", 0, "queued", None)
    assert store.requeue(TurnQuery(), keys=["k1"], at=LATER) == []


def test_requeue_names_turns(store: Store) -> None:
    """Only the turns that were named, or fit the question, are tried again."""
    store.enrol(
        [enrolment("k1", message_ids=("a",)), enrolment("k2", message_ids=("b",), of=session("s2"))], None, at=AT
    )
    for key in ("k1", "k2"):
        store.commit(settled(TurnState.DEAD, "too-long"), take(store, key), at=AT)

    assert store.requeue(TurnQuery(), keys=["k2"], at=LATER) == ["k2"]
    assert store.requeue(TurnQuery(session_id="s9"), at=LATER) == []
    assert store.requeue(TurnQuery(session_id="s1"), at=LATER) == ["k1"]


def test_turns_are_found_by_what_is_shown_of_them(store: Store) -> None:
    """`why t1234` finds the turn that a log line named."""
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("n",), of=session("s2"))], None, at=AT)
    (shown,) = store.turns(TurnQuery(session_id="s2"))

    assert [row.key for row in store.turn(shown.id[:7])] == ["k2"]
    assert [row.key for row in store.turn("k1")] == ["k1"]
    assert store.turn("t-none") == []
    assert [row.key for row in store.turns(TurnQuery(agent="claude_code", limit=1))] == ["k2"]


# --- facts --------------------------------------------------------------------------------------------------------


def test_an_edit_of_a_fact_that_moved_on_is_refused(store: Store) -> None:
    """Two people edit at once: the second is told, and nothing of the plan is written."""
    (done,) = store.apply(Plan((add("f1"),)), actor="person", at=AT).operations
    stands = done.after
    first = replace(stands, body="Use uv, always.", updated_at=LATER)
    store.apply(Plan((Operation(Op.EDIT, stands, first),)), actor="person", at=LATER)

    with pytest.raises(ConflictError):
        store.apply(Plan((add("f2", name="other-fact"), Operation(Op.EDIT, stands, first))), actor="person", at=LATER)

    assert [(one.id, one.rev) for one in store.facts(FactQuery())] == [("f1", 2)]
    assert [entry.rev for entry in store.history(fact_id="f1")] == [2, 1]


def test_a_name_is_one_fact_in_its_scope(store: Store) -> None:
    """Same slug, same fact; elsewhere the slug is free."""
    store.apply(Plan((add("f1"), add("f2", scope="project:p2"))), actor="person", at=AT)

    with pytest.raises(ConflictError):
        store.apply(Plan((add("f3"),)), actor="person", at=AT)


def test_an_undo_has_all_it_needs(store: Store) -> None:
    """History keeps what was and what came, grouped by act, newest first."""
    applied = store.apply(Plan((add("f1"), add("f2", name="other-fact"))), actor="person", at=AT)
    stands = applied.operations[0].after
    binned = replace(stands, status=FactStatus.BINNED, forgotten_at=LATER)
    forgotten = store.apply(Plan((Operation(Op.FORGET, stands, binned, reason="asked"),)), actor="person", at=LATER)

    (entry,) = store.history(group=forgotten.group)
    assert (entry.before, entry.after, entry.reason, entry.op) == (stands, replace(binned, rev=2), "asked", Op.FORGET)
    assert [one.fact_id for one in store.history(limit=2)] == ["f1", "f2"]
    assert len(store.history(group=applied.group)) == 2


def test_only_active_facts_are_served_unless_asked_otherwise(store: Store) -> None:
    """F33: a binned fact is found by no question of an agent, but by the person who looks for it."""
    (done,) = store.apply(Plan((add("f1"),)), actor="person", at=AT).operations
    binned = replace(done.after, status=FactStatus.BINNED, forgotten_at=LATER, updated_at=LATER)
    store.apply(Plan((Operation(Op.FORGET, done.after, binned),)), actor="person", at=LATER)

    assert (store.facts(FactQuery()), store.search(["uv"], query=FactQuery())) == ([], [])
    everything = FactQuery(statuses=())
    assert [one.id for one in store.facts(everything)] == ["f1"]
    assert [hit.fact.id for hit in store.search(["uv"], query=everything)] == ["f1"]
    assert [one.id for one in store.resolve_fact("package-manager")] == ["f1"]


def test_questions_about_facts_are_answered_by_scope_kind_time_and_session(store: Store) -> None:
    """F68: a project's facts never answer a question of another project."""
    store.apply(
        Plan(
            (
                add("f1", evidence=(quote("m1", "k1"),)),
                add("f2", name="test-runner", scope="project:p2", kind=FactKind.PROJECT, updated_at=LATER),
                add("f3", name="answer-style", scope="user", kind=FactKind.USER),
            )
        ),
        actor="pass",
        at=AT,
    )

    def ids(query: FactQuery) -> list[str]:
        return [one.id for one in store.facts(query)]

    assert ids(FactQuery()) == ["f2", "f3", "f1"]
    assert ids(FactQuery(scopes=("user", "project:p1"))) == ["f3", "f1"]
    assert ids(FactQuery(kinds=(FactKind.USER,))) == ["f3"]
    assert ids(FactQuery(since=LATER)) == ["f2"]
    assert ids(FactQuery(session="s1")) == ["f1"]
    assert ids(FactQuery(limit=1)) == ["f2"]
    elsewhere = FactQuery(scopes=("project:p2", "user"))
    assert {hit.fact.id for hit in store.search(["uv"], query=elsewhere)} == {"f2", "f3"}


def test_search_takes_any_word_and_prefers_the_name(store: Store) -> None:
    """A question's words are joined by OR; dashes of a slug separate words; quotes are no syntax."""
    store.apply(
        Plan(
            (
                add("f1", name="deploy-window", summary="Deploy on Tuesdays", body="Deploys happen on Tuesdays only."),
                add("f2", name="release-notes", summary="Notes before deploy", body="Write notes before the window."),
                add("f3", name="editor-theme", summary="Dark theme", body="Prefers a dark theme."),
            )
        ),
        actor="pass",
        at=AT,
    )

    assert [hit.fact.id for hit in store.search(["window", "nonsense"], query=FactQuery())] == ["f1", "f2"]
    assert [hit.fact.id for hit in store.search(["dark"], query=FactQuery(limit=1))] == ["f3"]
    assert store.search([], query=FactQuery()) == []
    assert store.search(['"', "a OR b", "NEAR(", "*"], query=FactQuery()) == []
    scores = [hit.score for hit in store.search(["deploy", "window"], query=FactQuery())]
    assert scores == sorted(scores, reverse=True)


def test_search_follows_an_edit(store: Store) -> None:
    """F31: the index and the fact never disagree."""
    (done,) = store.apply(Plan((add("f1"),)), actor="person", at=AT).operations
    edited = replace(done.after, name="build-tool", summary="Use poetry", body="Use poetry here.")
    store.apply(Plan((Operation(Op.EDIT, done.after, edited),)), actor="person", at=AT)

    assert store.search(["uv"], query=FactQuery()) == []
    assert [hit.fact.name for hit in store.search(["poetry"], query=FactQuery())] == ["build-tool"]
    assert store.check() == []


def test_a_quote_is_stored_once_and_tied_to_all_that_rest_on_it(store: Store) -> None:
    """The same words of the same message are one piece of evidence; claiming outweighs supporting."""
    supports = quote("m1", "k1", part="supports")
    store.apply(
        Plan((add("f1", evidence=(supports,)), add("f2", name="x-y", evidence=(quote("m1", "k1"),)))),
        actor="pass",
        at=AT,
    )
    stands = store.fact("f1")
    assert stands is not None
    store.apply(
        Plan(
            (
                Operation(
                    Op.EVIDENCE,
                    stands,
                    stands,
                    (quote("m1", "k1"), quote("m0", "k0", said_at="2026-01-01T00:00:00.000Z")),
                ),
            )
        ),
        actor="pass",
        at=AT,
    )

    found = store.evidence(["f1", "f2", "f3"])

    assert [(one.message_id, one.part) for one in found["f1"]] == [("m0", "claims"), ("m1", "claims")]
    assert found["f1"][1].id == found["f2"][0].id
    assert "f3" not in found


def test_facts_are_addressed_by_name_redirect_or_id(store: Store) -> None:
    """A moved fact is still found under its old name; an exact name comes first."""
    plan = Plan(
        (add("abcdef12-0000"), add("f2", scope="user")),
        redirects=(("project:p1", "old-name", "abcdef12-0000", "moved"),),
    )
    store.apply(plan, actor="person", at=AT)

    assert [one.scope for one in store.resolve_fact("package-manager")] == ["project:p1", "user"]
    assert [one.id for one in store.resolve_fact("package-manager", scopes=["user"])] == ["f2"]
    assert [one.id for one in store.resolve_fact("old-name")] == ["abcdef12-0000"]
    assert store.resolve_fact("old-name", scopes=["user"]) == []
    assert [one.id for one in store.resolve_fact("abcdef12")] == ["abcdef12-0000"]
    assert store.resolve_fact("abcdef1") == []


def test_candidates_and_proposals_are_kept_by_status(store: Store) -> None:
    """What waits for the person or for a second session is listed, latest first, and overwritten by id."""
    candidate = Candidate("c1", "user", "short-answers", FactKind.FEEDBACK, "Short", "Short answers.", ("s1",), AT, AT)
    proposal = Proposal("p1", "protected", None, {"summary": "x"}, "open", AT)
    store.apply(Plan(candidates=((candidate, (quote("m1", "k1"),)),), proposals=((proposal, ()),)), actor="pass", at=AT)

    assert (store.candidates(), store.proposals()) == ([candidate], [proposal])
    promoted = replace(candidate, status="promoted", fact_id="f1")
    decided = replace(proposal, status="accepted", decided_at=LATER, decided_by="person")
    store.apply(Plan(candidates=((promoted, ()),), proposals=((decided, ()),)), actor="person", at=LATER)
    assert (store.candidates(), store.proposals()) == ([], [])
    assert (store.candidates(status="promoted"), store.proposals(status="accepted")) == ([promoted], [decided])


# --- forgetting ---------------------------------------------------------------------------------------------------


def test_a_decided_proposal_is_not_opened_again_by_the_same_words(store: Store) -> None:
    """What the person rejected stays rejected when the same turn is distilled once more."""
    asked = Proposal("p1", "contradiction", None, {"op": "add"}, "open", AT)
    store.apply(Plan(proposals=((asked, ()),)), actor="pass", at=AT)
    store.apply(Plan(proposals=((replace(asked, status="rejected"), ()),)), actor="person", at=LATER)

    store.apply(Plan(proposals=((asked, ()),)), actor="pass", at=LATER)

    assert (store.proposals(), len(store.proposals(status="rejected"))) == ([], 1)


def test_a_file_and_its_changed_copy_do_not_revise_each_other_for_ever(store: Store) -> None:
    """Two files tell one turn in different words: each telling is read once, whichever comes next."""
    one = enrolment("k1", words="w1", digest="d1")
    other = enrolment("k1", words="w2", digest="d2")
    how = []
    for turn in (one, other, one, other):
        (entered,) = store.enrol([turn], None, at=AT)
        how.append(entered.how)
        if entered.state is TurnState.WAITING:
            store.commit(settled(TurnState.EMPTY, "one-off"), take(store), at=AT)

    assert how == [EnrolledAs.NEW, EnrolledAs.REVISION, EnrolledAs.KNOWN, EnrolledAs.KNOWN]


def test_an_erased_fact_does_not_come_back_from_the_same_words(store: Store) -> None:
    """F32: the turn that made it is distilled again, and the fact stays gone; said anew it may return."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), take(store), at=AT)
    (kept,) = store.facts(FactQuery())

    assert store.erase([kept.id, "unknown"], at=LATER) == 1

    assert (store.fact(kept.id), store.history(), store.evidence([kept.id])) == (None, [], {})
    assert store.search(["uv"], query=FactQuery(statuses=())) == []
    again, copied = store.enrol(
        [enrolment("k1", again=True), enrolment("k3", message_ids=("x",), prompt=Redacted("uv"))], None, at=LATER
    )
    assert (again.how, copied.reason) == (EnrolledAs.KNOWN, "purged")
    assert [row.prompt for row in store.turns(TurnQuery())] == ["", ""]
    store.enrol([replace(enrolment("k4", message_ids=("y",)), text=WaitingText(()))], None, at=LATER)
    lease = take(store, "k4", at=LATER)
    record = store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), lease, at=LATER)
    assert (record.outcome, record.refused) == (TurnState.EMPTY, {"forgotten": 1})

    anew = after(LATER, seconds=60)
    fresh = replace(enrolment("k2", message_ids=("n",), ended_at=anew), text=WaitingText(()))
    store.enrol([fresh], None, at=anew)
    said = claim("package-manager", evidence=(quote("u2", "k2", said_at=anew),))
    assert (
        store.commit(settled(TurnState.KEPT, kept=(said,)), take(store, "k2", at=anew), at=anew).outcome
        is TurnState.KEPT
    )


def test_a_fact_that_shared_the_erased_quote_goes_to_review(store: Store) -> None:
    """Its proof is gone: it is served no more until the person has looked at it."""
    store.apply(
        Plan((add("f1", evidence=(quote("m1", "k1"),)), add("f2", name="other-fact", evidence=(quote("m1", "k1"),)))),
        actor="pass",
        at=AT,
    )

    store.erase(["f1"], at=LATER)

    other = store.fact("f2")
    assert other is not None
    assert other.status is FactStatus.QUARANTINED
    assert [(one.kind, one.fact_id) for one in store.proposals()] == [("withdrawn", "f2")]
    assert store.evidence(["f2"]) == {}


def test_erasing_leaves_no_note_prompt_or_proposal_that_tells(store: Store) -> None:
    """What retells the fact goes with it."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),), note="They use uv."), take(store), at=AT)
    (kept,) = store.facts(FactQuery())
    store.apply(Plan(proposals=((Proposal("p1", "widen", kept.id, {}, "open", AT), ()),)), actor="pass", at=AT)

    store.erase([kept.id], at=LATER)

    assert (store.session("s1")[0].note, store.turns(TurnQuery())[0].prompt, store.proposals()) == (None, "", [])


SAID = 'Grüße an "Zoë":\nuse\tuv \U0001f600 in C:\\repo'


@pytest.mark.parametrize("place", ["window", "near", "prompt", "answer"])
def test_erased_words_are_in_no_question_and_no_answer(store: Store, place: str) -> None:
    """F33: wherever the words of a fact were shown to a model, of whatever turn, they go with the fact."""
    plain = asked("Something else")
    near = NearFact(1, "package-manager", SAID, "project:p1", "f1")
    questions = {
        "window": asked(SAID, prompt=None),
        "near": replace(plain, near_facts=(near,)),
        "prompt": replace(plain, prompt=Redacted(f"[1] user: {SAID}")),
    }
    answer = f"It said: {SAID}" if place == "answer" else "{}"
    store.enrol([enrolment("k1"), enrolment("k2", message_ids=("b",), of=session("s2"))], None, at=AT)
    leases = [take(store, key) for key in ("k1", "k2")]
    store.save_answer(leases[0], questions.get(place, plain), answered(answer), at=AT)
    store.save_answer(leases[1], plain, answered(), at=AT)
    said = quote("u9", "k9", quote=Redacted(SAID))
    store.apply(Plan((add("f1", summary=SAID, body=SAID, evidence=(said,)),)), actor="pass", at=AT)

    store.erase(["f1"], at=AT)

    assert store.exchange(leases[0].pass_id) == (None, None)
    assert store.exchange(leases[1].pass_id) == (plain, "{}")
    assert (take(store, "k1", at=LATER).saved, take(store, "k2", at=LATER).saved) == (None, Saved(plain, answered()))


def test_an_answer_that_comes_after_an_erasure_is_written_nowhere(store: Store) -> None:
    """A call that runs while words are erased was asked with them: neither question nor answer may be kept any more."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)
    store.apply(Plan((add("f1", summary=SAID, body=SAID),)), actor="pass", at=AT)

    store.erase(["f1"], at=LATER)

    with pytest.raises(LeaseLostError):
        store.save_answer(lease, asked(SAID), answered(SAID), at=LATER)
    with pytest.raises(LeaseLostError):
        store.commit(settled(TurnState.EMPTY, "nothing-durable"), lease, at=LATER)
    assert store.due(at=LATER, limit=5) == ["k1"]


def test_erased_words_are_in_no_error(store: Store) -> None:
    """Should a program have put them there, they go; the rest of the error stays."""
    store.enrol([enrolment("k1")], None, at=AT)
    store.commit(replace(waits(LATER), error="bad request: Use uv for packages!"), take(store), at=AT)
    store.apply(Plan((add("f1"),)), actor="pass", at=AT)

    store.erase(["f1"], at=LATER)

    assert [one.error for one in store.passes("k1")] == ["bad request: !"]


def test_time_empties_the_bin_and_ends_facts_and_candidates(store: Store) -> None:
    """F30: facts end when they said so; pinned ones stay; the bin's end is an erasure."""
    day = 86400
    store.apply(
        Plan(
            (
                add("f1", status=FactStatus.BINNED, forgotten_at=AT),
                add("f2", name="a-b", valid_until="2026-12-02"),
                add("f3", name="c-d", expires_at=after(AT, seconds=2 * day)),
                add("f4", name="e-f", valid_until="2026-12-02", pinned=True),
            ),
            candidates=((Candidate("c1", "user", "x-y", FactKind.USER, "s", "b", ("s1",), AT, AT), ()),),
        ),
        actor="person",
        at=AT,
    )

    nothing = store.expire(Retention(), at=after(AT, seconds=day // 2))
    something = store.expire(Retention(candidate_days=31), at=after(AT, seconds=31 * day))

    assert set(nothing.values()) == {0}
    assert (something["erased"], something["expired"], something["candidates"]) == (1, 2, 1)
    assert [one.id for one in store.facts(FactQuery())] == ["f4"]
    assert store.fact("f1") is None
    assert [entry.op for entry in store.history(fact_id="f2")] == [Op.EXPIRE, Op.ADD]


# --- switches, projects, sessions ---------------------------------------------------------------------------------


def test_a_session_switched_off_before_it_was_named_stays_without_a_name(store: Store) -> None:
    """Its title is the first prompt: words that we were asked not to keep, though later turns tell them again."""
    named = replace(session("s1"), title="my private words")
    off = enrolment("k1", message_ids=("a",), off_record=True, of=named)
    store.enrol([off, enrolment("k2", message_ids=("b",), ended_at=LATER, of=named)], None, at=AT)
    store.enrol([enrolment("k3", of=replace(session("s2"), title="A title"))], None, at=AT)
    store.enrol([enrolment("k4", message_ids=("d",), off_record=True, of=session("s2"))], None, at=AT)

    titles = {row.session.id: row.session.title for row in store.sessions()}

    assert titles == {"s1": "", "s2": "A title"}


def test_pauses_open_and_end(store: Store) -> None:
    """What is switched off is listed until it is switched on."""
    pause = Pause("x", "project", "p1", AT)
    ends = Pause("y", "all", "", AT, after(AT, seconds=60))
    store.pause(pause)
    store.pause(ends)

    assert store.pauses(at=after(AT, seconds=-1)) == []
    assert store.pauses(at=AT) == [pause, ends]
    assert store.pauses(at=LATER) == [pause]
    assert store.resume(level="project", target="p1", at=LATER) == 1
    assert store.resume(level="project", target="p1", at=LATER) == 0
    assert store.pauses() == [replace(pause, until_at=LATER), ends]


def test_a_project_keeps_the_persons_answer_and_gathers_folders(store: Store) -> None:
    """A resolver knows nothing of yes and no: it does not take the answer back."""
    store.save_project(Project("p1", "shop", remote="host/shop", folders=("/a",), reading="on"), at=AT)

    saved = store.save_project(Project("p1", "shop", remote="host/shop", folders=("/b",)), at=LATER)

    assert saved == Project("p1", "shop", "host/shop", None, "on", ("/a", "/b"), AT, LATER)
    assert store.projects() == [saved]
    assert (store.project_of("/b"), store.project_of("/c")) == (saved, None)


def test_an_aliased_projects_facts_move_along(store: Store) -> None:
    """F66: two names of one project become one; where a name is taken, history is kept and the name leads on."""
    store.save_project(Project("p1", "shop", folders=("/a",)), at=AT)
    store.save_project(Project("p2", "shop-web", folders=("/b",)), at=AT)
    store.enrol([enrolment("k1")], None, at=AT)
    store.apply(
        Plan(
            (
                add("f1", evidence=(quote("m1", "k1"),)),
                add("f2", scope="project:p2"),
                add("f3", name="other-fact"),
            )
        ),
        actor="pass",
        at=AT,
    )

    assert store.alias_project("p1", "p2", at=LATER) == 1

    assert {one.id: one.scope for one in store.facts(FactQuery())} == {"f2": "project:p2", "f3": "project:p2"}
    assert [one.id for one in store.resolve_fact("other-fact", scopes=["project:p1"])] == ["f3"]
    merged = store.fact("f1")
    assert merged is not None
    assert merged.status is FactStatus.RETIRED
    assert [one.message_id for one in store.evidence(["f2"])["f2"]] == ["m1"]
    found = store.project_of("/a")
    assert found is not None
    assert (found.key, found.folders) == ("p2", ("/a", "/b"))
    assert take(store).project_key == "p2"
    with pytest.raises(UsageError):
        store.alias_project("p2", "p1", at=LATER)


def test_a_folder_that_gets_a_remote_takes_its_facts_along(store: Store) -> None:
    """The key changes with the remote; the old one becomes an alias by itself."""
    store.save_project(Project("path", "shop", folders=("/a",)), at=AT)
    store.apply(Plan((add("f1", scope="project:path"),)), actor="pass", at=AT)

    saved = store.save_project(Project("host/shop", "shop", remote="host/shop", folders=("/a",)), at=LATER)

    assert (saved.key, saved.folders) == ("host/shop", ("/a",))
    assert [one.scope for one in store.facts(FactQuery())] == ["project:host/shop"]
    assert store.save_project(Project("path", "shop"), at=LATER).key == "host/shop"


def test_sessions_come_latest_first_with_their_counts(store: Store) -> None:
    """A session is known by its latest file; what that no longer says stays."""
    store.enrol([enrolment("k1", of=replace(session("s1"), title="A title", model="m"))], None, at=AT)
    store.enrol([enrolment("k2", message_ids=("n",), file="/s/new.jsonl", skip="no-words")], None, at=AT)
    store.enrol([enrolment("k3", message_ids=("o",), of=session("s2"), ended_at=LATER)], None, at=AT)
    store.commit(settled(TurnState.KEPT, kept=(claim("package-manager"),)), take(store), at=AT)

    second, first = store.sessions()

    assert (second.session.id, second.turns) == ("s2", {"waiting": 1})
    assert (first.session.title, first.session.model, first.file) == ("A title", "m", "/s/new.jsonl")
    assert (first.turns, first.facts, first.project_key, first.off_record_at) == (
        {"kept": 1, "skipped": 1},
        1,
        "p1",
        None,
    )
    assert store.sessions(agent="codex") == []
    assert [row.session.id for row in store.sessions(project_key="p1", limit=1)] == ["s2"]
    assert [row.session.id for row in store.session("s1")] == ["s1"]


# --- records ------------------------------------------------------------------------------------------------------


def test_recalls_are_counted_by_fact(store: Store) -> None:
    """Who was served what, and how often, is on record."""
    record = RecallRecord("r1", AT, "mcp", "codex", None, "p1", Redacted("uv?"), (), "here", 5, ("f1", "f2"), 7, 3)

    assert store.record_recall(record)
    assert store.record_recall(replace(record, id="r2", at=LATER, fact_ids=("f1",)))

    assert store.recall_counts(["f1", "f2", "f3"]) == {"f1": (2, LATER), "f2": (1, AT)}


def test_a_setting_is_kept(store: Store) -> None:
    """Whoever starts first decides when the first start was."""
    assert store.setting("first_start_at") is None

    assert store.set_setting("first_start_at", AT, at=AT, only_if_absent=True) == AT
    assert store.set_setting("first_start_at", LATER, at=LATER, only_if_absent=True) == AT
    assert store.set_setting("first_start_at", {"a": [1, None]}, at=LATER) == {"a": [1, None]}
    assert store.setting("first_start_at") == {"a": [1, None]}


def test_totals_count_each_turn_once(store: Store) -> None:
    """Every enrolled turn stands in exactly one state, whatever its revisions."""
    store.enrol(
        [enrolment(f"k{n}", message_ids=(f"m{n}",), of=session(f"s{n}")) for n in range(4)],
        replace(cursor("/a", 1), lines_malformed=2, lines_unknown={"x": 3}),
        at=AT,
    )
    store.enrol([], replace(cursor("/b", 1), lines_too_long=1, lines_unknown={"x": 1, "y": 1}), at=AT)
    store.commit(
        settled(TurnState.KEPT, kept=(claim("package-manager", evidence=(quote("u1", "k0"),)),)),
        take(store, "k0"),
        at=AT,
    )
    store.commit(settled(TurnState.DEAD, "too-long"), take(store, "k1"), at=LATER)
    store.enrol([], None, withdrawn=["k0", "k2"], at=LATER)

    totals = store.totals(day_from=AT)

    assert totals.states == {"skipped": 2, "dead": 1, "waiting": 1}
    assert (totals.skipped, totals.dead, totals.waiting) == ({"withdrawn": 2}, {"too-long": 1}, {"queued": 1})
    assert (totals.oldest_waiting_at, totals.last_settled_at) == (AT, LATER)
    assert (totals.facts, totals.proposals, totals.candidates) == ({"active": 1}, 1, 0)
    assert totals.last_error == (AT, "too-long", f"too-long (turn {store.turn('k1')[0].id})")
    assert (totals.sessions, totals.lines_malformed, totals.lines_too_long) == ({"claude_code": 4}, 2, 1)
    assert totals.lines_unknown == {"x": 4, "y": 1}


def test_the_oldest_due_turn_is_one_that_the_service_could_have_settled(store: Store) -> None:
    """A turn that must wait counts from the end of its wait; one that is not the service's to settle never does."""
    enrol_many(store, 3)
    store.enrol([enrolment("k9", of=session("s9"), message_ids=("m9",), by_hand=True)], None, at=AT)
    assert store.totals(day_from=AT).oldest_due_at == AT

    for number, seconds in enumerate((3600, 1800)):
        store.commit(waits(after(AT, seconds=seconds)), take(store, f"k{number}"), at=AT)
    store.commit(replace(waits(AT), reason="project"), take(store, "k2"), at=AT)
    totals = store.totals(day_from=AT)
    assert (totals.oldest_due_at, totals.oldest_waiting_at) == (after(AT, seconds=1800), AT)

    for reason in ("halted", "budget"):
        store.hold(reason, from_reasons=["retry", "halted"], at=AT)
        assert store.totals(day_from=AT).oldest_due_at is None


@pytest.mark.parametrize("kind", ["fake", "sqlite"])
def test_a_write_wakes_the_daemon_and_a_look_does_not(kind: str, tmp_path: Path) -> None:
    """The store is the only channel between processes: what changed is told, what did not is not."""
    woken: list[str] = []

    def wake() -> None:
        woken.append("x")

    made: Store = FakeStore(wake=wake) if kind == "fake" else open_store(str(tmp_path), wake=wake)

    made.enrol([enrolment("k1")], None, at=AT)
    assert woken == ["x"]
    made.due(at=AT, limit=1)
    assert made.claim("unknown", owner="me", at=AT) is None
    made.enrol([enrolment("k1", of=session("fork"))], None, at=LATER)
    assert woken == ["x"]
    made.close()


def test_the_strength_and_kind_of_a_fact_come_back_as_they_were(store: Store) -> None:
    """A fact reads as it was written, but for its revision."""
    whole = fact(
        "f1",
        related=("a-b", "c-d"),
        pinned=True,
        edited_by_person=True,
        strength=Strength.AGENT,
        proposed_name="x-y",
        valid_until="2027-01-01",
        expires_at=LATER,
        source_pass_id="p",
    )
    store.apply(Plan((Operation(Op.ADD, None, whole),)), actor="agent", at=AT)

    assert store.fact("f1") == replace(whole, rev=1)


def test_what_a_pass_was_told_goes_after_its_days(store: Store) -> None:
    """The words of a failure go with question and answer, of waiting turns too; an open pass keeps what it needs."""
    enrol_many(store, 3)
    failed, broken, running = (take(store, f"k{number}") for number in range(3))
    store.save_answer(broken, asked(), answered("prose"), at=AT)
    store.save_answer(running, asked(), answered(), at=AT)
    store.commit(replace(waits(LATER), error="overloaded"), failed, at=AT)
    store.commit(settled(TurnState.DEAD, "answer-unusable", error="it was prose"), broken, at=AT)

    done = store.expire(Retention(), at=after(AT, seconds=31 * 86400))

    assert done["answers"] == 2
    assert [store.passes(key)[0].error for key in ("k0", "k1")] == [None, None]
    assert store.exchange(broken.pass_id) == (None, None)
    assert store.exchange(running.pass_id) == (asked(), "{}")


def test_old_records_are_dropped_each_after_its_own_days(store: Store) -> None:
    """Answers, recalls and pass records go when their days are over, not before; the turn itself stays."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)
    store.save_answer(lease, asked(), answered(), at=AT)
    store.commit(settled(TurnState.EMPTY, "nothing-durable"), lease, at=AT)
    store.record_recall(RecallRecord("r1", AT, "cli", None, None, "p", Redacted("q"), (), "here", 5, (), 0, 1))
    day = 86400

    early = store.expire(Retention(), at=after(AT, seconds=29 * day))
    answers = store.expire(Retention(), at=after(AT, seconds=31 * day))
    rest = store.expire(Retention(), at=after(AT, seconds=366 * day))

    assert set(early.values()) == {0}
    assert (answers["answers"], answers["passes"]) == (1, 0)
    assert store.exchange(lease.pass_id) == (None, None)
    assert (rest["answers"], rest["passes"], rest["recalls"]) == (0, 1, 1)
    assert [row.state for row in store.turn("k1")] == [TurnState.EMPTY]


# --- removal, inventory -------------------------------------------------------------------------------------------


def keep_one(store: Store, key: str, session_id: str, name: str, *, project: str = "p1", said: str = "use uv") -> None:
    """A settled turn of its own session with a fact that rests on it."""
    of = session(session_id)
    own = enrolment(key, of=of, message_ids=(f"m-{key}",), words=key, project_key=project, own=said)
    store.enrol([own], None, at=AT)
    words = replace(quote(f"u-{key}", key, session_id=session_id, quote=Redacted(said)), project_key=project)
    lease = take(store, key)
    store.save_answer(lease, asked(said), answered(f'{{"quote": "{said}"}}'), at=AT)
    kept = claim(name, evidence=(words,), summary=Redacted(f"{name} says {said}"), body=Redacted(f"{name}: {said}."))
    store.commit(settled(TurnState.KEPT, kept=(kept,), note=f"note: {said}"), lease, at=AT)


def test_a_purge_takes_what_rests_on_a_project_alone(store: Store) -> None:
    """Facts, quotes, notes, questions and answers of that project go; another project's stay."""
    keep_one(store, "k1", "s1", "package-manager", said="use zanzibar here")
    keep_one(store, "k2", "s2", "test-runner", project="p2", said="use pytest there")
    weighed = store.purgeable(Purge(project_keys=("p1",)))

    removed = store.purge(Purge(project_keys=("p1",)), at=LATER)

    assert {**removed, "runs": 0} == {**weighed, "runs": 0}
    assert {kind: count for kind, count in removed.items() if count and kind != "runs"} == {
        "turns": 1, "facts": 1, "quotes": 1, "notes": 1, "answers": 1,
    }  # fmt: skip
    assert [one.name for one in store.facts(FactQuery(statuses=()))] == ["test-runner"]
    assert [(row.key, row.state, row.reason, row.prompt, row.has_text) for row in store.turn("k1")] == [
        ("k1", TurnState.SKIPPED, "purged", "", False)
    ]
    assert store.exchange(store.passes("k1")[0].id) == (None, None)
    assert [row.note for row in store.session("s1")] == [None]
    assert not any(store.purgeable(Purge(project_keys=("p1",))).values())
    assert store.exchange(store.passes("k2")[0].id) != (None, None)


def test_a_purged_turn_is_not_read_again(store: Store) -> None:
    """Neither the same words nor more of them, nor a copy under another key, bring a purged turn back."""
    keep_one(store, "k1", "s1", "package-manager", said="use zanzibar here")
    store.purge(Purge(session=("claude_code", "s1")), at=LATER)

    again = enrolment("k1", message_ids=("m-k1",), words="k1", own="use zanzibar here")
    grown = replace(again, digest="d2", words_digest="w9")
    copy = replace(again, key="k9", digest="d9")
    entered = [store.enrol([one], None, at=LATER)[0] for one in (again, grown, copy)]

    assert [(one.how, one.state) for one in entered[:2]] == [(EnrolledAs.KNOWN, TurnState.SKIPPED)] * 2
    assert entered[2].state is TurnState.SKIPPED
    assert store.facts(FactQuery(statuses=())) == []


def test_a_fact_that_rests_on_more_survives_a_purge_without_the_quote(store: Store) -> None:
    """What was said in two sessions loses one quote, not the fact."""
    keep_one(store, "k1", "s1", "package-manager", said="use zanzibar here")
    (made,) = store.facts(FactQuery())
    other = quote("u-k2", "k2", session_id="s2", quote=Redacted("uv again"))
    store.enrol([enrolment("k2", of=session("s2"), message_ids=("m-k2",), words="k2")], None, at=AT)
    store.apply(Plan((Operation(Op.EVIDENCE, made, made, (other,)),)), actor="pass", at=AT)

    removed = store.purge(Purge(session=("claude_code", "s1")), at=LATER)

    assert (removed["facts"], removed["quotes"]) == (0, 1)
    assert [one.quote for one in store.evidence([made.id])[made.id]] == ["uv again"]
    stands = store.fact(made.id)
    assert stands is not None
    assert stands.status is FactStatus.ACTIVE


def test_a_purge_by_time_takes_recalls_and_waiting_texts_of_that_time(store: Store) -> None:
    """Before and since are the bounds of when a turn ended and a recall was made."""
    early, late = after(AT, seconds=-86400), after(AT, seconds=86400)
    store.enrol([enrolment("k1", ended_at=early), enrolment("k2", of=session("s2"), ended_at=late)], None, at=LATER)
    for number, at in enumerate((early, late)):
        store.record_recall(RecallRecord(f"r{number}", at, "cli", None, None, "p1", None, (), "here", 5, (), 0, 0))
    running = store.claim("k1", owner="me", at=LATER)
    assert isinstance(running, Lease)

    removed = store.purge(Purge(before=AT), at=LATER)

    assert (removed["turns"], removed["waiting_texts"], removed["recalls"]) == (1, 1, 1)
    assert [one.id for one in store.recalls()] == ["r1"]
    assert store.due(at=late, limit=9) == ["k2"]
    with pytest.raises(LeaseLostError):
        store.save_answer(running, asked(), answered(), at=LATER)


def test_what_the_person_typed_goes_with_its_project(store: Store) -> None:
    """A fact that was added by hand belongs to no turn, and is purged by its own project and time."""
    typed = quote("typed:1", "", session_id="command-line")
    store.apply(Plan((add("f1", evidence=(typed,)), add("f2", name="without-quote"))), actor="person", at=AT)

    assert store.purgeable(Purge(project_keys=("p2",)))["facts"] == 0
    assert store.purge(Purge(project_keys=("p1",)), at=LATER)["facts"] == 2
    assert store.facts(FactQuery(statuses=())) == []


def test_later_turns_of_a_purged_session_no_longer_show_the_earlier_ones(store: Store) -> None:
    """A waiting turn keeps the turns before it as background; what was purged leaves that too."""
    before = Row(1, "u0", Role.USER, "own", Redacted("use zanzibar"), AT, previous=True)
    own = Row(2, "u1", Role.USER, "own", Redacted("and go on"), AT)
    later = replace(
        enrolment("k2", message_ids=("m2",), words="k2", ended_at=LATER), text=WaitingText((before, own), "2026-12-01")
    )
    store.enrol([enrolment("k1"), later], None, at=AT)

    store.purge(Purge(before=LATER), at=LATER)

    assert take(store, "k2", at=LATER).text.rows == (own,)


def test_a_scrubbed_text_is_found_nowhere(store: Store) -> None:
    """Facts, quotes, history, notes, prompts, questions, answers, recalls and settings show the mark in its place."""
    keep_one(store, "k1", "s1", "package-manager", said="the token is tok-zanzibar-1 here")
    store.enrol([enrolment("k2", of=session("s2"), message_ids=("m2",), own="tok-zanzibar-2")], None, at=AT)
    store.set_setting("halt", {"text": "no tok-zanzibar-3"}, at=AT)
    asked_for = Redacted("where is tok-zanzibar-4")
    store.record_recall(RecallRecord("r1", AT, "cli", None, None, None, asked_for, (), "here", 5, (), 0, 0))
    wanted = re.compile(r"tok-zanzibar-\d")
    before = store.find_text(wanted)

    done = store.scrub(wanted, at=LATER)

    assert done.rows == before.rows
    assert done.rows.keys() >= {"facts", "evidence", "fact_history", "sessions", "passes", "turns", "recalls"}
    assert done.texts == {f"tok-zanzibar-{number}" for number in (1, 2, 4)} | ({"tok-zanzibar-3"} & done.texts)
    again = store.find_text(wanted)
    assert (again.rows, again.texts) == ({}, frozenset())
    (made,) = store.facts(FactQuery())
    assert made.body == "package-manager: the token is [REDACTED:scrub] here."
    assert store.setting("halt") == {"text": "no [REDACTED:scrub]"}
    assert [one.query for one in store.recalls()] == ["where is [REDACTED:scrub]"]
    assert take(store, "k2", at=LATER).text.rows[0].text == "[REDACTED:scrub]"


def test_a_running_call_is_not_written_after_a_scrub(store: Store) -> None:
    """What a call was asked may hold the text, so its answer is written nowhere."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = take(store)

    store.scrub(re.compile("zanzibar"), at=AT)

    with pytest.raises(LeaseLostError):
        store.save_answer(lease, asked("zanzibar"), answered(), at=AT)


def test_who_was_told_a_fact_is_known(store: Store) -> None:
    """Recalls are told newest first, all of them or those that handed over one fact."""
    for number, facts in enumerate((("f1",), ("f1", "f2"), ())):
        at = after(AT, seconds=number)
        store.record_recall(RecallRecord(f"r{number}", at, "cli", None, None, "p1", None, (), "here", 5, facts, 0, 0))

    assert [one.id for one in store.recalls()] == ["r2", "r1", "r0"]
    assert [one.id for one in store.recalls(fact_id="f1")] == ["r1", "r0"]
    assert [one.id for one in store.recalls(since=after(AT, seconds=2))] == ["r2"]


def test_outcomes_are_counted_by_minute(store: Store) -> None:
    """Each settled turn counts once, when it was settled."""
    keep_one(store, "k1", "s1", "package-manager")
    store.enrol([enrolment("k2", of=session("s2"), skip="no-words", message_ids=("m2",))], None, at=LATER)

    assert store.outcomes(since="") == [(AT[:16], "kept", 1), (LATER[:16], "skipped", 1)]
    assert store.outcomes(since=LATER) == [(LATER[:16], "skipped", 1)]


def test_the_inventory_counts_what_is_there(store: Store) -> None:
    """Facts and recalls are counted by kind."""
    store.apply(Plan((add("f1"),)), actor="person", at=AT)

    counts = {one.kind: one.rows for one in store.inventory()}

    assert (counts["facts"], counts["recalls"]) == (1, 0)
