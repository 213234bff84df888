"""Finished turns in, enrolments out, with their projects: the steps that following and backfilling share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from distiller import timestamps
from distiller.ports import Clock, Projects, Store, Worker
from distiller.service import enrol, places
from distiller.service.enrol import Rules
from distiller.transcript import identity
from distiller.vocabulary import Enrolment, Mark, Project, Row, Turn

NO_FOLDER = Project("none", "(no folder)")


class Context(msgspec.Struct):
    """What the next turn of one session may see of those before; the newest last."""

    turns: list[tuple[Row, ...]] = msgspec.field(default_factory=list)

    def rows(self) -> tuple[Row, ...]:
        """All background rows, oldest first."""
        return tuple(row for rows in self.turns for row in rows)

    def add(self, rows: Sequence[Row], *, keep: int) -> None:
        """Remember a turn's rows and forget all but the last `keep` turns'."""
        self.turns.append(enrol.background(rows))
        del self.turns[: max(0, len(self.turns) - keep)]


class Reading:
    """Prepares turns for the ledger; one for each process."""

    def __init__(
        self, *, store: Store, worker: Worker, projects: Projects, clock: Clock, rules: Rules, ask: bool, listed: bool
    ) -> None:
        self._store = store
        self._worker = worker
        self._projects = projects
        self._clock = clock
        self.rules = rules
        self._ask = ask
        self._listed = listed
        self._saved: dict[str, str] = {}  # folder -> day on which its project was last written

    def now(self) -> str:
        """The time as text."""
        return timestamps.to_text(self._clock.now())

    def stored_path(self, path: str) -> str:
        """How the file at `path` is named in store and log."""
        return places.stored_path(path, self.rules.redact)

    def named(self, counts: Mapping[str, int]) -> dict[str, int]:
        """Counts whose names come from a file, without secrets in them."""
        named: dict[str, int] = {}
        for name, count in counts.items():
            clean = self.rules.redact(name)
            named[clean] = named.get(clean, 0) + count
        return named

    async def unknown(self, turns: Sequence[Turn]) -> list[Turn]:
        """Those of `turns` that the ledger lacks or knows with other content."""
        known = await self.marks(turns)
        return [turn for turn in turns if turn.key not in known or known[turn.key].digest != identity.digest(turn)]

    async def marks(self, turns: Sequence[Turn]) -> dict[str, Mark]:
        """What the ledger has of `turns`."""
        return await self._worker(self._store.marks, {turn.key for turn in turns}) if turns else {}

    async def prepare(self, turn: Turn, *, file: str, context: Context, ended_at: str | None = None) -> Enrolment:
        """Redact one turn and find its project; `ended_at` where its lines have no time."""
        project = await self._project(turn)
        ended = turn.ended_at or ended_at or self.now()
        prepared = enrol.enrolment(
            turn,
            rules=self.rules,
            file=self.stored_path(file),
            project_key=project.key,
            ended_at=ended,
            local_date=self._clock.local_date(turn.prompt_at or ended),
            previous=context.rows(),
            reading="off" if self._listed and project.reading is None else project.reading,
            ask=self._ask,
        )
        context.add(prepared.text.rows, keep=self.rules.previous_turns)
        return prepared

    async def _project(self, turn: Turn) -> Project:
        folder = turn.cwd or turn.session.cwd
        if not folder:
            return NO_FOLDER
        now = self.now()
        if self._saved.get(folder) != now[:10]:
            self._saved[folder] = now[:10]
            found = await self._worker(self._projects.resolve, folder)
            return await self._worker(
                self._store.save_project, places.redacted_project(found, self.rules.redact), at=now
            )
        return await self._worker(self._store.project_of, self.rules.redact(folder)) or NO_FOLDER
