"""The last seven days in the store in, what a person should know of them out, ending in the one thing to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from distiller import timestamps
from distiller.ports import Clock, Store
from distiller.service import spending
from distiller.service.report import HEARTBEAT_LIMIT_SECONDS, WAITING_LIMIT_SECONDS, halted
from distiller.vocabulary import Fact, FactQuery, FactStatus, HistoryEntry, Op, Totals, TurnState

DAYS = 7
MOST_CHANGES = 20_000
CHANGING = (Op.UPDATE, Op.SUPERSEDE, Op.EDIT, Op.MOVE, Op.MERGE, Op.RESTORE, Op.UNDO)
BORN = (Op.ADD, Op.ACCEPT)
OUTCOMES = (TurnState.KEPT, TurnState.EMPTY, TurnState.SKIPPED, TurnState.DEAD)
NO_TROUBLE = ("queued", "behind", "batch", "by-hand")


class Line(msgspec.Struct, frozen=True):
    """One fact, candidate or proposal for the person's eyes."""

    name: str
    scope: str
    summary: str
    at: str
    what: str


class Stuck(msgspec.Struct, frozen=True):
    """Something that does not move by itself, and what moves it."""

    code: str
    text: str
    fix: str


def week(
    store: Store,
    *,
    clock: Clock,
    live: Mapping[str, Any],
    backend: str,
) -> dict[str, Any]:
    """All that `week --json` prints."""
    now = timestamps.to_text(clock.now())
    since = clock.local_day(timestamps.after(now, seconds=-86400 * (DAYS - 1)))[0]
    totals = store.totals(day_from=clock.local_day(now)[0])
    facts = by_fate(store, since)
    waiting = for_the_person(store)
    troubles = stuck(store, totals, live, backend, now)
    recalls = store.recalls(since=since)
    return {
        "since": since,
        "until": now,
        **facts,
        "recalled": {
            "recalls": len(recalls),
            "facts": len({fact_id for one in recalls for fact_id in one.fact_ids}),
            "empty": sum(not one.fact_ids for one in recalls),
        },
        "candidates": [
            Line(one.name, one.scope, one.summary, one.last_at, f"said in {len(one.sessions)} session(s)")
            for one in store.candidates()
        ],
        **waiting,
        "turns": days(store.outcomes(since=since), clock),
        "waiting": totals.waiting,
        "cost": spending.by_day(store.spending(since=since), clock.local_date),
        "stuck": troubles,
        "next": next_step(troubles, waiting, totals),
    }


# --- facts ------------------------------------------------------------------------------------------------------


def by_fate(store: Store, since: str) -> dict[str, list[Line]]:
    """Facts that are new, changed, ended or forgotten since then; each stands in one list, as it is now."""
    lists: dict[str, list[Line]] = {"new": [], "changed": [], "ended": [], "forgotten": []}
    entries = [entry for entry in store.history(limit=MOST_CHANGES) if entry.at >= since]
    by_fact: dict[str, list[HistoryEntry]] = {}
    for entry in entries:
        by_fact.setdefault(entry.fact_id, []).append(entry)
    for fact_id, own in by_fact.items():
        fact = store.fact(fact_id)
        if fact is not None and (found := fate(fact, [entry.op for entry in own])) is not None:
            lists[found].append(line(fact, own[0]))
    return lists


def fate(fact: Fact, ops: Sequence[Op]) -> str | None:
    """What became of a fact by these operations; None for what needs no line (a further quote, a pin)."""
    if fact.status is FactStatus.BINNED:
        return "forgotten" if Op.FORGET in ops else None
    if fact.status in (FactStatus.RETIRED, FactStatus.EXPIRED):
        return "ended"
    if fact.status is FactStatus.QUARANTINED:
        return None  # listed with what waits for the person
    if any(op in BORN for op in ops):
        return "new"
    return "changed" if any(op in CHANGING for op in ops) else None


def line(fact: Fact, newest: HistoryEntry) -> Line:
    """A fact with what happened to it last."""
    return Line(fact.name, fact.scope, fact.summary, newest.at, f"{newest.op.value} by {newest.actor}")


def for_the_person(store: Store) -> dict[str, list[Line]]:
    """Proposals and quarantined items: what only the person can decide."""
    proposals = []
    for one in store.proposals():
        fact = store.fact(one.fact_id) if one.fact_id else None
        name, scope, summary = (fact.name, fact.scope, fact.summary) if fact else ("-", "-", "")
        proposals.append(Line(name, scope, summary, one.created_at, one.kind))
    held = store.facts(FactQuery(statuses=(FactStatus.QUARANTINED,)))
    return {
        "proposals": proposals,
        "quarantined": [Line(one.name, one.scope, one.summary, one.updated_at, "quarantined") for one in held],
    }


# --- turns and trouble ------------------------------------------------------------------------------------------


def days(outcomes: Sequence[tuple[str, str, int]], clock: Clock) -> list[dict[str, Any]]:
    """Settled turns by the person's day and outcome, newest day first."""
    counts: dict[str, Counter[str]] = {}
    for minute, state, count in outcomes:
        counts.setdefault(clock.local_date(f"{minute}:00.000Z"), Counter())[state] += count
    return [
        {"day": day, **{state.value: counts[day][state.value] for state in OUTCOMES}}
        for day in sorted(counts, reverse=True)
    ]


def stuck(store: Store, totals: Totals, live: Mapping[str, Any], backend: str, now: str) -> list[Stuck]:
    """What does not move, worst first."""
    found = []
    beat = live.get("heartbeat_at")
    if not live.get("running"):
        found.append(
            Stuck("stopped", "The service is not running: nothing new is read.", "distiller service start (or run)")
        )
    elif beat is None or timestamps.seconds_between(beat, now) > HEARTBEAT_LIMIT_SECONDS:
        found.append(Stuck("no-heartbeat", "The service runs and does not answer.", "distiller doctor"))
    if halt := halted(store, backend, now):
        found.append(Stuck(str(halt["reason"]), f"The service is halted: {halt['text']}.", "distiller status"))
    off = [pause for pause in store.pauses(at=now) if pause.level == "all"]
    if off:
        found.append(Stuck("paused", f"Memory is off for everything since {off[0].from_at}.", "distiller resume"))
    if dead := totals.states.get("dead", 0):
        text = f"{dead} turn{'s' * (dead != 1)} given up; kept for a while, with the text."
        found.append(Stuck("dead", text, "distiller retry"))
    if totals.oldest_due_at and timestamps.seconds_between(totals.oldest_due_at, now) > WAITING_LIMIT_SECONDS:
        text = f"A turn could have been read since {totals.oldest_due_at} and was not."
        found.append(Stuck("waiting-long", text, "distiller logs"))
    held = {why: count for why, count in totals.waiting.items() if why not in NO_TROUBLE and count}
    if held:
        text = f"Turns wait: {', '.join(f'{count} ({why})' for why, count in held.items())}."
        found.append(Stuck("waiting", text, "distiller status"))
    return found


def next_step(troubles: Sequence[Stuck], waiting: Mapping[str, Sequence[Line]], totals: Totals) -> str:
    """One line: the first thing to do; a command, where one does it."""
    if troubles:
        return troubles[0].fix
    if waiting["proposals"]:
        return f"distiller facts show {waiting['proposals'][0].name} (a change is proposed to it)"
    if waiting["quarantined"]:
        return "distiller facts list --status quarantined"
    if not totals.facts:
        return "distiller backfill --preview (no fact yet; see what your old sessions hold)"
    return "Nothing to do."
