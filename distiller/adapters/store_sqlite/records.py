"""The person's switches, projects, sessions and records in and out: all that is neither a turn nor a fact."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection
from typing import Any

import msgspec

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.changes import carry_out
from distiller.adapters.store_sqlite.facts import FACT
from distiller.adapters.store_sqlite.part import Part
from distiller.errors import StoreBusyError, UsageError
from distiller.vocabulary import Fact, FactStatus, Op, Operation, Pause, Plan, Project, RecallRecord, SessionRow

RECALL_BUSY_MS = 50
OPEN_PAUSES = "from_at <= :at AND (until_at IS NULL OR until_at > :at)"
PUT_PROJECT = """
  INSERT INTO projects (key, name, remote, alias_of, reading, first_at, last_at)
  VALUES (:key, :name, :remote, :alias_of, :reading, coalesce(:first_at, :at), coalesce(:last_at, :at))
  ON CONFLICT (key) DO UPDATE SET
    name = excluded.name, remote = coalesce(excluded.remote, remote), alias_of = coalesce(excluded.alias_of, alias_of),
    reading = coalesce(excluded.reading, reading), first_at = min(first_at, excluded.first_at),
    last_at = max(last_at, excluded.last_at)
"""
PUT_FOLDER = """
  INSERT INTO folders (path, project_key, resolved_at) VALUES (?, ?, ?)
  ON CONFLICT (path) DO UPDATE SET project_key = excluded.project_key, resolved_at = excluded.resolved_at
"""
# A folder that got a remote has a new key: the old one, which had none, becomes its alias.
OUTGROWN = """
  SELECT p.key FROM folders f JOIN projects p ON p.key = f.project_key
  WHERE f.path = ? AND p.key <> ? AND p.remote IS NULL AND p.alias_of IS NULL
"""
MOVE_RECORDS = (
    "UPDATE turns SET project_key = :of WHERE project_key = :key",
    "UPDATE sessions SET project_key = :of WHERE project_key = :key",
    "UPDATE runs SET project_key = :of WHERE project_key = :key",
    "UPDATE evidence SET project_key = :of WHERE project_key = :key",
    "UPDATE candidates SET scope = 'project:' || :of WHERE scope = 'project:' || :key",
    "UPDATE pauses SET target = :of WHERE level = 'project' AND target = :key",
    "UPDATE projects SET alias_of = :of WHERE key = :key OR alias_of = :key",
)
SHARE_QUOTES = """
  INSERT INTO evidence_links (owner, owner_id, evidence_id, part)
  SELECT owner, ?, evidence_id, part FROM evidence_links WHERE owner_id = ? ON CONFLICT DO NOTHING
"""
SESSIONS = """
  SELECT * FROM sessions
  WHERE (:agent IS NULL OR agent = :agent) AND (:project_key IS NULL OR project_key = :project_key)
    AND (:id IS NULL OR (id >= :id AND id < :id || :last))
  ORDER BY last_at DESC, agent, id LIMIT :limit
"""
SESSION_TURNS = """
  SELECT state, count(*) AS n FROM turns WHERE newest = 1 AND session_id = ? AND agent = ? GROUP BY state ORDER BY state
"""
SESSION_FACTS = """
  SELECT count(DISTINCT f.id) AS n FROM evidence e
  JOIN evidence_links l ON l.evidence_id = e.id AND l.owner = 'fact' JOIN facts f ON f.id = l.owner_id
  WHERE e.session_id = ? AND e.agent = ? AND f.status = 'active'
