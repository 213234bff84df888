"""A waiting turn in, its pass record out, committed: the heart of the product.

gate -> claim -> near facts -> window -> prompt -> backend -> save the answer -> read -> verify -> commit (it
reconciles) -> one log line. Whatever stops this between two steps leaves the turn waiting with its text; the next claim
goes on from the saved answer, so nothing is asked twice. An answer that nobody can read is asked for once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from distiller import timestamps
from distiller.distill import planted, price, prompt, recalls, reply, retry, verify, window
from distiller.errors import (
    BackendError,
    BackendHaltedError,
    BackendUnavailableError,
    DiskFullError,
    LeaseLostError,
    OutdatedProgramError,
    RequestRefusedError,
    StoreBusyError,
)
from distiller.memory import rank
from distiller.ports import Backend, Clock, Notifier, Store, Worker
from distiller.service.gate import Closed, Gate
from distiller.service.places import Redact
from distiller.vocabulary import (
    Declined,
    FactQuery,
    Lease,
    NearFact,
    PassRecord,
    Price,
    Reply,
    Request,
    Settlement,
    TurnState,
    Usage,
    Verdict,
)

LEASE_SECONDS = 300
PAUSED_LOOK_SECONDS = 60
SAVE_TRIES = 3
ANSWER_CHARACTERS = 100_000  # a longer answer is none that we asked for
REFUSED = "the model refused"
CUT_OFF = "the answer was cut off at the model's limit: answer shorter"


class PassRules(msgspec.Struct, frozen=True):
    """What of the configuration decides how a pass goes."""

    redact: Redact
    window_tokens: int = 2500
    near_facts: int = 20
    waits_minutes: tuple[float, ...] = (1, 5, 15, 60, 240, 720, 1440, 1440)
    prompted: bool = False  # the backend is a model and wants a written prompt
    language: str = "en"
    price: Price | None = None  # of the backend's model, where it is known
    lease_seconds: float = LEASE_SECONDS  # longer than a call and its repair may take


class Distilling:
    """Settles waiting turns; `owner` names this process in leases."""

    def __init__(
        self,
        *,
        store: Store,
        worker: Worker,
        backend: Backend,
        gate: Gate,
        clock: Clock,
        notifier: Notifier,
        rules: PassRules,
        owner: str,
    ) -> None:
        self._store = store
        self._worker = worker
        self._backend = backend
        self._gate = gate
        self._clock = clock
        self._notifier = notifier
        self._rules = rules
        self._owner = owner

    async def closed(self) -> Closed | None:
        """Why no turn may be distilled now, or None."""
        return await self._gate.closed()

    async def distill_turn(self, key: str) -> PassRecord | Closed | None:
        """Settle one turn, or find out when to try again.

        None if another process has it or it is settled or paused; Closed if no call may be made now, and then
        nothing was written.

        Raises:
            StoreBusyError, DiskFullError: nothing was written; the turn waits.
            OutdatedProgramError: only a restart helps; the turn waits.
        """
        if (closed := await self._gate.closed()) is not None:
            return closed
        lease = await self._worker(
            self._store.claim,
            key,
            owner=self._owner,
            at=self._now(),
            lease_seconds=self._rules.lease_seconds,
            limits=self._gate.limits(),
        )
        if isinstance(lease, Declined):
            return await self._gate.declined(lease)
        if lease is None:
            return None
        if (until := await self._worker(self._paused_until, lease)) is not None:
            await self._give_back(lease, retry_at=until)
            return None
        return await self._leased(lease)

    async def _leased(self, lease: Lease) -> PassRecord | None:
        attempt = _Attempt(
            lease, store=self._store, worker=self._worker, backend=self._backend, gate=self._gate, clock=self._clock,
            rules=self._rules,
        )  # fmt: skip
        started = self._clock.monotonic()
        try:
            settlement = await attempt.settle()
        except OutdatedProgramError:
            await self._give_back(lease)
            raise
        except (StoreBusyError, DiskFullError):  # the lease ends by itself; what was answered is saved, or asked again
            raise
        except LeaseLostError:  # taken over, or something was erased meanwhile: what was asked may tell of it
            return None
        except Exception as error:  # noqa: BLE001 -- a fault of ours in one turn must not stop the others
            self._notifier.event("turn.fault", level="error", session=lease.session_id, error=type(error).__name__)
            settlement = attempt.failed(BackendUnavailableError(f"a fault of distiller ({type(error).__name__})"))
        except BaseException:  # stopped in the middle of a call: the turn is free at once, the call stays paid
            await self._give_back(lease, usage=attempt.if_stopped())
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

    async def _give_back(self, lease: Lease, *, retry_at: str | None = None, usage: Usage | None = None) -> None:
        """Let the turn wait as if nothing had been tried; what was spent stays spent."""
        settlement = Settlement(
            TurnState.WAITING, "queued", Verdict(), usage or Usage(), self._backend.name,
            retry_at=retry_at, counts_as_attempt=False,
        )  # fmt: skip
        await self._worker(self._store.commit, settlement, lease, at=self._now())

    def _now(self) -> str:
        return timestamps.to_text(self._clock.now())


class _Attempt:
    """One try to settle one leased turn; `usage` grows with its calls."""

    def __init__(
        self,
        lease: Lease,
        *,
        store: Store,
        worker: Worker,
        backend: Backend,
        gate: Gate,
        clock: Clock,
        rules: PassRules,
    ) -> None:
        self._lease = lease
        self._store = store
        self._worker = worker
        self._backend = backend
        self._gate = gate
        self._clock = clock
        self._rules = rules
        self.usage = Usage()
        self._calling = False

    async def settle(self) -> Settlement:
        """How the turn ends, or how it goes on waiting."""
        try:
            request, given = await self._answered()
        except BackendError as error:
            return self.failed(await self._gate.failed(error, self._lease.key))
        if isinstance(given, Closed):
            return self._no_room(given)
        problem = unusable(given)
        if problem is not None:
            await self._gate.unusable(problem)
            reason = "model-refused" if given.fault == "refused" else "answer-unusable"
            return self._ended(TurnState.DEAD, reason, Verdict(), given, error=problem)
        await self._gate.answered()
        return self._judged(request, given)

    def failed(self, error: BackendError) -> Settlement:
        """What a call without answer makes of the turn."""
        self._spend(self._guessed(error.calls, error.spent_tokens))
        if isinstance(error, BackendHaltedError):
            return self._waiting("queued" if self._gate.by_hand else "halted", error)
        if isinstance(error, RequestRefusedError):
            return self._unanswered(TurnState.DEAD, error.reason, error)
        return self._again_later(error)

    def if_stopped(self) -> Usage:
        """What was spent if the attempt is stopped now: a running call is taken to be billed."""
        if self._calling:
            self._spend(self._guessed(1, self._rules.window_tokens + window.tokens_of(prompt.SYSTEM)))
        return self.usage

    # -- asking -------------------------------------------------------------------------------------------------
    async def _answered(self) -> tuple[Request, Reply | Closed]:
        """The question and its answer: a saved one, else a new one; an unusable one is asked for once more.

        Closed if no second call may be made now; the first answer stays saved.
        """
        saved = self._lease.saved
        if saved is not None:
            request, given = saved.request, saved.reply
        else:
            request = await self._request()
            given = await self._ask(request)
        problem = unusable(given)
        if problem is None or request.repair is not None:
            return request, given
        if (closed := await self._gate.once_more(self._lease)) is not None:
            return request, closed
        repaired = msgspec.structs.replace(request, repair=problem)
        return repaired, await self._ask(repaired)

    async def _ask(self, request: Request) -> Reply:
        """One call; its redacted answer is saved before anybody judges it."""
        self._calling = self._rules.prompted
        given = await self._backend.distill(request)
        self._calling = False
        self._spend(given.usage)
        given = msgspec.structs.replace(
            given, text=self._rules.redact(given.text[:ANSWER_CHARACTERS]), usage=self.usage
        )
        await self._save(request, given)
        return given

    async def _save(self, request: Request, given: Reply) -> None:
        """Keep a paid answer; a busy store is worth several tries."""
        for _ in range(SAVE_TRIES - 1):
            with contextlib.suppress(StoreBusyError):
                await self._worker(self._store.save_answer, self._lease, request, given, at=self._now())
                return
        await self._worker(self._store.save_answer, self._lease, request, given, at=self._now())

    async def _request(self) -> Request:
        text, rules = self._lease.text, self._rules
        rows = recalls.left_out(text.rows)
        before = tuple(row for row in rows if row.previous)
        turn = msgspec.structs.replace(text, rows=rows[len(before) :])
        cut = window.cut(turn, note=self._lease.note, tokens=rules.window_tokens, previous=before)
        own = " ".join(row.text for row in cut.rows if row.part == "own" and not row.previous)
        near = await self._worker(self._near, rank.terms(own), self._lease.project_key)
        request = Request(cut, near, self._lease.project_key)
        if not rules.prompted:
            return request
        written = prompt.write(cut, near, language=rules.language)
        return msgspec.structs.replace(request, prompt=written, prompt_version=prompt.VERSION)

    def _near(self, terms: Sequence[str], project_key: str) -> tuple[NearFact, ...]:
        scopes = ("user", f"project:{project_key}")
        hits = self._store.search(terms, query=FactQuery(scopes=scopes, limit=self._rules.near_facts)) if terms else []
        return tuple(
            NearFact(place, hit.fact.name, hit.fact.summary, hit.fact.scope, hit.fact.id, hit.fact.kind)
            for place, hit in enumerate(hits, 1)
        )

    # -- ending -------------------------------------------------------------------------------------------------
    def _judged(self, request: Request, given: Reply) -> Settlement:
        answer = reply.read(given.text)
        assert isinstance(answer, reply.Answer)  # noqa: S101 -- `unusable` has read it
        lease = self._lease
        verdict = verify.verify(
            planted.beside(answer, request.window) if self._rules.prompted else answer,
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
        return self._ended(*outcome(verdict), verdict, given)

    def _again_later(self, error: BackendError) -> Settlement:
        counts, wait = True, None
        if isinstance(error, BackendUnavailableError):
            counts, wait = error.counts, error.retry_after_seconds
        if counts:
            by_rule = retry.retry_in_seconds(self._lease.attempt, self._rules.waits_minutes)
            if by_rule is None:
                return self._unanswered(TurnState.DEAD, "backend-failed", error)
            wait = max(by_rule, wait or 0)
        retry_at = timestamps.after(self._now(), seconds=wait) if counts and wait else None  # else the gate says when
        return self._waiting("retry" if counts else "resting", error, counts=counts, retry_at=retry_at)

    def _no_room(self, closed: Closed) -> Settlement:
        """The turn waits for its second call; the first is spent."""
        why = "queued" if self._gate.by_hand else closed.why
        error = BackendUnavailableError(f"no second call now: {closed.text}", counts=False)
        return self._waiting(why, error)

    def _waiting(
        self, reason: str, error: BackendError, *, counts: bool = False, retry_at: str | None = None
    ) -> Settlement:
        settlement = self._unanswered(TurnState.WAITING, reason, error)
        return msgspec.structs.replace(settlement, retry_at=retry_at, counts_as_attempt=counts)

    def _unanswered(self, state: TurnState, reason: str, error: BackendError) -> Settlement:
        return Settlement(state, reason, Verdict(), self.usage, self._backend.name, error=str(error))

    def _ended(
        self, state: TurnState, reason: str | None, verdict: Verdict, given: Reply, *, error: str | None = None
    ) -> Settlement:
        return Settlement(
            state, reason, verdict, self.usage, given.backend, given.model, given.prompt_version, error=error
        )

    def _guessed(self, calls: int, tokens: int) -> Usage:
        usage = Usage(calls=calls, input_tokens=tokens)
        return msgspec.structs.replace(
            usage, cost_usd=price.cost(usage, self._rules.price) if self._rules.price else None
        )

    def _spend(self, usage: Usage) -> None:
        counts = {
            name: getattr(self.usage, name) + getattr(usage, name)
            for name in ("calls", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
        }
        costs = [cost for cost in (self.usage.cost_usd, usage.cost_usd) if cost is not None]
        self.usage = Usage(**counts, cost_usd=sum(costs) if costs else None)

    def _now(self) -> str:
        return timestamps.to_text(self._clock.now())


def unusable(given: Reply) -> str | None:
    """Why nothing can be read from an answer, in words; None if it can be judged."""
    if given.fault is not None:
        return REFUSED if given.fault == "refused" else CUT_OFF
    answer = reply.read(given.text)
    return answer.reason if isinstance(answer, reply.Unusable) else None


def outcome(verdict: Verdict) -> tuple[TurnState, str | None]:
    """How a judged reply settles its turn; what reconciling changes nothing by becomes empty in the store."""
    if verdict.kept or verdict.candidates:
        return TurnState.KEPT, None
    if verdict.suspicious:
        return TurnState.EMPTY, "suspicious"
    if verdict.refusals:
        return TurnState.EMPTY, "refused"
    return TurnState.EMPTY, verdict.empty_reason or "nothing-durable"
