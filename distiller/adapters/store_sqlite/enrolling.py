"""Finished turns in, ledger entries and a moved cursor out; the rules themselves are `memory.ledger`'s."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Sequence

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.changes import propose_withdrawal
from distiller.adapters.store_sqlite.part import Part
from distiller.adapters.store_sqlite.tombstones import ANYWHERE, Tombstones
from distiller.memory import ledger
from distiller.memory.ledger import Entry, Newest
from distiller.vocabulary import Cursor, Enrolled, EnrolledAs, Enrolment, Mark, TurnState

CURSOR_COLUMNS = (
    *(name for name in Cursor.__struct_fields__ if name != "identity"),
    *("device", "inode", "head_hash", "head_bytes", "tail_hash"),
)
PUT_CURSOR = f"""
  INSERT INTO cursors ({", ".join(CURSOR_COLUMNS)}) VALUES ({", ".join(":" + name for name in CURSOR_COLUMNS)})
  ON CONFLICT (path) DO UPDATE SET
    {", ".join(f"{name} = excluded.{name}" for name in CURSOR_COLUMNS if name not in ("path", "backfilled_to_byte"))},
    backfilled_to_byte = max(backfilled_to_byte, excluded.backfilled_to_byte)
"""
PUT_BACKFILLED = f"""
  INSERT INTO cursors ({", ".join(CURSOR_COLUMNS)}) VALUES ({", ".join(":" + name for name in CURSOR_COLUMNS)})
  ON CONFLICT (path) DO UPDATE SET backfilled_to_byte = excluded.backfilled_to_byte
"""
PUT_SESSION = """
  INSERT INTO sessions (
    agent, id, root_session_id, parent_session_id, role, title, cwd, project_key, file, model, started_at, last_at,
    off_record_at
  ) VALUES (
    :agent, :id, :root, :parent, :role, :title, :cwd, :project_key, :file, :model, :started_at, :last_at, :off_record_at
  ) ON CONFLICT (agent, id) DO UPDATE SET
    root_session_id = excluded.root_session_id,
    parent_session_id = coalesce(excluded.parent_session_id, parent_session_id),
    role = excluded.role,
    title = CASE title WHEN '' THEN '' ELSE coalesce(nullif(excluded.title, ''), title, excluded.title) END, -- ''
    cwd = coalesce(excluded.cwd, cwd),
    project_key = excluded.project_key,
    file = excluded.file,
    model = coalesce(excluded.model, model),
    started_at = coalesce(min(started_at, excluded.started_at), started_at, excluded.started_at),
    last_at = coalesce(max(last_at, excluded.last_at), last_at, excluded.last_at),
    off_record_at = coalesce(min(off_record_at, excluded.off_record_at), off_record_at, excluded.off_record_at)
"""
TURN_COLUMNS = (
    *("key", "revision", "id", "agent", "session_id", "project_key", "file", "start_byte", "end_byte", "prompt_at"),
    *("ended_at", "end_sign", "digest", "words_digest", "prompt_digest", "prompt", "state", "reason", "text"),
    *("enrolled_at", "settled_at", "by_hand"),
)
PUT_TURN = f"INSERT INTO turns ({', '.join(TURN_COLUMNS)}) VALUES ({', '.join(':' + name for name in TURN_COLUMNS)})"
# A waiting turn becomes its own next revision; whoever holds a lease on the old words loses it.
REPLACE_TURN = f"""
  UPDATE turns SET lease_generation = lease_generation + 1, lease_owner = NULL, lease_until = NULL, retry_at = NULL,
    attempts = 0, backend = NULL, {", ".join(f"{name} = :{name}" for name in TURN_COLUMNS if name != "key")}
  WHERE key = :key AND newest = 1
"""
PAUSED = """
  SELECT 1 FROM pauses
  WHERE from_at <= :ended_at AND (until_at IS NULL OR until_at > :ended_at)
    AND (level = 'all' OR (level = 'project' AND target = :project_key) OR (level = 'session' AND target = :session))