"""


class Records(Part):
    """Pauses, projects, sessions, recalls and settings."""

    # -- switches -----------------------------------------------------------------------------------------------

    def pauses(self, *, at: str | None = None) -> list[Pause]:
        """All pauses, or those open at `at`, oldest first."""
        sql = f"SELECT * FROM pauses WHERE :at IS NULL OR ({OPEN_PAUSES}) ORDER BY from_at, id"
        return [rows.value_of(row, Pause) for row in self.database.read(sql, {"at": at})]

    def pause(self, pause: Pause) -> None:
        """Switch off from `pause.from_at` on."""
        with self.database.writing() as connection:
            connection.execute(rows.upsert("pauses", Pause.__struct_fields__, ("id",)), rows.parameters(pause))

    def resume(self, *, level: str, target: str, at: str) -> int:
        """End the open pauses of that level and target; how many."""
        sql = f"UPDATE pauses SET until_at = :at WHERE level = :level AND target = :target AND {OPEN_PAUSES}"
        with self.database.writing() as connection:
            return connection.execute(sql, {"level": level, "target": target, "at": at}).rowcount

    # -- projects -----------------------------------------------------------------------------------------------

    def projects(self) -> list[Project]:
        """Known projects with their folders, by name."""
        folders: dict[str, list[str]] = {}
        for row in self.database.read("SELECT project_key, path FROM folders ORDER BY path"):
            folders.setdefault(row["project_key"], []).append(row["path"])
        found = self.database.read("SELECT * FROM projects ORDER BY name, key")
        return [rows.project(row, tuple(folders.get(row["key"], ()))) for row in found]

    def save_project(self, project: Project, *, at: str) -> Project:
        """Insert or freshen a project and its folders; the answer follows aliases and keeps `reading`."""
        with self.database.writing() as connection:
            connection.execute(PUT_PROJECT, {**rows.parameters(project), "at": at})
            target = canonical(connection, project.key)
            for folder in project.folders:
                outgrown = connection.execute(OUTGROWN, (folder, target)).fetchone() if project.remote else None
                if outgrown is not None:
                    move_project(connection, outgrown["key"], target, at=at, new_id=self.new_id)
                connection.execute(PUT_FOLDER, (folder, project.key, at))
            return read_project(connection, target)

    def project_of(self, folder: str) -> Project | None:
        """The project a folder was resolved to before, aliases followed."""
        with self.database.reading() as connection:
            row = connection.execute("SELECT project_key FROM folders WHERE path = ?", (folder,)).fetchone()
            return None if row is None else read_project(connection, canonical(connection, row["project_key"]))

    def alias_project(self, key: str, of: str, *, at: str) -> int:
        """Make `key` another name of `of`; its facts move along; how many did.

        Raises:
            UsageError: they are one project already.
        """
        with self.database.writing() as connection:
            target = canonical(connection, of)
            if target == canonical(connection, key):
                raise UsageError(f"{key} and {of} are one project already")
            if read(connection, key) is None:
                connection.execute(PUT_PROJECT, {**rows.parameters(Project(key, key)), "at": at})
            return move_project(connection, key, target, at=at, new_id=self.new_id)

    # -- sessions -----------------------------------------------------------------------------------------------

    def sessions(
        self, *, agent: str | None = None, project_key: str | None = None, limit: int | None = None
    ) -> list[SessionRow]:
        """Sessions, latest first."""
        return self._sessions(agent=agent, project_key=project_key, limit=limit)

    def session(self, session_id: str) -> list[SessionRow]:
        """Sessions whose id starts with `session_id`."""
        return self._sessions(session_id=session_id)

    def _sessions(
        self,
        *,
        agent: str | None = None,
        project_key: str | None = None,
        session_id: str | None = None,
        limit: int | None = None,
    ) -> list[SessionRow]:
        values = {
            "agent": agent,
            "project_key": project_key,
            "id": session_id,
            "last": "\U0010ffff",
            "limit": -1 if limit is None else limit,
        }
        with self.database.reading() as connection:
            return [session_row(connection, row) for row in connection.execute(SESSIONS, values).fetchall()]

    # -- records ------------------------------------------------------------------------------------------------

    def record_recall(self, record: RecallRecord) -> bool:
        """Note a recall; False if the store was busy for 50 ms and it was dropped."""
        fields = rows.parameters(record)
        values = {**fields, "names": rows.to_json(record.names), "fact_ids": rows.to_json(record.fact_ids)}
        try:
            with self.database.patient_for(RECALL_BUSY_MS), self.database.writing() as connection:
                connection.execute(rows.upsert("recalls", RecallRecord.__struct_fields__, ("id",)), values)
                connection.executemany(
                    "INSERT INTO recalled_facts (recall_id, fact_id, at) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                    [(record.id, fact_id, record.at) for fact_id in record.fact_ids],
                )
        except StoreBusyError:
            return False
        return True

    def recall_counts(self, fact_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """(how often, last when) of the facts that were ever recalled."""
        sql = """
          SELECT fact_id, count(*) AS n, max(at) AS last FROM recalled_facts
          WHERE fact_id IN (SELECT value FROM json_each(?)) GROUP BY fact_id
        """
        found = self.database.read(sql, (rows.to_json(list(fact_ids)),))
        return {row["fact_id"]: (row["n"], row["last"]) for row in found}

    def setting(self, key: str) -> Any:
        """A value kept in the store, or None."""
        row = self.database.read_one("SELECT value FROM settings WHERE key = ?", (key,))
        return None if row is None else rows.decode(row["value"])

    def set_setting(self, key: str, value: Any, *, at: str, only_if_absent: bool = False) -> Any:
        """Keep a JSON value; gives what stands after the call."""
        act = "NOTHING" if only_if_absent else "UPDATE SET value = excluded.value, at = excluded.at"
        sql = f"INSERT INTO settings (key, value, at) VALUES (?, ?, ?) ON CONFLICT (key) DO {act}"
        with self.database.writing() as connection:
            connection.execute(sql, (key, rows.to_json(value), at))
        return self.setting(key)


def session_row(connection: sqlite3.Connection, row: sqlite3.Row) -> SessionRow:
    """A session with what the store counts of it."""
    place = (row["id"], row["agent"])
    return SessionRow(
        session=rows.session(row),
        project_key=row["project_key"],
        off_record_at=row["off_record_at"],
        note=row["note"],
        turns={count["state"]: count["n"] for count in connection.execute(SESSION_TURNS, place)},
        facts=connection.execute(SESSION_FACTS, place).fetchone()["n"],
        file=row["file"],
    )


def read(connection: sqlite3.Connection, key: str) -> sqlite3.Row | None:
    """A project's row."""
    row: sqlite3.Row | None = connection.execute("SELECT * FROM projects WHERE key = ?", (key,)).fetchone()
    return row


