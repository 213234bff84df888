"""Questions about what is kept and who was told in; counts, times and recalls out, never a fact's text."""

from __future__ import annotations

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.part import Part
from distiller.vocabulary import Kept, RecallRecord

KINDS = (  # kind, table, columns that tell how old (first, last), columns that weigh (none: all), condition
    ("facts", "facts", ("created_at", "updated_at"), (), ""),
    ("history", "fact_history", ("at", "at"), (), ""),
    ("quotes", "evidence", ("said_at", "said_at"), (), ""),
    ("candidates", "candidates", ("first_at", "last_at"), (), ""),
    ("proposals", "proposals", ("created_at", "created_at"), (), ""),
    ("turns", "turns", ("ended_at", "ended_at"), ("key", "prompt", "file", "session_id", "project_key"), ""),
    ("waiting texts", "turns", ("ended_at", "ended_at"), ("text",), "text IS NOT NULL"),
    ("passes", "passes", ("started_at", "started_at"), ("turn_key", "refusals", "operations"), ""),
    ("answers", "passes", ("started_at", "started_at"), ("prompt", "answer"), "coalesce(prompt, answer) IS NOT NULL"),
    ("sessions", "sessions", ("started_at", "last_at"), (), ""),
    ("runs", "runs", ("started_at", "started_at"), (), ""),
    ("recalls", "recalls", ("at", "at"), (), ""),
    ("projects", "projects", ("first_at", "last_at"), (), ""),
    ("files read", "cursors", ("seen_at", "seen_at"), (), ""),
    ("tombstones", "tombstones", ("at", "at"), (), ""),
)
RECALLS = """
  SELECT * FROM recalls WHERE at >= :since
    AND (:fact IS NULL OR id IN (SELECT recall_id FROM recalled_facts WHERE fact_id = :fact))
  ORDER BY at DESC, id
"""
OUTCOMES = """
  SELECT substr(settled_at, 1, 16) AS minute, state, count(*) AS n FROM turns
  WHERE settled_at >= ? AND newest = 1 GROUP BY minute, state ORDER BY minute, state
"""


class Inventory(Part):
    """What a person asks about the store itself."""

    def recalls(self, *, fact_id: str | None = None, since: str = "") -> list[RecallRecord]:
        """Recalls at or after `since` (those that handed over `fact_id`), newest first."""
        found = self.database.read(RECALLS, {"since": since, "fact": fact_id})
        lists = ({name: rows.decode(row[name]) for name in ("names", "fact_ids")} for row in found)
        return [
            rows.value_of({**dict(row), **decoded}, RecallRecord) for row, decoded in zip(found, lists, strict=True)
        ]

    def outcomes(self, *, since: str) -> list[tuple[str, str, int]]:
        """(minute, state, how many) of the turns settled at or after `since`, oldest first."""
        return [(row["minute"], row["state"], row["n"]) for row in self.database.read(OUTCOMES, (since,))]

    def inventory(self) -> list[Kept]:
        """What is stored, by kind; kinds of which there is nothing are there with zeros."""
        return [self._weigh(*kind) for kind in KINDS]

    def _weigh(self, kind: str, table: str, times: tuple[str, str], columns: tuple[str, ...], where: str) -> Kept:
        names = columns or tuple(row["name"] for row in self.database.read(f"PRAGMA table_info({table})"))
        weight = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in names)
        sql = f"""
          SELECT count(*) AS n, coalesce(sum({weight}), 0) AS bytes,
            min({times[0]}) AS oldest, max({times[1]}) AS newest
          FROM {table} WHERE {where or "TRUE"}
        """
        row = self.database.read(sql)[0]
        return Kept(kind, row["n"], row["bytes"], row["oldest"], row["newest"])
