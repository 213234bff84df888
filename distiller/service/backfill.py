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
from distiller.ports import Clock, Notifier, Store, Transcripts, Worker
from distiller.service.backfill_report import FileError, Report, Tally
from distiller.service.distill_turn import Distilling
from distiller.service.enrol import tell_skipped
from distiller.service.gate import Closed
from distiller.service.places import project_name
from distiller.service.reading import Context, Reading
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import (
    Cursor,
    Enrolment,
    FileIdentity,
    Mark,
    PassRecord,
    SessionFile,
    Turn,
    TurnState,
    Withdrawn,
)

CHUNK_BYTES = 1 << 20
HEAD_BYTES = 1024
EXPIRING_DAYS = 3
PATIENCE_SECONDS = 600  # a longer rest of the backend ends a backfill; its turns wait
LEAST_WAIT_SECONDS = 0.05


class Options(msgspec.Struct, frozen=True):
    """What the person asked for."""

    paths: tuple[str, ...] = ()
    since: str | None = None
    project: str | None = None  # glob over key and name
    agent: str | None = None
    limit: int | None = None  # turns to distil
    again: bool = False
    settled_by: str | None = None


class Progress(msgspec.Struct, frozen=True):
    """Where a backfill stands, for a progress bar."""

    done_bytes: int
    all_bytes: int
    file: str


def expiring(file: SessionFile, keep_days: int | None, now: str) -> bool:
    """Whether the file's agent will delete it within days, or should have done so; older ones it seems to keep."""
    if keep_days is None:
        return False
    oldest, youngest = (
        timestamps.after(now, seconds=-86400 * (keep_days + more)) for more in (EXPIRING_DAYS, -EXPIRING_DAYS)
    )
    return oldest <= file.modified_at <= youngest


class StoppedError(Exception):
    """A limit was reached; not an error for the person, the report says which and why."""

    def __init__(self, code: str, text: str | None = None) -> None:
        super().__init__(code)
        self.text = text


