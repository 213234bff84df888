"""A folder in, an open and up-to-date database out, with the one way to write to it.

Every write begins IMMEDIATE: a transaction that first reads and then writes fails at once, whatever the timeout,
when another process wrote in between (measured: SQLITE_BUSY_SNAPSHOT). A full disk has already rolled back when its
error arrives. Overwritten text is zeroed in the file (`secure_delete`). `sqlite_utils` costs 50 ms and is imported
only where the schema changes or upkeep is done: opening an up-to-date database must stay cheap.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distiller.adapters.store_sqlite.errors import is_busy, translated
from distiller.errors import StoreUnusableError

NAME = "distiller.db"
MIGRATIONS = Path(__file__).parents[1] / "migrations" / "sqlite"
PRAGMAS = (
    "PRAGMA synchronous = NORMAL",  # WAL: safe against a killed process, and measured fair among writers
    "PRAGMA foreign_keys = ON",
    "PRAGMA recursive_triggers = ON",  # else REPLACE would leave old words in the full-text index
    "PRAGMA secure_delete = ON",
    "PRAGMA temp_store = MEMORY",
    "PRAGMA journal_size_limit = 4194304",
)
WAL_WAIT_SECONDS = 0.02
NOW = "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


class Database:
    """One connection to the database in `data_dir`; `wake` is called after each transaction that changed something."""

    def __init__(self, data_dir: str, *, wake: Callable[[], None] | None, read_only: bool, busy_seconds: float) -> None:
        self.data_dir = Path(data_dir)
        self.path = str(self.data_dir / NAME)
        self.read_only = read_only
        self.wake = wake
        self.busy_seconds = busy_seconds
        with translated(self.path):
            self.connection = self._open_to_read() if read_only else self._open_to_write()

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed at the end of the block, rolled back if anything is raised in it."""
        before = self.connection.total_changes
        with translated(self.path), transaction(self.connection):
            yield self.connection
        if self.wake is not None and self.connection.total_changes != before:
            self.wake()

    @contextmanager
    def patient_for(self, milliseconds: int) -> Iterator[None]:
        """Wait no longer than that for other writers inside the block."""
        self.connection.execute(f"PRAGMA busy_timeout = {milliseconds}")
        try:
            yield
        finally:
            self.connection.execute(f"PRAGMA busy_timeout = {round(1000 * self.busy_seconds)}")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Several questions; errors are translated."""
        with translated(self.path):
            yield self.connection

    def read(self, sql: str, parameters: Any = ()) -> list[sqlite3.Row]:
        """All rows of a question."""
        with translated(self.path):
            return self.connection.execute(sql, parameters).fetchall()

    def read_one(self, sql: str, parameters: Any = ()) -> sqlite3.Row | None:
        """The first row of a question, or None."""
        with translated(self.path):
            row: sqlite3.Row | None = self.connection.execute(sql, parameters).fetchone()
            return row

    def close(self) -> None:
        """Let go of the database; the last one out folds the WAL back."""
        self.connection.close()

    def _open_to_read(self) -> sqlite3.Connection:
        if not Path(self.path).exists():
            raise StoreUnusableError(f"there is no database at {self.path} yet; `distiller run` makes one")
        try:
            connection = connect(f"file:{quoted(self.path)}?mode=ro", self.busy_seconds)
            schema = schema_of(connection)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY):
                raise
            # A WAL database in a folder that cannot be written to can only be read as one that never changes.
            connection = connect(f"file:{quoted(self.path)}?mode=ro&immutable=1", self.busy_seconds)
            schema = schema_of(connection)
        refuse_newer(schema, self.path)
        if schema < latest():
            raise StoreUnusableError(f"{self.path} is of an older program; `distiller run` brings it up to date")
        return connection

    def _open_to_write(self) -> sqlite3.Connection:
        try:
            private_folder(self.data_dir)
            private_file(Path(self.path))
        except OSError as error:
            raise StoreUnusableError(
                f"{self.path} cannot be made ({error.strerror}); nothing was written: check its folder's rights"
            ) from error
        connection = connect(f"file:{quoted(self.path)}", self.busy_seconds)
        use_wal(connection, self.busy_seconds)
        schema = schema_of(connection)
        refuse_newer(schema, self.path)
        for pragma in PRAGMAS:
            connection.execute(pragma)
        if schema < latest():
            if schema > 0:
                copy_to(
                    connection, self.data_dir / "backups", kind="migration", at=connection.execute(NOW).fetchone()[0]
                )
            migrate(connection, self.path)
        return connection


def connect(uri: str, busy_seconds: float) -> sqlite3.Connection:
    """Open a database without Python's own transactions; usable from a thread other than the one that opened it."""
    connection = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One IMMEDIATE transaction, committed at the end of the block or rolled back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has already rolled back
            connection.execute("ROLLBACK")
        raise


