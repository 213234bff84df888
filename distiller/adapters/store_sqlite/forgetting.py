"""Facts to be forgotten in, their text gone from every row, index, log and copy out; and what time does to facts.

Erasing deletes what is the facts' own, then looks through every other cell of every table, decompressed, for their
words: what was found is emptied, not guessed. Tombstones go into the same transaction. Backups are rewritten before
it commits, so that a crash in between leaves the erasure undone and to be repeated, never half believed.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.changes import carry_out, propose_withdrawal
from distiller.adapters.store_sqlite.database import connect, migrate, quoted, transaction
from distiller.adapters.store_sqlite.errors import translated
from distiller.adapters.store_sqlite.facts import FACT, facts_by_id
from distiller.adapters.store_sqlite.part import Part
from distiller.errors import StoreBusyError, StoreUnusableError
from distiller.memory import needles
from distiller.timestamps import after
from distiller.vocabulary import Evidence, Fact, FactStatus, Op, Operation, Plan, Retention

DAY_SECONDS = 86400
BACKUP_BUSY_SECONDS = 5

# Every column that can hold a person's words outside the erased facts' own rows (a test keeps this list complete).
TEXT_COLUMNS = (
    *(
        ("turns", "prompt"),
        ("sessions", "title"),
        ("sessions", "note"),
        ("runs", "final_summary"),
        ("recalls", "query"),
    ),
    *(("candidates", "summary"), ("candidates", "body"), ("passes", "reason"), ("fact_history", "reason")),
    ("passes", "error"),
)
JSON_COLUMNS = (
    *(
        ("passes", "refusals"),
        ("proposals", "change"),
        ("recalls", "names"),
        ("facts", "related"),
        ("settings", "value"),
    ),
    *(("fact_history", "before"), ("fact_history", "after")),
)
ZLIB_COLUMNS = (("turns", "text"), ("passes", "prompt"), ("passes", "answer"))

DROPPING = (  # what is counted, the setting that says when, and how it is dropped
    ("candidates", "candidate_days", "UPDATE candidates SET status = 'expired' WHERE status = 'open' AND last_at <= ?"),
    (
        "answers",
        "answer_days",
        """UPDATE passes SET prompt = NULL, answer = NULL, error = NULL
           WHERE outcome IS NOT NULL AND started_at <= ? AND coalesce(prompt, answer, error) IS NOT NULL""",
    ),
    (
        "texts",
        "dead_text_days",
        "UPDATE turns SET text = NULL WHERE state = 'dead' AND settled_at <= ? AND text IS NOT NULL",
    ),
    ("runs", "run_days", "DELETE FROM runs WHERE started_at <= ?"),
    ("recalls", "recall_days", "DELETE FROM recalls WHERE at <= ?"),
    ("passes", "pass_days", "DELETE FROM passes WHERE outcome IS NOT NULL AND started_at <= ?"),
)
BINNED_BEFORE = "SELECT id FROM facts WHERE status = 'binned' AND forgotten_at <= ? ORDER BY number"
OVERDUE = f"""
  SELECT {FACT} FROM facts f
  WHERE f.status = 'active' AND NOT f.pinned
    AND (substr(f.valid_until, 1, 10) < substr(:at, 1, 10) OR f.expires_at <= :at)
  ORDER BY f.number
"""
QUOTES = f"""
  SELECT {rows.columns(rows.EVIDENCE_COLUMNS, "e")} FROM evidence e WHERE e.id IN (
    SELECT evidence_id FROM evidence_links WHERE owner_id IN (SELECT value FROM json_each(?))
  )
"""
LEFT_ALONE = f"""
  SELECT {FACT} FROM facts f
  WHERE f.status = 'active' AND NOT f.edited_by_person AND f.id IN (
    SELECT owner_id FROM evidence_links WHERE owner = 'fact' AND evidence_id IN (SELECT value FROM json_each(:quotes))
  ) AND NOT EXISTS (
    SELECT 1 FROM evidence_links l WHERE l.owner_id = f.id AND l.part = 'claims'
      AND l.evidence_id NOT IN (SELECT value FROM json_each(:quotes))
  ) ORDER BY f.number
