"""Nothing in, what `doctor` looks at out: the machine as it promises to show itself, and all that the checks ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

from distiller import timestamps
from distiller.ports import Clock, Store, Transcripts
from distiller.service.gate import Budget
from distiller.service.installation import ServiceStatus
from distiller.vocabulary import SessionFile, Totals


class Machine(Protocol):
    """Facts of this machine, looked at and left as they are."""

    def mode(self, path: str) -> int | None:
        """Kind and rights (`st_mode`) of what stands at `path`; None if nothing does."""
        ...

    def is_ours(self, path: str) -> bool:
        """Whether it belongs to the account that runs this."""
        ...

    def files(self, folder: str) -> list[tuple[str, int]]:
        """(path, `st_mode`) of the files directly in `folder`, by path; none if it is not there."""
        ...

    def try_writing(self, folder: str) -> None:
        """Make a file in `folder` and remove it; OSError if that fails."""
        ...

    def sealed(self, pid: int, folder: str) -> bool:
        """Whether the process `pid` sees `folder` as read-only, where the system tells."""
        ...

    def free_bytes(self, path: str) -> int:
        """Room left for us where `path` is or will be."""
        ...

    def inotify_limits(self) -> tuple[int, int] | None:
        """How many watches and instances one person may have; None where there is no inotify."""
        ...

    def folder_count(self, roots: Sequence[str]) -> int:
        """Folders at and below `roots`: each takes a watch."""
        ...

    def open_files(self, pid: int | None) -> tuple[int | None, int]:
        """(open now, most that may be open) of a process of ours, or of this one; None where nobody tells."""
        ...

    def zone(self) -> str | None:
        """The name of the time zone; None if it is not known and days are counted in UTC."""
        ...

    def program(self, name: str) -> tuple[str, str] | None:
        """Where a program is and its `--version`; None if there is none. OSError if it does not run."""
        ...

    def models(self, base_url: str, key: str | None) -> tuple[int, frozenset[str] | None]:
        """Status and models of a Messages API (None: it named none we could read). OSError if it is not reached."""
        ...


class Key(NamedTuple):
    """A backend's key: its value, never shown, and the file or variable that holds it."""

    value: str
    where: str


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What the settings say that the checks ask."""

    file: str
    error: str | None  # they cannot be used, so these are the defaults
    backend: str
    model: str | None
    base_url: str
    program: str
    budget: Budget | None
    priced: bool
    roots: Mapping[str, Sequence[str]]
    own_roots: frozenset[str]  # agents whose folders the person named


@dataclass(frozen=True, kw_only=True)
class Subject:
    """Everything that the checks ask; nothing is looked at before a check does."""

    machine: Machine
    clock: Clock
    transcripts: Transcripts
    version: str
    folders: Mapping[str, str]  # config, data, state, logs
    database: str
    copies: Sequence[str]  # newest first
    live: Mapping[str, object]
    settings: Settled
    key: Callable[[], Key | None]
    open_store: Callable[[], Store] | None  # None: there is no database yet
    stored_path: Callable[[str], str]
    online: bool = False
    service: Callable[[], ServiceStatus] | None = None  # as the service manager sees it

    @property
    def now(self) -> str:
        """The time as text."""
        return timestamps.to_text(self.clock.now())

    @property
    def pid(self) -> int | None:
        """The running service."""
        pid = self.live.get("pid")
        return pid if self.live.get("running") and isinstance(pid, int) else None

    @property
    def places(self) -> list[str]:
        """All agents' folders."""
        return [root for roots in self.settings.roots.values() for root in roots]


class Ledger:
    """The store of a `Subject`, its numbers asked once."""

    def __init__(self, subject: Subject, store: Store) -> None:
        self.subject = subject
        self.store = store

    @cached_property
    def totals(self) -> Totals:
        """The ledger in numbers."""
        return self.store.totals(day_from=self.subject.clock.local_day(self.subject.now)[0])

    @cached_property
    def files(self) -> list[SessionFile]:
        """All session files there are now."""
        return list(self.subject.transcripts.sessions())
