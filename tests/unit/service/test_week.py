"""A week on a page: each fact in the list of its fate, what waits for the person, and one thing to do next."""

from __future__ import annotations

from typing import Any

import msgspec

from distiller.service.week import week
from distiller.timestamps import after
from distiller.vocabulary import Candidate, FactKind, FactStatus, Op, Operation, Plan, Proposal, RecallRecord
from tests.fakes.clock import START, FakeClock
from tests.fakes.store import FakeStore
from tests.fakes.store_values import add, enrolment, fact, session

replace = msgspec.structs.replace
ALIVE = {"running": True, "heartbeat_at": START}


def page(store: FakeStore, live: dict[str, Any] | None = None) -> dict[str, Any]:
    """The week that ends at `START`."""
    return week(store, clock=FakeClock(), live=ALIVE if live is None else live, backend="embedded")


def change(store: FakeStore, op: Op, fact_id: str, *, actor: str = "pass", **fields: Any) -> None:
    """One later operation on a fact."""
    before = store.state.facts[fact_id]
    store.apply(Plan((Operation(op, before, replace(before, **fields)),)), actor=actor, at=after(START, seconds=-60))


def names(lines: list[Any]) -> list[str]:
    """Which facts."""
    return [line.name for line in lines]


def test_each_fact_stands_in_the_list_of_its_fate() -> None:
    """New, changed, ended and forgotten facts are told apart; an old fact without news is not listed."""
    store = FakeStore()
    long_ago = after(START, seconds=-30 * 86400)
    for fact_id in ("old", "edited", "gone", "binned"):
        store.apply(Plan((add(fact_id, name=f"{fact_id}-fact"),)), actor="pass", at=long_ago)
    store.apply(Plan((add("new", name="new-fact"),)), actor="pass", at=after(START, seconds=-3600))
    change(store, Op.EDIT, "edited", actor="person", body="Something else.")
    change(store, Op.RETIRE, "gone", status=FactStatus.RETIRED)
    change(store, Op.FORGET, "binned", status=FactStatus.BINNED, forgotten_at=START)

    shown = page(store)

    assert {key: names(shown[key]) for key in ("new", "changed", "ended", "forgotten")} == {
        "new": ["new-fact"], "changed": ["edited-fact"], "ended": ["gone-fact"], "forgotten": ["binned-fact"],
    }  # fmt: skip


def test_what_waits_for_the_person_is_listed_and_comes_next() -> None:
    """Proposals come before quarantined items; candidates are listed with where they were said."""
    store = FakeStore()
    held = replace(fact("f2"), name="quarantined-1a2b3c4d", status=FactStatus.QUARANTINED)
    said_once = Candidate("c1", "user", "likes-tabs", FactKind.USER, "Likes tabs", "Tabs.", ("s1",), START, START)
    plan = Plan(
        (add("f1"), Operation(Op.QUARANTINE, None, held)),
        candidates=((said_once, ()),),
        proposals=((Proposal("p1", "protected", "f1", {}, "open", START), ()),),
    )
    store.apply(plan, actor="pass", at=START)

    shown = page(store)

    assert [names(shown[key]) for key in ("proposals", "quarantined", "candidates")] == [
        ["package-manager"], ["quarantined-1a2b3c4d"], ["likes-tabs"],
    ]  # fmt: skip
    assert shown["next"].startswith("distiller facts show package-manager")


def test_turns_and_recalls_are_counted_by_day() -> None:
    """Settled turns are told by the person's day; recalls with how many facts they told."""
    store = FakeStore()
    yesterday = after(START, seconds=-86400)
    skipped = [enrolment(f"k{n}", of=session(f"s{n}"), message_ids=(f"m{n}",), skip="no-words") for n in range(3)]
    store.enrol(skipped[:2], None, at=yesterday)
    store.enrol(skipped[2:], None, at=START)
    store.record_recall(RecallRecord("r1", START, "mcp", "codex", None, "p1", None, (), "here", 5, ("f1",), 1, 1))
    store.record_recall(RecallRecord("r2", START, "cli", None, None, "p1", None, (), "here", 5, (), 0, 1))

    shown = page(store)

    assert [(row["day"], row["skipped"], row["kept"]) for row in shown["turns"]] == [
        ("2026-12-01", 1, 0), ("2026-11-30", 2, 0),
    ]  # fmt: skip
    assert shown["recalled"] == {"recalls": 2, "facts": 1, "empty": 1}


def test_a_stopped_service_is_the_first_thing_to_mend() -> None:
    """Whatever else waits, nothing is read while the service stands still."""
    store = FakeStore()

    shown = page(store, {"running": False})

    assert [one.code for one in shown["stuck"]] == ["stopped"]
    assert shown["next"] == shown["stuck"][0].fix


def test_a_quiet_week_says_that_there_is_nothing_to_do() -> None:
    """With facts and no trouble the page ends so."""
    store = FakeStore()
    store.apply(Plan((add("f1"),)), actor="pass", at=START)

    assert page(store)["next"] == "Nothing to do."
