"""Folders in, session files and their bytes out; nothing here writes."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from distiller import timestamps
from distiller.vocabulary import FileIdentity, SessionFile

TAIL_BYTES = 64
CLAUDE_KEEPS_DAYS = 30
SNIFF_BYTES = 64 * 1024
SIDE_LIMIT_BYTES = 1 << 20
SKIPPED_FOLDERS = frozenset({"tool-results", "memory", "node_modules", ".git"})
NOT_SESSIONS = frozenset({"journal.jsonl", "history.jsonl", "session_index.jsonl"})

Sniff = Callable[[str, bytes], str | None]


class FileTranscripts:
    """Session files below the agents' folders; below those the agent is given, elsewhere `sniff` tells it.

    `sniff` gets a path and its first bytes. `ours` are folders of our own, which are never read.
    """

    def __init__(self, roots: Mapping[str, Sequence[str]], sniff: Sniff, *, ours: Sequence[str] = ()) -> None:
        self._roots = [(os.path.abspath(folder), agent) for agent, folders in roots.items() for folder in folders]
        self._prefixes = [(os.path.join(root, ""), agent) for root, agent in self._roots]
        self._sniff = sniff
        self._ours = tuple(os.path.join(os.path.realpath(folder), "") for folder in ours)
        self._agents: dict[tuple[int, int], str] = {}
        self._unreadable: list[tuple[str, str]] = []

    def sessions(self, paths: Sequence[str] = ()) -> Iterator[SessionFile]:
        """All session files below the roots, or below `paths`, in no order; each once."""
        self._unreadable = []
        seen: set[str] = set()
        for place in [os.path.abspath(path) for path in paths] or [root for root, _ in self._roots]:
            if paths and not os.path.exists(place):
                self._unreadable.append((place, "no such file or folder"))
            for path in [place] if os.path.isfile(place) else self._below(place):
                if path not in seen and (found := self._try(path)) is not None:
                    seen.add(path)
                    yield found

    def unreadable(self) -> Sequence[tuple[str, str]]:
        """(path, reason) of what the last listing could not read."""
        return tuple(self._unreadable)

    def look(self, path: str) -> SessionFile | None:
        """The file as it is now, or None if it is gone, ours, or no session file."""
        if not path.endswith(".jsonl"):
            return None
        try:
            return self._session_file(path, os.stat(path))
        except OSError:
            return None

    def read(self, path: str, start_byte: int, limit_bytes: int) -> bytes:
        """At most `limit_bytes` from `start_byte`."""
        with open(path, "rb", buffering=0) as file:
            file.seek(start_byte)
            return file.read(limit_bytes)

    def identify(self, path: str, *, head_bytes: int, cursor_byte: int) -> FileIdentity | None:
        """Hash the head and the bytes before the cursor; None if the file cannot be read."""
        try:
            with open(path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                head = file.read(head_bytes)
                file.seek(max(0, cursor_byte - TAIL_BYTES))
                tail = file.read(min(TAIL_BYTES, cursor_byte))
        except OSError:
            return None
        return FileIdentity(status.st_dev, status.st_ino, short_hash(head), len(head), short_hash(tail))

    def keep_days(self, agent: str) -> int | None:
        """Claude Code deletes sessions at its start, after 30 days or as its settings say; Codex keeps them."""
        if agent != "claude_code":
            return None
        for root, name in self._roots:
            if name == agent:
                found = read_object(os.path.join(os.path.dirname(root), "settings.json")) or {}
                days = found.get("cleanupPeriodDays")
                if isinstance(days, int) and days > 0:
                    return days
        return CLAUDE_KEEPS_DAYS

    def side_file(self, path: str) -> dict[str, Any] | None:
        """The `.meta.json` beside a session file, decoded; None if there is none or it is no object."""
        return read_object(path.removesuffix(".jsonl") + ".meta.json")

    def _below(self, place: str) -> Iterator[str]:
        waiting = [place]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            if entry.name not in SKIPPED_FOLDERS:
                                waiting.append(entry.path)
                        elif entry.name.endswith(".jsonl"):
                            yield entry.path
            except FileNotFoundError:
                continue
            except OSError as error:
                self._unreadable.append((folder, error.strerror or str(error)))

    def _try(self, path: str) -> SessionFile | None:
        try:
            return self._session_file(path, os.stat(path))
        except FileNotFoundError:
            return None
        except OSError as error:
            self._unreadable.append((path, error.strerror or str(error)))
            return None

    def _session_file(self, path: str, status: os.stat_result) -> SessionFile | None:
        """None if it is no session; this runs for each file of each sweep, so it is kept to a few microseconds."""
        name = path.rpartition(os.sep)[2]
        if not stat.S_ISREG(status.st_mode) or name in NOT_SESSIONS or path.startswith(self._ours):
            return None
        agent = self._agent(path, status)
        if agent is None:
            return None
        modified = timestamps.to_text(datetime.fromtimestamp(status.st_mtime, UTC))
        return SessionFile(path, agent, status.st_size, modified, status.st_dev, status.st_ino)

    def _agent(self, path: str, status: os.stat_result) -> str | None:
        """The agent whose folder this is, else by the file's first bytes, remembered by inode once known."""
        for prefix, agent in self._prefixes:
            if path.startswith(prefix):
                return agent
        key = (status.st_dev, status.st_ino)
        if key not in self._agents and status.st_size:
            found = self._sniff(path, self.read(path, 0, SNIFF_BYTES))
            if found is None:
                return None
            self._agents[key] = found
        return self._agents.get(key)


def read_object(path: str) -> dict[str, Any] | None:
    """The JSON object in a small file, or None."""
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read(SIDE_LIMIT_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def short_hash(data: bytes) -> str:
    """16 hex of SHA-256: enough to tell a file from its replacement."""
    return hashlib.sha256(data).hexdigest()[:16]
