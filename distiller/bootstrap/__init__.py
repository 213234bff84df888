"""A Config in, the parts of the program joined out: the one module that names concrete adapters.

Each part is imported when it is first asked for, so that `recall` pays for a database and not for a daemon.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from distiller import timestamps
from distiller.config import Config
from distiller.errors import LockHeldError, SettingError
from distiller.vocabulary import Project, Redacted, Retention

if TYPE_CHECKING:
    from distiller.adapters.notifier_structlog import LogNotifier
    from distiller.adapters.notify_systemd import SystemdLink
    from distiller.adapters.store_sqlite.restoring import Health, Restoration
    from distiller.adapters.worker_thread import InlineWorker, ThreadWorker
    from distiller.bootstrap.backends import Backends
    from distiller.distill.redact import Redactor
    from distiller.ports import Clock, Home, Projects, Store, Timer, Transcripts, Watcher, Worker
    from distiller.service.backfill import Backfill, Options, Progress
    from distiller.service.backfill_report import Report
    from distiller.service.distill_turn import Distilling
    from distiller.service.enrol import Rules
    from distiller.service.examined import Subject
    from distiller.service.follow import Follower
    from distiller.service.gate import Gate, Purse
    from distiller.service.installation import Installation
    from distiller.service.reading import Reading
    from distiller.transcript.turns import Settle

FOLDER_MODE = 0o700
BY_HAND_SHARE = 0.75  # of the calls in a minute: live turns always find room beside a backfill


@cache
def service_link() -> SystemdLink:
    """The one way to the service manager; making it takes its variables out of the environment."""
    from distiller.adapters.notify_systemd import SystemdLink

    return SystemdLink(os.environ)


class App:
    """The program for one configuration; parts are made once and shared."""

    def __init__(self, config: Config, *, read_again: Callable[[], Config] | None = None) -> None:
        self.config = config
        self._read_again = read_again

    @cached_property
    def version(self) -> str:
        """The installed version."""
        from importlib.metadata import version

        return version("distiller")

    def with_settings_as_they_are(self) -> App | None:
        """The program for the settings as they stand in file and environment now; None if they are these.

        Raises:
            SettingError: they cannot be used.
        """
        if self._read_again is None or (config := self._read_again()) == self.config:
            return None
        return App(config, read_again=self._read_again)

    @cached_property
    def service_link(self) -> SystemdLink:
        """The way to the service manager that started this process, if one did; one for the whole process."""
        return service_link()

    @property
    def under_launchd(self) -> bool:
        """Whether launchd started this process."""
        return os.environ.get("DISTILLER_MANAGER") == "launchd"

    def program_identity(self) -> tuple[int, int]:
        """Which files of ours are installed now; others than at the start mean an upgrade."""
        try:
            status = os.stat(__file__)  # noqa: PTH116 -- as below
        except OSError:
            return (0, 0)
        return (status.st_ino, status.st_mtime_ns)

    # -- places -------------------------------------------------------------------------------------------------
    @property
    def database(self) -> str:
        """The path of the database."""
        return str(self.config.home.data / "distiller.db")

    @property
    def lock_file(self) -> str:
        """The path of the daemon's lock."""
        return str(self.config.home.state / "daemon.lock")

    @property
    def wake_file(self) -> str:
        """The path that every writer touches."""
        return str(self.config.home.state / "wake")

    @property
    def state_file(self) -> str:
        """The path of the daemon's live state."""
        return str(self.config.home.state / "daemon.json")

    @property
    def settings_file(self) -> str:
        """The path of the settings file, which need not be there."""
        return str(self.config.file)

    @property
    def log_file(self) -> str:
        """The path of the log."""
        return str(self.config.home.logs / "distiller.jsonl")

    @property
    def roots(self) -> list[str]:
        """All folders whose sessions are read."""
        return [root for roots in self.config.agent_roots.values() for root in roots]

    def make_home(self) -> None:
        """Make our folders, for nobody else to look into.

        Raises:
            SettingError: a folder cannot be made.
        """
        os.umask(0o077)
        for folder in self.config.home.folders:
            try:
                folder.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
                if folder.stat().st_mode & 0o077:
                    folder.chmod(FOLDER_MODE)
            except OSError as error:
                raise SettingError(
                    f"{folder}: {error.strerror or error}. Nothing was read or changed; mend the folder or choose "
                    "another with --home."
                ) from None

    # -- parts --------------------------------------------------------------------------------------------------
    @cached_property
    def clock(self) -> Clock:
        """The machine's time."""
        from distiller.adapters.clock_system import SystemClock

        return SystemClock()

    def now(self) -> str:
        """The time as text."""
        return timestamps.to_text(self.clock.now())

    @cached_property
    def store(self) -> Store:
        """The store, made if it is not there."""
        from distiller.adapters.state_files import touch
        from distiller.adapters.store_sqlite import open_store

        self.make_home()
        return open_store(str(self.config.home.data), wake=lambda: touch(self.wake_file))

    @cached_property
    def home_files(self) -> Home:
        """Our own folders, to be looked through."""
        from distiller.adapters.home_files import HomeFiles

        home = self.config.home
        return HomeFiles([str(folder) for folder in home.folders], texts=[str(home.logs), str(home.state)])

    @property
    def store_exists(self) -> bool:
        """Whether anything was ever stored."""
        return os.path.exists(self.database)  # noqa: PTH110 -- a path as text

    def database_identity(self) -> tuple[int, int] | None:
        """Which file the database is now; another one than before means that ours was taken away."""
        try:
            status = os.stat(self.database)  # noqa: PTH116 -- a path as text
        except OSError:
            return None
        return (status.st_dev, status.st_ino)

    @contextmanager
    def scratch_store(self) -> Iterator[Store]:
        """A store that leaves nothing behind, in memory where the system allows it: for previews."""
        from tempfile import TemporaryDirectory

        from distiller.adapters.store_sqlite import open_store

        shared_memory = "/dev/shm"  # noqa: S108 -- a private folder is made in it
        place = shared_memory if os.access(shared_memory, os.W_OK) else None
        with TemporaryDirectory(prefix="distiller-preview-", dir=place) as folder:
            store = open_store(folder)
            try:
                yield store
            finally:
                store.close()

    @cached_property
    def transcripts(self) -> Transcripts:
        """Session files of the agents that are switched on."""
        from distiller.adapters.transcripts_files import FileTranscripts
        from distiller.transcript import formats

        ours = [str(folder) for folder in self.config.home.folders]
        return FileTranscripts(self.config.agent_roots, formats.sniff, ours=ours)

    def projects(self, store: Store) -> Projects:
        """Resolves folders; what was resolved before is asked of `store`."""
        from distiller.adapters.projects_git import GitProjects

        def known(folder: str) -> Project | None:
            return store.project_of(self.redact(folder))

        return GitProjects(known)

    def silent_notifier(self) -> LogNotifier:
        """A log that goes nowhere: what a preview does did not happen."""
        from distiller.adapters.notifier_structlog import LogNotifier

        return LogNotifier(os.devnull, version=self.version, level="error")

    def notifier(self, *, tell: Callable[[Mapping[str, Any], bytes], None] | None = None) -> LogNotifier:
        """The log; `tell` is handed each line too."""
        from distiller.adapters.notifier_structlog import LogNotifier

        self.make_home()
        return LogNotifier(self.log_file, version=self.version, level=self.config.settings.logs.level, tell=tell)

    def worker(self) -> ThreadWorker:
        """The daemon's store thread."""
        from distiller.adapters.worker_thread import ThreadWorker

        return ThreadWorker()

    def inline_worker(self) -> InlineWorker:
        """Store calls where they stand, for commands."""
        from distiller.adapters.worker_thread import InlineWorker

        return InlineWorker()

    def lock(self) -> AbstractContextManager[object]:
        """The right to be this home's daemon; entering it raises LockHeldError."""
        from distiller.adapters.state_files import DaemonLock

        self.make_home()
        return DaemonLock(self.lock_file)

    def touch_wake(self) -> None:
        """Tell the daemon that something is to be done."""
        from distiller.adapters.state_files import touch

        touch(self.wake_file)

    def write_live_state(self, state: Mapping[str, Any]) -> None:
        """Say how the daemon fares."""
        from distiller.adapters.state_files import write_state

        write_state(self.state_file, state)

    def live_state(self) -> dict[str, Any]:
        """How the daemon fares, with `running`: whether one holds the lock now."""
        from distiller.adapters.state_files import is_locked, read_state

        return {**read_state(self.state_file), "running": is_locked(self.lock_file)}

    def forward_library_logs(self, notifier: LogNotifier) -> None:
        """Let warnings of libraries (a job that raised, say) reach our log."""
        from distiller.adapters.notifier_structlog import forward_library_logs

        forward_library_logs(notifier)

    def timer(self) -> Timer:
        """The daemon's schedule."""
        from distiller.adapters.timer_apscheduler import ApschedulerTimer

        return ApschedulerTimer()

    def watcher(self, tell: Callable[..., Any]) -> Watcher:
        """Wakes the daemon on changed sessions and on writes of other processes."""
        from distiller.adapters.watcher_watchfiles import FileWatcher

        return FileWatcher(self.roots, single_files=[self.wake_file, self.settings_file], tell=tell)

    def redact(self, text: str) -> Redacted:
        """`text` without secrets; the patterns are loaded when they are first needed."""
        return self._redactor(text)

    def stored_path(self, path: str) -> str:
        """How the file at `path` is named in the store."""
        from distiller.service.places import stored_path

        return stored_path(path, self.redact)

    # -- rules --------------------------------------------------------------------------------------------------
    @cached_property
    def _redactor(self) -> Redactor:
        from distiller.distill.redact import Redactor

        try:
            return Redactor(self.config.settings.redact.patterns)
        except re.error as error:
            raise SettingError(f"redact.patterns: {error}. Nothing was read; mend the expression.") from None

    @cached_property
    def rules(self) -> Rules:
        """How turns are enrolled."""
        from distiller.service.enrol import Rules

        settings = self.config.settings
        return Rules(
            redact=self._redactor,
            redact_json=self._redactor.json,
            headless=settings.headless,
            off_record=tuple(settings.off_record),
            kept_text_bytes=settings.window.kept_text_bytes,
            previous_turns=settings.window.previous_turns,
            own_folders=tuple({str(self.config.home.state), str(self.config.home.state.resolve())}),
        )

    @cached_property
    def backends(self) -> Backends:
        """What the configuration says of backends: which there are, what they cost."""
        from distiller.bootstrap.backends import Backends

        return Backends(self.config)

    @cached_property
    def settle(self) -> Settle:
        """How long silence must last."""
        from distiller.transcript.turns import Settle

        turns = self.config.settings.turns
        return Settle(
            strong_seconds=turns.settle_seconds,
            weak_seconds=turns.weak_settle_seconds,
            abandon_seconds=turns.abandon_hours * 3600,
        )

    @property
    def retention(self) -> Retention:
        """How long things are kept."""
        return msgspec.convert(self.config.settings.retention, Retention, from_attributes=True)

    def live_from(self, first_start: str) -> str:
        """Turns whose last line is older are backlog."""
        read_from = self.config.settings.read_from
        if read_from == "now":
            return first_start
        if read_from == "all":
            return ""
        if read_from.endswith("d"):
            return min(first_start, timestamps.after(first_start, seconds=-86400 * int(read_from[:-1])))
        return min(first_start, f"{read_from}T00:00:00.000Z")

    # -- use cases ----------------------------------------------------------------------------------------------
    def reading(self, store: Store, worker: Worker) -> Reading:
        """Prepares turns for `store`."""
        from distiller.service.reading import Reading

        return Reading(
            store=store,
            worker=worker,
            projects=self.projects(store),
            clock=self.clock,
            rules=self.rules,
            ask=self.config.settings.projects == "ask",
            listed=self.config.settings.projects == "listed",
        )

    def follower(self, store: Store, worker: Worker, notifier: LogNotifier, first_start: str) -> Follower:
        """Follows session files into `store`."""
        from distiller.service.follow import Follower, FollowRules

        settings = self.config.settings
        return Follower(
            reading=self.reading(store, worker),
            store=store,
            worker=worker,
            transcripts=self.transcripts,
            notifier=notifier,
            rules=FollowRules(
                live_from=self.live_from(first_start),
                settle=self.settle,
                max_line_bytes=settings.turns.max_line_bytes,
                guard_sessions=settings.guard.sessions,
                guard_minutes=settings.guard.minutes,
            ),
        )

    def gate(
        self,
        store: Store,
        worker: Worker,
        notifier: LogNotifier,
        *,
        backend: str | None = None,
        purse: Purse | None = None,
        by_hand: bool = False,
    ) -> Gate:
        """May a model be called?"""
        from distiller.service.gate import Gate

        name = backend or self.config.settings.backend
        return Gate(
            store=store,
            worker=worker,
            clock=self.clock,
            notifier=notifier,
            backend=name,
            budget=self.backends.budget(name, share=BY_HAND_SHARE if by_hand else 1),
            purse=purse,
            by_hand=by_hand,
        )

    def distilling(
        self,
        store: Store,
        worker: Worker,
        notifier: LogNotifier,
        owner: str,
        *,
        gate: Gate,
        backend: str | None = None,
        priced: bool = False,
    ) -> Distilling:
        """Settles turns of `store` with the backend of the configuration, or that of the name given.

        `priced`: with one that only says what the calls would cost.
        """
        from distiller.service.distill_turn import Distilling, PassRules

        settings = self.config.settings
        name = backend or settings.backend
        return Distilling(
            store=store,
            worker=worker,
            backend=self.backends.pricing(name) if priced else self.backends.backend(name),
            gate=gate,
            clock=self.clock,
            notifier=notifier,
            rules=PassRules(
                redact=self.rules.redact,
                window_tokens=settings.window.tokens,
                near_facts=settings.window.near_facts,
                waits_minutes=tuple(settings.retry.waits_minutes),
                prompted=name != "embedded",
                language=settings.language,
                price=self.backends.price(name),
                lease_seconds=self.backends.lease_seconds(name),
            ),
            owner=owner,
        )

    def backfill(
        self,
        store: Store,
        notifier: LogNotifier,
        *,
        options: Options,
        report: Report,
        progress: Callable[[Progress], None],
        backend: str,
        max_cost_usd: float | None = None,
    ) -> Backfill:
        """Reads old sessions into `store`; a preview with a model only prices its calls."""
        from distiller.service.backfill import Backfill
        from distiller.service.gate import Purse

        worker = self.inline_worker()
        owner = self.owner("backfill")
        purse = None if max_cost_usd is None else Purse(f"{owner}/{self.now()}", max_cost_usd)
        priced = report.preview and backend != "embedded"
        gate = self.gate(store, worker, notifier, backend="embedded" if priced else backend, purse=purse, by_hand=True)
        real = self.store if self.store_exists else None
        return Backfill(
            reading=self.reading(store, worker),
            distilling=self.distilling(store, worker, notifier, owner, gate=gate, backend=backend, priced=priced),
            store=store,
            worker=worker,
            transcripts=self.transcripts,
            clock=self.clock,
            notifier=notifier,
            settle=self.settle,
            max_line_bytes=self.config.settings.turns.max_line_bytes,
            options=options,
            report=report,
            progress=progress,
            by_hand=backend != self.config.settings.backend or max_cost_usd is not None,
            known_elsewhere=real.marks if real is not None and real is not store else lambda _: {},
        )

    def owner(self, role: str) -> str:
        """This process as an owner of leases."""
        from distiller.adapters.state_files import process_name

        return f"{role}/{process_name()}"

    def free_dead_leases(self, store: Store) -> int:
        """Give back the turns of processes that were killed, so that they need not wait for the lease to end."""
        from distiller.adapters.state_files import is_alive

        now = self.now()
        dead = [owner for owner in store.lease_owners(at=now) if not is_alive(owner)]
        return store.release(dead, at=now) if dead else 0

    # -- health and copies of the database ----------------------------------------------------------------------
    def diagnosis(self, *, online: bool = False, settings_error: str | None = None) -> Subject:
        """What `doctor` looks at; `settings_error`: why the settings in force are only the defaults."""
        from distiller.bootstrap.diagnosis import subject

        return subject(self, online=online, settings_error=settings_error)

    def database_health(self) -> Health:
        """How sound the database is, whatever its schema; nothing is changed."""
        from distiller.adapters.store_sqlite.restoring import health

        return health(self.database)

    def copies(self) -> list[str]:
        """Copies of the database, newest first."""
        folder = self.config.home.data / "backups"
        return [str(path) for path in sorted(folder.glob("*.db"), reverse=True)] if folder.is_dir() else []

    @contextmanager
    def without_daemon(self) -> Iterator[None]:
        """Nobody serves this home inside the block.

        Raises:
            LockHeldError: somebody does.
        """
        with ExitStack() as stack:
            try:
                stack.enter_context(self.lock())
            except LockHeldError as error:
                raise LockHeldError(
                    "The service runs and has the database open; nothing was changed. Stop it first: `distiller "
                    "service stop` (or end `distiller run`)."
                ) from error
            yield

    @contextmanager
    def restoration(self, file: str) -> Iterator[Restoration]:
        """The copy `file`, checked and ready to take the database's place, while nobody serves this home."""
        from distiller.adapters.store_sqlite.restoring import restoration

        with self.without_daemon(), restoration(str(self.config.home.data), file) as found:
            yield found

    # -- the service as the machine runs it ---------------------------------------------------------------------
    def installation(self, *, started_as: str) -> Installation:
        """Installs this program, `started_as` it was, as a service of this account."""
        from distiller.bootstrap.services import installation

        return installation(self.config, os.environ, started_as=started_as)