def quoted(path: str) -> str:
    """A path as it may stand in a file: URI (without the import of urllib)."""
    return path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")


def use_wal(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Switch to WAL. SQLite's own waiting does not cover the switch, so two first starts at once are waited out."""
    deadline = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(WAL_WAIT_SECONDS)
        else:
            return


# --- schema -----------------------------------------------------------------------------------------------------


def migrations() -> list[tuple[int, Path]]:
    """(number, file) of each migration, in order."""
    return sorted((int(file.name[:4]), file) for file in MIGRATIONS.glob("[0-9][0-9][0-9][0-9]_*.sql"))


def latest() -> int:
    """The schema that this program knows."""
    return migrations()[-1][0]


def schema_of(connection: sqlite3.Connection) -> int:
    """The schema that a database has; 0 when it is empty."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'migrations'").fetchone():
        return 0
    (number,) = connection.execute("SELECT coalesce(max(number), 0) FROM migrations").fetchone()
    return int(number)


def refuse_newer(schema: int, path: str) -> None:
    """Raise StoreUnusableError if the database is ahead of this program."""
    if schema > latest():
        raise StoreUnusableError(
            f"{path} has schema {schema}, this program knows {latest()}; nothing was touched: upgrade distiller"
        )


def migrate(connection: sqlite3.Connection, path: str) -> None:
    """Apply the migrations that the database lacks, all or none; another process may be doing the same."""
    import sqlite_utils  # noqa: PLC0415 - costs 50 ms; see above

    database = sqlite_utils.Database(connection)
    with transaction(connection):
        schema = schema_of(connection)  # once more: who held the lock may have migrated
        refuse_newer(schema, path)
        for number, file in migrations():
            if number > schema:
                database.executescript(file.read_text(encoding="utf-8"))
                database.table("migrations").insert({"number": number, "name": file.stem}, pk="number")


# --- files ------------------------------------------------------------------------------------------------------


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, whatever the umask."""
    folder.mkdir(parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o777 != 0o700:  # noqa: PLR2004 - rights read best in octal
        folder.chmod(0o700)


def private_file(file: Path) -> None:
    """Make a file that only its owner may read; SQLite gives -wal and -shm the rights of the database.

    A file that is there is not opened: closing it would drop the locks that this process holds on it (POSIX).
    """
    if not file.exists():
        with contextlib.suppress(FileExistsError):  # another process may be as quick
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    if file.stat().st_mode & 0o777 != 0o600:  # noqa: PLR2004 - as above
        file.chmod(0o600)


def copy_to(connection: sqlite3.Connection, folder: Path, *, kind: str, at: str) -> Path:
    """Copy the database, while others use it, to a plain file without WAL; a copy cut short never bears the name."""
    private_folder(folder)
    final = folder / f"{at.replace('-', '').replace(':', '').replace('.', '')}-{kind}.db"
    unfinished = final.with_suffix(".tmp")
    unfinished.unlink(missing_ok=True)
    private_file(unfinished)
    copy = sqlite3.connect(unfinished, isolation_level=None)
    try:
        connection.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
    finally:
        copy.close()
    unfinished.replace(final)
    return final