class Backfill:
    """Reads session files from their first byte.

    `by_hand`: the turns are read with another backend or other money than the service's, which then leaves them alone.
    `known_elsewhere` tells what another store has (for previews).
    """

    def __init__(
        self,
        *,
        reading: Reading,
        distilling: Distilling,
        store: Store,
        worker: Worker,
        transcripts: Transcripts,
        clock: Clock,
        notifier: Notifier,
        settle: Settle,
        max_line_bytes: int,
        options: Options,
        report: Report,
        by_hand: bool = False,
        progress: Callable[[Progress], None] = lambda _: None,
        known_elsewhere: Callable[[Collection[str]], dict[str, Mark]] = lambda _: {},
    ) -> None:
        self._reading = reading
        self._distilling = distilling
        self._store = store
        self._worker = worker
        self._transcripts = transcripts
        self._clock = clock
        self._notifier = notifier
        self._settle = settle
        self._max_line_bytes = max_line_bytes
        self._options = options
        self.report = report
        self._by_hand = by_hand
        self._tally = Tally(report)
        self._progress = progress
        self._place = Progress(0, 0, "")
        self._known_elsewhere = known_elsewhere

    async def run(self) -> Report:
        """Read every file once; a file that fails is listed and the others go on."""
        started = self._clock.monotonic()
        files = self._in_order([file for file in self._transcripts.sessions(self._options.paths) if self._wanted(file)])
        self.report.errors += [FileError(path, reason) for path, reason in self._transcripts.unreadable()]
        all_bytes, done_bytes = sum(file.size_bytes for file in files), 0
        try:
            for file in files:
                self._place = Progress(done_bytes, all_bytes, file.path)
                self._progress(self._place)
                await self._guarded(file)
                done_bytes += file.size_bytes
            self._progress(Progress(done_bytes, all_bytes, ""))
        except StoppedError as stopped:
            self.report.stopped, self.report.explanation = str(stopped), stopped.text
        finally:
            self._tally.add_up()
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
        urgent = {file.path for file in files if expiring(file, self._transcripts.keep_days(file.agent), now)}
        first = sorted((file for file in files if file.path in urgent), key=lambda file: file.modified_at)
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
        await self._take(file, reader.finish(now=now, grown_at=None), context)
        self.report.malformed_lines += reader.counts.malformed
        if reader.session.id:
            self._tally.session(f"{file.agent}:{reader.session.id}")
        if reader.unfinished and self._in_range(reader.session.last_at):
            self._tally.open(f"{file.path}:{reader.cursor_byte}")
        await self._mark(file, reader, now)

    async def _take(self, file: SessionFile, events: Sequence[Turn | Withdrawn], context: Context) -> None:
        turns = [event for event in events if isinstance(event, Turn) and self._in_range(event.ended_at)]
        elsewhere = self._settled_elsewhere(turns)
        fresh = {turn.key for turn in await self._reading.unknown(turns)} - set(elsewhere)
        marks = elsewhere | await self._reading.marks(turns)
        prepared: list[Enrolment] = []
        for turn in turns:
            again = turn.key not in fresh and self._again(marks[turn.key])
            if turn.key in fresh or again:
                one = await self._reading.prepare(turn, file=file.path, context=context, ended_at=file.modified_at)
                if self._project_wanted(one.project_key):
                    prepared.append(msgspec.structs.replace(one, again=again, by_hand=self._by_hand))
        known = {
            key: mark for key, mark in marks.items() if key not in fresh and self._project_wanted(mark.project_key)
        }
        self._tally.known(known)
        await self._distil({key for key, mark in known.items() if mark.state is TurnState.WAITING})
        withdrawn = [event.key for event in events if isinstance(event, Withdrawn)]
        await self._enrol([one for one in prepared if one.key in withdrawn], withdrawn)
        for one in prepared:
            if one.key not in withdrawn:
                await self._one(one)

    async def _one(self, turn: Enrolment) -> None:
        """Enrol one turn and settle it: what a limit leaves out is not even enrolled, so nobody else pays for it."""
        if turn.skip is None:
            self._stop_at_limit()
            await self._wait_or_stop(await self._distilling.closed())
        await self._distil(await self._enrol([turn], []))

    async def _enrol(self, turns: Sequence[Enrolment], withdrawn: Sequence[str]) -> set[str]:
        """Enter turns into the ledger; the keys of those that wait to be distilled."""
        if not turns and not withdrawn:
            return set()
        entered = await self._worker(self._store.enrol, turns, None, withdrawn=withdrawn, at=self._reading.now())
        tell_skipped(self._notifier, turns, entered)
        waiting = {one.key for one in entered if self._tally.entered(one)}
        self._tally.withdrawn(withdrawn)
        return waiting - set(withdrawn)

    def _settled_elsewhere(self, turns: Sequence[Turn]) -> dict[str, Mark]:
        """What the real store has settled, in a preview; what waits there is still to be read."""
        marks = self._known_elsewhere({turn.key for turn in turns})
        return {key: mark for key, mark in marks.items() if mark.state is not TurnState.WAITING}

    def _again(self, mark: Mark) -> bool:
        """Whether a known turn gets a new pass: one that a backend settled; what was skipped stays skipped."""
        options = self._options
        settled = mark.state in (TurnState.KEPT, TurnState.EMPTY, TurnState.DEAD)
        return options.again and settled and options.settled_by in (None, mark.backend)

    async def _distil(self, keys: set[str]) -> None:
        """Settle turns in the order in which they are due, as far as the limits allow."""
        left = set(keys)
        self._tally.waits(left)
        while left:
            due = await self._worker(self._store.due, at=self._reading.now(), limit=len(left), only=left, by_hand=True)
            if not due:
                return
            for key in due:
                self._stop_at_limit()
                record = await self._settled(key)
                if record is None or record.reason != "resting":  # one that only rests is due again, after the rest
                    left.discard(key)
                if record is not None:
                    self._tally.settled(record)
                if record is not None and record.usage.calls:
                    self._progress(self._place)  # a model takes its time over each turn

    def _stop_at_limit(self) -> None:
        if self._options.limit is not None and self._tally.distilled >= self._options.limit:
            raise StoppedError("limit")

    async def _settled(self, key: str) -> PassRecord | None:
        """Settle one turn; a short rest of the backend is waited out.

        Raises:
            StoppedError: no call may be made, or not for long; the turn waits.
        """
        while isinstance(result := await self._distilling.distill_turn(key), Closed):
            await self._wait_or_stop(result)
        return result

    async def _wait_or_stop(self, closed: Closed | None) -> None:
        """Wait until calls may be made again, if that is soon."""
        if closed is None:
            return
        wait = timestamps.seconds_between(self._reading.now(), closed.until) if closed.until else None
        if closed.why != "resting" or wait is None or wait > PATIENCE_SECONDS:
            raise StoppedError(closed.code, f"{closed.text}. {closed.fix}".strip(". ") + ".")
        await self._clock.sleep(max(wait, LEAST_WAIT_SECONDS))

    def _in_range(self, ended_at: str | None) -> bool:
        return self._options.since is None or ended_at is None or ended_at >= self._options.since

    def _project_wanted(self, key: str) -> bool:
        wanted = self._options.project
        return wanted is None or fnmatch(key, wanted) or fnmatch(project_name(key), wanted)

    async def _mark(self, file: SessionFile, reader: SessionReader, now: str) -> None:
        found = self._transcripts.identify(
            file.path, head_bytes=min(HEAD_BYTES, file.size_bytes), cursor_byte=reader.cursor_byte
        )
        identity = found or FileIdentity(file.device, file.inode, "", 0)
        redact, counts = self._reading.rules.redact, reader.counts
        cursor = Cursor(
            self._reading.stored_path(file.path), file.agent, redact(reader.session.id), identity, 0, file.size_bytes,
            now, reader.cursor_byte, counts.malformed, counts.too_long, self._reading.named(counts.unknown),
        )  # fmt: skip
        await self._worker(self._store.mark_backfilled, cursor)