"""
# Counting stops at the first id that is new or our own: most turns are no copies.
COPIED = """
  SELECT NOT EXISTS (
    SELECT 1 FROM json_each(:ids) j
    WHERE NOT EXISTS (
      SELECT 1 FROM turn_messages m WHERE m.agent = :agent AND m.message_id = j.value AND m.turn_key <> :key
    )
  ) AND EXISTS (
    SELECT 1 FROM turn_messages m JOIN turns t ON t.key = m.turn_key
    WHERE m.agent = :agent AND m.message_id IN (SELECT value FROM json_each(:ids)) AND t.words_digest = :words
  )
"""
END_LEASED_ATTEMPT = """
  UPDATE passes SET outcome = 'interrupted'
  WHERE outcome IS NULL AND id = (SELECT pass_id FROM turns WHERE key = :key AND newest = 1)
"""
WITHDRAW_WAITING = """
  UPDATE turns SET state = 'skipped', reason = 'withdrawn', settled_at = :at, text = NULL, retry_at = NULL,
    lease_owner = NULL, lease_until = NULL, lease_generation = lease_generation + 1
  WHERE key = :key AND newest = 1
"""
WITHDRAW_SETTLED = """
  INSERT INTO turns (
    key, revision, id, agent, session_id, project_key, file, start_byte, end_byte, prompt_at, ended_at, end_sign,
    digest, words_digest, prompt, state, reason, enrolled_at, settled_at
  )
  SELECT key, revision + 1, id, agent, session_id, project_key, file, start_byte, end_byte, prompt_at, ended_at,
    end_sign, digest, words_digest, prompt, 'skipped', 'withdrawn', :at, :at
  FROM turns WHERE key = :key AND revision = :revision
"""
RESTED_ALONE = """
  SELECT DISTINCT f.id FROM evidence e
  JOIN evidence_links l ON l.evidence_id = e.id AND l.owner = 'fact' AND l.part = 'claims'
  JOIN facts f ON f.id = l.owner_id AND f.status = 'active' AND NOT f.edited_by_person
  WHERE e.turn_key = :key AND NOT EXISTS (
    SELECT 1 FROM evidence_links l2 JOIN evidence e2 ON e2.id = l2.evidence_id
    WHERE l2.owner_id = f.id AND l2.part = 'claims' AND e2.turn_key <> :key
  ) ORDER BY f.id
