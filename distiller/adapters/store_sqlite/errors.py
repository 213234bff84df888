"""SQLite's errors in, ours out: one line each that says what is still safe and what to do.

Only trouble of the world is translated; a wrong statement stays the bug that it is.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from distiller.errors import DiskFullError, DistillerError, StoreBusyError, StoreUnusableError

BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
UNREADABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR)
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)


def translation(error: sqlite3.Error, path: str) -> DistillerError | None:
    """Our name for `error`, or None if it is a mistake of this program."""
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if code in BUSY:
        return StoreBusyError(f"{path} is in use by another process; nothing was written, try again")
    if code == sqlite3.SQLITE_FULL:
        return DiskFullError(f"no room for {path}; nothing was written and nothing is lost: free some disk space")
    if code in UNREADABLE:
        return StoreUnusableError(
            f"{path} cannot be read or written ({error}); nothing was written: check its folder's rights, free disk"
            " space and inodes, and the limit of open files"
        )
    if code in DAMAGED:
        return StoreUnusableError(
            f"{path} is damaged ({error}); nothing was changed. Stop the service, then `distiller db restore` puts a"
            " copy from the folder backups beside it in its place"
        )
    return None


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise our errors instead of SQLite's about the database at `path`."""
    try:
        yield
    except sqlite3.Error as error:
        ours = translation(error, path)
        if ours is None:
            raise
        raise ours from error


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else only held the database for too long."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in BUSY


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the file itself is no sound database."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in DAMAGED
