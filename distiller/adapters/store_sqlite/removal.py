"""Turns to be purged, or an expression to be scrubbed, in; their text gone from every row, index, log and copy out.

`purge` goes by where a text came from, `scrub` by the text itself. Scrubbing looks into every column that is not
named below as ours: a column that is added later is looked into by itself. Backups are rewritten before the
transaction commits, as with erasing: a crash in between leaves the work undone and to be repeated.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import sqlite3
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distiller.adapters.store_sqlite import forgetting, rows
from distiller.adapters.store_sqlite.database import connect, migrate, quoted, transaction
from distiller.adapters.store_sqlite.errors import translated
from distiller.adapters.store_sqlite.forgetting import BACKUP_BUSY_SECONDS, END_LEASES, Trace
from distiller.adapters.store_sqlite.part import Part
from distiller.errors import StoreBusyError, StoreUnusableError
from distiller.vocabulary import Purge, Scrubbed

MARK = "[REDACTED:scrub]"

# --- purge: which rows ------------------------------------------------------------------------------------------

PLACE = """
  (:projects = '[]' OR {0}.project_key IN (SELECT value FROM json_each(:projects)))
  AND (:session IS NULL OR ({0}.agent = :agent AND {0}.session_id = :session))
  AND (:since IS NULL OR {0}.{1} >= :since) AND (:before IS NULL OR {0}.{1} < :before)