"""


class Enrolling(Part):
    """Cursors and the entry of turns into the ledger."""

    def cursor(self, path: str) -> Cursor | None:
        """Where reading of the file at `path` goes on."""
        row = self.database.read_one("SELECT * FROM cursors WHERE path = ?", (path,))
        return None if row is None else rows.cursor(row)

    def cursors(self) -> dict[str, Cursor]:
        """All cursors by path."""
        return {row["path"]: rows.cursor(row) for row in self.database.read("SELECT * FROM cursors ORDER BY path")}

    def marks(self, keys: Collection[str]) -> dict[str, Mark]:
        """The newest revision of each of `keys` that the ledger knows, in short."""
        sql = """
          SELECT key, digest, state, reason, backend, project_key FROM turns
          WHERE newest = 1 AND key IN (SELECT value FROM json_each(?))
        """
        found = self.database.read(sql, (rows.to_json(list(keys)),))
        return {row["key"]: rows.value_of(row, Mark) for row in found}

    def enrol(
        self, turns: Sequence[Enrolment], cursor: Cursor | None, *, withdrawn: Sequence[str] = (), at: str
    ) -> list[Enrolled]:
        """Enter finished turns and move the cursor, in one transaction (rules: `memory.ledger`)."""
        with self.database.writing() as connection:
            entered = [enter(connection, turn, self.tombstones, at=at) for turn in turns]
            for key in withdrawn:
                self._withdraw(connection, key, at=at)
            if cursor is not None:
                connection.execute(PUT_CURSOR, rows.cursor_parameters(cursor))
        return entered

    def mark_backfilled(self, cursor: Cursor) -> None:
        """Note that a backfill read `cursor.path` up to `cursor.backfilled_to_byte`; move nothing else."""
        with self.database.writing() as connection:
            connection.execute(PUT_BACKFILLED, {**rows.cursor_parameters(cursor), "offset_byte": 0})

    def _withdraw(self, connection: sqlite3.Connection, key: str, *, at: str) -> None:
        newest = Answers(connection, self.tombstones).newest(key)
        if newest is None or (newest.state, newest.reason) == (TurnState.SKIPPED, "withdrawn"):
            return
        if newest.state is TurnState.WAITING:
            connection.execute(END_LEASED_ATTEMPT, {"key": key})
            connection.execute(WITHDRAW_WAITING, {"key": key, "at": at})
        else:
            connection.execute("UPDATE turns SET newest = 0 WHERE key = ?", (key,))
            connection.execute(WITHDRAW_SETTLED, {"key": key, "revision": newest.revision, "at": at})
        alone = [row["id"] for row in connection.execute(RESTED_ALONE, {"key": key})]
        propose_withdrawal(connection, alone, reason="withdrawn", at=at, new_id=self.new_id)


class Answers:
    """`ledger.Questions` answered by the database, each with one indexed look-up."""

    def __init__(self, connection: sqlite3.Connection, tombstones: Tombstones) -> None:
        self.connection = connection
        self.tombstones = tombstones

    def newest(self, key: str) -> Newest | None:
        """The newest revision of `key`."""
        sql = """
          SELECT revision, digest, words_digest, state, reason FROM turns WHERE key = ? ORDER BY revision DESC LIMIT 1
        """
        row = self.connection.execute(sql, (key,)).fetchone()
        return None if row is None else rows.value_of(row, Newest)

    def had(self, turn: Enrolment) -> bool:
        """Whether an earlier revision of its key had the same words."""
        sql = "SELECT 1 FROM turns WHERE key = ? AND words_digest = ?"
        return self.connection.execute(sql, (turn.key, turn.words_digest)).fetchone() is not None

    def copied(self, turn: Enrolment) -> bool:
        """Whether all message ids are entered under other keys, one of which has the same words."""
        values = {
            "ids": rows.to_json(turn.message_ids),
            "agent": turn.session.agent,
            "key": turn.key,
            "words": turn.words_digest,
        }
        return bool(self.connection.execute(COPIED, values).fetchone()[0])

    def erased(self, turn: Enrolment) -> bool:
        """Whether the person's words in it were erased."""
        said = ((row.message_id, row.text) for row in turn.text.rows if row.part == "own" and not row.previous)
        return self.tombstones.holds(self.connection, said)

    def tells(self, text: str) -> bool:
        """Whether `text` holds erased words."""
        return self.tombstones.holds(self.connection, [(ANYWHERE, text)])

    def paused(self, turn: Enrolment) -> bool:
        """Whether it ended inside a pause."""
        session = f"{turn.session.agent}:{turn.session.id}"
        values = {"ended_at": turn.ended_at, "project_key": turn.project_key, "session": session}
        return self.connection.execute(PAUSED, values).fetchone() is not None

    def off_record(self, turn: Enrolment) -> bool:
        """Whether its session was marked before it ended."""
        sql = "SELECT 1 FROM sessions WHERE agent = ? AND id = ? AND off_record_at <= ?"
        values = (turn.session.agent, turn.session.id, turn.ended_at)
        return self.connection.execute(sql, values).fetchone() is not None

    def repeated(self, prompt_digest: str) -> bool:
        """Whether an earlier turn has that prompt."""
        sql = "SELECT 1 FROM turns WHERE prompt_digest = ?"
        return self.connection.execute(sql, (prompt_digest,)).fetchone() is not None


def enter(connection: sqlite3.Connection, turn: Enrolment, tombstones: Tombstones, *, at: str) -> Enrolled:
    """Write one turn as the ledger's rules say."""
    ask = Answers(connection, tombstones)
    entry = ledger.enter(turn, ask)
    turn = ledger.untitled(turn, ask, entry.reason)
    if entry.freshen:
        freshen(connection, turn, entry.revision)
    if entry.how is not EnrolledAs.KNOWN:
        put_session(connection, turn)
        write(connection, turn, entry, at=at)
        note_run(connection, turn, entry)
    if entry.freshen or entry.how is not EnrolledAs.KNOWN:
        put_messages(connection, turn)
    return Enrolled(turn.key, entry.revision, entry.how, entry.state, entry.reason)