"""
DELETIONS = (
    """
    DELETE FROM candidates WHERE fact_id IN (SELECT value FROM json_each(:ids))
      OR clean_text(summary) <> summary OR clean_text(body) <> body
    """,
    "DELETE FROM proposals WHERE fact_id IN (SELECT value FROM json_each(:ids)) OR clean_json(change) <> change",
    "DELETE FROM facts WHERE id IN (SELECT value FROM json_each(:ids))",
    "DELETE FROM evidence WHERE id IN (SELECT value FROM json_each(:quotes))",
    """
    DELETE FROM evidence_links WHERE owner_id NOT IN (
      SELECT id FROM facts UNION ALL SELECT id FROM candidates UNION ALL SELECT id FROM proposals
    )
    """,
    "DELETE FROM evidence WHERE id NOT IN (SELECT evidence_id FROM evidence_links)",
    # What told the facts goes whole: a retelling in other words cannot be found by looking for the words.
    "UPDATE turns SET prompt = '' WHERE key IN (SELECT value FROM json_each(:turns))",
    "UPDATE sessions SET note = NULL WHERE id IN (SELECT value FROM json_each(:sessions)) OR clean_text(note) <> note",
    # An empty title stays empty, though the session goes on to tell it: it may hold the beginning of the words.
    "UPDATE sessions SET title = '' WHERE id IN (SELECT value FROM json_each(:sessions))",
    """
    UPDATE passes SET prompt = NULL, answer = NULL WHERE turn_key IN (SELECT value FROM json_each(:turns))
      OR clean_zlib(prompt) <> prompt OR clean_zlib(answer) <> answer
    """,
)


# A call that runs meanwhile was asked with what is being erased: its answer must not be written any more.
END_LEASES = """
  UPDATE turns SET lease_owner = NULL, lease_until = NULL, lease_generation = lease_generation + 1
  WHERE state = 'waiting' AND lease_owner IS NOT NULL