"""
CHOOSE = (
    f"""
    CREATE TEMP TABLE chosen_turns AS SELECT t.key, t.agent, t.session_id FROM turns t
    WHERE t.newest = 1 AND NOT (t.state = 'skipped' AND t.reason = 'purged') AND {PLACE.format("t", "ended_at")}
    """,
    "CREATE UNIQUE INDEX temp.chosen_turns_key ON chosen_turns (key)",
    "CREATE TEMP TABLE chosen_sessions AS SELECT DISTINCT agent, session_id FROM chosen_turns",
    # What the person typed to us, or an import brought, belongs to no turn; it goes by what it says of itself.
    f"""
    CREATE TEMP TABLE chosen_quotes AS SELECT e.id FROM evidence e
    WHERE e.turn_key IN (SELECT key FROM chosen_turns)
      OR ({PLACE.format("e", "said_at")} AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.key = e.turn_key))
    """,
    "CREATE UNIQUE INDEX temp.chosen_quotes_id ON chosen_quotes (id)",
    """
    CREATE TEMP TABLE chosen_facts AS SELECT f.id FROM facts f WHERE NOT EXISTS (
      SELECT 1 FROM evidence_links l WHERE l.owner_id = f.id AND l.part = 'claims'
        AND l.evidence_id NOT IN (SELECT id FROM chosen_quotes)
    ) AND (
      EXISTS (
        SELECT 1 FROM evidence_links l JOIN chosen_quotes c ON c.id = l.evidence_id
        WHERE l.owner_id = f.id AND l.part = 'claims'
      ) OR (
        f.scope IN (SELECT 'project:' || value FROM json_each(:projects)) AND :session IS NULL
        AND (:since IS NULL OR f.created_at >= :since) AND (:before IS NULL OR f.created_at < :before)
      )
    )
    """,
    f"CREATE TEMP TABLE chosen_recalls AS SELECT r.id FROM recalls r WHERE {PLACE.format('r', 'at')}",
)
CHOSEN = ("chosen_turns", "chosen_sessions", "chosen_quotes", "chosen_facts", "chosen_recalls")
IN_SESSIONS = "(agent, session_id) IN (SELECT agent, session_id FROM chosen_sessions)"
# Later turns of a session were asked with the earlier ones beside them, so their questions go too.
ASKED = f"turn_key IN (SELECT key FROM turns WHERE {IN_SESSIONS})"
RESTING = "id IN (SELECT owner_id FROM evidence_links WHERE evidence_id IN (SELECT id FROM chosen_quotes))"
WEIGH = {
    "turns": "SELECT count(*) FROM chosen_turns",
    "waiting_texts": "SELECT count(*) FROM turns WHERE text IS NOT NULL AND key IN (SELECT key FROM chosen_turns)",
    "facts": "SELECT count(*) FROM chosen_facts",
    "quotes": "SELECT count(*) FROM chosen_quotes",
    "candidates": f"SELECT count(*) FROM candidates WHERE {RESTING}",
    "proposals": f"SELECT count(*) FROM proposals WHERE {RESTING} OR fact_id IN (SELECT id FROM chosen_facts)",
    "notes": """
      SELECT count(*) FROM sessions
      WHERE note IS NOT NULL AND (agent, id) IN (SELECT agent, session_id FROM chosen_sessions)
    """,
    "answers": f"SELECT count(*) FROM passes WHERE coalesce(prompt, answer, error) IS NOT NULL AND {ASKED}",
    "recalls": "SELECT count(*) FROM chosen_recalls",
    "runs": f"SELECT count(*) FROM runs WHERE {IN_SESSIONS}",
}
REMOVE = (
    f"DELETE FROM candidates WHERE {RESTING}",
    f"DELETE FROM proposals WHERE {RESTING} OR fact_id IN (SELECT id FROM chosen_facts)",
    "DELETE FROM evidence WHERE id IN (SELECT id FROM chosen_quotes)",
    "DELETE FROM facts WHERE id IN (SELECT id FROM chosen_facts)",
    """
    DELETE FROM evidence_links WHERE owner_id NOT IN (
      SELECT id FROM facts UNION ALL SELECT id FROM candidates UNION ALL SELECT id FROM proposals
    )
    """,
    "DELETE FROM evidence WHERE id NOT IN (SELECT evidence_id FROM evidence_links)",
    f"UPDATE passes SET prompt = NULL, answer = NULL, error = NULL WHERE {ASKED}",
    "UPDATE passes SET refusals = '[]' WHERE turn_key IN (SELECT key FROM chosen_turns)",
    "UPDATE passes SET outcome = 'interrupted' WHERE outcome IS NULL AND turn_key IN (SELECT key FROM chosen_turns)",
    "UPDATE turns SET text = NULL, prompt = '' WHERE key IN (SELECT key FROM chosen_turns)",
    """
    UPDATE turns SET state = 'skipped', reason = 'purged', retry_at = NULL, settled_at = coalesce(settled_at, :at)
    WHERE newest = 1 AND key IN (SELECT key FROM chosen_turns)
    """,
    f"UPDATE turns SET text = without_previous(text) WHERE text IS NOT NULL AND {IN_SESSIONS}",
    """
    UPDATE sessions SET note = NULL, title = '' -- '' stays, whatever the session goes on to tell
    WHERE (agent, id) IN (SELECT agent, session_id FROM chosen_sessions)
    """,
    f"DELETE FROM runs WHERE {IN_SESSIONS}",
    "DELETE FROM recalls WHERE id IN (SELECT id FROM chosen_recalls)",
    "INSERT INTO facts_fts (facts_fts) VALUES ('rebuild')",
)

# --- scrub: which columns ---------------------------------------------------------------------------------------

SKIPPED_TABLES = ("migrations", "tombstones", "recalled_facts", "evidence_links")
# Codes, times, hashes and ids that we made: whatever matches in them is no text of anybody.
OURS = frozenset(
    {
        *("id", "agent", "end_sign", "digest", "words_digest", "prompt_digest", "state", "backend"),
        *("lease_owner", "lease_until", "pass_id", "outcome", "operations", "purse", "fault", "prompt_version"),
        *("kind", "status", "strength", "fact_id", "fact_ids", "op", "actor", "group_id"),
        *("why", "role", "channel", "level", "reading", "machine_id", "device", "inode"),
        *("head_hash", "tail_hash", "owner", "owner_id", "part", "source_pass_id", "decided_by", "valid_until"),
        *("local_date", "call_id", "tool_use_id", "type", "number", "code"),
    }
)
OURS_IN = frozenset({("settings", "key"), ("passes", "model"), ("turns", "reason")})
IDS = frozenset(
    {"turn_key", "message_id", "session_id", "root_session_id", "parent_session_id", "run_id", "note_turn_key"}
)
IDS_IN = frozenset({("turns", "key"), ("sessions", "id"), ("candidates", "sessions")})
PLACES = frozenset({"project_key", "scope", "file", "path", "cwd", "remote", "alias_of", "target", "folders"})
PLACES_IN = frozenset({("projects", "key")})
SLUGS = frozenset({"name", "proposed_name", "slug", "related", "names"})
NO_SLUGS = frozenset({("projects", "name")})
LISTS = frozenset({("facts", "related"), ("recalls", "names")})
TALLIES = frozenset({("cursors", "lines_unknown"), ("runs", "tool_calls")})


class Cleaner:
    """Takes what an expression matches out of cells, and remembers what that was."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern = pattern
        self.texts: set[str] = set()
        self._marks: dict[str, str] = {}

    def text(self, cell: str | None) -> str | None:
        """Words: each match becomes the mark."""
        return None if cell is None else self._replaced(cell, lambda _: MARK)

    def place(self, cell: str | None) -> str | None:
        """A path or key: two that differed still differ, and the same one is the same in every table and copy."""
        return None if cell is None else self._replaced(cell, lambda found: f"[REDACTED:scrub-{self._mark(found)}]")

    def slug(self, cell: str | None) -> str | None:
        """A fact's name: it stays one that can be typed."""
        return None if cell is None else self._replaced(cell, lambda found: f"redacted-{self._mark(found)}")

    def id(self, cell: str | None) -> bool:
        """Whether an id matches; it is left as it is."""
        return cell is not None and self._hits(cell)

    def json(self, cell: str | None) -> str | None:
        """JSON text; its keys are ours."""
        if cell is None:
            return None
        value = rows.decode(cell)
        cleaned = self.value(value, "")
        return cell if cleaned == value else rows.to_json(cleaned)

    def slugs(self, cell: str | None) -> str | None:
        """A JSON list of facts' names."""
        if cell is None:
            return None
        value = rows.decode(cell)
        cleaned = self.value(value, "related")
        return cell if cleaned == value else rows.to_json(cleaned)

    def tally(self, cell: str | None) -> str | None:
        """A JSON object whose keys are foreign text: names of tools, types of lines."""
        if cell is None:
            return None
        value: dict[str, Any] = rows.decode(cell)
        cleaned = {self.text(name) or "": item for name, item in value.items()}
        return cell if cleaned == value else rows.to_json(cleaned)

    def packed(self, cell: bytes | None) -> bytes | None:
        """Zlib over JSON; what is damaged cannot be looked into and is emptied."""
        if cell is None:
            return None
        try:
            value = rows.decode(zlib.decompress(cell))
        except (zlib.error, ValueError):
            return None
        cleaned = self.value(value, "")
        return cell if cleaned == value else rows.pack(cleaned)

    def value(self, value: Any, key: str) -> Any:
        """A JSON value that stands under `key`."""
        if isinstance(value, str):
            return value if is_ours(key) else self._way(key)(value)
        if isinstance(value, list):
            return [self.value(item, key) for item in value]
        if isinstance(value, dict):
            return {name: self.value(item, name) for name, item in value.items()}
        return value

    def _way(self, key: str) -> Callable[[str | None], str | None]:
        return self.place if key in PLACES else self.slug if key in SLUGS else self.text

    def _hits(self, cell: str) -> bool:
        return any(found[0] for found in self.pattern.finditer(cell))

    def _replaced(self, cell: str, by: Callable[[str], str]) -> str:
        def put(found: re.Match[str]) -> str:
            if not found[0]:
                return ""
            self.texts.add(found[0])
            return by(found[0])

        # Our own marks are left out of the search, so that a second run finds nothing and changes nothing.
        parts = re.split(r"(\[REDACTED:[a-z0-9-]+\])", cell)
        return "".join(part if at % 2 else self.pattern.sub(put, part) for at, part in enumerate(parts))

    def _mark(self, found: str) -> str:
        # Drawn, not hashed: a hash of a short secret can be guessed.
        return self._marks.setdefault(found, secrets.token_hex(4))


