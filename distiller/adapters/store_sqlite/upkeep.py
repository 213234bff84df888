"""A database in, its numbers, its health and its copies out."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.database import copy_to, schema_of
from distiller.adapters.store_sqlite.due import HELD
from distiller.adapters.store_sqlite.errors import is_busy, translated
from distiller.adapters.store_sqlite.part import Part
from distiller.errors import StoreUnusableError
from distiller.vocabulary import Totals

KEPT_COPIES = {"nightly": 7}
OTHER_COPIES = 3
BY_STATE = """
  SELECT state, CASE WHEN state = 'waiting' AND by_hand THEN 'by-hand' ELSE reason END AS reason, count(*) AS n
  FROM turns WHERE newest = 1 GROUP BY 1, 2
"""
TODAY = f"SELECT {rows.USAGE_SUMS} FROM passes WHERE started_at >= ?"
# A turn that only waits for its turn is no error.
LAST_ERROR = """
  SELECT p.started_at, p.reason, coalesce(nullif(p.error, ''), p.reason, '') AS error, t.id
  FROM passes p JOIN turns t ON t.key = p.turn_key AND t.newest = 1
  WHERE p.outcome = 'dead' OR (p.outcome = 'waiting' AND p.reason NOT IN ('queued', 'behind'))
  ORDER BY p.started_at DESC, p.rowid DESC LIMIT 1
"""
SIMPLE = f"""
  SELECT
    (SELECT min(enrolled_at) FROM turns WHERE state = 'waiting') AS oldest_waiting_at,
    (
      SELECT min(max(enrolled_at, coalesce(retry_at, ''))) FROM turns
      WHERE state = 'waiting' AND by_hand = 0 AND reason NOT IN {HELD}
    ) AS oldest_due_at,
    (SELECT max(settled_at) FROM turns WHERE settled_at IS NOT NULL) AS last_settled_at,
    (SELECT count(*) FROM candidates WHERE status = 'open') AS candidates,
    (SELECT count(*) FROM proposals WHERE status = 'open') AS proposals,
    (SELECT coalesce(sum(lines_malformed), 0) FROM cursors) AS lines_malformed,
    (SELECT coalesce(sum(lines_too_long), 0) FROM cursors) AS lines_too_long
"""


class Upkeep(Part):
    """Totals, checks, backups, the WAL."""

    def totals(self, *, day_from: str) -> Totals:
        """The ledger in numbers; `today` counts passes started at or after `day_from`, open ones as reserved."""
        with self.database.reading() as connection:
            simple = connection.execute(SIMPLE).fetchone()
            by_state = connection.execute(BY_STATE).fetchall()
            last_error = connection.execute(LAST_ERROR).fetchone()
            unknown: Counter[str] = Counter()
            for row in connection.execute("SELECT lines_unknown FROM cursors WHERE lines_unknown <> '{}'"):
                unknown.update(rows.decode(row["lines_unknown"]))
            return Totals(
                **dict(simple),
                states=counted(by_state, "state"),
                waiting=counted([row for row in by_state if row["state"] == "waiting"], "reason"),
                skipped=counted([row for row in by_state if row["state"] == "skipped"], "reason"),
                dead=counted([row for row in by_state if row["state"] == "dead"], "reason"),
                facts=counted(grouped(connection, "facts", "status"), "status"),
                last_error=last_error
                and (
                    last_error["started_at"],
                    last_error["reason"] or "",
                    f"{last_error['error']} (turn {last_error['id']})",
                ),
                today=rows.usage(connection.execute(TODAY, (day_from,)).fetchone()),
                sessions=counted(grouped(connection, "sessions", "agent"), "agent"),
                lines_unknown=dict(unknown),
                schema=schema_of(connection),
                store_bytes=size_of(self.database.path),
                wal_bytes=size_of(self.database.path + "-wal"),
            )

    def check(self) -> list[str]:
        """What is wrong with the database; empty when it is sound."""
        return unsound(self.database.connection, self.database.path, full=not self.database.read_only)

    def backup(self, kind: str, *, at: str) -> str:
        """Copy the database into `backups`, keep 7 nightly and 3 of each other kind; the new file's path."""
        folder = self.database.data_dir / "backups"
        with translated(self.database.path):
            try:
                made = copy_to(self.database.connection, folder, kind=kind, at=at)
            except OSError as error:
                raise StoreUnusableError(
                    f"no copy could be made in {folder} ({error.strerror}); the database itself is unharmed"
                ) from error
        copies = sorted(folder.glob(f"*-{kind}.db"))
        for old in copies[: -KEPT_COPIES.get(kind, OTHER_COPIES)]:
            old.unlink(missing_ok=True)
        return str(made)

    def checkpoint(self) -> None:
        """Fold the WAL back as far as nobody needs it."""
        with self.database.patient_for(0):
            self.database.read("PRAGMA wal_checkpoint(TRUNCATE)")

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()


def unsound(connection: sqlite3.Connection, path: str, *, full: bool) -> list[str]:
    """What is wrong with a database; `full`: its full-text index too, which SQLite checks only where it may write.

    Raises:
        StoreBusyError: another process held it for too long; that says nothing about its health.
    """
    try:
        problems = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        problems += [f"{row[0]} points at a missing {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
        if full:
            connection.execute("INSERT INTO facts_fts (facts_fts, rank) VALUES ('integrity-check', 1)")
    except sqlite3.DatabaseError as error:
        if is_busy(error):
            with translated(path):
                raise
        return [str(error)]
    return problems


def grouped(connection: sqlite3.Connection, table: str, column: str) -> list[sqlite3.Row]:
    """How many rows of a table there are by the value of a column."""
    return connection.execute(f"SELECT {column}, count(*) AS n FROM {table} GROUP BY {column}").fetchall()


def counted(found: list[sqlite3.Row], column: str) -> dict[str, int]:
    """Rows with a count `n`, summed up by another column."""
    counts: Counter[str] = Counter()
    for row in found:
        counts[row[column] or ""] += row["n"]
    return dict(counts)


def size_of(path: str) -> int:
    """Bytes of a file; 0 if it is not there."""
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
