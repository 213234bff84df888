"""Any sequence of enrolling, claiming, settling and editing in, the same answers from the fake and from SQLite out.

Property 10: what use-case tests learn from the fake holds for the real store. Failing writes are rules too.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from distiller.adapters.store_sqlite import open_store
from distiller.errors import DistillerError, StoreBusyError
from distiller.timestamps import after
from distiller.vocabulary import (
    FactQuery,
    FactStatus,
    Lease,
    Limits,
    Op,
    Operation,
    Pause,
    Plan,
    Retention,
    TurnQuery,
    TurnState,
    Usage,
    Verdict,
)
from tests.fakes.store import FakeStore
from tests.fakes.store_values import AT, answered, asked, claim, enrolment, quote, session, settled, waits

replace = msgspec.structs.replace
keys = st.sampled_from(["k1", "k2", "k3", "k4"])
sessions = st.sampled_from(["s1", "s2"])
slugs = st.sampled_from(["package-manager", "test-runner"])
limits = st.sampled_from(
    [
        None,
        Limits(since=AT, tokens=250, reserved_tokens=100),
        Limits(since=after(AT, seconds=300), usd=0.5, reserved_tokens=100, reserved_usd=0.25),
        Limits(since="", until=after(AT, seconds=100), tokens=300, reserved_tokens=100, reserved_usd=0.125),
        Limits(since="", calls_per_minute=2, reserved_tokens=100, purse="backfill-1"),
    ]
)


def counter() -> Callable[[], str]:
    """Ids that come out alike in both stores."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):08x}-id"


