"""A copy of the database in, that copy in the database's place out; and how sound a database file is.

The order makes a kill at any moment harmless: the copy is staged and checked first, what it replaces is kept next, and
one rename ends it. No old `-wal` may stand beside the new file, or SQLite would play it into the wrong database. What
was erased since the copy was made is erased from it when it is opened, by us or by whoever is first.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from distiller.adapters.store_sqlite.database import (
    NAME,
    connect,
    copy_to,
    latest,
    private_file,
    quoted,
    refuse_newer,
    schema_of,
)
from distiller.adapters.store_sqlite.errors import is_busy, is_damage, translated, translation
from distiller.adapters.store_sqlite.store import open_store
from distiller.adapters.store_sqlite.upkeep import unsound
from distiller.errors import StoreBusyError, StoreUnusableError

STAGED = "restoring.tmp"
BESIDE = ("-wal", "-shm", "-journal")
BUSY_SECONDS = 5
SETTLED_SINCE = """
  SELECT count(*) AS turns, count(cost) AS paid, coalesce(sum(cost), 0) AS usd FROM (
    SELECT (
      SELECT CASE WHEN sum(p.calls) > 0 THEN coalesce(sum(p.cost_usd), 0) END FROM passes p
      WHERE p.turn_key = t.key AND p.revision = t.revision
    ) AS cost
    FROM turns t
    WHERE t.newest = 1 AND t.settled_at IS NOT NULL AND t.state <> 'skipped' AND NOT EXISTS (
      SELECT 1 FROM copy.turns c WHERE c.key = t.key AND c.revision = t.revision AND c.settled_at IS NOT NULL
    )
  )
