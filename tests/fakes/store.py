"""A store in plain dicts, with a switch for each way in which a real one fails.

Use-case tests run on it; `tests/conformance` holds it to the same promises as SQLite. A failing write leaves
everything as it was: each write works on the live state after a copy was put aside, and the copy comes back.
"""

from __future__ import annotations

import copy
import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from distiller.errors import ConflictError, DiskFullError, LeaseLostError, StoreBusyError, UsageError
from distiller.memory import ledger, reconcile
from distiller.memory.ledger import Newest, shown_id
from distiller.timestamps import after, seconds_between
from distiller.vocabulary import (
    DAILY_PURSE,
    Applied,
    Candidate,
    Cursor,
    Declined,
    Enrolled,
    EnrolledAs,
    Enrolment,
    Evidence,
    Fact,
    FactQuery,
    FactStatus,
    HistoryEntry,
    Hit,
    Kept,
    Known,
    Lease,
    Limits,
    Mark,
    Op,
    Operation,
    PassRecord,
    Pause,
    Plan,
    Project,
    Proposal,
    Purge,
    RecallRecord,
    Redacted,
    Reply,
    Request,
    Retention,
    Saved,
    Scrubbed,
    Session,
    SessionRow,
    Settlement,
    Spending,
    Totals,
    TurnQuery,
    TurnRow,
    TurnState,
    Usage,
    Verdict,
    WaitingText,
)

DAY_SECONDS = 86400
BEHIND_SECONDS = 600
HELD = ("project", "halted", "budget")
replace = msgspec.structs.replace


class CrashError(BaseException):
    """The process dies here; a BaseException, so that nothing under test can swallow it."""


@dataclass
class LedgerEntry:
    """One revision of a turn."""

    turn: Enrolment
    revision: int
    state: TurnState
    reason: str | None
    prompt: str
    text: WaitingText | None
    enrolled_at: str
    project_key: str
    settled_at: str | None = None
    backend: str | None = None
    attempts: int = 0
    owner: str | None = None
    generation: int = 0
    until: str | None = None
    retry_at: str | None = None
    pass_id: str | None = None

    @property
    def place(self) -> tuple[str, int, str]:
        """Where it stands in time."""
        return self.turn.ended_at, self.turn.start_byte, self.turn.key

    @property
    def session(self) -> tuple[str, str]:
        """Whose it is."""
        return self.turn.session.agent, self.turn.session.id


@dataclass
class Attempt:
    """One pass: its record so far, whose budget it spends, and the answer it saved or took over."""

    record: PassRecord
    purse: str = DAILY_PURSE
    saved: Saved | None = None
    is_open: bool = True


@dataclass
class State:
    """All that a store holds."""

    turns: dict[str, list[LedgerEntry]] = field(default_factory=dict)
    messages: dict[tuple[str, str], str] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)
    session_facts: dict[tuple[str, str], dict[str, str | None]] = field(default_factory=dict)
    facts: dict[str, Fact] = field(default_factory=dict)
    history: list[HistoryEntry] = field(default_factory=list)
    links: dict[str, dict[str, Evidence]] = field(default_factory=dict)
    redirects: dict[tuple[str, str], str] = field(default_factory=dict)
    candidates: dict[str, Candidate] = field(default_factory=dict)
    proposals: dict[str, Proposal] = field(default_factory=dict)
    erased_names: dict[tuple[str, str], str] = field(default_factory=dict)
    erased_quotes: set[tuple[str, str]] = field(default_factory=set)
    pauses: dict[str, Pause] = field(default_factory=dict)
    projects: dict[str, Project] = field(default_factory=dict)
    folders: dict[str, str] = field(default_factory=dict)
    recalls: dict[str, RecallRecord] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    backups: list[str] = field(default_factory=list)


def put_aside(state: State) -> State:
    """A copy that later writes leave alone; values are frozen, so only what holds them is copied."""
    kept = State(**{name: copy.copy(value) for name, value in vars(state).items()})
    kept.turns = {key: [copy.copy(entry) for entry in revisions] for key, revisions in state.turns.items()}
    kept.attempts = {pass_id: copy.copy(attempt) for pass_id, attempt in state.attempts.items()}
    kept.links = {owner: dict(links) for owner, links in state.links.items()}
    kept.session_facts = {place: dict(added) for place, added in state.session_facts.items()}
    return kept


