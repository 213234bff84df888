"""Nothing in, whether a model may be called now out: the one gate that every call passes, daemon and backfill alike.

It is shut while the backend is halted (only a person helps, or a new day), while it rests (it asked for that, or it
failed too often in a row), when the day's budget is spent, and for moments when calls come in a burst. What shuts it
stands in the store, so that it holds over restarts and for every process. A backend that makes no calls has no budget
and its gate is always open.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from distiller import timestamps
from distiller.distill import retry
from distiller.errors import BackendError, BackendHaltedError, BackendUnavailableError
from distiller.ports import Clock, Notifier, Store, Worker
from distiller.vocabulary import Declined, Lease, Limits

DUE_REASONS = ("queued", "retry", "behind", "resting")
SHUT_REASONS = ("halted", "budget")
BUDGET_DAYS = "budget_days"
KEPT_BUDGET_DAYS = 10
QUOTA_REST_SECONDS = 900


class Budget(msgspec.Struct, frozen=True):
    """What may be spent: tokens and USD a day, calls a minute (None: no limit), and what one call may take of it."""

    daily_tokens: int | None = None
    daily_usd: float | None = None
    calls_per_minute: int | None = None
    call_tokens: int = 0
    call_usd: float = 0


class Purse(msgspec.Struct, frozen=True):
    """Money of its own that a backfill was given; the day's budget does not count then."""

    name: str
    usd: float


class Closed(msgspec.Struct, frozen=True):
    """The gate is shut. `why` is the waiting reason of turns, `code` says it in CONTRACTS' words, `until` if known."""

    why: Literal["halted", "resting", "budget"]
    code: str
    text: str
    fix: str = ""
    until: str | None = None


