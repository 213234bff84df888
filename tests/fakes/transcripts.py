"""Session files in memory, with a switch for each way in which a disk can fail."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from distiller.vocabulary import FileIdentity, SessionFile

TAIL_BYTES = 64


class FakeTranscripts:
    """Files by path; `agent` is told by the first part of the path (`/claude_code/…`)."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[int, str, bytes]] = {}  # path -> inode, modified, content
        self._inodes = 0
        self.sides: dict[str, dict[str, Any]] = {}
        self.failing: dict[str, OSError] = {}  # path -> what reading it raises
        self.bytes_read = 0

    def write(self, path: str, content: bytes, *, at: str) -> None:
        """Replace a file: a new inode."""
        self._inodes += 1
        self._files[path] = (self._inodes, at, content)

    def append(self, path: str, content: bytes, *, at: str) -> None:
        """Grow a file, made if it is not there."""
        inode, _, before = self._files.get(path) or (0, at, b"")
        if not inode:
            self._inodes += 1
            inode = self._inodes
        self._files[path] = (inode, at, before + content)

    def rewrite(self, path: str, content: bytes, *, at: str) -> None:
        """Change a file in place: the inode stays."""
        inode = self._files[path][0]
        self._files[path] = (inode, at, content)

    def remove(self, path: str) -> None:
        """Delete a file."""
        del self._files[path]

    def sessions(self, paths: Sequence[str] = ()) -> Iterator[SessionFile]:
        """All files, or those below `paths`."""
        for path in list(self._files):
            if not paths or any(path == one or path.startswith(one.rstrip("/") + "/") for one in paths):
                found = self.look(path)
                if found:
                    yield found

    def unreadable(self) -> Sequence[tuple[str, str]]:
        """Nothing is unreadable in a listing."""
        return ()

    def look(self, path: str) -> SessionFile | None:
        """The file as it is now."""
        if path not in self._files:
            return None
        inode, at, content = self._files[path]
        return SessionFile(path, path.split("/")[1], len(content), at, 1, inode)

    def read(self, path: str, start_byte: int, limit_bytes: int) -> bytes:
        """Bytes of the file, or its fault."""
        if path in self.failing:
            raise self.failing[path]
        if path not in self._files:
            raise FileNotFoundError(2, "No such file or directory")
        data = self._files[path][2][start_byte : start_byte + limit_bytes]
        self.bytes_read += len(data)
        return data

    def identify(self, path: str, *, head_bytes: int, cursor_byte: int) -> FileIdentity | None:
        """Hashes of head and tail."""
        if path not in self._files:
            return None
        inode, _, content = self._files[path]
        head = content[:head_bytes]
        tail = content[max(0, cursor_byte - TAIL_BYTES) : cursor_byte]
        return FileIdentity(1, inode, _hash(head), len(head), _hash(tail))

    def keep_days(self, agent: str) -> int | None:
        """Claude Code deletes after 30 days, others never."""
        return 30 if agent == "claude_code" else None

    def side_file(self, path: str) -> dict[str, Any] | None:
        """The side file a test put there."""
        return msgspec.convert(self.sides.get(path), dict[str, Any] | None)


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
