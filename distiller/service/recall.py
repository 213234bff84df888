"""A question in, the few facts that answer it out, with what a reader must know to trust them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from distiller import timestamps
from distiller.errors import DistillerError
from distiller.memory import contents, rank
from distiller.memory.contents import Answered
from distiller.ports import Clock, Store
from distiller.vocabulary import (
    Evidence,
    Fact,
    FactQuery,
    FactStatus,
    HistoryEntry,
    Hit,
    Op,
    Project,
    RecallRecord,
    Redacted,
    TurnQuery,
    TurnState,
)

CHANGED_DAYS = 14
SEARCHED = 100
CHANGES = (Op.ADD, Op.SUPERSEDE, Op.UPDATE, Op.RETIRE, Op.EDIT, Op.FORGET, Op.RESTORE)


class Changed(msgspec.Struct, frozen=True):
    """A fact that changed lately."""

    name: str
    op: str
    at: str


class Recalled(msgspec.Struct, frozen=True):
    """An answer; `state` on | paused | project-off, and with the latter two no facts."""

    recall: str
    state: str
    query: str
    project: str | None
    matched: int
    facts: tuple[Answered, ...]
    scores: tuple[float, ...]
    changed: tuple[Changed, ...]
    unread_turns: int
    elsewhere: int
    took_ms: int
    total: int  # facts that could have answered
    day: str  # the person's calendar day


class Recall:
    """Answers questions from one project; a project's facts never leave it unless the person asks."""

    def __init__(
        self, *, store: Store, clock: Clock, redact: Callable[[str], Redacted], new_id: Callable[[], str]
    ) -> None:
        self._store = store
        self._clock = clock
        self._redact = redact
        self._new_id = new_id

    def answer(
        self, query: str, *, project: Project, k: int = 5, everywhere: bool = False, channel: str = "cli"
    ) -> Recalled:
        """The best `k` facts, never filled up for the sake of `k`."""
        started = self._clock.monotonic()
        now = timestamps.to_text(self._clock.now())
        scopes = () if everywhere else ("user", f"project:{project.key}")
        state = self._state(project, now)
        hits = self._hits(query, scopes, now) if state == "on" else []
        chosen = hits[:k]
        answer = Recalled(
            recall=self._new_id(),
            state=state,
            query=query,
            project=project.name,
            matched=len(hits),
            facts=self._shown(chosen),
            scores=tuple(round(hit.score, 4) for hit in chosen),
            changed=self._changed(scopes, now) if state == "on" else (),
            unread_turns=len(self._store.turns(TurnQuery(states=(TurnState.WAITING,), project_key=project.key))),
            elsewhere=0 if everywhere or hits or state != "on" else len(self._hits(query, (), now)),
            took_ms=round((self._clock.monotonic() - started) * 1000),
            total=len(self._store.facts(FactQuery(scopes=scopes))) if state == "on" else 0,
            day=self._clock.local_date(now),
        )
        self._note(
            RecallRecord(
                id=answer.recall,
                at=now,
                channel=channel,
                agent=None,
                session_id=None,
                project_key=project.key,
                query=self._redact(query),
                names=(),
                scope="all" if everywhere else "here",
                k=k,
                fact_ids=tuple(hit.fact.id for hit in chosen),
                matched=answer.matched,
                took_ms=answer.took_ms,
            )
        )
        return answer

    def _note(self, record: RecallRecord) -> None:
        """Keep the recall for the person; an answer never fails for want of room to note it."""
        with contextlib.suppress(DistillerError):
            self._store.record_recall(record)

    def _state(self, project: Project, now: str) -> str:
        if project.reading == "off":
            return "project-off"
        pauses = self._store.pauses(at=now)
        here = any(pause.level == "all" or (pause.level, pause.target) == ("project", project.key) for pause in pauses)
        return "paused" if here else "on"

    def _hits(self, query: str, scopes: Sequence[str], now: str) -> list[Hit]:
        terms = rank.terms(query)
        if not terms:
            return []
        found = self._store.search(terms, query=FactQuery(scopes=tuple(scopes), limit=SEARCHED))
        return rank.rank(found, now=now, uses=self._store.recall_counts([hit.fact.id for hit in found]))

    def _shown(self, hits: Sequence[Hit]) -> tuple[Answered, ...]:
        evidence = self._store.evidence([hit.fact.id for hit in hits])
        return tuple(
            Answered(
                hit.fact,
                quote_of(hit.fact, evidence.get(hit.fact.id, [])),
                replaced(self._store.history(fact_id=hit.fact.id)),
            )
            for hit in hits
        )

    def _changed(self, scopes: Sequence[str], now: str) -> tuple[Changed, ...]:
        since = timestamps.after(now, seconds=-86400 * CHANGED_DAYS)
        statuses = (FactStatus.ACTIVE, FactStatus.RETIRED, FactStatus.BINNED)
        lately = self._store.facts(FactQuery(scopes=tuple(scopes), statuses=statuses, since=since, limit=5))
        entries = [(fact, self._store.history(fact_id=fact.id, limit=1)) for fact in lately]
        return tuple(
            Changed(fact.name, entry.op.value, entry.at)
            for fact, found in entries
            for entry in found
            if entry.op in CHANGES
        )


def quote_of(fact: Fact, evidence: Sequence[Evidence]) -> str | None:
    """The person's newest words behind a fact as it stands; later ones belong to a change that was undone."""
    own = [
        one
        for one in evidence
        if one.role == "person" and one.part == "claims" and one.said_at <= fact.last_confirmed_at
    ]
    return max(own, key=lambda one: one.said_at).quote if own else None


def replaced(history: Sequence[HistoryEntry]) -> str | None:
    """What the fact said before it was last superseded."""
    entry = next((one for one in history if one.op is Op.SUPERSEDE and one.before is not None), None)
    return entry.before.summary if entry and entry.before else None


def as_json(answer: Recalled) -> dict[str, Any]:
    """The object that `recall --json` prints."""
    return {
        "recall": answer.recall,
        "state": answer.state,
        "query": answer.query,
        "project": answer.project,
        "matched": answer.matched,
        "facts": [
            {
                "name": one.fact.name,
                "scope": "user" if one.fact.scope == "user" else "project",
                "kind": one.fact.kind.value,
                "strength": one.fact.strength.value,
                "summary": one.fact.summary,
                "body": one.fact.body,
                "quote": one.quote,
                "said_at": one.fact.first_said_at,
                "last_confirmed_at": one.fact.last_confirmed_at,
                "replaced": one.replaced,
                "related": list(one.fact.related),
                "score": score,
            }
            for one, score in zip(answer.facts, answer.scores, strict=True)
        ],
        "changed": answer.changed,
        "unread_turns": answer.unread_turns,
        "elsewhere": answer.elsewhere,
        "took_ms": answer.took_ms,
    }


def as_text(answer: Recalled) -> str:
    """What an agent would read."""
    if answer.state != "on":
        return contents.off(project=answer.project or "this project", day=answer.day)
    return contents.answer(
        answer.facts,
        total=answer.total,
        matched=answer.matched,
        recall=answer.recall,
        changed=[(one.name, one.op) for one in answer.changed],
        unread=answer.unread_turns,
    )