class Gate:
    """May a call be made? And what the calls that were made taught.

    `by_hand` is for a person's own command: what halted the service does not bind it, and its failures halt nobody.
    """

    def __init__(
        self,
        *,
        store: Store,
        worker: Worker,
        clock: Clock,
        notifier: Notifier,
        backend: str,
        budget: Budget | None,
        purse: Purse | None = None,
        by_hand: bool = False,
    ) -> None:
        self._store = store
        self._worker = worker
        self._clock = clock
        self._notifier = notifier
        self._backend = backend
        self._budget = budget
        self._purse = purse
        self._by_hand = by_hand
        self._stopped: Closed | None = None  # what stopped a command; the service keeps that in the store
        self._shut: Closed | None = None  # what turns of the service were last held back for
        self.after_budget = False  # a new day's budget: the newest of what waits goes first, until nothing waits

    @property
    def by_hand(self) -> bool:
        """Whether a person's command asks: what it meets is told to them and holds back no turn."""
        return self._by_hand

    async def begin(self) -> None:
        """Forget what halted the backend: the service was started anew, which is how settings come into force."""
        if await self._get(halt_key(self._backend)):
            await self._put(halt_key(self._backend), None)
        await self._let_go()

    async def enter(self) -> Closed | None:
        """What shuts the gate for the service now; due turns wait for that reason, and are let go once it is over."""
        closed = await self.closed()
        if closed is not None:
            await self.shut(closed)
        elif self._shut is not None:
            self.after_budget = self._shut.why == "budget"
            self._shut = None
            await self._let_go()
        return closed

    async def shut(self, closed: Closed) -> None:
        """Let due turns wait for the reason for which the gate is shut; a burst is over too soon for that."""
        self._shut = closed
        if closed.code != "burst":
            reasons = DUE_REASONS if closed.why in SHUT_REASONS else ("queued", "behind")
            await self._worker(self._store.hold, closed.why, from_reasons=reasons, at=self._now())

    async def closed(self) -> Closed | None:
        """What shuts the gate now, or None."""
        if self._budget is None:
            return None
        if self._by_hand:
            return self._stopped or resting(await self._get(rest_key(self._backend)), self._now())
        halt = await self._get(halt_key(self._backend))
        if halt and not over(halt, self._now()):
            why: Literal["budget", "halted"] = "budget" if halt["reason"] == "budget" else "halted"
            return Closed(why, halt["reason"], halt["text"], halt["fix"], halt["until"])
        if halt:
            await self._put(halt_key(self._backend), None)
            self._notifier.event("daemon.resumed", reason=halt["reason"], backend=self._backend)
        return resting(await self._get(rest_key(self._backend)), self._now())

    def limits(self) -> Limits | None:
        """What the next claim may spend; None where nothing is spent."""
        if self._budget is None:
            return None
        day, tomorrow = self._clock.local_day(self._now())
        limits = Limits(
            since=day,
            until=tomorrow,
            tokens=self._budget.daily_tokens,
            usd=self._budget.daily_usd,
            calls_per_minute=self._budget.calls_per_minute,
            reserved_tokens=self._budget.call_tokens,
            reserved_usd=self._budget.call_usd,
        )
        if self._purse is None:
            return limits
        return msgspec.structs.replace(
            limits, since="", until=None, tokens=None, usd=self._purse.usd, purse=self._purse.name
        )

    async def once_more(self, lease: Lease) -> Closed | None:
        """What shuts the gate for a second call about a turn; None if its cost is reserved."""
        limits = self.limits()
        if limits is None:
            return None
        declined = await self._worker(self._store.reserve, lease, limits, at=self._now())
        return await self.declined(declined) if declined is not None else None

    async def declined(self, declined: Declined) -> Closed:
        """A claim did not fit: for a moment, until tomorrow, or for good where the purse is empty."""
        if declined.reason == "burst":
            return Closed("resting", "burst", "as many calls as a minute may have", until=declined.until)
        if self._purse is not None:
            self._stopped = Closed("budget", "max-cost", f"the next call may not fit into ${self._purse.usd:g}")
            return self._stopped
        _, tomorrow = self._clock.local_day(self._now())
        text = "the day's budget is spent; turns wait, nothing is lost"
        fix = "raise budget.daily_tokens or budget.daily_usd (`distiller config set`); the service takes it at once"
        await self._note_budget_day()
        return await self._halt(Closed("budget", "budget", text, fix, tomorrow), event="budget.reached")

    async def failed(self, error: BackendError, turn_key: str) -> BackendError:
        """A call brought no answer: halt, rest, or only count it. Gives the error as the turn has to take it."""
        if isinstance(error, BackendHaltedError) and error.said_by_model:
            known = await self._get(rest_key(self._backend)) or {}
            before = known.get("quota_turn")
            if before is None:
                await self._rest(str(error), asked_seconds=QUOTA_REST_SECONDS, told=True, quota_turn=turn_key)
            if before in (None, turn_key):  # twice in one turn is the turn's doing, in two turns the account's
                return BackendUnavailableError(
                    str(error), counts=before is not None, calls=error.calls, spent_tokens=error.spent_tokens
                )
        if isinstance(error, BackendHaltedError):
            _, tomorrow = self._clock.local_day(self._now())
            until = tomorrow if error.reason == "quota" else None
            await self._halt(Closed("halted", error.reason, str(error), error.fix, until), event="daemon.halted")
            return error
        asked = error.retry_after_seconds if isinstance(error, BackendUnavailableError) else None
        told = isinstance(error, BackendUnavailableError) and not error.counts
        await self._rest(str(error), asked_seconds=asked, told=told)
        return error

    async def unusable(self, problem: str) -> None:
        """An answer came that nobody can use; too many in a row rest like failures."""
        self._notifier.event("backend.answered_badly", level="warning", backend=self._backend, problem=problem)
        await self._rest(problem, asked_seconds=None, told=False)

    async def answered(self) -> None:
        """The backend works: what was counted against it is forgotten, a halt too."""
        if self._budget is None:
            return
        for key in (rest_key(self._backend), *([halt_key(self._backend)] if self._by_hand else [])):
            known = await self._get(key)
            if known and known.get("reason") != "budget":
                await self._put(key, None)

    async def _halt(self, closed: Closed, *, event: str) -> Closed:
        if self._by_hand:
            self._stopped = closed
            return closed
        halt = {
            "reason": closed.code, "text": closed.text, "fix": closed.fix, "at": self._now(), "until": closed.until,
        }  # fmt: skip
        await self._put(halt_key(self._backend), halt)
        level = "warning" if closed.why == "budget" else "error"
        self._notifier.event(event, level=level, reason=closed.code, backend=self._backend, until=closed.until)
        return closed

    async def _rest(self, text: str, *, asked_seconds: float | None, told: bool, quota_turn: str | None = None) -> None:
        known = await self._get(rest_key(self._backend)) or {}
        failures, now = known.get("failures", 0) + 1, self._now()
        seconds = retry.rest_as_asked(asked_seconds, failures, told=told)
        until = timestamps.after(now, seconds=seconds) if seconds else None
        rest = {"failures": failures, "text": text, "at": now, "until": until, "quota_turn": quota_turn}
        await self._put(rest_key(self._backend), rest)
        if until:
            self._notifier.event("backend.resting", level="warning", backend=self._backend, until=until, problem=text)

    async def _note_budget_day(self) -> None:
        today = self._clock.local_date(self._now())
        days = await self._get(BUDGET_DAYS) or []
        if today not in days:
            await self._put(BUDGET_DAYS, [*days, today][-KEPT_BUDGET_DAYS:])

    async def _let_go(self) -> None:
        await self._worker(self._store.hold, None, from_reasons=SHUT_REASONS, at=self._now())

    async def _get(self, key: str) -> Any:
        return await self._worker(self._store.setting, key)

    async def _put(self, key: str, value: Any) -> None:
        await self._worker(self._store.set_setting, key, value, at=self._now())

    def _now(self) -> str:
        return timestamps.to_text(self._clock.now())


def halt_key(backend: str) -> str:
    """Under which name the store keeps what halted a backend."""
    return f"halt:{backend}"


def rest_key(backend: str) -> str:
    """Under which name the store keeps a backend's rest and its failures in a row."""
    return f"rest:{backend}"


def over(record: dict[str, Any], now: str) -> bool:
    """Whether a halt or rest has ended by itself; one that lies ahead was noted by a clock that was set back since."""
    return record["until"] is not None and (record["until"] <= now or record["at"] > now)


def resting(record: dict[str, Any] | None, now: str) -> Closed | None:
    """The rest that a backend takes now, or None."""
    if not record or record["until"] is None or over(record, now):
        return None
    return Closed("resting", "resting", record["text"], until=record["until"])