"""


class Health(msgspec.Struct, frozen=True):
    """A database file: its schema (None if it cannot be read), the schema known here, and what is wrong with it."""

    schema: int | None
    known: int
    problems: tuple[str, ...]


class Since(NamedTuple):
    """Turns settled in the present database that a copy does not know; those that calls were paid for, and how much."""

    turns: int
    paid: int
    usd: float


def health(path: str) -> Health:
    """How sound the database at `path` is; it is neither migrated nor changed.

    Raises:
        StoreBusyError: another process held it for too long.
    """
    writable = os.access(path, os.W_OK) and os.access(Path(path).parent, os.W_OK)
    try:
        with closing(_opened(path, mode="rw" if writable else "ro")) as connection:
            schema = schema_of(connection)
            return Health(schema, latest(), tuple(unsound(connection, path, full=writable and schema > 0)))
    except sqlite3.Error as error:
        ours = translation(error, path)
        if isinstance(ours, StoreBusyError):
            raise ours from error
        return Health(None, latest(), (str(error),))


class Restoration:
    """A copy that was checked and is ready to take the place of the database in `data_dir`."""

    def __init__(self, data_dir: str, staged: Path, schema: int) -> None:
        self._database = Path(data_dir) / NAME
        self._staged = staged
        self.schema = schema

    def since(self) -> Since | None:
        """What was settled since the copy was made; None if the present database cannot tell."""
        try:
            with closing(connect(f"file:{quoted(str(self._database))}?mode=ro", BUSY_SECONDS)) as connection:
                connection.execute("ATTACH ? AS copy", (f"file:{quoted(str(self._staged))}?mode=ro",))
                return Since(**dict(connection.execute(SETTLED_SINCE).fetchone()))
        except sqlite3.Error:
            return None

    def finish(self, *, at: str) -> str | None:
        """Keep what is there, then put the copy in its place; where the former database is kept, None if none was.

        Raises:
            StoreBusyError: another process uses the database; nothing was changed.
            StoreUnusableError: what is there could not be kept; nothing was changed.
        """
        if not self._database.exists():
            self._replace()
            return None
        try:
            with _alone(self._database) as connection:
                if not unsound(connection, str(self._database), full=False):
                    kept = copy_to(connection, self._database.parent / "backups", kind="manual", at=at)
                    self._replace()
                    return str(kept)
        except sqlite3.Error as error:
            if is_busy(error):
                raise StoreBusyError(
                    f"{self._database} is in use by another process (a backfill, an agent's memory server); nothing "
                    "was changed: end it and try again"
                ) from error
            if not is_damage(error):
                with translated(str(self._database)):
                    raise
        except OSError as error:
            raise StoreUnusableError(
                f"{self._database} could not be kept ({error.strerror}); nothing was changed: free some disk space"
            ) from error
        return self._set_aside(at)

    def _replace(self) -> None:
        for ending in BESIDE:
            Path(f"{self._database}{ending}").unlink(missing_ok=True)
        self._staged.replace(self._database)
        sync_folder(self._database.parent)
        open_store(str(self._database.parent)).close()  # up to date, and without what was erased since

    def _set_aside(self, at: str) -> str:
        """Move a damaged database away with all that stands beside it; a link, so that its name is never free."""
        stamp = at.replace("-", "").replace(":", "").replace(".", "")
        aside = self._database.with_name(f"{NAME}.damaged-{stamp}")
        aside.hardlink_to(self._database)
        for ending in BESIDE:
            beside = Path(f"{self._database}{ending}")
            if beside.exists():
                beside.rename(f"{aside}{ending}")
        self._replace()
        return str(aside)


@contextmanager
def restoration(data_dir: str, file: str) -> Iterator[Restoration]:
    """Stage and check the copy at `file`; what was staged and not used is gone at the end of the block.

    Raises:
        StoreUnusableError: the copy is no database of ours, is damaged or newer than this program, or there is no
            room; nothing was changed.
    """
    staged = Path(data_dir) / STAGED
    try:
        yield Restoration(data_dir, staged, _stage(file, staged))
    finally:
        staged.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """See the names in a folder on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _stage(file: str, staged: Path) -> int:
    """Copy `file` whole, with what its WAL holds; its schema."""
    staged.unlink(missing_ok=True)
    try:
        private_file(staged)
        return _copy_sound(file, staged)
    except OSError as error:
        raise StoreUnusableError(f"{staged} cannot be made ({error.strerror}); nothing was changed") from error
    except sqlite3.Error as error:
        if is_damage(error):
            raise StoreUnusableError(f"{file}: {error}; nothing was changed: name another copy") from error
        with translated(file):
            raise


def _copy_sound(file: str, staged: Path) -> int:
    with closing(_opened(file)) as source, closing(connect(f"file:{quoted(str(staged))}", BUSY_SECONDS)) as copy:
        schema = schema_of(source)
        if schema == 0:
            raise StoreUnusableError(f"{file} is no database of distiller; nothing was changed: name another copy")
        refuse_newer(schema, file)
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        problems = unsound(copy, file, full=True)
    if problems:
        raise StoreUnusableError(f"{file} is damaged ({problems[0]}); nothing was changed: name another copy")
    return schema


@contextmanager
def _alone(database: Path) -> Iterator[sqlite3.Connection]:
    """The database, its WAL folded back and nobody else in it; raises SQLite's busy error if somebody is."""
    with closing(connect(f"file:{quoted(str(database))}?mode=rw", BUSY_SECONDS)) as connection:
        # Leaving WAL needs every other connection gone, idle ones too: their next write would go to a lost file.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        # The lock stays when the transaction ends, and a copy is made only of a database without an open one.
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")
        yield connection


def _opened(path: str, *, mode: str = "ro") -> sqlite3.Connection:
    """A database that is there; one in a folder that cannot be written to is taken as at rest."""
    connection = connect(f"file:{quoted(path)}?mode={mode}", BUSY_SECONDS)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError as error:
        connection.close()
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
            raise
        return connect(f"file:{quoted(path)}?mode=ro&immutable=1", BUSY_SECONDS)
    except BaseException:
        connection.close()
        raise
    return connection