"""


UNREADABLE = ("distiller.db.damaged-*", "restoring.tmp")  # what a restore set aside, or left when it was killed


class Trace(msgspec.Struct, frozen=True):
    """What must not be found any more: the facts, the names they ever bore, their quotes and all of their words."""

    fact_ids: tuple[str, ...]
    places: frozenset[tuple[str, str]]
    quotes: tuple[Evidence, ...]
    words: re.Pattern[str]

    @property
    def names(self) -> frozenset[str]:
        """The names without their scopes."""
        return frozenset(name for _, name in self.places)


class Forgetting(Part):
    """The bin's end, erasing, and the passing of time."""

    def erase(self, fact_ids: Collection[str], *, at: str) -> int:
        """Remove facts and every trace of their text, leaving tombstones; how many.

        Raises:
            StoreUnusableError: a backup could not be rewritten; nothing was removed from the database.
        """
        with self.database.writing() as connection:
            count = self._erase(connection, fact_ids, at=at)
        if count:
            self._compact()
        return count

    def expire(self, keep: Retention, *, at: str) -> dict[str, int]:
        """Empty the bin, expire facts and candidates, drop old records; counts by what was done."""

        def before(days: int) -> str:
            return after(at, seconds=-days * DAY_SECONDS)

        with self.database.writing() as connection:
            binned = [row["id"] for row in connection.execute(BINNED_BEFORE, (before(keep.bin_days),))]
            erased = self._erase(connection, binned, at=at) if binned else 0
            plan = Plan(tuple(expiry(rows.value_of(row, Fact), at) for row in connection.execute(OVERDUE, {"at": at})))
            carry_out(connection, plan, group=self.new_id(), actor="consolidation", at=at, pass_id=None)
            dropped = {
                name: connection.execute(sql, (before(getattr(keep, days)),)).rowcount for name, days, sql in DROPPING
            }
        if erased:
            self._compact()
        return {"erased": erased, "expired": len(plan.operations), **dropped}

    def honour_tombstones(self) -> None:
        """Bring a rebuilt or restored database up to what was erased before; called when it is opened."""
        with self.database.reading() as connection:
            if not self.tombstones.missing(connection):
                return
        with self.database.writing() as connection:
            lines = self.tombstones.missing(connection)
            self.tombstones.enter(connection, lines)
            barred = [fact.id for fact in self._barred(connection)]
            if barred:
                self._erase(connection, barred, at=max(line.at for line in lines))
        if barred:
            self._compact()

    def _compact(self) -> None:
        # The erasure stands: if others are at work for too long, the next checkpoint does the rest.
        with contextlib.suppress(StoreBusyError), translated(self.database.path):
            compact(self.database.connection)

    def _barred(self, connection: sqlite3.Connection) -> Iterator[Fact]:
        """Facts that bear the name of an erased one and say nothing newer."""
        keys = self.tombstones.keys()
        for row in connection.execute(f"SELECT {FACT} FROM facts f").fetchall():
            fact = rows.value_of(row, Fact)
            if fact.last_confirmed_at <= self.tombstones.slug_barred_until(connection, keys, fact.scope, fact.name):
                yield fact

    def _erase(self, connection: sqlite3.Connection, fact_ids: Collection[str], *, at: str) -> int:
        trace = trace_of(connection, fact_ids)
        if trace is None:
            return 0
        connection.execute(END_LEASES)
        scrub(connection, trace, at=at, new_id=self.new_id)
        for backup in sorted((self.database.data_dir / "backups").glob("*.db")):
            scrub_backup(backup, trace, at=at, new_id=self.new_id)
        for unreadable in (file for name in UNREADABLE for file in self.database.data_dir.glob(name)):
            unreadable.unlink(missing_ok=True)  # nothing can be taken out of it, so it goes whole
        self.tombstones.write(connection, self.tombstones.make(trace.places, trace.quotes, at))
        return len(trace.fact_ids)


def expiry(fact: Fact, at: str) -> Operation:
    """The end of a fact whose time is over."""
    expired = msgspec.structs.replace(fact, status=FactStatus.EXPIRED, updated_at=at)
    return Operation(Op.EXPIRE, fact, expired, reason="valid-until" if fact.valid_until else "not-confirmed")


# --- what to look for -------------------------------------------------------------------------------------------


def trace_of(connection: sqlite3.Connection, fact_ids: Collection[str]) -> Trace | None:
    """All that tells of these facts, earlier revisions included; None if there are none."""
    facts = facts_by_id(connection, fact_ids)
    if not facts:
        return None
    ids = tuple(fact.id for fact in facts)
    versions = [*facts, *(version for fact_id in ids for version in versions_of(connection, fact_id))]
    quotes = tuple(rows.value_of(row, Evidence) for row in connection.execute(QUOTES, (rows.to_json(ids),)))
    redirects = connection.execute(
        "SELECT scope, name FROM redirects WHERE fact_id IN (SELECT value FROM json_each(?))", (rows.to_json(ids),)
    )
    places = {(version.scope, version.name) for version in versions} | {
        (row["scope"], row["name"]) for row in redirects
    }
    places |= {(fact.scope, fact.proposed_name) for fact in versions if fact.proposed_name is not None}
    texts = {text for version in versions for text in (version.summary, version.body)}
    return Trace(ids, frozenset(places), quotes, needles.pattern(texts | {quote.quote for quote in quotes}))


def versions_of(connection: sqlite3.Connection, fact_id: str) -> Iterator[Fact]:
    """What a fact ever was."""
    for row in connection.execute("SELECT before, after FROM fact_history WHERE fact_id = ?", (fact_id,)):
        for side in ("before", "after"):
            if row[side] is not None:
                yield msgspec.json.decode(row[side], type=Fact)


# --- taking it away ---------------------------------------------------------------------------------------------


