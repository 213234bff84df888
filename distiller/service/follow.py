"""A session file that grew in, its finished turns in the ledger out.

The reader of a file stays in memory with its half-read turn, because a turn of 100 MB that grows by small appends must
not be read again each time. Losing that memory is always safe: reading goes on at the stored cursor, or at 0, and the
ledger knows what it has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

import msgspec

from distiller import timestamps
from distiller.errors import DistillerError
from distiller.ports import Notifier, Store, Transcripts, Worker
from distiller.service.enrol import is_own, tell_skipped
from distiller.service.reading import Context, Reading
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import Cursor, Enrolled, EnrolledAs, FileIdentity, SessionFile, Turn, TurnState, Withdrawn

CHUNK_BYTES = 1 << 20
TAIL_BYTES = 64
HEAD_BYTES = 1024
IDLE_SECONDS = 600


class FollowRules(msgspec.Struct, frozen=True):
    """What of the configuration decides how files are followed."""

    live_from: str  # turns whose last line is older are backlog
    settle: Settle
    max_line_bytes: int
    guard_sessions: int
    guard_minutes: float


class Followed(msgspec.Struct):
    """One file that is being read."""

    file: SessionFile
    reader: SessionReader
    context: Context
    tail: bytes = b""  # the last bytes taken in: a rewrite that only grew shows here
    grown_at: str = ""
    looked_at: str = ""
    backlog_to_byte: int = 0
    stored_byte: int = -1  # the cursor as the store has it


class Alarm(msgspec.Struct, frozen=True):
    """Sessions came faster than a person can type."""

    folder: str
    sessions: int


class Follower:
    """Follows session files; calls must not overlap."""

    def __init__(
        self,
        *,
        reading: Reading,
        store: Store,
        worker: Worker,
        transcripts: Transcripts,
        notifier: Notifier,
        rules: FollowRules,
    ) -> None:
        self._reading = reading
        self._store = store
        self._worker = worker
        self._transcripts = transcripts
        self._notifier = notifier
        self._rules = rules
        self._files: dict[str, Followed] = {}
        self._seen: dict[str, tuple[int, int, int]] = {}  # path -> device, inode, size when last looked at
        self._untyped: dict[str, dict[str, str]] = {}  # folder -> session -> when it was first seen
        self._known_sessions: set[str] = set()
        self.unreadable: dict[str, str] = {}  # file -> why, as long as it lasts
        self.alarm: Alarm | None = None

    async def sweep(self) -> list[Enrolled]:
        """Look at every file; read those that changed; close turns by silence. Events are hints, this is the truth."""
        files = await self._worker(lambda: list(self._transcripts.sessions()))
        done: list[Enrolled] = []
        for file in files:
            if self._seen.get(file.path) != (file.device, file.inode, file.size_bytes):
                done += await self.follow(file.path)
        for path in set(self._seen) - {file.path for file in files}:
            await self._gone(path)
        done += await self.tick()
        self._forget_idle()
        return done

    async def follow(self, path: str) -> list[Enrolled]:
        """Read what was appended to `path` and enrol the turns that are finished.

        Trouble with this file is told and left to the next sweep; it never stops the others.
        """
        return await self._guarded(path, self._follow(path))

    async def _guarded(self, path: str, work: Awaitable[list[Enrolled]]) -> list[Enrolled]:
        """Do the work on one file; trouble with the file, or a fault of ours in it, is told and kept to it."""
        try:
            done = await work
        except DistillerError:
            raise  # the store's trouble is everybody's
        except OSError as error:
            reason = error.strerror or str(error)
        except Exception as error:  # noqa: BLE001 -- one file must not cost the person the others
            reason = type(error).__name__
        else:
            self.unreadable.pop(self._reading.stored_path(path), None)
            return done
        name = self._reading.stored_path(path)
        if self.unreadable.get(name) != reason:
            self._notifier.event("file.unreadable", level="warning", file=name, reason=reason)
        self.unreadable[name] = reason
        self._files.pop(path, None)
        self._seen.pop(path, None)
        return []

    async def _follow(self, path: str) -> list[Enrolled]:
        now = self._reading.now()
        file = await self._worker(self._transcripts.look, path)
        if file is None:
            await self._gone(path)
            return []
        followed = self._files.get(path)
        if followed is not None and replaced(followed, file):
            self._notifier.event("file.rewritten", file=self._reading.stored_path(path))
            followed = self._begin(file, 0)
        if followed is None:
            followed = await self._open(file)
        self._seen[path] = (file.device, file.inode, file.size_bytes)
        if followed is None:
            return []
        first = not followed.looked_at
        followed.file, followed.looked_at = file, now
        done: list[Enrolled] = []
        while True:
            data = await self._append(followed)
            if data is None:
                self._notifier.event("file.rewritten", file=self._reading.stored_path(path))
                followed = self._begin(file, 0)
                continue
            if not data:
                break
            if not first or followed.stored_byte < 0:
                followed.grown_at = now
            events = followed.reader.feed(data)
            if followed.reader.needs_rereading:
                followed = self._begin(file, 0)
                continue
            done += await self._enrol(followed, events)
        followed.looked_at = now
        done += await self._close(followed, now)
        return done

    async def tick(self) -> list[Enrolled]:
        """Close the turns whose silence is long enough."""
        now = self._reading.now()
        done: list[Enrolled] = []
        for path, followed in list(self._files.items()):
            if (due := followed.reader.due_at) is not None and due <= now:
                done += await self._guarded(path, self._close(followed, now))
        return done

    def next_due(self) -> str | None:
        """When silence may close the next turn; None while nothing waits for that."""
        times = [due for followed in self._files.values() if (due := followed.reader.due_at) is not None]
        return min(times, default=None)

    async def _close(self, followed: Followed, now: str) -> list[Enrolled]:
        return await self._enrol(followed, followed.reader.tick(now=now, grown_at=followed.grown_at))

    async def _open(self, file: SessionFile) -> Followed | None:
        """Begin to read at the stored cursor if it still fits; None where there is nothing to read."""
        if file.modified_at < self._rules.live_from:
            return None  # all backlog, though a backfill may have left a cursor at its beginning
        cursor = await self._worker(self._store.cursor, self._reading.stored_path(file.path))
        if cursor is None:
            return self._begin(file, 0)
        same = (cursor.identity.device, cursor.identity.inode) == (file.device, file.inode)
        if same and cursor.offset_byte == file.size_bytes:
            return None
        start = 0
        if same and cursor.offset_byte <= file.size_bytes:
            identity = await self._worker(
                self._transcripts.identify,
                file.path,
                head_bytes=cursor.identity.head_bytes,
                cursor_byte=cursor.offset_byte,
            )
            start = cursor.offset_byte if identity == cursor.identity else 0
        if not start and cursor.offset_byte:
            self._notifier.event("file.rewritten", file=self._reading.stored_path(file.path))
        followed = self._begin(file, start)
        followed.backlog_to_byte = cursor.backlog_to_byte
        followed.stored_byte = start
        return followed

    def _begin(self, file: SessionFile, start: int) -> Followed:
        reader = SessionReader(
            file.agent,
            file.path,
            start_byte=start,
            side=self._transcripts.side_file(file.path),
            max_line_bytes=self._rules.max_line_bytes,
            settle=self._rules.settle,
        )
        followed = Followed(file, reader, Context())
        self._files[file.path] = followed
        return followed

    async def _append(self, followed: Followed) -> bytes | None:
        """The next bytes; None if what stood before them is no longer there."""
        start = followed.reader.position - len(followed.tail)
        data = await self._worker(self._transcripts.read, followed.file.path, start, CHUNK_BYTES + len(followed.tail))
        if not data.startswith(followed.tail):
            return None
        fresh = data[len(followed.tail) :]
        followed.tail = data[-TAIL_BYTES:]
        return fresh

    async def _enrol(self, followed: Followed, events: Sequence[Turn | Withdrawn]) -> list[Enrolled]:
        if not events:
            return []
        now = self._reading.now()
        withdrawn = [event.key for event in events if isinstance(event, Withdrawn)]
        turns = [event for event in events if isinstance(event, Turn)]
        live = [turn for turn in turns if not self._is_backlog(followed, turn)]
        backlog = [turn.end_byte for turn in turns if self._is_backlog(followed, turn)]
        followed.backlog_to_byte = max([followed.backlog_to_byte, *backlog])
        fresh = await self._reading.unknown(live)
        prepared = [
            await self._reading.prepare(
                turn, file=followed.file.path, context=followed.context, ended_at=followed.grown_at or now
            )
            for turn in fresh
        ]
        cursor = await self._cursor(followed, now)
        if cursor is None:
            return []
        done = await self._worker(self._store.enrol, prepared, cursor, withdrawn=withdrawn, at=now)
        tell_skipped(self._notifier, prepared, done)
        followed.stored_byte = cursor.offset_byte
        self._watch_growth(fresh, now)
        return [one for one in done if one.how is not EnrolledAs.KNOWN or one.state is TurnState.WAITING]

    async def _cursor(self, followed: Followed, now: str) -> Cursor | None:
        """Where reading would go on after a restart; None if the file is gone meanwhile (its turns come again)."""
        reader, counts = followed.reader, followed.reader.counts
        head = min(HEAD_BYTES, followed.file.size_bytes)
        identity: FileIdentity | None = await self._worker(
            self._transcripts.identify, followed.file.path, head_bytes=head, cursor_byte=reader.cursor_byte
        )
        if identity is None:
            identity = FileIdentity(followed.file.device, followed.file.inode, "", 0)
        return Cursor(
            path=self._reading.stored_path(followed.file.path),
            agent=followed.file.agent,
            session_id=self._reading.rules.redact(reader.session.id),
            identity=identity,
            offset_byte=reader.cursor_byte,
            size_bytes=followed.file.size_bytes,
            seen_at=now,
            backlog_to_byte=followed.backlog_to_byte,
            lines_malformed=counts.malformed,
            lines_too_long=counts.too_long,
            lines_unknown=self._reading.named(counts.unknown),
        )

    def _is_backlog(self, followed: Followed, turn: Turn) -> bool:
        return (turn.ended_at or followed.grown_at or followed.file.modified_at) < self._rules.live_from

    async def _gone(self, path: str) -> None:
        """A vanished file is normal: agents delete old sessions. What was enrolled stays."""
        self._seen.pop(path, None)
        self.unreadable.pop(self._reading.stored_path(path), None)
        if self._files.pop(path, None) is not None:
            self._notifier.event("file.vanished", file=self._reading.stored_path(path))

    def _forget_idle(self) -> None:
        limit = timestamps.after(self._reading.now(), seconds=-IDLE_SECONDS)
        for path, followed in list(self._files.items()):
            if followed.looked_at < limit and followed.reader.due_at is None:
                del self._files[path]

    def _watch_growth(self, turns: Sequence[Turn], now: str) -> None:
        """Raise the alarm when new sessions of one folder come faster than a person can type."""
        since = timestamps.after(now, seconds=-60 * self._rules.guard_minutes)
        for turn in turns:
            session = f"{turn.session.agent}:{turn.session.id}"
            if session in self._known_sessions:
                continue
            self._known_sessions.add(session)
            if turn.typed or is_own(turn, self._reading.rules):
                continue  # our own calls cost a budget of their own and are never distilled
            folder = turn.cwd or turn.session.cwd or ""
            recent = {one: at for one, at in self._untyped.get(folder, {}).items() if at >= since}
            self._untyped[folder] = {**recent, session: now}
            if len(self._untyped[folder]) > self._rules.guard_sessions:
                self.alarm = Alarm(folder, len(self._untyped[folder]))


def replaced(followed: Followed, file: SessionFile) -> bool:
    """Whether another file stands at the path, or the same one was cut short."""
    before = followed.file
    return (before.device, before.inode) != (file.device, file.inode) or file.size_bytes < followed.reader.position