def is_ours(key: str) -> bool:
    """Whether what stands under a key of JSON is a code, a time or an id."""
    return key in OURS or key in IDS or key == "sessions" or key.endswith("_at") or key == "at"


class Removal(Part):
    """Purging by origin, scrubbing by text."""

    def purgeable(self, what: Purge) -> dict[str, int]:
        """What `purge` would remove, by kind."""
        with self.database.reading() as connection, chosen(connection, what):
            return weigh(connection)

    def purge(self, what: Purge, *, at: str) -> dict[str, int]:
        """Remove what came from those turns and nothing else bears, copies included; what was removed, by kind.

        Raises:
            StoreUnusableError: a copy could not be rewritten; nothing was removed from the database.
        """
        with self.database.writing() as connection:
            with chosen(connection, what):
                counts = weigh(connection)
                if not any(counts.values()):
                    return counts
                connection.execute(END_LEASES)
                trace = remove(connection, None, at=at, new_id=self.new_id)
            for backup in self._backups():
                with rewriting(backup) as copy, chosen(copy, what):
                    remove(copy, trace, at=at, new_id=self.new_id)
            if trace is not None:
                self.tombstones.write(connection, self.tombstones.make(trace.places, trace.quotes, at))
        self._fold()
        return counts

    def find_text(self, pattern: re.Pattern[str]) -> Scrubbed:
        """Where the expression matches, decompressed cells and copies included; nothing is changed."""
        cleaner = Cleaner(pattern)
        copies = {}
        with self.database.reading() as connection:
            found, ids = count(connection, cleaner)
            facts = facts_in(connection)
        for backup in self._backups():
            with looking(backup) as copy:
                copies[str(backup)] = sum(count(copy, cleaner)[0].values())
        return Scrubbed(found, copies, ids, facts, frozenset(cleaner.texts))

    def scrub(self, pattern: re.Pattern[str], *, at: str) -> Scrubbed:  # noqa: ARG002 - the port's word; a scrub leaves no time
        """Put the mark in place of each match, everywhere; where it stood.

        Raises:
            StoreUnusableError: a copy could not be rewritten; nothing was changed in the database.
        """
        cleaner = Cleaner(pattern)
        copies = {}
        with self.database.writing() as connection:
            found, ids = count(connection, cleaner)
            connection.execute(END_LEASES)
            clean(connection, cleaner)
            for backup in self._backups():
                with rewriting(backup) as copy:
                    copies[str(backup)] = sum(count(copy, cleaner)[0].values())
                    clean(copy, cleaner)
            facts = facts_in(connection)
        self._fold()
        return Scrubbed(found, copies, ids, facts, frozenset(cleaner.texts))

    def _backups(self) -> list[Path]:
        return sorted((self.database.data_dir / "backups").glob("*.db"))

    def _fold(self) -> None:
        # It is done: if others are at work for too long, the next checkpoint does the rest.
        with contextlib.suppress(StoreBusyError), translated(self.database.path):
            forgetting.compact(self.database.connection)