def canonical(connection: sqlite3.Connection, key: str) -> str:
    """The key at the end of a chain of aliases."""
    seen = {key}
    while (row := read(connection, key)) is not None and row["alias_of"] is not None and row["alias_of"] not in seen:
        key = row["alias_of"]
        seen.add(key)
    return key


def read_project(connection: sqlite3.Connection, key: str) -> Project:
    """A project with the folders that lead to it, those of its aliases included; made of its key if unknown."""
    row = read(connection, key)
    sql = """
      SELECT path FROM folders
      WHERE project_key = :key OR project_key IN (SELECT key FROM projects WHERE alias_of = :key)
      ORDER BY path
    """
    folders = tuple(folder["path"] for folder in connection.execute(sql, {"key": key}))
    return Project(key, key, folders=folders) if row is None else rows.project(row, folders)


def move_project(connection: sqlite3.Connection, key: str, of: str, *, at: str, new_id: Callable[[], str]) -> int:
    """Move all that belongs to `key` over to `of`; how many facts moved."""
    group = new_id()
    sql = f"SELECT {FACT} FROM facts f WHERE f.scope = ? ORDER BY f.number"
    facts = [rows.value_of(row, Fact) for row in connection.execute(sql, (f"project:{key}",)).fetchall()]
    moved = sum(move_fact(connection, fact, f"project:{of}", group=group, at=at) for fact in facts)
    for statement in MOVE_RECORDS:
        connection.execute(statement, {"key": key, "of": of})
    return moved


def move_fact(connection: sqlite3.Connection, fact: Fact, scope: str, *, group: str, at: str) -> bool:
    """Move a fact, history and all, to another scope.

    Where its name is taken it stays behind, retired as merged (False), and its quotes support the other fact too.
    """
    sql = "SELECT id FROM facts WHERE scope = ? AND name = ?"
    taken = connection.execute(sql, (scope, fact.name)).fetchone()
    if taken is None:
        after = msgspec.structs.replace(fact, scope=scope, updated_at=at)
        operation = Operation(Op.MOVE, fact, after, reason="alias")
    else:
        after = msgspec.structs.replace(fact, status=FactStatus.RETIRED, updated_at=at)
        operation = Operation(Op.MERGE, fact, after, reason="alias")
        connection.execute(SHARE_QUOTES, (taken["id"], fact.id))
    target, why = (fact.id, "moved") if taken is None else (taken["id"], "merged")
    plan = Plan((operation,), redirects=((fact.scope, fact.name, target, why),))
    carry_out(connection, plan, group=group, actor="person", at=at, pass_id=None)
    return taken is None