class Stores(RuleBasedStateMachine):
    """Both stores, asked and told the same."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.fake = FakeStore(new_id=counter())
        self.real = open_store(self.folder.name, new_id=counter())
        self.leases: list[Lease] = []
        self.at = AT

    def teardown(self) -> None:
        """Leave nothing behind."""
        self.real.close()
        self.folder.cleanup()

    def both(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Call both; they give, or raise, the same."""
        answers = []
        for store in (self.fake, self.real):
            try:
                answers.append(getattr(store, name)(*args, **kwargs))
            except DistillerError as error:
                answers.append(type(error))
        assert answers[0] == answers[1]
        return answers[0]

    @rule(seconds=st.sampled_from([1, 100, 400, 4000]))
    def time_passes(self, seconds: int) -> None:
        """The clock moves."""
        self.at = after(self.at, seconds=seconds)

    @rule(
        key=keys,
        of=sessions,
        by_hand=st.sampled_from([False, False, True]),
        words=st.sampled_from(["w1", "w2"]),
        digest=st.sampled_from(["a", "b"]),
        ids=st.lists(st.sampled_from(["m1", "m2", "m3"]), unique=True, max_size=2),
        skip=st.sampled_from([None, None, "no-words"]),
        again=st.booleans(),
        off_record=st.sampled_from([False, False, False, True]),
    )
    def enrol(
        self,
        *,
        key: str,
        of: str,
        by_hand: bool,
        words: str,
        digest: str,
        ids: list[str],
        skip: str | None,
        again: bool,
        off_record: bool,
    ) -> None:
        """A turn is read, for the first time or again."""
        turn = enrolment(
            key,
            of=session(of),
            by_hand=by_hand,
            words=words,
            digest=words + digest,
            message_ids=tuple(ids),
            skip=skip,
            again=again,
            off_record=off_record,
            ended_at=after(AT, seconds=int(key[1])),
        )
        self.both("enrol", [turn], None, at=self.at)

    @rule(key=keys)
    def withdraw(self, key: str) -> None:
        """The person takes a turn back."""
        self.both("enrol", [], None, withdrawn=[key], at=self.at)

    @rule(key=keys)
    def enrol_while_busy(self, key: str) -> None:
        """A write that fails changes nothing."""
        self.fake.busy = True
        try:
            self.fake.enrol([enrolment(key, words="w9", digest="d9")], None, at=self.at)
        except StoreBusyError:
            self.fake.busy = False
        assert not self.fake.busy

    @rule(key=keys, owner=st.sampled_from(["a", "b"]), limits=limits)
    def claim(self, key: str, owner: str, limits: Limits | None) -> None:
        """Somebody wants to work on a turn, perhaps beyond the budget."""
        lease = self.both("claim", key, owner=owner, at=self.at, limits=limits)
        if isinstance(lease, Lease):
            self.leases.append(lease)

    @precondition(lambda self: self.leases)
    @rule(
        data=st.data(),
        calls=st.sampled_from([1, 2]),
        cost_usd=st.sampled_from([None, 0.125, -1, float("nan")]),
        fault=st.sampled_from([None, "cut-off"]),
        said=st.sampled_from(["Something else", "From now on use uv"]),
    )
    def save_answer(self, *, data: st.DataObject, calls: int, cost_usd: float | None, fault: str, said: str) -> None:
        """The model has answered, perhaps once more."""
        lease = data.draw(st.sampled_from(self.leases))
        usage = Usage(calls=calls, input_tokens=9, output_tokens=calls, cost_usd=cost_usd)
        self.both("save_answer", lease, asked(said), answered("x", usage=usage, fault=fault), at=self.at)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), limits=limits.filter(bool))
    def reserve(self, data: st.DataObject, limits: Limits) -> None:
        """A pass wants to ask once more, perhaps beyond the budget."""
        self.both("reserve", data.draw(st.sampled_from(self.leases)), limits, at=self.at)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), slug=slugs, said=st.sampled_from([0, 50, 5000]), note=st.sampled_from([None, "A note."]))
    def settle(self, data: st.DataObject, slug: str, said: int, note: str | None) -> None:
        """A pass ends well."""
        lease = data.draw(st.sampled_from(self.leases))
        words = quote(f"u-{lease.key}", lease.key, said_at=after(AT, seconds=said), session_id=lease.session_id)
        verdict = data.draw(st.sampled_from(["kept", "candidates", "suspicious"]))
        claims = (claim(slug, evidence=(words,)),)
        settlement = settled(TurnState.KEPT, note=note)
        shown = replace(settlement.verdict, **{verdict: claims})
        self.both("commit", replace(settlement, verdict=shown), lease, at=self.at)

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), end=st.sampled_from(["wait", "queue", "dead", "unusable", "empty"]))
    def settle_otherwise(self, data: st.DataObject, end: str) -> None:
        """A pass ends without a fact."""
        lease = data.draw(st.sampled_from(self.leases))
        ends = {
            "wait": replace(waits(after(self.at, seconds=60)), error="overloaded", prompt_version="1"),
            "queue": replace(waits(self.at), reason="queued", counts_as_attempt=False),
            "unusable": settled(TurnState.DEAD, "answer-unusable", usage=Usage(calls=2), backend="anthropic"),
            "dead": settled(TurnState.DEAD, "too-long"),
            "empty": replace(settled(TurnState.EMPTY, "one-off"), verdict=Verdict()),
        }
        self.both("commit", ends[end], lease, at=self.at)

    @rule()
    def requeue(self) -> None:
        """The person asks for another try."""
        self.both("requeue", TurnQuery(), at=self.at)

    @rule(reason=st.sampled_from(["halted", None]))
    def hold(self, reason: str | None) -> None:
        """The backend halts, or goes on."""
        self.both("hold", reason, from_reasons=["queued", "retry", "halted"], at=self.at)

    @rule()
    def release(self) -> None:
        """A daemon starts again."""
        self.both("release", ["a"], at=self.at)

    @rule(level=st.sampled_from(["all", "project"]))
    def pause(self, level: str) -> None:
        """The person had switched off for a moment."""
        target = "" if level == "all" else "p1"
        self.both("pause", Pause(f"p-{self.at}", level, target, after(AT, seconds=3), after(AT, seconds=4)))

    @rule(seconds=st.sampled_from([100, 4000]))
    def pause_now(self, seconds: int) -> None:
        """The person switches a session off for a while."""
        until = after(self.at, seconds=seconds)
        self.both("pause", Pause(f"now-{self.at}", "session", "claude_code:s1", self.at, until))

    @rule(data=st.data(), to=st.sampled_from([FactStatus.BINNED, FactStatus.ACTIVE]))
    def edit(self, data: st.DataObject, to: FactStatus) -> None:
        """The person acts on a fact, perhaps an outdated one."""
        facts = self.real.facts(FactQuery(statuses=()))
        if facts:
            before = data.draw(st.sampled_from(facts))
            seen = replace(before, rev=data.draw(st.sampled_from([before.rev, max(1, before.rev - 1)])))
            moved = replace(
                seen, status=to, updated_at=self.at, forgotten_at=self.at if to is FactStatus.BINNED else None
            )
            self.both("apply", Plan((Operation(Op.FORGET, seen, moved),)), actor="person", at=self.at)

    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """The person has a fact erased."""
        facts = self.real.facts(FactQuery(statuses=()))
        if facts:
            self.both("erase", [data.draw(st.sampled_from(facts)).id], at=self.at)

    @rule()
    def expire(self) -> None:
        """The night comes."""
        self.both("expire", Retention(bin_days=0, candidate_days=0), at=self.at)

    @invariant()
    def same_ledger(self) -> None:
        """Same turns, same passes, same sums."""
        for turn in self.both("turns", TurnQuery()):
            self.both("turn", turn.key)
            for record in self.both("passes", turn.key):
                self.both("exchange", record.id)
        self.both("spending", since="")
        for by_hand in (False, True):
            self.both("due", at=self.at, limit=9, by_hand=by_hand)
            self.both("due", at=self.at, limit=9, by_hand=by_hand, only=["k2", "k3"])
        self.both("lease_owners", at=self.at)
        self.both("sessions")
        fake, real = self.fake.totals(day_from=AT), self.real.totals(day_from=AT)
        size = {"schema": 0, "store_bytes": 0, "wal_bytes": 0}
        assert replace(fake, **size) == replace(real, **size)

    @invariant()
    def same_facts(self) -> None:
        """Same facts, quotes, history, candidates, proposals."""
        owners = [one.id for one in self.both("facts", FactQuery(statuses=()))]
        owners += [
            one.id for status in ("open", "promoted", "expired") for one in self.both("candidates", status=status)
        ]
        owners += [one.id for one in self.both("proposals")]
        self.both("evidence", owners)
        self.both("history")


TestStores = Stores.TestCase
TestStores.settings = settings(
    max_examples=15, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