def scrub(connection: sqlite3.Connection, trace: Trace, *, at: str, new_id: Callable[[], str]) -> None:
    """Take every trace out of one database, inside the caller's transaction."""
    teach(connection, trace)
    values = {
        "ids": rows.to_json(trace.fact_ids),
        "quotes": rows.to_json([quote.id for quote in trace.quotes]),
        "turns": rows.to_json(sorted({quote.turn_key for quote in trace.quotes})),
        "sessions": rows.to_json(sorted({quote.session_id for quote in trace.quotes})),
    }
    left = [rows.value_of(row, Fact) for row in connection.execute(LEFT_ALONE, values)]
    review = [fact for fact in left if fact.id not in trace.fact_ids]
    for statement in DELETIONS:
        connection.execute(statement, values)
    for kind, places in (("text", TEXT_COLUMNS), ("json", JSON_COLUMNS), ("zlib", ZLIB_COLUMNS)):
        for table, column in places:
            connection.execute(
                f"UPDATE {table} SET {column} = clean_{kind}({column}) WHERE clean_{kind}({column}) <> {column}"
            )
    # Deleting from the index only marks words as gone; building it anew drops them.
    connection.execute("INSERT INTO facts_fts (facts_fts) VALUES ('rebuild')")
    plan = Plan(tuple(unproven(fact, at) for fact in review))
    carry_out(connection, plan, group=new_id(), actor="person", at=at, pass_id=None)
    propose_withdrawal(connection, [fact.id for fact in review], reason="evidence-erased", at=at, new_id=new_id)


def unproven(fact: Fact, at: str) -> Operation:
    """A fact whose only quote was erased is served no more until the person has looked at it."""
    hidden = msgspec.structs.replace(fact, status=FactStatus.QUARANTINED, updated_at=at)
    return Operation(Op.QUARANTINE, fact, hidden, reason="evidence-erased")


def teach(connection: sqlite3.Connection, trace: Trace) -> None:
    """Give SQL the functions that take the words out of a cell; a cell without them comes back as it is."""

    def clean_text(cell: str | None) -> str | None:
        return None if cell is None else trace.words.sub("", cell)

    def clean_json(cell: str | None) -> str | None:
        if cell is None:
            return None
        value = rows.decode(cell)
        cleaned = without(value, trace)
        return cell if cleaned == value else rows.to_json(cleaned)

    def clean_zlib(cell: bytes | None) -> bytes | None:
        if cell is None:
            return None
        value = rows.decode(zlib.decompress(cell))
        cleaned = without(value, trace)
        return cell if cleaned == value else rows.pack(cleaned)

    for function in (clean_text, clean_json, clean_zlib):
        connection.create_function(function.__name__, 1, function, deterministic=True)


def without(value: Any, trace: Trace) -> Any:
    """A JSON value without the words, and without the names where others point at them."""
    if isinstance(value, str):
        return trace.words.sub("", value)
    if isinstance(value, list):
        return [without(item, trace) for item in value if not (isinstance(item, str) and item in trace.names)]
    if isinstance(value, dict):
        return {
            key: "" if key == "slug" and item in trace.names else without(item, trace) for key, item in value.items()
        }
    return value


def scrub_backup(backup: Path, trace: Trace, *, at: str, new_id: Callable[[], str]) -> None:
    """Take every trace out of a copy of the database, brought up to this program's schema.

    Raises:
        StoreUnusableError: the copy cannot be rewritten.
    """
    try:
        connection = connect(f"file:{quoted(str(backup))}", BACKUP_BUSY_SECONDS)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA secure_delete = ON")
            migrate(connection, str(backup))
            with transaction(connection):
                scrub(connection, trace, at=at, new_id=new_id)
            compact(connection)
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise StoreUnusableError(
            f"the copy {backup} cannot be rewritten ({error}); nothing was erased: remove that file and try again"
        ) from error


def compact(connection: sqlite3.Connection) -> None:
    """Leave nothing behind in free pages or in the WAL."""
    connection.execute("VACUUM")
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