def write(connection: sqlite3.Connection, turn: Enrolment, entry: Entry, *, at: str) -> None:
    """Insert a revision, or turn the waiting one before it into it."""
    waits = entry.state is TurnState.WAITING
    fields = {name: getattr(turn, name, None) for name in TURN_COLUMNS}
    values = {
        **fields,
        "revision": entry.revision,
        "id": ledger.shown_id(turn.key),
        "agent": turn.session.agent,
        "session_id": turn.session.id,
        "prompt": ledger.shown_prompt(turn, entry.reason),
        "state": entry.state,
        "reason": entry.reason,
        "text": rows.pack(turn.text) if waits else None,
        "enrolled_at": at,
        "settled_at": None if waits else at,
    }
    if entry.replaces_waiting:
        connection.execute(END_LEASED_ATTEMPT, {"key": turn.key})
        connection.execute(REPLACE_TURN, values)
        return
    if entry.revision > 1:
        connection.execute("UPDATE turns SET newest = 0 WHERE key = ?", (turn.key,))
    connection.execute(PUT_TURN, values)


def freshen(connection: sqlite3.Connection, turn: Enrolment, revision: int) -> None:
    """A known turn grew without new words of the person: where it stands and what it weighs, no more."""
    sql = """
      UPDATE turns SET digest = :digest, file = :file, start_byte = :start_byte, end_byte = :end_byte
      WHERE key = :key AND revision = :revision
    """
    fields = {name: getattr(turn, name) for name in ("digest", "file", "start_byte", "end_byte", "key")}
    connection.execute(sql, {**fields, "revision": revision})


def put_messages(connection: sqlite3.Connection, turn: Enrolment) -> None:
    """Note the turn's message ids; an id belongs to the turn that brought it first."""
    connection.execute(
        "INSERT INTO turn_messages (agent, message_id, turn_key) SELECT ?, value, ? FROM json_each(?) WHERE TRUE"
        " ON CONFLICT DO NOTHING",
        (turn.session.agent, turn.key, rows.to_json(turn.message_ids)),
    )


def put_session(connection: sqlite3.Connection, turn: Enrolment) -> None:
    """Upsert the turn's session; what its file no longer says stays."""
    session = turn.session
    connection.execute(
        PUT_SESSION,
        {
            **rows.parameters(session),
            "root": session.root_id or session.id,
            "parent": session.parent_id,
            "project_key": turn.project_key,
            "file": turn.file,
            "last_at": max(filter(None, (session.last_at, turn.ended_at))),
            "off_record_at": (turn.prompt_at or turn.ended_at) if turn.off_record else None,
        },
    )


def note_run(connection: sqlite3.Connection, turn: Enrolment, entry: Entry) -> None:
    """Extend the session's run record by this turn; a copy or a later revision happened only once."""
    if entry.reason == "copy" or entry.revision > 1:
        return
    session = turn.session
    run_id = f"{session.agent}:{session.id}"
    row = connection.execute("SELECT tool_calls FROM runs WHERE run_id = ?", (run_id,)).fetchone()
    calls: dict[str, list[int]] = rows.decode(row["tool_calls"]) if row else {}
    for name, went_well in turn.tool_calls:
        count, failed = calls.get(name, (0, 0))
        calls[name] = [count + 1, failed + (not went_well)]
    sql = """
      INSERT INTO runs (run_id, agent, session_id, project_key, started_at, outcome, turns, cost_usd, tool_calls)
      VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?)
      ON CONFLICT (run_id) DO UPDATE SET
        project_key = excluded.project_key, outcome = coalesce(excluded.outcome, outcome), turns = turns + 1,
        started_at = coalesce(min(started_at, excluded.started_at), started_at, excluded.started_at),
        cost_usd = coalesce(cost_usd + excluded.cost_usd, cost_usd, excluded.cost_usd), tool_calls = excluded.tool_calls
    """
    started_at = session.started_at or turn.prompt_at
    values = (run_id, session.agent, session.id, turn.project_key, started_at, turn.outcome, turn.cost_usd)
    connection.execute(sql, (*values, rows.to_json(calls)))
