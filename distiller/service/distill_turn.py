"""A waiting turn in, its pass record out, committed: the heart of the product.

claim -> near facts -> window -> backend -> save the answer -> read -> verify -> commit (it reconciles) -> one log line.
Whatever stops this between two steps leaves the turn waiting with its text; the next claim goes on from the saved
answer, so nothing is asked twice.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from distiller import timestamps
from distiller.distill import reply, retry, verify, window
from distiller.errors import BackendHaltedError, BackendUnavailableError, LeaseLostError
from distiller.memory import rank
from distiller.ports import Backend, Clock, Notifier, Store, Worker
from distiller.service.places import Redact
from distiller.vocabulary import (
    FactQuery,
    Lease,
    NearFact,
    PassRecord,
    Reply,
    Request,
    Settlement,
    TurnState,
    Usage,
    Verdict,
)

LEASE_SECONDS = 300
PAUSED_LOOK_SECONDS = 60


class PassRules(msgspec.Struct, frozen=True):
    """What of the configuration decides how a pass goes."""

    redact: Redact
    window_tokens: int = 2500
    near_facts: int = 20
    waits_minutes: tuple[float, ...] = (1, 5, 15, 60, 240, 720, 1440, 1440)


class Distilling:
    """Settles waiting turns; `owner` names this process in leases."""

    def __init__(
        self,
        *,
        store: Store,
        worker: Worker,
        backend: Backend,
        clock: Clock,
        notifier: Notifier,
        rules: PassRules,
        owner: str,
    ) -> None:
        self._store = store
        self._worker = worker
        self._backend = backend
        self._clock = clock
        self._notifier = notifier
        self._rules = rules
        self._owner = owner

    async def distill_turn(self, key: str) -> PassRecord | None:
        """Settle one turn, or find out when to try again; None if another process has it or it is settled.

        Raises:
            StoreBusyError, DiskFullError: nothing was written; the turn waits.
        """
        lease = await self._worker(
            self._store.claim, key, owner=self._owner, at=self._now(), lease_seconds=LEASE_SECONDS
        )
        if lease is None:
            return None
        if (until := await self._worker(self._paused_until, lease)) is not None:
            await self._worker(
                self._store.commit, self._waiting("queued", counts=False, retry_at=until), lease, at=self._now()
            )
            return None
        started = self._clock.monotonic()
        try:
            settlement = await self._settle(lease)
        except Exception as error:  # noqa: BLE001 -- a fault of ours in one turn must not stop the others
            self._notifier.event("turn.fault", level="error", session=lease.session_id, error=type(error).__name__)
            settlement = self._failed(lease, BackendUnavailableError(type(error).__name__))
        except BaseException:  # stopped in the middle of a call: the turn is free at once
            await self._worker(self._store.commit, self._waiting("queued", counts=False), lease, at=self._now())
            raise
        took_ms = round((self._clock.monotonic() - started) * 1000)
        settlement = msgspec.structs.replace(
            settlement, usage=msgspec.structs.replace(settlement.usage, took_ms=took_ms)
        )
        try:
            record = await self._worker(self._store.commit, settlement, lease, at=self._now())
        except LeaseLostError:
            return None
        self._notifier.settled(record)
        return record

    def _paused_until(self, lease: Lease) -> str | None:
        """When to look again at a turn whose project or session (or all) is paused; None if it is not."""
        now = self._now()
        off = {("all", ""), ("project", lease.project_key), ("session", f"{lease.agent}:{lease.session_id}")}
        ends = [pause.until_at for pause in self._store.pauses(at=now) if (pause.level, pause.target) in off]
        latest = timestamps.after(now, seconds=PAUSED_LOOK_SECONDS)
        return min([latest, *(end for end in ends if end)]) if ends else None

    async def _settle(self, lease: Lease) -> Settlement:
        request = await self._request(lease)
        try:
            answered = await self._answer(lease, request)
        except BackendHaltedError as error:
            self._notifier.event("daemon.halted", level="error", reason=error.reason)
            return self._waiting("halted", counts=False)
        except BackendUnavailableError as error:
            return self._failed(lease, error)
        answer = reply.read(answered.text)
        if isinstance(answer, reply.Unusable):
            return self._ended(TurnState.DEAD, "answer-unusable", Verdict(), answered)
        verdict = verify.verify(
            answer,
            request.window,
            agent=lease.agent,
            session_id=lease.session_id,
            root_session_id=lease.root_session_id,
            turn_key=lease.key,
            project_key=lease.project_key,
            file=lease.file,
            said_at=lease.prompt_at or lease.ended_at,
            near_facts=request.near_facts,
        )
        return self._ended(*outcome(verdict), verdict, answered)

    async def _request(self, lease: Lease) -> Request:
        before = tuple(row for row in lease.text.rows if row.previous)
        turn = msgspec.structs.replace(lease.text, rows=lease.text.rows[len(before) :])
        cut = window.cut(turn, note=lease.note, tokens=self._rules.window_tokens, previous=before)
        own = " ".join(row.text for row in cut.rows if row.part == "own" and not row.previous)
        near = await self._worker(self._near, rank.terms(own), lease.project_key)
        return Request(window=cut, near_facts=near, project_key=lease.project_key)

    def _near(self, terms: Sequence[str], project_key: str) -> tuple[NearFact, ...]:
        scopes = ("user", f"project:{project_key}")
        hits = self._store.search(terms, query=FactQuery(scopes=scopes, limit=self._rules.near_facts)) if terms else []
        return tuple(
            NearFact(place, hit.fact.name, hit.fact.summary, hit.fact.scope, hit.fact.id, hit.fact.kind)
            for place, hit in enumerate(hits, 1)
        )

    async def _answer(self, lease: Lease, request: Request) -> Reply:
        """The backend's redacted answer, saved before anybody judges it; a saved one is not asked for again."""
        if lease.answer is not None:
            return Reply(lease.answer, Usage(), self._backend.name)
        given = await self._backend.distill(request)
        answer = self._rules.redact(given.text)
        await self._worker(self._store.save_answer, lease, answer, prompt=request.prompt, reply=given, at=self._now())
        return msgspec.structs.replace(given, text=answer)

    def _failed(self, lease: Lease, error: BackendUnavailableError) -> Settlement:
        wait = error.retry_after_seconds
        if error.counts:
            by_rule = retry.retry_in_seconds(lease.attempt, self._rules.waits_minutes)
            if by_rule is None:
                return Settlement(TurnState.DEAD, "backend-failed", Verdict(), Usage(), self._backend.name)
            wait = max(by_rule, wait or 0)
        retry_at = timestamps.after(self._now(), seconds=wait or 60)
        return self._waiting("retry" if error.counts else "resting", counts=error.counts, retry_at=retry_at)

    def _waiting(self, reason: str, *, counts: bool, retry_at: str | None = None) -> Settlement:
        return Settlement(
            TurnState.WAITING, reason, Verdict(), Usage(), self._backend.name,
            retry_at=retry_at, counts_as_attempt=counts,
        )  # fmt: skip

    def _ended(self, state: TurnState, reason: str | None, verdict: Verdict, answered: Reply) -> Settlement:
        return Settlement(
            state, reason, verdict, answered.usage, answered.backend, answered.model, answered.prompt_version
        )

    def _now(self) -> str:
        return timestamps.to_text(self._clock.now())


def outcome(verdict: Verdict) -> tuple[TurnState, str | None]:
    """How a judged reply settles its turn; what reconciling changes nothing by becomes empty in the store."""
    if verdict.kept or verdict.candidates:
        return TurnState.KEPT, None
    if verdict.suspicious:
        return TurnState.EMPTY, "suspicious"
    if verdict.refusals:
        return TurnState.EMPTY, "refused"
    return TurnState.EMPTY, verdict.empty_reason or "nothing-durable"
