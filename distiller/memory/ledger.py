"""A finished turn or a settlement in, what the ledger makes of it out: the rules that every store keeps alike.

A store answers the `Questions` with one indexed look-up each, asked in the order in which the rules need them, and
writes the `Entry`. The order of the rules is the promise: what is known is never written twice, and off means off.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from typing import Protocol

import msgspec

from distiller.timestamps import after
from distiller.vocabulary import Declined, EnrolledAs, Enrolment, Limits, Plan, Settlement, TurnState, Usage, Verdict

BURST_SECONDS = 60
MOST_COUNTED = 10**12  # tokens or calls of one pass; what lies beyond is a backend's mistake and fits in no sum
MOST_USD = 10**6
LEAST_USD = 1e-9  # below it, a difference is the rounding of sums


class Newest(msgspec.Struct, frozen=True):
    """The newest revision of a turn that the ledger already has."""

    revision: int
    digest: str
    words_digest: str
    state: TurnState
    reason: str | None


class Questions(Protocol):
    """What the rules ask a store about one enrolment."""

    def newest(self, key: str) -> Newest | None:
        """The newest revision of `key`, or None if the key is new."""
        ...

    def had(self, turn: Enrolment) -> bool:
        """An earlier revision of its key had the same words: a file and its changed copy must not revise each other."""
        ...

    def copied(self, turn: Enrolment) -> bool:
        """All of its message ids, at least one, are entered under other keys, one of which has the same words.

        The words count too, since a server between agent and model may count its answers anew each day: taking such
        a turn for a copy would lose it.
        """
        ...

    def erased(self, turn: Enrolment) -> bool:
        """It holds words that the person had erased."""
        ...

    def tells(self, text: str) -> bool:
        """`text` holds words that were erased, whatever message they stood in."""
        ...

    def paused(self, turn: Enrolment) -> bool:
        """It ended inside a pause of everything, its project or its session."""
        ...

    def off_record(self, turn: Enrolment) -> bool:
        """Its session was marked off the record before it ended."""
        ...

    def repeated(self, prompt_digest: str) -> bool:
        """An earlier turn has that prompt digest."""
        ...


class Entry(msgspec.Struct, frozen=True):
    """What is to be written for one enrolment; `freshen` means digest, span and message ids of a known turn."""

    how: EnrolledAs
    revision: int
    state: TurnState
    reason: str | None
    freshen: bool = False
    replaces_waiting: bool = False  # the revision before still waits: it becomes this one


def enter(turn: Enrolment, ask: Questions) -> Entry:
    """Decide what becomes of a finished turn (`ports.Store.enrol` has the rules in their order).

    A new revision is held to the same switches as a new turn, else words spoken inside a pause would reach a model;
    only `copy` and `repeat` cannot be said of a key that is known.
    """
    before = ask.newest(turn.key)
    if before is None:
        reason = new_turn_skipped(turn, ask)
        return entry(turn, EnrolledAs.NEW, 1, reason)
    asked_again = turn.again and before.state is not TurnState.WAITING
    if before.reason == "purged" and not asked_again:  # whatever was added to it: it would bring the rest back
        return Entry(EnrolledAs.KNOWN, before.revision, before.state, before.reason)
    if not asked_again and (turn.digest == before.digest or turn.words_digest == before.words_digest):
        freshen = turn.digest != before.digest
        return Entry(EnrolledAs.KNOWN, before.revision, before.state, before.reason, freshen=freshen)
    if ask.erased(turn) or (not asked_again and ask.had(turn)):
        return Entry(EnrolledAs.KNOWN, before.revision, before.state, before.reason)
    replaces = before.state is TurnState.WAITING
    return entry(turn, EnrolledAs.REVISION, before.revision + 1, switched_off(turn, ask), replaces=replaces)


def entry(turn: Enrolment, how: EnrolledAs, revision: int, skip: str | None, *, replaces: bool = False) -> Entry:
    """Entry of a turn that is written: skipped for a reason, or waiting."""
    if skip is not None:
        return Entry(EnrolledAs.SKIPPED, revision, TurnState.SKIPPED, skip, replaces_waiting=replaces)
    return Entry(how, revision, TurnState.WAITING, turn.wait, replaces_waiting=replaces)


def new_turn_skipped(turn: Enrolment, ask: Questions) -> str | None:
    """Why a turn with a new key is shown to no backend, or None."""
    if ask.erased(turn):
        return "purged"
    if turn.message_ids and ask.copied(turn):
        return "copy"
    if reason := switched_off(turn, ask):
        return reason
    if turn.prompt_digest is not None and ask.repeated(turn.prompt_digest):
        return "repeat"
    return None


def switched_off(turn: Enrolment, ask: Questions) -> str | None:
    """The turn's own reason, the person's pause or the session's off-record mark, in that order; or None."""
    if turn.skip is not None:
        return turn.skip
    if not turn.despite_pause and ask.paused(turn):
        return "paused"
    if turn.off_record or ask.off_record(turn):
        return "off-record"
    return None


