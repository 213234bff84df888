"""Old session files in, settled turns out, newest first: what the daemon passed as backlog.

Runs in its own process beside the daemon; the ledger keeps the two apart. Each turn is committed by itself, so it may
be stopped at any instant and run again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fnmatch import fnmatch

import msgspec

from distiller import timestamps
from distiller.errors import DistillerError
from distiller.ports import Clock, Store, Transcripts, Worker
from distiller.service.distill_turn import Distilling
from distiller.service.reading import Context, Reading
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import (
    Cursor,
    Enrolled,
    EnrolledAs,
    Enrolment,
    FileIdentity,
    PassRecord,
    SessionFile,
    Turn,
    TurnState,
    Withdrawn,
)

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 1024
AGENTS_KEEP_DAYS = 30  # Claude Code and Gemini CLI delete older sessions at their start
EXPIRING_DAYS = 3
ADDING = ("add", "restore")
UPDATING = ("update", "supersede", "retire", "evidence", "merge")


class Options(msgspec.Struct, frozen=True):
    """What the person asked for."""

    paths: tuple[str, ...] = ()
    since: str | None = None
    project: str | None = None  # glob over key and name
    agent: str | None = None
    limit: int | None = None  # turns to distil
    max_cost_usd: float | None = None
    again: bool = False
    settled_by: str | None = None


class FileError(msgspec.Struct, frozen=True):
    """A file that could not be read to its end, and why."""

    file: str
    reason: str


class Report(msgspec.Struct):
    """What a backfill did so far; `turns` = known + open + kept + empty + skipped + waiting + dead."""

    files: int = 0
    sessions: int = 0
    turns: int = 0
    known: int = 0
    open: int = 0
    kept: int = 0
    empty: int = 0
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: int = 0
    dead: int = 0
    facts_added: int = 0
    facts_updated: int = 0
    candidates: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    bytes: int = 0
    malformed_lines: int = 0
    seconds: float = 0.0
    preview: bool = False
    stopped: str | None = None  # max-cost | limit | interrupted
    errors: list[FileError] = msgspec.field(default_factory=list)

    @property
    def distilled(self) -> int:
        """Turns that were shown to the backend."""
        return self.kept + self.empty + self.dead


class Progress(msgspec.Struct, frozen=True):
    """Where a backfill stands, for a progress bar."""

    done_bytes: int
    all_bytes: int
    file: str


class StoppedError(Exception):
    """A limit was reached; not an error for the person, the report says which."""


class Backfill:
    """Reads session files from their first byte; `known_elsewhere` adds digests of another store (a preview's)."""

    def __init__(
        self,
        *,
        reading: Reading,
        distilling: Distilling,
        store: Store,
        worker: Worker,
        transcripts: Transcripts,
        clock: Clock,
        settle: Settle,
        max_line_bytes: int,
        options: Options,
        report: Report,
        progress: Callable[[Progress], None] = lambda _: None,
        known_elsewhere: Callable[[Collection[str]], dict[str, str]] = lambda _: {},
    ) -> None:
        self._reading = reading
        self._distilling = distilling
        self._store = store
        self._worker = worker
        self._transcripts = transcripts
        self._clock = clock
        self._settle = settle
        self._max_line_bytes = max_line_bytes
        self._options = options
        self.report = report
        self._progress = progress
        self._known_elsewhere = known_elsewhere
        self._sessions: set[str] = set()

    async def run(self) -> Report:
        """Read every file once; a file that fails is listed and the others go on."""
        started = self._clock.monotonic()
        files = self._in_order([file for file in self._transcripts.sessions(self._options.paths) if self._wanted(file)])
        self.report.errors += [FileError(path, reason) for path, reason in self._transcripts.unreadable()]
        all_bytes, done_bytes = sum(file.size_bytes for file in files), 0
        try:
            for file in files:
                self._progress(Progress(done_bytes, all_bytes, file.path))
                await self._guarded(file)
                done_bytes += file.size_bytes
            self._progress(Progress(done_bytes, all_bytes, ""))
        except StoppedError as stopped:
            self.report.stopped = str(stopped)
        finally:
            self.report.seconds = round(self._clock.monotonic() - started, 3)
        return self.report

    def _wanted(self, file: SessionFile) -> bool:
        options = self._options
        if options.agent is not None and file.agent != options.agent:
            return False
        return options.since is None or file.modified_at >= options.since

    def _in_order(self, files: Sequence[SessionFile]) -> list[SessionFile]:
        """Newest first, but before all others what its agent is about to delete, oldest first."""
        now = self._reading.now()
        oldest = timestamps.after(now, seconds=-86400 * (AGENTS_KEEP_DAYS + EXPIRING_DAYS))
        expiring = timestamps.after(now, seconds=-86400 * (AGENTS_KEEP_DAYS - EXPIRING_DAYS))
        first = sorted((f for f in files if oldest <= f.modified_at <= expiring), key=lambda f: f.modified_at)
        urgent = {file.path for file in first}
        rest = sorted((f for f in files if f.path not in urgent), key=lambda f: (f.modified_at, f.path), reverse=True)
        return [*first, *rest]

    async def _guarded(self, file: SessionFile) -> None:
        self.report.files += 1
        try:
            await self._file(file)
        except (StoppedError, DistillerError):
            raise
        except OSError as error:
            self.report.errors.append(FileError(file.path, error.strerror or str(error)))
        except Exception as error:  # noqa: BLE001 -- a fault of ours in one file must not cost the person the others
            self.report.errors.append(FileError(file.path, f"{type(error).__name__}: {error}"))

    async def _file(self, file: SessionFile) -> None:
        reader = SessionReader(
            file.agent,
            file.path,
            side=self._transcripts.side_file(file.path),
            max_line_bytes=self._max_line_bytes,
            settle=self._settle,
        )
        context = Context()
        while data := self._transcripts.read(file.path, reader.position, CHUNK_BYTES):
            self.report.bytes += len(data)
            await self._take(file, reader.feed(data), context)
        now = self._reading.now()
        await self._take(file, reader.finish(now=now, grown_at=file.modified_at), context)
        self.report.malformed_lines += reader.counts.malformed
        if reader.session.id:
            self._sessions.add(f"{file.agent}:{reader.session.id}")
            self.report.sessions = len(self._sessions)
        if reader.unfinished and self._in_range(reader.session.last_at):
            self.report.turns += 1
            self.report.open += 1
        await self._mark(file, reader, now)

    async def _take(self, file: SessionFile, events: Sequence[Turn | Withdrawn], context: Context) -> None:
        turns = [event for event in events if isinstance(event, Turn) and self._in_range(event.ended_at)]
        fresh = await self._reading.unknown(turns)
        elsewhere = self._known_elsewhere({turn.key for turn in turns})
        new = {turn.key for turn in fresh} - set(elsewhere)
        known = [turn for turn in turns if turn.key not in new]
        prepared: list[Enrolment] = []
        settled_by = await self._worker(self._settled_by, known) if self._options.settled_by else {}
        for turn in turns:
            again = self._options.again and settled_by.get(turn.key) == self._options.settled_by
            if turn.key not in new and not again:
                continue
            one = await self._reading.prepare(turn, file=file.path, context=context, ended_at=file.modified_at)
            if self._project_wanted(one):
                prepared.append(msgspec.structs.replace(one, again=turn.key not in new))
        withdrawn = [event.key for event in events if isinstance(event, Withdrawn)]
        now = self._reading.now()
        entered = await self._worker(self._store.enrol, prepared, None, withdrawn=withdrawn, at=now)
        queue = {one.key for one in entered if self._count(one)}
        unfinished = set(await self._worker(self._store.due, at=now, limit=len(turns) + 1, only={t.key for t in known}))
        unfinished -= queue
        left = {turn.key for turn in known} - unfinished - {one.key for one in entered}
        self.report.known += len(left)
        self.report.turns += len(left) + len(unfinished)
        await self._distil(queue | unfinished)

    def _settled_by(self, turns: Sequence[Turn]) -> dict[str, str | None]:
        return {turn.key: row.backend for turn in turns for row in self._store.turn(turn.key)[:1]}

    def _count(self, one: Enrolled) -> bool:
        """Count one enrolment; whether it waits to be distilled."""
        self.report.turns += 1
        if one.how is EnrolledAs.SKIPPED:
            self.report.skipped[one.reason or ""] = self.report.skipped.get(one.reason or "", 0) + 1
        elif one.how is EnrolledAs.KNOWN:
            self.report.known += 1
        return one.state is TurnState.WAITING and one.how is not EnrolledAs.KNOWN

    async def _distil(self, keys: set[str]) -> None:
        left = set(keys)
        try:
            while left:
                due = await self._worker(self._store.due, at=self._reading.now(), limit=len(left), only=left)
                if not due:
                    break
                for key in due:
                    self._stop_at_limits()
                    left.discard(key)
                    self._settled(await self._distilling.distill_turn(key))
        finally:
            self.report.waiting += len(left)

    def _settled(self, record: PassRecord | None) -> None:
        if record is None or record.outcome is TurnState.WAITING:
            self.report.waiting += 1
            return
        report, counts = self.report, record.operations
        setattr(report, record.outcome.value, getattr(report, record.outcome.value) + 1)
        report.facts_added += sum(counts.get(op, 0) for op in ADDING)
        report.facts_updated += sum(counts.get(op, 0) for op in UPDATING)
        report.candidates += counts.get("candidate", 0)
        report.calls += record.usage.calls
        report.input_tokens += record.usage.input_tokens
        report.output_tokens += record.usage.output_tokens
        report.cost_usd += record.usage.cost_usd or 0.0

    def _stop_at_limits(self) -> None:
        options = self._options
        if options.limit is not None and self.report.distilled >= options.limit:
            raise StoppedError("limit")
        if options.max_cost_usd is not None and self.report.cost_usd >= options.max_cost_usd > 0:
            raise StoppedError("max-cost")

    def _in_range(self, ended_at: str | None) -> bool:
        return self._options.since is None or ended_at is None or ended_at >= self._options.since

    def _project_wanted(self, one: Enrolment) -> bool:
        wanted = self._options.project
        if wanted is None:
            return True
        name = one.project_key.rsplit("@", 1)[0].rstrip("/").rsplit("/", 1)[-1]
        return fnmatch(one.project_key, wanted) or fnmatch(name, wanted)

    async def _mark(self, file: SessionFile, reader: SessionReader, now: str) -> None:
        found = self._transcripts.identify(
            file.path, head_bytes=min(HEAD_BYTES, file.size_bytes), cursor_byte=reader.cursor_byte
        )
        identity = found or FileIdentity(file.device, file.inode, "", 0)
        counts = reader.counts
        cursor = Cursor(
            file.path, file.agent, reader.session.id, identity, 0, file.size_bytes, now, reader.cursor_byte,
            counts.malformed, counts.too_long, dict(counts.unknown),
        )  # fmt: skip
        await self._worker(self._store.mark_backfilled, cursor)
