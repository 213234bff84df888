"""The use cases joined over fakes (or a real store): what `bootstrap` does for the program, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from distiller.adapters.backend_embedded import EmbeddedBackend
from distiller.adapters.worker_thread import InlineWorker
from distiller.distill.redact import redact, redact_json
from distiller.ports import Backend, Store
from distiller.service.backfill import Backfill, Options
from distiller.service.backfill_report import Report
from distiller.service.distill_turn import Distilling, PassRules
from distiller.service.enrol import Rules
from distiller.service.follow import Follower, FollowRules
from distiller.service.gate import Budget, Closed, Gate
from distiller.service.reading import Reading
from distiller.transcript.turns import Settle
from distiller.vocabulary import Enrolled, Fact, FactQuery, FactStatus, PassRecord, Pause, TurnQuery, TurnRow
from tests.fakes.clock import FakeClock
from tests.fakes.notifier import FakeNotifier
from tests.fakes.projects import FakeProjects
from tests.fakes.sessions import ClaudeSession
from tests.fakes.store import FakeStore
from tests.fakes.transcripts import FakeTranscripts

RULES = Rules(redact=redact, redact_json=redact_json)


class World:
    """A machine with session files, a daemon and a store; time moves only when told."""

    def __init__(
        self,
        *,
        store: Store | None = None,
        backend: Backend | None = None,
        rules: Rules = RULES,
        ask: bool = False,
        guard_sessions: int = 30,
        clock: FakeClock | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.store: Store = store or FakeStore()
        self.backend = backend or EmbeddedBackend()
        self.transcripts = FakeTranscripts()
        self.notifier = FakeNotifier()
        self.projects = FakeProjects()
        self._rules = rules
        self._ask = ask
        self._guard_sessions = guard_sessions
        self._budget = budget
        self.closed: Closed | None = None  # why the daemon distils nothing more
        self.first_start = self.clock.text()
        self.start()

    def start(self) -> None:
        """Start the daemon (again): what it had in memory is gone."""
        worker = InlineWorker()
        self.reading = Reading(
            store=self.store, worker=worker, projects=self.projects, clock=self.clock, rules=self._rules,
            ask=self._ask, listed=False,
        )  # fmt: skip
        self.follower = Follower(
            reading=self.reading, store=self.store, worker=worker, transcripts=self.transcripts,
            notifier=self.notifier,
            rules=FollowRules(
                live_from=self.first_start, settle=Settle(), max_line_bytes=1 << 20,
                guard_sessions=self._guard_sessions, guard_minutes=10,
            ),
        )  # fmt: skip
        self.gate = Gate(
            store=self.store, worker=worker, clock=self.clock, notifier=self.notifier, backend=self.backend.name,
            budget=self._budget,
        )  # fmt: skip
        rules = PassRules(redact=redact, prompted=self._budget is not None)
        self.distilling = Distilling(
            store=self.store, worker=worker, backend=self.backend, gate=self.gate, clock=self.clock,
            notifier=self.notifier, rules=rules, owner="daemon/test",
        )  # fmt: skip

    def session(self, path: str = "/claude_code/a.jsonl", **about: str) -> Growing:
        """A session file that a test lets grow."""
        return Growing(self, path, ClaudeSession(at=self.clock.text(), **about))  # type: ignore[arg-type]  # all text

    def grown(self, path: str) -> list[Enrolled]:
        """The daemon is told that a file grew."""
        return asyncio.run(self.follower.follow(path))

    def sweep(self) -> list[Enrolled]:
        """The daemon looks at every file."""
        return asyncio.run(self.follower.sweep())

    def wait(self, seconds: float) -> list[Enrolled]:
        """Time passes, and the daemon notices."""
        self.clock.move(seconds=seconds)
        return asyncio.run(self.follower.tick())

    def distil(self) -> list[PassRecord]:
        """The daemon settles what is due, as far as its gate lets it."""
        return asyncio.run(self._distil())

    async def _distil(self) -> list[PassRecord]:
        done: list[PassRecord] = []
        self.closed = await self.gate.enter()
        if self.closed is not None:
            return done
        while keys := self.store.due(at=self.clock.text(), limit=50, newest_first=self.gate.after_budget):
            before = len(done)
            for key in keys:
                record = await self.distilling.distill_turn(key)
                if isinstance(record, Closed):
                    self.closed = record
                    await self.gate.shut(record)
                    return done
                done += [record] if record is not None else []
            if all(record.outcome == "waiting" for record in done[before:]):
                break
        return done

    def pause(self, level: str = "all", target: str = "") -> None:
        """The person switches memory off."""
        self.store.pause(Pause(f"pause-{self.clock.text()}", level, target, self.clock.text()))

    def backfill(self, *paths: str, options: Options | None = None) -> Report:
        """Old sessions are read by hand."""
        report = Report()
        work = Backfill(
            reading=self.reading, distilling=self.distilling, store=self.store, worker=InlineWorker(),
            transcripts=self.transcripts, clock=self.clock, notifier=self.notifier,
            settle=Settle(), max_line_bytes=1 << 20, options=options or Options(paths=paths), report=report,
        )  # fmt: skip
        return asyncio.run(work.run())

    def turns(self) -> list[TurnRow]:
        """The ledger, oldest first."""
        return self.store.turns(TurnQuery())[::-1]

    def outcomes(self) -> list[str]:
        """State and reason of each turn, oldest first."""
        return [f"{row.state.value}({row.reason})" if row.reason else row.state.value for row in self.turns()]

    def facts(self) -> list[Fact]:
        """The active facts by name."""
        return sorted(self.store.facts(FactQuery()), key=lambda fact: (fact.scope, fact.name))

    def all_facts(self) -> list[Fact]:
        """All facts, whatever their status."""
        return self.store.facts(FactQuery(statuses=tuple(FactStatus)))

    def bodies(self) -> list[str]:
        """What the active facts say."""
        return [fact.body for fact in self.facts()]


class Growing:
    """One session file of a `World`, written as an agent writes it."""

    def __init__(self, world: World, path: str, session: ClaudeSession) -> None:
        self._world = world
        self.path = path
        self.session = session

    def turns(self, words: Sequence[str]) -> list[Enrolled]:
        """Whole turns, one after the other, each seen by the daemon."""
        return [one for said in words for one in self.turn(said)]

    def turn(self, words: str) -> list[Enrolled]:
        """One whole turn, seen by the daemon."""
        return self.add(self.session.turn(words))

    def add(self, data: bytes) -> list[Enrolled]:
        """Some bytes, seen by the daemon."""
        self.write(data)
        return self._world.grown(self.path)

    def write(self, data: bytes) -> None:
        """Some bytes that the daemon is not told of."""
        self._world.transcripts.append(self.path, data, at=self._world.clock.text())
        self._world.clock.move(seconds=1)
        self.session.at = self._world.clock.text()