# --- copies -----------------------------------------------------------------------------------------------------


@contextmanager
def rewriting(backup: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the database inside a transaction, brought up to this program's schema and compacted afterwards.

    Raises:
        StoreUnusableError: the copy cannot be rewritten.
    """
    try:
        with contextlib.closing(connect(f"file:{quoted(str(backup))}", BACKUP_BUSY_SECONDS)) as connection:
            for pragma in ("foreign_keys = ON", "secure_delete = ON", "temp_store = MEMORY", "recursive_triggers = ON"):
                connection.execute(f"PRAGMA {pragma}")
            migrate(connection, str(backup))
            with transaction(connection):
                yield connection
            forgetting.compact(connection)
    except sqlite3.Error as error:
        raise StoreUnusableError(
            f"the copy {backup} cannot be rewritten ({error}); nothing was removed: remove that file and try again"
        ) from error


@contextmanager
def looking(backup: Path) -> Iterator[sqlite3.Connection]:
    """A copy of the database, to be read as it is.

    Raises:
        StoreUnusableError: it cannot be read.
    """
    try:
        uri = f"file:{quoted(str(backup))}?mode=ro"
        with contextlib.closing(connect(uri, BACKUP_BUSY_SECONDS)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreUnusableError(
            f"the copy {backup} cannot be read ({error}); nothing was changed: remove that file and try again"
        ) from error


# --- purge ------------------------------------------------------------------------------------------------------


@contextmanager
def chosen(connection: sqlite3.Connection, what: Purge) -> Iterator[None]:
    """Inside the block, temporary tables name the rows that are meant."""
    values = {
        "projects": rows.to_json(what.project_keys),
        "agent": what.session[0] if what.session else None,
        "session": what.session[1] if what.session else None,
        "since": what.since,
        "before": what.before,
    }
    for statement in CHOOSE:
        connection.execute(statement, values)
    try:
        yield
    finally:
        for table in CHOSEN:
            connection.execute(f"DROP TABLE IF EXISTS temp.{table}")


def weigh(connection: sqlite3.Connection) -> dict[str, int]:
    """How much of each kind is chosen."""
    return {kind: int(connection.execute(sql).fetchone()[0]) for kind, sql in WEIGH.items()}


def remove(connection: sqlite3.Connection, known: Trace | None, *, at: str, new_id: Callable[[], str]) -> Trace | None:
    """Take the chosen rows out, and all that tells of their facts (and of `known`); what the facts were."""
    ids = [row["id"] for row in connection.execute("SELECT id FROM chosen_facts")]
    trace = joined(known, forgetting.trace_of(connection, ids))
    if trace is not None:
        forgetting.scrub(connection, trace, at=at, new_id=new_id)
    connection.create_function("without_previous", 1, without_previous, deterministic=True)
    for statement in REMOVE:
        connection.execute(statement, {"at": at} if ":at" in statement else {})
    return trace


def joined(one: Trace | None, other: Trace | None) -> Trace | None:
    """Two traces as one."""
    if one is None or other is None:
        return one or other
    words = re.compile(f"{one.words.pattern}|{other.words.pattern}")
    ids = tuple(dict.fromkeys((*one.fact_ids, *other.fact_ids)))
    quotes = {quote.id: quote for quote in (*one.quotes, *other.quotes)}
    return Trace(ids, one.places | other.places, tuple(quotes.values()), words)


def without_previous(cell: bytes) -> bytes | None:
    """A waiting text without the earlier turns that were to be shown beside it; damaged text is emptied."""
    try:
        value = rows.decode(zlib.decompress(cell))
        kept = [row for row in value["rows"] if not row.get("previous")]
    except (zlib.error, ValueError, TypeError, KeyError):
        return None
    return rows.pack({**value, "rows": kept})


# --- scrub ------------------------------------------------------------------------------------------------------


def facts_in(connection: sqlite3.Connection) -> int:
    """How many facts there are, whatever their status."""
    return int(connection.execute("SELECT count(*) FROM facts").fetchone()[0])


def columns(connection: sqlite3.Connection) -> Iterator[tuple[str, str, str]]:
    """(table, column, which of the cleaner's ways) of all that may hold foreign text."""
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    for (table,) in connection.execute(tables).fetchall():
        if table in SKIPPED_TABLES or table.startswith("facts_fts"):
            continue
        for column in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if column["type"] in ("TEXT", "BLOB") and (how := way(table, column["name"])):
                yield table, column["name"], how


def way(table: str, column: str) -> str | None:
    """How a column is cleaned; None for what is ours."""
    at = (table, column)
    ours = at in OURS_IN or column in OURS or column == "at" or column.endswith(("_at", "_id"))
    ways = (
        ("id", at in IDS_IN or column in IDS),
        ("place", at in PLACES_IN or column in PLACES),
        ("packed", at in forgetting.ZLIB_COLUMNS),
        ("slugs", at in LISTS),
        ("json", at in forgetting.JSON_COLUMNS),
        ("tally", at in TALLIES),
        (None, ours),
        ("slug", column in SLUGS and at not in NO_SLUGS),
    )
    return next((how for how, fits in ways if fits), "text")


def teach(connection: sqlite3.Connection, cleaner: Cleaner) -> None:
    """Give SQL the cleaner's ways."""
    for how in ("text", "place", "slug", "slugs", "json", "tally", "packed", "id"):
        connection.create_function(f"scrub_{how}", 1, getattr(cleaner, how))


def by_table(connection: sqlite3.Connection) -> dict[str, list[tuple[str, str]]]:
    """Columns and how they are cleaned, by table."""
    found: dict[str, list[tuple[str, str]]] = {}
    for table, column, how in columns(connection):
        found.setdefault(table, []).append((column, how))
    return found


def count(connection: sqlite3.Connection, cleaner: Cleaner) -> tuple[dict[str, int], int]:
    """Rows that hold a match, by table (none left out that has any); and ids that match."""
    teach(connection, cleaner)
    found: Counter[str] = Counter()
    ids = 0
    for table, parts in by_table(connection).items():
        changed = " OR ".join(f"scrub_{how}({name}) IS NOT {name}" for name, how in parts if how != "id")
        named = " OR ".join(f"scrub_id({name})" for name, how in parts if how == "id")
        if changed:
            found[table] = connection.execute(f"SELECT count(*) FROM {table} WHERE {changed}").fetchone()[0]
        if named:
            ids += connection.execute(f"SELECT count(*) FROM {table} WHERE {named}").fetchone()[0]
    return {table: rows_ for table, rows_ in sorted(found.items()) if rows_}, ids


def clean(connection: sqlite3.Connection, cleaner: Cleaner) -> None:
    """Rewrite every cell that matches, inside the caller's transaction."""
    teach(connection, cleaner)
    for table, column, how in columns(connection):
        if how != "id" and (table, column) != ("evidence", "quote"):
            cell = f"scrub_{how}({column})"
            connection.execute(f"UPDATE {table} SET {column} = {cell} WHERE {cell} IS NOT {column}")
    clean_quotes(connection)
    # Deleting from the index only marks words as gone; building it anew drops them.
    connection.execute("INSERT INTO facts_fts (facts_fts) VALUES ('rebuild')")


def clean_quotes(connection: sqlite3.Connection) -> None:
    """Rewrite quotes; two of one message that now read alike become one, which all rest on."""
    sql = """
      SELECT id, agent, message_id, scrub_text(quote) AS quote FROM evidence WHERE scrub_text(quote) IS NOT quote
    """
    same = "SELECT id FROM evidence WHERE agent = :agent AND message_id = :message_id AND quote = :quote"
    for row in connection.execute(sql).fetchall():
        twin = connection.execute(same, dict(row)).fetchone()
        if twin is None:
            connection.execute("UPDATE evidence SET quote = :quote WHERE id = :id", dict(row))
            continue
        values = {"twin": twin["id"], "id": row["id"]}
        connection.execute("UPDATE OR IGNORE evidence_links SET evidence_id = :twin WHERE evidence_id = :id", values)
        connection.execute("DELETE FROM evidence WHERE id = :id", {"id": row["id"]})