class FakeStore:
    """`ports.Store` without a database.

    Switches: `busy` and `full` make every write fail; `crash_before_commit` and `crash_after_commit` count down the
    writes until the process "dies" there (1 = the next one).
    """

    def __init__(
        self,
        *,
        wake: Callable[[], None] | None = None,
        new_id: Callable[[], str] = lambda: str(uuid.uuid4()),
        plan: Callable[..., Plan] = reconcile.plan,
    ) -> None:
        self.state = State()
        self.busy = False
        self.full = False
        self.crash_before_commit = 0
        self.crash_after_commit = 0
        self.wake = wake
        self.new_id = new_id
        self.plan = plan

    @contextmanager
    def _writing(self) -> Iterator[State]:
        if self.busy:
            raise StoreBusyError("the store is in use by another process; nothing was written")
        if self.full:
            raise DiskFullError("no room for the store; nothing was written and nothing is lost")
        before = put_aside(self.state)
        try:
            yield self.state
            self._crash("crash_before_commit")
        except BaseException:
            self.state = before
            raise
        self._crash("crash_after_commit")
        if self.wake is not None and self.state != before:
            self.wake()

    def _crash(self, switch: str) -> None:
        left = getattr(self, switch)
        if left:
            setattr(self, switch, left - 1)
            if left == 1:
                raise CrashError(switch)

    # -- reading --------------------------------------------------------------------------------------------------

    def cursor(self, path: str) -> Cursor | None:
        """Where reading goes on."""
        return self.state.cursors.get(path)

    def cursors(self) -> dict[str, Cursor]:
        """All cursors."""
        return dict(sorted(self.state.cursors.items()))

    def marks(self, keys: Collection[str]) -> dict[str, Mark]:
        """Newest revisions in short."""
        found = {key: self.state.turns[key][-1] for key in keys if key in self.state.turns}
        return {
            key: Mark(one.turn.digest, one.state, one.reason, one.backend, one.project_key)
            for key, one in found.items()
        }

    def enrol(
        self, turns: Sequence[Enrolment], cursor: Cursor | None, *, withdrawn: Sequence[str] = (), at: str
    ) -> list[Enrolled]:
        """Enter turns, move the cursor."""
        with self._writing() as state:
            entered = [self._enter(state, turn, at) for turn in turns]
            for key in withdrawn:
                self._withdraw(state, key, at)
            if cursor is not None:
                stands = state.cursors.get(cursor.path)
                backfilled = max(cursor.backfilled_to_byte, stands.backfilled_to_byte if stands else 0)
                state.cursors[cursor.path] = replace(cursor, backfilled_to_byte=backfilled)
        return entered

    def _enter(self, state: State, turn: Enrolment, at: str) -> Enrolled:
        entry = ledger.enter(turn, Answers(state))
        turn = ledger.untitled(turn, Answers(state), entry.reason)
        revisions = state.turns.setdefault(turn.key, [])
        if entry.freshen:
            stands = revisions[-1]
            where = {name: getattr(turn, name) for name in ("digest", "file", "start_byte", "end_byte")}
            stands.turn = replace(stands.turn, **where)
        if entry.how is not EnrolledAs.KNOWN:
            put_session(state, turn)
            waits = entry.state is TurnState.WAITING
            fresh = LedgerEntry(
                turn=turn,
                revision=entry.revision,
                state=entry.state,
                reason=entry.reason,
                prompt=ledger.shown_prompt(turn, entry.reason),
                text=turn.text if waits else None,
                enrolled_at=at,
                project_key=turn.project_key,
                settled_at=None if waits else at,
            )
            if entry.replaces_waiting:
                old = revisions.pop()
                fresh.generation, fresh.pass_id = old.generation + 1, old.pass_id
                interrupt(state, old)
            revisions.append(fresh)
        if entry.freshen or entry.how is not EnrolledAs.KNOWN:
            for message_id in turn.message_ids:
                state.messages.setdefault((turn.session.agent, message_id), turn.key)
        return Enrolled(turn.key, entry.revision, entry.how, entry.state, entry.reason)

    def _withdraw(self, state: State, key: str, at: str) -> None:
        if key not in state.turns:
            return
        newest = state.turns[key][-1]
        if (newest.state, newest.reason) == (TurnState.SKIPPED, "withdrawn"):
            return
        if newest.state is TurnState.WAITING:
            interrupt(state, newest)
            newest.generation += 1
            newest.owner = newest.until = newest.retry_at = newest.text = None
            newest.state, newest.reason, newest.settled_at = TurnState.SKIPPED, "withdrawn", at
        else:
            state.turns[key].append(
                LedgerEntry(
                    turn=replace(newest.turn, by_hand=False),
                    revision=newest.revision + 1,
                    state=TurnState.SKIPPED,
                    reason="withdrawn",
                    prompt=newest.prompt,
                    text=None,
                    enrolled_at=at,
                    project_key=newest.project_key,
                    settled_at=at,
                )
            )
        alone = [
            fact.id
            for fact in sorted(state.facts.values(), key=lambda fact: fact.id)
            if fact.status is FactStatus.ACTIVE
            and not fact.edited_by_person
            and {quote.turn_key for quote in claiming(state, fact.id)} == {key}
        ]
        self._propose_withdrawal(state, alone, "withdrawn", at)

    def _propose_withdrawal(self, state: State, fact_ids: Collection[str], reason: str, at: str) -> None:
        asked = {p.fact_id for p in state.proposals.values() if p.kind == "withdrawn" and p.status == "open"}
        for fact_id in fact_ids:
            if fact_id not in asked:
                change = {"op": "retire", "reason": reason}
                proposal = Proposal(self.new_id(), "withdrawn", fact_id, change, "open", at)
                state.proposals[proposal.id] = proposal

    def mark_backfilled(self, cursor: Cursor) -> None:
        """Note how far a backfill read."""
        with self._writing() as state:
            stands = state.cursors.get(cursor.path, replace(cursor, offset_byte=0))
            state.cursors[cursor.path] = replace(stands, backfilled_to_byte=cursor.backfilled_to_byte)

    # -- settling -------------------------------------------------------------------------------------------------

    def _waiting(self) -> list[LedgerEntry]:
        newest = (revisions[-1] for revisions in self.state.turns.values())
        return sorted((entry for entry in newest if entry.state is TurnState.WAITING), key=lambda entry: entry.place)

    def due(
        self,
        *,
        at: str,
        limit: int,
        only: Collection[str] | None = None,
        newest_first: bool = False,
        by_hand: bool = False,
    ) -> list[str]:
        """Turns that may be claimed now."""
        soon = after(at, seconds=BEHIND_SECONDS)
        ready: list[str] = []
        behind: set[tuple[str, str]] = set()
        for entry in self._waiting():
            wanted = only is None or entry.turn.key in only
            leased = entry.until is not None and entry.until > at
            off = leased or entry.session in behind or paused(self.state, entry, at)
            if wanted and not off and (for_command(entry, at) if by_hand else for_service(entry, at)):
                ready.append(entry.turn.key)
            commanded = by_hand and wanted and for_command(entry, soon)
            if (commanded or for_service(entry, soon)) and not paused(self.state, entry, soon):
                behind.add(entry.session)
        return (ready[::-1] if newest_first else ready)[:limit]

    def claim(
        self,
        key: str,
        *,
        owner: str,
        at: str,
        lease_seconds: float = 300,
        limits: Limits | None = None,
    ) -> Lease | Declined | None:
        """Take a turn."""
        with self._writing() as state:
            entry = state.turns[key][-1] if key in state.turns else None
            if entry is None or entry.text is None or entry.state is not TurnState.WAITING:
                return None
            if entry.until is not None and entry.until > at:
                return None
            saved = handed_on(state, entry)
            costs = limits if saved is None else None
            if costs is not None and (no := ledger.declined(costs, spent(state, costs, at), at=at)) is not None:
                return no
            interrupt(state, entry)
            entry.owner, entry.generation, entry.attempts = owner, entry.generation + 1, entry.attempts + 1
            entry.until, entry.pass_id = after(at, seconds=lease_seconds), self.new_id()
            begin(state, entry, saved, costs, purse=limits.purse if limits else DAILY_PURSE, at=at)
            session = state.sessions[entry.session]
            note = state.session_facts[entry.session]["note"]
            return Lease(
                key=key,
                revision=entry.revision,
                owner=owner,
                generation=entry.generation,
                until=entry.until,
                pass_id=entry.pass_id,
                attempt=entry.attempts,
                text=entry.text,
                session_id=session.id,
                agent=session.agent,
                project_key=entry.project_key,
                ended_at=entry.turn.ended_at,
                end_sign=entry.turn.end_sign,
                file=entry.turn.file,
                enrolled_at=entry.enrolled_at,
                root_session_id=session.root_id,
                prompt_at=entry.turn.prompt_at,
                note=None if note is None else Redacted(note),
                saved=saved,
            )

    def _held(self, state: State, lease: Lease) -> LedgerEntry:
        entry = state.turns[lease.key][-1]
        stands = (entry.revision, entry.generation, entry.owner, entry.state)
        if stands != (lease.revision, lease.generation, lease.owner, TurnState.WAITING):
            raise LeaseLostError(f"turn {lease.key} was taken over by another process; nothing was written")
        return entry

    def reserve(self, lease: Lease, limits: Limits, *, at: str) -> Declined | None:
        """Reserve a further call."""
        with self._writing() as state:
            self._held(state, lease)
            if (no := ledger.declined(limits, spent(state, limits, at), at=at)) is not None:
                return no
            attempt = state.attempts[lease.pass_id]
            held = attempt.record.usage
            usd = held.cost_usd if limits.reserved_usd == 0 else (held.cost_usd or 0) + limits.reserved_usd
            tokens = held.input_tokens + limits.reserved_tokens
            usage = replace(held, calls=calls_of(held) + 1, input_tokens=tokens, cost_usd=usd)
            attempt.record = replace(attempt.record, usage=usage)
            return None

    def renew(self, lease: Lease, *, at: str, lease_seconds: float = 300) -> Lease:
        """Hold on to a turn."""
        with self._writing() as state:
            entry = self._held(state, lease)
            entry.until = after(at, seconds=lease_seconds)
            return replace(lease, until=entry.until)

    def save_answer(self, lease: Lease, request: Request, reply: Reply, *, at: str) -> None:  # noqa: ARG002 - the port's word
        """Keep question and answer."""
        with self._writing() as state:
            self._held(state, lease)
            attempt = state.attempts[lease.pass_id]
            attempt.saved = Saved(request, reply)
            attempt.record = replace(told_by(attempt.record, reply), usage=ledger.countable(reply.usage))

    def commit(self, settlement: Settlement, lease: Lease, *, at: str) -> PassRecord:
        """Settle a turn."""
        with self._writing() as state:
            entry = self._held(state, lease)
            plan = Plan()
            if ledger.needs_plan(settlement):
                shown = known(state, settlement.verdict, entry.project_key)
                project_key = entry.project_key
                plan = self.plan(
                    settlement.verdict,
                    shown,
                    project_key=project_key,
                    at=at,
                    pass_id=lease.pass_id,
                    new_id=self.new_id,
                )
            carry_out(state, plan, group=self.new_id(), actor="pass", at=at, pass_id=lease.pass_id)
            kept_before = any(one.state is TurnState.KEPT for one in state.turns[lease.key][:-1])
            outcome, reason = ledger.outcome(settlement, plan, kept_before=kept_before)
            settle(entry, settlement, outcome, reason, at)
            note = settlement.verdict.session_note
            if note is not None and settlement.state is not TurnState.WAITING:
                state.session_facts[entry.session]["note"] = note
            attempt = state.attempts[lease.pass_id]
            attempt.is_open = False
            if outcome is not TurnState.WAITING or attempt.saved is None:
                attempt.record = told_by(attempt.record, settlement)
            attempt.record = replace(
                attempt.record,
                outcome=outcome,
                reason=reason,
                error=settlement.error,
                usage=ledger.countable(settlement.usage),
                operations=ledger.operations(plan),
                refused=ledger.refused(settlement.verdict, plan),
                refusals=(*settlement.verdict.refusals, *plan.refusals),
                fact_names=changed_by(state, lease.pass_id),
            )
            return attempt.record

    def lease_owners(self, *, at: str) -> set[str]:
        """Who holds leases."""
        return {entry.owner for entry in self._waiting() if entry.owner and entry.until and entry.until > at}

    def release(self, owners: Collection[str], *, at: str) -> int:
        """End leases of the dead."""
        with self._writing():
            held = [e for e in self._waiting() if e.owner in owners and e.until is not None and e.until > at]
            for entry in held:
                entry.owner = entry.until = None
                entry.generation += 1
            return len(held)

    def requeue(self, query: TurnQuery, *, keys: Collection[str] | None = None, at: str) -> list[str]:  # noqa: ARG002 - the port's word
        """Make turns wait again."""
        with self._writing() as state:
            newest = (revisions[-1] for revisions in state.turns.values())
            found = [entry for entry in newest if requeuable(entry) and matches(entry, query)]
            found = [entry for entry in found if keys is None or entry.turn.key in keys]
            found.sort(key=lambda entry: (entry.turn.ended_at, entry.turn.key))
            for entry in found[: query.limit]:
                entry.state, entry.reason, entry.attempts = TurnState.WAITING, "queued", 0
                entry.retry_at = entry.settled_at = None
            return [entry.turn.key for entry in found[: query.limit]]

    def hold(self, reason: str | None, *, from_reasons: Collection[str], at: str) -> int:  # noqa: ARG002 - the port's word
        """Change why turns wait."""
        to = reason or "queued"
        with self._writing():
            free = (entry for entry in self._waiting() if not entry.turn.by_hand)
            held = [entry for entry in free if entry.reason in from_reasons and entry.reason != to]
            for entry in held:
                entry.reason = to
            return len(held)

    # -- facts ----------------------------------------------------------------------------------------------------

    def facts(self, query: FactQuery) -> list[Fact]:
        """Facts, latest first."""
        order = {fact_id: number for number, fact_id in enumerate(self.state.facts)}
        found = [fact for fact in self.state.facts.values() if fits(self.state, fact, query)]
        return sorted(found, key=lambda fact: (fact.updated_at, order[fact.id]), reverse=True)[: query.limit]

    def fact(self, fact_id: str) -> Fact | None:
        """One fact."""
        return self.state.facts.get(fact_id)

    def resolve_fact(self, name: str, *, scopes: Sequence[str] = ()) -> list[Fact]:
        """Facts by name, redirect or id."""
        facts = sorted(self.state.facts.values(), key=lambda fact: (fact.scope, fact.name))
        targets = {i for (scope, n), i in self.state.redirects.items() if n == name and (not scopes or scope in scopes)}
        here = [fact for fact in facts if not scopes or fact.scope in scopes]
        by_id = [fact for fact in here if len(name) >= 8 and fact.id.startswith(name)]
        return [fact for fact in here if fact.name == name] or [fact for fact in facts if fact.id in targets] or by_id

    def search(self, terms: Sequence[str], *, query: FactQuery) -> list[Hit]:
        """Facts with any of the words, most words first."""
        hits = [
            Hit(fact, score)
            for fact in self.facts(replace(query, limit=None))
            if (score := float(sum(weight(fact, term) for term in terms)))
        ]
        return sorted(hits, key=lambda hit: -hit.score)[: query.limit]

    def evidence(self, owner_ids: Collection[str]) -> dict[str, list[Evidence]]:
        """Quotes by owner."""
        return {owner: quotes for owner in owner_ids if (quotes := quotes_of(self.state, owner))}

    def history(
        self, *, fact_id: str | None = None, group: str | None = None, limit: int | None = None
    ) -> list[HistoryEntry]:
        """History, newest first."""
        found = [
            entry
            for entry in reversed(self.state.history)
            if fact_id in (None, entry.fact_id) and group in (None, entry.group_id)
        ]
        return found[:limit]

    def apply(self, plan: Plan, *, actor: str, at: str, pass_id: str | None = None) -> Applied:
        """Carry out a plan."""
        group = self.new_id()
        with self._writing() as state:
            return Applied(group, carry_out(state, plan, group=group, actor=actor, at=at, pass_id=pass_id))

    def erase(self, fact_ids: Collection[str], *, at: str) -> int:
        """Erase facts."""
        with self._writing() as state:
            return self._erase(state, fact_ids, at)

    def _erase(self, state: State, fact_ids: Collection[str], at: str) -> int:
        gone = {fact_id for fact_id in fact_ids if fact_id in state.facts}
        for entry in self._waiting() if gone else ():
            if entry.owner is not None:
                entry.owner = entry.until = None
                entry.generation += 1
        quotes = {quote.id: quote for fact_id in gone for quote in quotes_of(state, fact_id)}
        left = [
            fact
            for fact in state.facts.values()
            if fact.id not in gone and fact.status is FactStatus.ACTIVE and not fact.edited_by_person
            if set(state.links.get(fact.id, {})) & set(quotes)
            and all(quote.id in quotes for quote in claiming(state, fact.id))
        ]
        versions = [state.facts[fact_id] for fact_id in gone]
        versions += [v for h in state.history if h.fact_id in gone for v in (h.before, h.after) if v is not None]
        for version in versions:
            state.erased_names[version.scope, version.name] = at
        state.erased_quotes |= {(quote.message_id, quote.quote) for quote in quotes.values()}
        texts = [text for version in versions for text in (version.summary, version.body)]
        texts += [quote.quote for quote in quotes.values()]
        forget_rows(state, gone, quotes, [text for text in texts if len(text) >= 4])
        forget_names(state, {version.name for version in versions})
        hidden = [
            Operation(
                Op.QUARANTINE,
                fact,
                replace(fact, status=FactStatus.QUARANTINED, updated_at=at),
                reason="evidence-erased",
            )
            for fact in left
        ]
        carry_out(state, Plan(tuple(hidden)), group=self.new_id(), actor="person", at=at, pass_id=None)
        self._propose_withdrawal(state, [fact.id for fact in left], "evidence-erased", at)
        return len(gone)

    def expire(self, keep: Retention, *, at: str) -> dict[str, int]:
        """Do what time does."""
        binned_at = after(at, seconds=-keep.bin_days * DAY_SECONDS)
        seen_at = after(at, seconds=-keep.candidate_days * DAY_SECONDS)
        with self._writing() as state:
            binned = [
                fact.id
                for fact in state.facts.values()
                if fact.status is FactStatus.BINNED and fact.forgotten_at and fact.forgotten_at <= binned_at
            ]
            erased = self._erase(state, binned, at) if binned else 0
            overdue = [fact for fact in state.facts.values() if is_overdue(fact, at)]
            operations = tuple(
                Operation(
                    Op.EXPIRE,
                    fact,
                    replace(fact, status=FactStatus.EXPIRED, updated_at=at),
                    reason="valid-until" if fact.valid_until else "not-confirmed",
                )
                for fact in overdue
            )
            carry_out(state, Plan(operations), group=self.new_id(), actor="consolidation", at=at, pass_id=None)
            old = [c for c in state.candidates.values() if c.status == "open" and c.last_at <= seen_at]
            for candidate in old:
                state.candidates[candidate.id] = replace(candidate, status="expired")
            dropped = self._drop(state, keep, at)
        return {"erased": erased, "expired": len(operations), "candidates": len(old), **dropped}

    def _drop(self, state: State, keep: Retention, at: str) -> dict[str, int]:
        """Old answers, texts, recalls and passes; the fake keeps no run records."""

        def before(days: int) -> str:
            return after(at, seconds=-days * DAY_SECONDS)

        answered = [
            attempt
            for attempt in state.attempts.values()
            if not attempt.is_open and attempt.record.started_at <= before(keep.answer_days)
            if attempt.saved is not None or attempt.record.error is not None
        ]
        for attempt in answered:
            attempt.saved, attempt.record = None, replace(attempt.record, error=None)
        texts = [
            entry
            for revisions in state.turns.values()
            for entry in revisions
            if entry.state is TurnState.DEAD and entry.text and (entry.settled_at or "") <= before(keep.dead_text_days)
        ]
        for entry in texts:
            entry.text = None
        recalls = [key for key, one in state.recalls.items() if one.at <= before(keep.recall_days)]
        passes = [
            key
            for key, attempt in state.attempts.items()
            if not attempt.is_open and attempt.record.started_at <= before(keep.pass_days)
        ]
        for key in recalls:
            del state.recalls[key]
        for key in passes:
            del state.attempts[key]
        return {
            "answers": len(answered),
            "texts": len(texts),
            "runs": 0,
            "recalls": len(recalls),
            "passes": len(passes),
        }

    def candidates(self, *, status: str = "open") -> list[Candidate]:
        """Candidates, latest first."""
        found = sorted((c for c in self.state.candidates.values() if c.status == status), key=lambda c: c.id)
        return sorted(found, key=lambda candidate: candidate.last_at, reverse=True)

    def proposals(self, *, status: str = "open") -> list[Proposal]:
        """Proposals, latest first."""
        found = sorted((p for p in self.state.proposals.values() if p.status == status), key=lambda p: p.id)
        return sorted(found, key=lambda proposal: proposal.created_at, reverse=True)

    # -- switches, projects, sessions -----------------------------------------------------------------------------

    def pauses(self, *, at: str | None = None) -> list[Pause]:
        """Pauses."""
        found = [pause for pause in self.state.pauses.values() if at is None or is_open(pause, at)]
        return sorted(found, key=lambda pause: (pause.from_at, pause.id))

    def pause(self, pause: Pause) -> None:
        """Switch off."""
        with self._writing() as state:
            state.pauses[pause.id] = pause

    def resume(self, *, level: str, target: str, at: str) -> int:
        """Switch on again."""
        with self._writing() as state:
            ended = [p for p in state.pauses.values() if (p.level, p.target) == (level, target) and is_open(p, at)]
            for pause in ended:
                state.pauses[pause.id] = replace(pause, until_at=at)
            return len(ended)

    def projects(self) -> list[Project]:
        """Projects by name."""
        found = sorted(self.state.projects.values(), key=lambda project: (project.name, project.key))
        return [replace(p, folders=folders_of(self.state, {p.key})) for p in found]

    def save_project(self, project: Project, *, at: str) -> Project:
        """Keep a project."""
        with self._writing() as state:
            put_project(state, project, at)
            target = canonical(state, project.key)
            for folder in project.folders:
                old = state.projects.get(state.folders.get(folder, ""))
                if project.remote and old and old.key != target and old.remote is None and old.alias_of is None:
                    self._move_project(state, old.key, target, at)
                state.folders[folder] = project.key
            return read_project(state, target)

    def project_of(self, folder: str) -> Project | None:
        """A folder's project."""
        key = self.state.folders.get(folder)
        return None if key is None else read_project(self.state, canonical(self.state, key))

    def alias_project(self, key: str, of: str, *, at: str) -> int:
        """Join two projects."""
        with self._writing() as state:
            target = canonical(state, of)
            if target == canonical(state, key):
                raise UsageError(f"{key} and {of} are one project already")
            if key not in state.projects:
                put_project(state, Project(key, key), at)
            return self._move_project(state, key, target, at)

    def _move_project(self, state: State, key: str, of: str, at: str) -> int:
        group = self.new_id()
        facts = [fact for fact in state.facts.values() if fact.scope == f"project:{key}"]
        moved = sum(move_fact(state, fact, f"project:{of}", group, at) for fact in facts)
        for entry in (entry for revisions in state.turns.values() for entry in revisions if entry.project_key == key):
            entry.project_key = of
        for known_session in state.session_facts.values():
            if known_session["project_key"] == key:
                known_session["project_key"] = of
        for links in state.links.values():
            links.update({i: replace(q, project_key=of) for i, q in links.items() if q.project_key == key})
        for c in [c for c in state.candidates.values() if c.scope == f"project:{key}"]:
            state.candidates[c.id] = replace(c, scope=f"project:{of}")
        for p in [p for p in state.pauses.values() if (p.level, p.target) == ("project", key)]:
            state.pauses[p.id] = replace(p, target=of)
        for project in [p for p in state.projects.values() if key in (p.key, p.alias_of)]:
            state.projects[project.key] = replace(project, alias_of=of)
        return moved

    def sessions(
        self, *, agent: str | None = None, project_key: str | None = None, limit: int | None = None
    ) -> list[SessionRow]:
        """Sessions, latest first."""
        found = [self._session_row(place) for place in sorted(self.state.sessions)]
        found.sort(key=lambda row: row.session.last_at or "", reverse=True)
        wanted = (row for row in found if agent in (None, row.session.agent) and project_key in (None, row.project_key))
        return list(wanted)[:limit]

    def session(self, session_id: str) -> list[SessionRow]:
        """Sessions by id prefix."""
        return [row for row in self.sessions() if row.session.id.startswith(session_id)]

    def _session_row(self, place: tuple[str, str]) -> SessionRow:
        newest = (revisions[-1] for revisions in self.state.turns.values())
        counts = Counter(entry.state.value for entry in newest if entry.session == place)
        added = self.state.session_facts[place]
        facts = [
            fact
            for fact in self.state.facts.values()
            if fact.status is FactStatus.ACTIVE
            and any((quote.agent, quote.session_id) == place for quote in quotes_of(self.state, fact.id))
        ]
        return SessionRow(
            session=self.state.sessions[place],
            project_key=added["project_key"],
            off_record_at=added["off_record_at"],
            note=added["note"],
            turns=dict(sorted(counts.items())),
            facts=len(facts),
            file=added["file"],
        )

    def turns(self, query: TurnQuery) -> list[TurnRow]:
        """Ledger entries."""
        newest = [revisions[-1] for revisions in self.state.turns.values()]
        found = sorted((e for e in newest if matches(e, query)), key=lambda entry: entry.place, reverse=True)
        return [turn_row(entry) for entry in found[: query.limit]]

    def turn(self, name: str) -> list[TurnRow]:
        """Revisions by name."""
        entries = [entry for revisions in self.state.turns.values() for entry in revisions]
        found = [e for e in entries if e.turn.key.startswith(name) or shown_id(e.turn.key).startswith(name)]
        found.sort(key=lambda entry: (entry.turn.ended_at, entry.turn.key, entry.revision), reverse=True)
        return [turn_row(entry) for entry in found]

    def passes(self, key: str) -> list[PassRecord]:
        """Attempts at a turn, told with what its newest revision says of it."""
        found = []
        for record in (a.record for a in self.state.attempts.values() if a.record.turn_key == key):
            newest = self.state.turns[key][-1]
            told = {"project_key": newest.project_key, "end_sign": newest.turn.end_sign}
            names = changed_by(self.state, record.id)
            found.append(replace(record, session_id=newest.session[1], fact_names=names, **told))
        found.reverse()
        return sorted(found, key=lambda record: record.started_at, reverse=True)

    def exchange(self, pass_id: str) -> tuple[Request | None, str | None]:
        """Question and answer."""
        attempt = self.state.attempts.get(pass_id)
        return (
            (None, None)
            if attempt is None or attempt.saved is None
            else (attempt.saved.request, attempt.saved.reply.text)
        )

    def spending(self, *, since: str) -> list[Spending]:
        """What passes used, by minute, backend, model and purse."""
        groups: dict[tuple[str, str | None, str | None, str], list[PassRecord]] = {}
        for attempt in self.state.attempts.values():
            record = attempt.record
            if record.started_at >= since:
                place = (record.started_at[:16], record.backend or None, record.model, attempt.purse)
                groups.setdefault(place, []).append(record)
        places = sorted(groups, key=lambda place: tuple(part or "" for part in place))
        return [spending(place, groups[place]) for place in places]

    # -- records --------------------------------------------------------------------------------------------------

    def record_recall(self, record: RecallRecord) -> bool:
        """Note a recall."""
        try:
            with self._writing() as state:
                state.recalls[record.id] = record
        except StoreBusyError:
            return False
        return True

    def recall_counts(self, fact_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """How often facts were recalled."""
        times = {i: [r.at for r in self.state.recalls.values() if i in r.fact_ids] for i in fact_ids}
        return {fact_id: (len(at), max(at)) for fact_id, at in times.items() if at}

    def setting(self, key: str) -> Any:
        """A kept value."""
        return self.state.settings.get(key)

    def set_setting(self, key: str, value: Any, *, at: str, only_if_absent: bool = False) -> Any:  # noqa: ARG002 - the port's word
        """Keep a value."""
        with self._writing() as state:
            if not (only_if_absent and key in state.settings):
                state.settings[key] = msgspec.json.decode(msgspec.json.encode(value))
        return self.setting(key)

    def totals(self, *, day_from: str) -> Totals:
        """The ledger in numbers."""
        state = self.state
        newest = [revisions[-1] for revisions in state.turns.values()]
        entries = [entry for revisions in state.turns.values() for entry in revisions]
        records = [attempt.record for attempt in state.attempts.values()]
        unknown: Counter[str] = Counter()
        for cursor in state.cursors.values():
            unknown.update(cursor.lines_unknown)

        def reasons(of: TurnState) -> dict[str, int]:
            return dict(Counter(entry.reason or "" for entry in newest if entry.state is of))

        failed = [a.record for a in state.attempts.values() if not a.is_open and failed_in(a.record)]
        last = max(reversed(failed), key=lambda record: record.started_at, default=None)
        return Totals(
            states=dict(Counter(entry.state.value for entry in newest)),
            waiting=dict(Counter("by-hand" if e.turn.by_hand else e.reason or "" for e in self._waiting())),
            skipped=reasons(TurnState.SKIPPED),
            dead=reasons(TurnState.DEAD),
            oldest_waiting_at=min((entry.enrolled_at for entry in self._waiting()), default=None),
            oldest_due_at=min((max(e.enrolled_at, e.retry_at or "") for e in self._waiting() if ours(e)), default=None),
            facts=dict(Counter(fact.status.value for fact in state.facts.values())),
            candidates=len(self.candidates()),
            proposals=len(self.proposals()),
            last_settled_at=max((entry.settled_at for entry in entries if entry.settled_at), default=None),
            last_error=None
            if last is None
            else (last.started_at, last.reason or "", f"{last.error or last.reason or ''} (turn {last.turn_id})"),
            today=summed([record.usage for record in records if record.started_at >= day_from]),
            sessions=dict(Counter(agent for agent, _ in state.sessions)),
            lines_malformed=sum(cursor.lines_malformed for cursor in state.cursors.values()),
            lines_too_long=sum(cursor.lines_too_long for cursor in state.cursors.values()),
            lines_unknown=dict(unknown),
            schema=0,
            store_bytes=0,
            wal_bytes=0,
        )

    # -- removal, inventory ---------------------------------------------------------------------------------------

    def purgeable(self, what: Purge) -> dict[str, int]:
        """What would go."""
        return Chosen(self.state, what).counts()

    def purge(self, what: Purge, *, at: str) -> dict[str, int]:
        """Take out what came from these turns."""
        with self._writing() as state:
            chosen = Chosen(state, what)
            counts = chosen.counts()
            if any(counts.values()):
                for entry in self._waiting():
                    if entry.owner is not None:
                        entry.owner = entry.until = None
                        entry.generation += 1
                self._erase(state, chosen.facts, at)
                chosen.take_out(at)
            return counts

    def find_text(self, pattern: re.Pattern[str]) -> Scrubbed:
        """Where it stands; the fake has no copies."""
        return scrubbed(copy.deepcopy(self.state), pattern)

    def scrub(self, pattern: re.Pattern[str], *, at: str) -> Scrubbed:  # noqa: ARG002 - the port's word
        """Take a text out."""
        with self._writing() as state:
            for entry in self._waiting():
                if entry.owner is not None:
                    entry.owner = entry.until = None
                    entry.generation += 1
            return scrubbed(state, pattern)

    def recalls(self, *, fact_id: str | None = None, since: str = "") -> list[RecallRecord]:
        """Recalls, newest first."""
        found = (one for one in self.state.recalls.values() if one.at >= since)
        wanted = sorted((one for one in found if fact_id is None or fact_id in one.fact_ids), key=lambda one: one.id)
        return sorted(wanted, key=lambda one: one.at, reverse=True)

    def outcomes(self, *, since: str) -> list[tuple[str, str, int]]:
        """Settled turns by minute."""
        newest = (revisions[-1] for revisions in self.state.turns.values())
        settled = ((e.settled_at, e.state.value) for e in newest if e.settled_at is not None and e.settled_at >= since)
        counts = Counter((at[:16], state) for at, state in settled)
        return [(minute, state, counts[minute, state]) for minute, state in sorted(counts)]

    def inventory(self) -> list[Kept]:
        """What is stored, without sizes."""
        return [
            Kept("facts", len(self.state.facts), 0, None, None),
            Kept("recalls", len(self.state.recalls), 0, None, None),
        ]

    # -- upkeep ---------------------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Always sound."""
        return []

    def backup(self, kind: str, *, at: str) -> str:
        """Remember that a copy was asked for."""
        self.state.backups.append(f"{at}-{kind}.db")
        return self.state.backups[-1]

    def checkpoint(self) -> None:
        """No log to fold back."""

    def close(self) -> None:
        """Nothing to let go of."""


class Chosen:
    """What a purge means, and its removal."""

    def __init__(self, state: State, what: Purge) -> None:
        self.state = state
        newest = [revisions[-1] for revisions in state.turns.values()]
        self.turns = {
            entry.turn.key
            for entry in newest
            if entry.reason != "purged" and meant(what, entry.project_key, entry.session, entry.turn.ended_at)
        }
        self.sessions = {entry.session for entry in newest if entry.turn.key in self.turns}
        quotes = {quote.id: quote for links in state.links.values() for quote in links.values()}
        self.quotes = {
            quote.id
            for quote in quotes.values()
            if quote.turn_key in self.turns
            or (
                quote.turn_key not in state.turns
                and meant(what, quote.project_key, (quote.agent, quote.session_id), quote.said_at)
            )
        }
        scopes = {f"project:{key}" for key in what.project_keys} if what.session is None else set()
        self.facts = {
            fact.id
            for fact in state.facts.values()
            if all(quote.id in self.quotes for quote in claiming(state, fact.id))
            and (claiming(state, fact.id) or (fact.scope in scopes and within(what, fact.created_at)))
        }
        self.recalls = {
            one.id
            for one in state.recalls.values()
            if meant(what, one.project_key or "", (one.agent or "", one.session_id or ""), one.at)
        }

    def counts(self) -> dict[str, int]:
        """How much there is of each kind; the fake keeps no run records."""
        entries = [entry for key in self.turns for entry in self.state.turns[key]]
        return {
            "turns": len(self.turns),
            "waiting_texts": sum(entry.text is not None for entry in entries),
            "facts": len(self.facts),
            "quotes": len(self.quotes),
            "candidates": len(self._resting(self.state.candidates)),
            "proposals": len(self._proposals()),
            "notes": sum(bool(self.state.session_facts[place]["note"]) for place in self.sessions),
            "answers": sum(one.saved is not None or one.record.error is not None for one in self._asked()),
            "recalls": len(self.recalls),
            "runs": 0,
        }

    def take_out(self, at: str) -> None:
        """Remove it."""
        state = self.state
        for candidate_id in self._resting(state.candidates):
            del state.candidates[candidate_id]
        for proposal_id in self._proposals():
            del state.proposals[proposal_id]
        owners = {*state.facts, *state.candidates, *state.proposals}
        kept = {owner: links for owner, links in state.links.items() if owner in owners}
        state.links = {o: {i: q for i, q in links.items() if i not in self.quotes} for o, links in kept.items()}
        for attempt in self._asked():
            attempt.saved, attempt.record = None, replace(attempt.record, error=None)
        for place in self.sessions:
            state.sessions[place] = replace(state.sessions[place], title="")
            state.session_facts[place]["note"] = None
        for recall in self.recalls:
            del state.recalls[recall]
        for entry in (entry for revisions in state.turns.values() for entry in revisions):
            if entry.turn.key in self.turns:
                entry.text, entry.prompt = None, ""
            elif entry.session in self.sessions and entry.text is not None:
                entry.text = replace(entry.text, rows=tuple(row for row in entry.text.rows if not row.previous))
        for key in self.turns:
            newest = state.turns[key][-1]
            interrupt(state, newest)
            newest.state, newest.reason, newest.retry_at = TurnState.SKIPPED, "purged", None
            newest.settled_at = newest.settled_at or at

    def _resting(self, owners: Collection[str]) -> list[str]:
        return [owner for owner in owners if set(self.state.links.get(owner, {})) & self.quotes]

    def _proposals(self) -> set[str]:
        about = {one.id for one in self.state.proposals.values() if one.fact_id in self.facts}
        return {*self._resting(self.state.proposals), *about}

    def _asked(self) -> list[Attempt]:
        keys = {key for key, revisions in self.state.turns.items() if revisions[-1].session in self.sessions}
        return [attempt for attempt in self.state.attempts.values() if attempt.record.turn_key in keys]


def within(what: Purge, at: str) -> bool:
    """Whether a moment is meant."""
    return (what.since is None or at >= what.since) and (what.before is None or at < what.before)


def meant(what: Purge, project_key: str, session: tuple[str, str], at: str) -> bool:
    """Whether what happened there and then is meant."""
    here = not what.project_keys or project_key in what.project_keys
    return here and what.session in (None, session) and within(what, at)


class Scrubbing:
    """Puts the mark in place of each match in what people and models said, and counts the values changed."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.texts: set[str] = set()
        self.rows: Counter[str] = Counter()

    def clean(self, value: Any) -> Any:
        """Any value."""
        if isinstance(value, str):
            self.texts.update(found[0] for found in self.pattern.finditer(value))
            return self.pattern.sub("[REDACTED:scrub]", value)
        if isinstance(value, list | tuple):
            return type(value)(self.clean(item) for item in value)
        if isinstance(value, dict):
            return {key: self.clean(item) for key, item in value.items()}
        return value

    def put(self, kind: str, value: Any, *names: str) -> Any:
        """A struct, some of whose fields are cleaned."""
        fresh = replace(value, **{name: self.clean(getattr(value, name)) for name in names})
        self.rows[kind] += fresh != value
        return fresh

    def told(self, state: State) -> None:
        """Facts and what rests beside them."""
        said = ("summary", "body")
        state.facts = {key: self.put("facts", one, *said) for key, one in state.facts.items()}
        state.candidates = {key: self.put("candidates", one, *said) for key, one in state.candidates.items()}
        state.proposals = {key: self.put("proposals", one, "change") for key, one in state.proposals.items()}
        seen: dict[str, Evidence] = {}
        for links in state.links.values():
            for key, quote in links.items():
                seen[key] = links[key] = seen.get(key) or self.put("evidence", quote, "quote")
        history = []
        for one in state.history:
            sides = [None if side is None else self.put("", side, *said) for side in (one.before, one.after)]
            self.rows["fact_history"] += sides != [one.before, one.after]
            history.append(replace(one, before=sides[0], after=sides[1]))
        state.history = history

    def recorded(self, state: State) -> None:
        """Turns, passes, sessions, recalls, settings."""
        state.recalls = {key: self.put("recalls", one, "query", "names") for key, one in state.recalls.items()}
        for place, added in state.session_facts.items():
            before = (state.sessions[place], added["note"])
            state.sessions[place] = self.put("", state.sessions[place], "title")
            added["note"] = self.clean(added["note"])
            self.rows["sessions"] += before != (state.sessions[place], added["note"])
        for entry in (entry for revisions in state.turns.values() for entry in revisions):
            stood = (entry.prompt, entry.text)
            entry.prompt = self.clean(entry.prompt)
            if entry.text is not None:
                entry.text = replace(entry.text, rows=tuple(self.put("", row, "text") for row in entry.text.rows))
            self.rows["turns"] += stood != (entry.prompt, entry.text)
        for attempt in state.attempts.values():
            was = (attempt.saved, attempt.record.error)
            attempt.record = replace(attempt.record, error=self.clean(attempt.record.error))
            attempt.saved = None if attempt.saved is None else self.exchange(attempt.saved)
            self.rows["passes"] += was != (attempt.saved, attempt.record.error)
        state.settings = self.clean(state.settings)

    def exchange(self, saved: Saved) -> Saved:
        """A question and its answer."""
        window = saved.request.window
        window = replace(window, rows=tuple(self.put("", row, "text") for row in window.rows))
        request = replace(saved.request, window=window, prompt=self.clean(saved.request.prompt))
        return Saved(request, replace(saved.reply, text=self.clean(saved.reply.text)))


def scrubbed(state: State, pattern: re.Pattern[str]) -> Scrubbed:
    """Clean a state; where it stood."""
    scrubbing = Scrubbing(pattern)
    scrubbing.told(state)
    scrubbing.recorded(state)
    rows = {kind: count for kind, count in sorted(scrubbing.rows.items()) if kind and count}
    return Scrubbed(rows, {}, 0, len(state.facts), frozenset(scrubbing.texts))


class Answers:
    """`ledger.Questions` answered from dicts."""

    def __init__(self, state: State) -> None:
        self.state = state

    def had(self, turn: Enrolment) -> bool:
        """An earlier revision had these words."""
        return any(entry.turn.words_digest == turn.words_digest for entry in self.state.turns.get(turn.key, ()))

    def newest(self, key: str) -> Newest | None:
        """Newest revision."""
        if not self.state.turns.get(key):
            return None
        entry = self.state.turns[key][-1]
        return Newest(entry.revision, entry.turn.digest, entry.turn.words_digest, entry.state, entry.reason)

    def copied(self, turn: Enrolment) -> bool:
        """All ids are others', and the words are one of theirs."""
        owners = [self.state.messages.get((turn.session.agent, message_id)) for message_id in turn.message_ids]
        same = {entry.turn.words_digest for owner in owners if owner for entry in self.state.turns[owner]}
        return all(owner not in (None, turn.key) for owner in owners) and turn.words_digest in same

    def erased(self, turn: Enrolment) -> bool:
        """Holds words that were erased in their message."""
        own = [row for row in turn.text.rows if row.part == "own" and not row.previous]
        erased = self.state.erased_quotes
        return any(row.message_id == message and quote in row.text for row in own for message, quote in erased)

    def tells(self, text: str) -> bool:
        """Holds erased words."""
        return any(quote in text or text in quote for _, quote in self.state.erased_quotes)

    def paused(self, turn: Enrolment) -> bool:
        """Ended inside a pause."""
        return switched_off(self.state, turn, turn.project_key, turn.ended_at)

    def off_record(self, turn: Enrolment) -> bool:
        """Marked before it ended."""
        marked = self.state.session_facts.get((turn.session.agent, turn.session.id), {}).get("off_record_at")
        return marked is not None and marked <= turn.ended_at

    def repeated(self, prompt_digest: str) -> bool:
        """An earlier turn has that prompt."""
        entries = (entry for revisions in self.state.turns.values() for entry in revisions)
        return any(entry.turn.prompt_digest == prompt_digest for entry in entries)


def ours(entry: LedgerEntry) -> bool:
    """Whether a waiting turn is the service's, and nothing keeps it from it."""
    return not entry.turn.by_hand and entry.reason not in HELD


def for_service(entry: LedgerEntry, by: str) -> bool:
    """Whether the service may settle a waiting turn at the moment `by`."""
    return ours(entry) and (entry.retry_at is None or entry.retry_at <= by)


def for_command(entry: LedgerEntry, by: str) -> bool:
    """Whether a command that was given the turn may settle it at the moment `by`."""
    return entry.reason != "project" and (entry.retry_at is None or entry.retry_at <= by)


def paused(state: State, entry: LedgerEntry, at: str) -> bool:
    """Whether a turn is under a pause that is open at `at`."""
    return switched_off(state, entry.turn, entry.project_key, at)


def switched_off(state: State, turn: Enrolment, project_key: str, at: str) -> bool:
    """Whether everything, the project or the turn's session is paused at `at`."""
    places = (("project", project_key), ("session", f"{turn.session.agent}:{turn.session.id}"))
    opened = (pause for pause in state.pauses.values() if is_open(pause, at))
    return any(pause.level == "all" or (pause.level, pause.target) in places for pause in opened)


def put_session(state: State, turn: Enrolment) -> None:
    """Upsert a session."""
    new, place = turn.session, (turn.session.agent, turn.session.id)
    old = state.sessions.get(place, new)
    last = [at for at in (new.last_at, turn.ended_at, old.last_at if place in state.sessions else None) if at]
    started = [at for at in (new.started_at, old.started_at) if at]
    state.sessions[place] = replace(
        new,
        root_id=new.root_id or new.id,
        parent_id=new.parent_id or old.parent_id,
        title="" if old.title == "" else new.title or (new.title if old.title is None else old.title),
        cwd=new.cwd or old.cwd,
        model=new.model or old.model,
        started_at=min(started, default=None),
        last_at=max(last),
    )
    added = state.session_facts.setdefault(place, {"note": None, "off_record_at": None})
    added.update(project_key=turn.project_key, file=turn.file)
    if turn.off_record:
        added["off_record_at"] = min(filter(None, (added["off_record_at"], turn.prompt_at or turn.ended_at)))


def left_open(state: State, entry: LedgerEntry) -> Attempt | None:
    """The pass that an owner left open."""
    attempt = state.attempts.get(entry.pass_id or "")
    return attempt if attempt is not None and attempt.is_open else None


def handed_on(state: State, entry: LedgerEntry) -> Saved | None:
    """What the newest pass about this revision had saved that nobody judged, with what that pass used."""
    about = (entry.turn.key, entry.revision)
    for attempt in reversed(state.attempts.values()):
        if (attempt.record.turn_key, attempt.record.revision) != about:
            continue
        if attempt.record.outcome in (TurnState.KEPT, TurnState.EMPTY, TurnState.DEAD):
            return None
        if attempt.saved is not None:
            return replace(attempt.saved, reply=replace(attempt.saved.reply, usage=attempt.record.usage))
    return None


def interrupt(state: State, entry: LedgerEntry) -> None:
    """Close a pass left open."""
    if (attempt := left_open(state, entry)) is not None:
        attempt.is_open = False
        attempt.record = replace(attempt.record, reason="interrupted")


def spent(state: State, limits: Limits, at: str) -> ledger.Spent:
    """What counts against a claim's limits."""
    used = [
        attempt.record.usage
        for attempt in state.attempts.values()
        if attempt.purse == limits.purse and attempt.record.started_at >= limits.since
        if limits.until is None or attempt.record.started_at < limits.until
    ]
    tokens = sum(u.input_tokens + u.output_tokens + u.cache_read_tokens + u.cache_write_tokens for u in used)
    first, last = ledger.around(at)
    records = (attempt.record for attempt in state.attempts.values())
    near = ((r.started_at, calls_of(r.usage)) for r in records if first < r.started_at < last)
    calls = tuple(sorted((began_at, count) for began_at, count in near if count))
    return ledger.Spent(tokens, sum(u.cost_usd or 0 for u in used), calls)


def calls_of(usage: Usage) -> int:
    """How many calls a pass made or reserved; a claim reserves one without counting it."""
    return max(usage.calls, int(usage.input_tokens > 0))


def begin(state: State, entry: LedgerEntry, saved: Saved | None, costs: Limits | None, *, purse: str, at: str) -> None:
    """Open an entry's pass."""
    usage = Usage(input_tokens=costs.reserved_tokens, cost_usd=costs.reserved_usd) if costs else Usage(cost_usd=0)
    record = pass_record(entry, entry.pass_id or "", at, usage)
    attempt = Attempt(record, purse, saved)
    if saved is not None:
        attempt.record = told_by(record, saved.reply)
    state.attempts[record.id] = attempt


def told_by(record: PassRecord, by: Reply | Settlement) -> PassRecord:
    """A record with what a reply or a settlement says of its backend."""
    return replace(record, backend=by.backend, model=by.model, prompt_version=by.prompt_version)


def failed_in(record: PassRecord) -> bool:
    """Whether a closed pass is to be reported."""
    waited = record.outcome is TurnState.WAITING and record.reason not in ("interrupted", "queued", "behind")
    return waited or record.outcome is TurnState.DEAD


def spending(place: tuple[str, str | None, str | None, str], records: Sequence[PassRecord]) -> Spending:
    """What passes of one place used."""
    unusable = [r for r in records if r.outcome is TurnState.DEAD and r.reason in ("answer-unusable", "model-refused")]
    turns = {record.turn_key for record in records}
    return Spending(*place, len(turns), len(unusable), summed([record.usage for record in records]))


def pass_record(entry: LedgerEntry, pass_id: str, at: str, usage: Usage) -> PassRecord:
    """The record of a pass that has just begun."""
    return PassRecord(
        id=pass_id,
        turn_key=entry.turn.key,
        turn_id=shown_id(entry.turn.key),
        revision=entry.revision,
        attempt=entry.attempts,
        agent=entry.turn.session.agent,
        session_id=entry.turn.session.id,
        project_key=entry.project_key,
        outcome=TurnState.WAITING,
        reason="running",
        end_sign=entry.turn.end_sign,
        backend="",
        model=None,
        usage=usage,
        started_at=at,
        wait_ms=max(0, round(1000 * seconds_between(entry.enrolled_at, at))),
    )


def settle(entry: LedgerEntry, settlement: Settlement, state: TurnState, reason: str | None, at: str) -> None:
    """Move a turn to its next state."""
    waits = state is TurnState.WAITING
    entry.state, entry.reason, entry.backend = state, reason, settlement.backend
    entry.settled_at = None if waits else at
    entry.retry_at = settlement.retry_at if waits else None
    entry.attempts -= not settlement.counts_as_attempt
    entry.text = entry.text if waits or state is TurnState.DEAD else None
    entry.owner = entry.until = None


def changed_by(state: State, pass_id: str) -> tuple[str, ...]:
    """Names of the facts that a pass changed."""
    return tuple(dict.fromkeys(e.after.name for e in state.history if e.pass_id == pass_id and e.after is not None))


def requeuable(entry: LedgerEntry) -> bool:
    """Whether a turn may be made to wait again."""
    retrying = entry.retry_at is not None or entry.reason in ("retry", "resting")
    waits = entry.state is TurnState.WAITING and retrying
    return entry.text is not None and entry.owner is None and (entry.state is TurnState.DEAD or waits)


def matches(entry: LedgerEntry, query: TurnQuery) -> bool:
    """Whether a ledger entry is asked for."""
    agent, session_id = entry.session
    return (
        (not query.states or entry.state in query.states)
        and (not query.reasons or entry.reason in query.reasons)
        and query.agent in (None, agent)
        and query.session_id in (None, session_id)
        and query.project_key in (None, entry.project_key)
    )


def turn_row(entry: LedgerEntry) -> TurnRow:
    """A ledger entry as it is shown."""
    same = ("key", "file", "start_byte", "end_byte", "prompt_at", "ended_at", "end_sign")
    own = ("revision", "state", "reason", "backend", "attempts", "retry_at", "enrolled_at", "settled_at", "pass_id")
    return TurnRow(
        **{name: getattr(entry.turn, name) for name in same},
        **{name: getattr(entry, name) for name in own},
        id=shown_id(entry.turn.key),
        agent=entry.turn.session.agent,
        session_id=entry.turn.session.id,
        project_key=entry.project_key,
        prompt=entry.prompt,
        by_hand=entry.turn.by_hand,
        has_text=entry.text is not None,
    )


def summed(usages: Sequence[Usage]) -> Usage:
    """What several passes used."""
    costs = [usage.cost_usd for usage in usages if usage.cost_usd is not None]
    names = [name for name in Usage.__struct_fields__ if name != "cost_usd"]
    sums = {name: sum(getattr(usage, name) for usage in usages) for name in names}
    return Usage(**sums, cost_usd=sum(costs) if costs else None)


# --- facts --------------------------------------------------------------------------------------------------------


def carry_out(
    state: State, plan: Plan, *, group: str, actor: str, at: str, pass_id: str | None
) -> tuple[Operation, ...]:
    """Write a plan."""
    touched: set[str] = set()
    done = []
    for operation in plan.operations:
        fact = change(state, operation, seen=operation.after.id in touched)
        touched.add(fact.id)
        state.history.append(
            HistoryEntry(
                fact.id,
                fact.rev,
                operation.op,
                actor,
                at,
                group,
                operation.reason,
                pass_id,
                operation.before,
                fact,
            )
        )
        link(state, fact.id, operation.evidence)
        done.append(replace(operation, after=fact))
    for candidate, evidence in plan.candidates:
        state.candidates[candidate.id] = candidate
        link(state, candidate.id, evidence)
    for proposal, evidence in plan.proposals:
        if proposal.status == "open" and proposal.id in state.proposals:
            continue
        state.proposals[proposal.id] = proposal
        link(state, proposal.id, evidence)
    state.redirects.update({(scope, name): fact_id for scope, name, fact_id, _ in plan.redirects})
    return tuple(done)


def change(state: State, operation: Operation, *, seen: bool) -> Fact:
    """Write one operation's fact."""
    after_ = operation.after
    stands = state.facts.get(after_.id)
    rev = stands.rev if stands else 0
    expected = operation.before.rev if operation.before else 0
    if not seen and (rev != expected or (stands is None) != (operation.before is None)):
        raise ConflictError(f"{after_.name} was changed meanwhile; nothing was written")
    if any((f.scope, f.name) == (after_.scope, after_.name) and f.id != after_.id for f in state.facts.values()):
        raise ConflictError(f"{after_.scope} already has a fact named {after_.name}; nothing was written")
    state.facts[after_.id] = replace(after_, rev=rev + 1)
    state.redirects.pop((after_.scope, after_.name), None)
    return state.facts[after_.id]


def link(state: State, owner_id: str, evidence: Sequence[Evidence]) -> None:
    """Tie quotes to what rests on them."""
    links = state.links.setdefault(owner_id, {})
    for quote in evidence:
        quote_id = hashlib.sha256(f"{quote.agent}\0{quote.message_id}\0{quote.quote}".encode()).hexdigest()[:32]
        stored = next((o[quote_id] for o in state.links.values() if quote_id in o), replace(quote, id=quote_id))
        parts = [quote.part, *([links[quote_id].part] if quote_id in links else [])]
        links[quote_id] = replace(stored, part=min(parts))


def quotes_of(state: State, owner_id: str) -> list[Evidence]:
    """Quotes of an owner, oldest first."""
    return sorted(state.links.get(owner_id, {}).values(), key=lambda quote: (quote.said_at, quote.id))


def claiming(state: State, fact_id: str) -> list[Evidence]:
    """The quotes that a fact rests on."""
    return [quote for quote in quotes_of(state, fact_id) if quote.part == "claims"]


def fits(state: State, fact: Fact, query: FactQuery) -> bool:
    """Whether a fact is asked for."""
    return (
        (not query.scopes or fact.scope in query.scopes)
        and (not query.statuses or fact.status in query.statuses)
        and (not query.kinds or fact.kind in query.kinds)
        and (query.since is None or fact.updated_at >= query.since)
        and (query.session is None or any(q.session_id == query.session for q in quotes_of(state, fact.id)))
    )


def weight(fact: Fact, term: str) -> int:
    """How much a word counts in a fact; no stems here."""
    name, summary, body = (words_of(text) for text in (fact.name, fact.summary, fact.body))
    return 4 * (term in name) + 2 * (term in summary) + (term in body)


def words_of(text: str) -> set[str]:
    """Lower-case words."""
    return set("".join(character if character.isalnum() else " " for character in text.lower()).split())


def known(state: State, verdict: Verdict, project_key: str) -> Known:
    """All that reconciling may need to know; here every active fact in scope is near."""
    claims = (*verdict.kept, *verdict.candidates, *verdict.suspicious)
    own = f"project:{project_key}"
    places = {("user" if claim.scope == "user" else own, claim.slug) for claim in claims}
    scopes = {scope for scope, _ in places}
    candidates = [c for c in state.candidates.values() if c.status == "open" and c.scope in scopes]
    candidates.sort(key=lambda candidate: (candidate.first_at, candidate.id))
    places |= {(candidate.scope, candidate.name) for candidate in candidates}
    redirects = {place: state.redirects[place] for place in places if place in state.redirects}
    facts = [
        fact
        for fact in state.facts.values()
        if {(fact.scope, fact.name), (fact.scope, fact.proposed_name)} & places
        or fact.id in redirects.values()
        or (fact.status in (FactStatus.ACTIVE, FactStatus.QUARANTINED) and fact.scope in {"user", *scopes})
    ]
    forgotten: set[tuple[str, str]] = set()
    for claim in claims:
        until = state.erased_names.get(("user" if claim.scope == "user" else own, claim.slug), "")
        barred = [q for q in claim.evidence if q.said_at <= until or (q.message_id, q.quote) in state.erased_quotes]
        forgotten |= {(claim.slug, quote.message_id) for quote in barred}
        if barred and len(barred) == len(claim.evidence):
            forgotten.add((claim.slug, ""))
    return Known(
        facts=tuple(facts),
        evidence={fact.id: tuple(quotes_of(state, fact.id)) for fact in facts},
        candidates=tuple(candidates),
        candidate_evidence={candidate.id: tuple(quotes_of(state, candidate.id)) for candidate in candidates},
        redirects=redirects,
        forgotten=frozenset(forgotten),
    )


def is_overdue(fact: Fact, at: str) -> bool:
    """Whether a fact's time is over."""
    past = fact.valid_until is not None and fact.valid_until[:10] < at[:10]
    expired = fact.expires_at is not None and fact.expires_at <= at
    return fact.status is FactStatus.ACTIVE and not fact.pinned and (past or expired)


def forget_rows(state: State, gone: set[str], quotes: dict[str, Evidence], texts: Sequence[str]) -> None:
    """Take facts, their quotes and what tells of them out of the state."""

    def tells(*cells: str | None) -> bool:
        return any(needle in cell for cell in cells if cell is not None for needle in texts)

    for fact_id in gone:
        del state.facts[fact_id]
    state.history = [entry for entry in state.history if entry.fact_id not in gone]
    state.redirects = {place: fact_id for place, fact_id in state.redirects.items() if fact_id not in gone}
    state.candidates = {
        i: c for i, c in state.candidates.items() if c.fact_id not in gone and not tells(c.summary, c.body)
    }
    state.proposals = {
        i: p
        for i, p in state.proposals.items()
        if p.fact_id not in gone and not tells(msgspec.json.encode(p.change).decode())
    }
    owners = {*state.facts, *state.candidates, *state.proposals}
    state.links = {
        owner: {i: quote for i, quote in links.items() if i not in quotes}
        for owner, links in state.links.items()
        if owner in owners
    }
    told = {quote.turn_key for quote in quotes.values()}
    for entry in (entry for revisions in state.turns.values() for entry in revisions):
        entry.prompt = "" if entry.turn.key in told else without(entry.prompt, texts)
        if entry.text is not None:
            rows = (replace(row, text=Redacted(without(row.text, texts))) for row in entry.text.rows)
            entry.text = replace(entry.text, rows=tuple(rows))
    sessions = {quote.session_id for quote in quotes.values()}
    for place in [place for place in state.sessions if place[1] in sessions]:
        state.sessions[place] = replace(state.sessions[place], title="")
    for (_, session_id), added in state.session_facts.items():
        if session_id in sessions or tells(added["note"]):
            added["note"] = None
    for attempt in state.attempts.values():
        if attempt.record.turn_key in told or tells(*strings(msgspec.to_builtins(attempt.saved))):
            attempt.saved = None
        error = attempt.record.error
        attempt.record = replace(attempt.record, error=None if error is None else without(error, texts))


def strings(value: Any) -> Iterator[str]:
    """All texts inside a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for item in value.values() if isinstance(value, dict) else value:
            yield from strings(item)


def without(text: str, needles: Sequence[str]) -> str:
    """A text without the needles, longest first."""
    for needle in sorted(needles, key=len, reverse=True):
        text = text.replace(needle, "")
    return text


def forget_names(state: State, names: set[str]) -> None:
    """Take the names away where others point at them."""
    for fact in [fact for fact in state.facts.values() if names & set(fact.related)]:
        state.facts[fact.id] = replace(fact, related=tuple(name for name in fact.related if name not in names))
    for attempt in state.attempts.values():
        refusals = (replace(r, slug="" if r.slug in names else r.slug) for r in attempt.record.refusals)
        attempt.record = replace(attempt.record, refusals=tuple(refusals))


# --- projects and pauses ------------------------------------------------------------------------------------------


def is_open(pause: Pause, at: str) -> bool:
    """Whether `at` lies inside a pause."""
    return pause.from_at <= at and (pause.until_at is None or pause.until_at > at)


def put_project(state: State, project: Project, at: str) -> None:
    """Upsert a project."""
    first, last = project.first_at or at, project.last_at or at
    old = state.projects.get(project.key, project)
    state.projects[project.key] = replace(
        project,
        remote=project.remote or old.remote,
        alias_of=project.alias_of or old.alias_of,
        reading=project.reading or old.reading,
        folders=(),
        first_at=min(first, old.first_at or first),
        last_at=max(last, old.last_at or last),
    )


def canonical(state: State, key: str) -> str:
    """The key at the end of a chain of aliases."""
    seen = {key}
    while (project := state.projects.get(key)) and project.alias_of and project.alias_of not in seen:
        key = project.alias_of
        seen.add(key)
    return key


def folders_of(state: State, keys: set[str]) -> tuple[str, ...]:
    """Folders of these projects."""
    return tuple(sorted(path for path, key in state.folders.items() if key in keys))


def read_project(state: State, key: str) -> Project:
    """A project with its folders and its aliases' folders."""
    aliases = {project.key for project in state.projects.values() if project.alias_of == key}
    return replace(state.projects.get(key, Project(key, key)), folders=folders_of(state, {key, *aliases}))


def move_fact(state: State, fact: Fact, scope: str, group: str, at: str) -> bool:
    """Move a fact to another scope; where its name is taken it stays, retired as merged."""
    taken = next((other for other in state.facts.values() if (other.scope, other.name) == (scope, fact.name)), None)
    if taken is None:
        operation = Operation(Op.MOVE, fact, replace(fact, scope=scope, updated_at=at), reason="alias")
        target, why = fact.id, "moved"
    else:
        retired = replace(fact, status=FactStatus.RETIRED, updated_at=at)
        operation = Operation(Op.MERGE, fact, retired, reason="alias")
        target, why = taken.id, "merged"
        mine = state.links.setdefault(taken.id, {})
        mine.update({i: q for i, q in state.links.get(fact.id, {}).items() if i not in mine})
    plan = Plan((operation,), redirects=((fact.scope, fact.name, target, why),))
    carry_out(state, plan, group=group, actor="person", at=at, pass_id=None)
    return taken is None