_SWITCHED_OFF = ("paused", "off-record")


def untitled(turn: Enrolment, ask: Questions, reason: str | None) -> Enrolment:
    """The turn without its session's title if that may tell what was erased or said while we were switched off.

    A fork repeats its parent's first words. An empty title stays empty, whatever later turns of the session tell.
    """
    if reason in _SWITCHED_OFF:
        return msgspec.structs.replace(turn, session=msgspec.structs.replace(turn.session, title=""))
    if not turn.session.title or not ask.tells(turn.session.title):
        return turn
    return msgspec.structs.replace(turn, session=msgspec.structs.replace(turn.session, title=None))


def shown_id(key: str) -> str:
    """The turn's short name: `t` and 12 hex of SHA-256(key)."""
    return "t" + hashlib.sha256(key.encode()).hexdigest()[:12]


def shown_prompt(turn: Enrolment, reason: str | None) -> str:
    """The beginning of the prompt, kept for people; nothing of it where the person had switched us off."""
    return "" if reason in (*_SWITCHED_OFF, "purged", "copy") else turn.prompt


# --- spending -----------------------------------------------------------------------------------------------------


class Spent(msgspec.Struct, frozen=True):
    """What counts against a call's limits: what its purse spent, and the calls around now."""

    tokens: int
    usd: float
    calls: tuple[tuple[str, int], ...]  # when a pass began and how many it made or reserved; oldest first, all purses


def countable(usage: Usage) -> Usage:
    """A usage that can be added up, whatever a backend reported: nothing negative, endless or beyond all measure."""
    fields = msgspec.structs.asdict(usage)
    usd = fields.pop("cost_usd")
    counts = {name: min(max(count, 0), MOST_COUNTED) for name, count in fields.items()}
    known = usd is not None and -math.inf < usd < math.inf  # what is no number is no price
    return Usage(**counts, cost_usd=min(max(usd, 0), MOST_USD) if known else None)


def around(at: str) -> tuple[str, str]:
    """Between which moments (both left out) a pass began whose calls count as ones of this minute.

    Another process may have claimed a moment later than `at` and been quicker; passes that lie further ahead are of
    a clock that was set back.
    """
    return after(at, seconds=-BURST_SECONDS), after(at, seconds=BURST_SECONDS)


def declined(limits: Limits, spent: Spent, *, at: str) -> Declined | None:
    """Why a call does not fit into its limits, or None; a spent budget outweighs a burst, which is over sooner."""
    if limits.tokens is not None and spent.tokens + limits.reserved_tokens > limits.tokens:
        return Declined("budget")
    if limits.usd is not None and spent.usd + limits.reserved_usd > limits.usd + LEAST_USD:
        return Declined("budget")
    most = limits.calls_per_minute
    if most is None:
        return None
    began_at = [began_at for began_at, calls in spent.calls for _ in range(min(calls, most))]
    if len(began_at) < most:
        return None
    makes_room = (*began_at, at)[len(began_at) - most]  # if none is allowed there is never room: look again in a minute
    return Declined("burst", until=after(makes_room, seconds=BURST_SECONDS))


# --- settling -----------------------------------------------------------------------------------------------------


def needs_plan(settlement: Settlement) -> bool:
    """Whether there is anything to reconcile; a turn that waits or died changes no fact."""
    verdict = settlement.verdict
    judged = settlement.state in (TurnState.KEPT, TurnState.EMPTY)
    return judged and bool(verdict.kept or verdict.candidates or verdict.suspicious)


def outcome(settlement: Settlement, plan: Plan, *, kept_before: bool) -> tuple[TurnState, str | None]:
    """The turn's next state and reason; a KEPT settlement whose plan changes nothing ends empty.

    Unless an earlier revision was kept: a second pass that finds the same again takes nothing back.
    """
    if settlement.state is TurnState.WAITING:
        return settlement.state, settlement.reason or "retry"
    if settlement.state is not TurnState.KEPT or changes(plan):
        return settlement.state, settlement.reason
    refused = settlement.verdict.refusals or plan.refusals
    if kept_before and not refused:
        return TurnState.KEPT, None
    return TurnState.EMPTY, "refused" if refused else "already-known"


def changes(plan: Plan) -> bool:
    """Whether a plan writes anything."""
    return bool(plan.operations or plan.candidates or plan.proposals)


def operations(plan: Plan) -> dict[str, int]:
    """How often each operation was done, candidates and proposals included."""
    counts = Counter(operation.op.value for operation in plan.operations)
    counts.update({"candidate": len(plan.candidates), "proposal": len(plan.proposals)})
    return {name: count for name, count in counts.items() if count}


def refused(verdict: Verdict, plan: Plan) -> dict[str, int]:
    """How many claims were refused, by code."""
    return dict(Counter(refusal.code for refusal in (*verdict.refusals, *plan.refusals)))
