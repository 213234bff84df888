"""Waiting turns in, settled turns out: who may work on a turn, and the one transaction that ends it.

The pass that goes with a lease is opened, answered and closed here as `passes` says.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Collection
from typing import Any

import msgspec

from distiller.adapters.store_sqlite import due, passes, rows
from distiller.adapters.store_sqlite.changes import carry_out
from distiller.adapters.store_sqlite.facts import known
from distiller.adapters.store_sqlite.part import Part
from distiller.errors import LeaseLostError
from distiller.memory import ledger, reconcile
from distiller.timestamps import after
from distiller.vocabulary import (
    DAILY_PURSE,
    Declined,
    Lease,
    Limits,
    PassRecord,
    Plan,
    Reply,
    Request,
    Settlement,
    TurnQuery,
    TurnRow,
    TurnState,
)

BURY_UNREADABLE = """
  UPDATE turns SET state = 'dead', reason = 'unreadable', settled_at = :at, text = NULL WHERE key = :key AND newest = 1
"""
WAS_KEPT = "SELECT 1 FROM turns WHERE key = ? AND newest = 0 AND state = 'kept'"
CLAIMABLE = """
  SELECT t.*, s.root_session_id, s.note FROM turns t LEFT JOIN sessions s ON s.agent = t.agent AND s.id = t.session_id
  WHERE t.key = :key AND t.newest = 1 AND t.state = 'waiting' AND (t.lease_until IS NULL OR t.lease_until <= :at)
"""
TAKE = """
  UPDATE turns SET lease_owner = :owner, lease_until = :until, lease_generation = :generation, attempts = attempts + 1,
    reserved_tokens = :tokens, reserved_usd = :usd, pass_id = :pass_id
  WHERE key = :key AND revision = :revision
"""
SETTLE = """
  UPDATE turns SET state = :state, reason = :reason, backend = :backend, settled_at = :settled_at, retry_at = :retry_at,
    attempts = attempts - :forgiven, text = CASE WHEN :keeps_text THEN text END, lease_owner = NULL, lease_until = NULL,
    reserved_tokens = 0, reserved_usd = 0
  WHERE key = :key AND revision = :revision
"""
TURN = f"{rows.columns(rows.TURN_COLUMNS, 't')}, t.text IS NOT NULL AS has_text"
REQUEUED = """
  t.newest = 1 AND t.text IS NOT NULL AND t.lease_owner IS NULL AND (
    t.state = 'dead' OR (t.state = 'waiting' AND (t.retry_at IS NOT NULL OR t.reason IN ('retry', 'resting')))
  )
"""


class Settling(Part):
    """Leases, passes and the end of a turn."""

    def due(
        self,
        *,
        at: str,
        limit: int,
        only: Collection[str] | None = None,
        newest_first: bool = False,
        by_hand: bool = False,
    ) -> list[str]:
        """Keys of waiting turns that may be claimed now; within a session always the earlier one first."""
        keys = None if only is None else rows.to_json(list(only))
        values = {"at": at, "soon": after(at, seconds=due.BEHIND_SECONDS), "only": keys, "limit": limit}
        sql = due.question(by_hand=by_hand, newest_first=newest_first)
        return [row["key"] for row in self.database.read(sql, values)]

    def claim(
        self,
        key: str,
        *,
        owner: str,
        at: str,
        lease_seconds: float = 300,
        limits: Limits | None = None,
    ) -> Lease | Declined | None:
        """Take the turn for a while and reserve its cost; None if it is settled, leased elsewhere or unknown."""
        with self.database.writing() as connection:
            row = connection.execute(CLAIMABLE, {"key": key, "at": at}).fetchone()
            if row is None:
                return None
            saved = passes.handed_on(connection, key, row["revision"])
            costs = limits if saved is None else None  # an answer that is there costs nothing more
            if costs is not None and (declined := passes.declined(connection, costs, at=at)) is not None:
                return declined
            passes.interrupt(connection, row["pass_id"])
            try:
                lease = rows.lease(
                    row,
                    owner=owner,
                    generation=row["lease_generation"] + 1,
                    until=after(at, seconds=lease_seconds),
                    pass_id=self.new_id(),
                    attempt=row["attempts"] + 1,
                    saved=saved,
                )
            except (zlib.error, ValueError, msgspec.MsgspecError):
                connection.execute(BURY_UNREADABLE, {"key": key, "at": at})
                return None
            reserved = {"tokens": costs.reserved_tokens if costs else 0, "usd": costs.reserved_usd if costs else 0}
            connection.execute(TAKE, {**msgspec.structs.asdict(lease), **reserved})
            passes.begin(connection, lease, reserved, purse=limits.purse if limits else DAILY_PURSE, at=at)
        return lease

    def reserve(self, lease: Lease, limits: Limits, *, at: str) -> Declined | None:
        """Reserve a further call on the lease's pass; None if it fits. Raises LeaseLostError."""
        with self.database.writing() as connection:
            held(connection, lease)
            if (declined := passes.declined(connection, limits, at=at)) is not None:
                return declined
            passes.reserve(connection, lease.pass_id, limits)
        return None

    def renew(self, lease: Lease, *, at: str, lease_seconds: float = 300) -> Lease:
        """Hold on to the turn. Raises LeaseLostError."""
        until = after(at, seconds=lease_seconds)
        with self.database.writing() as connection:
            held(connection, lease)
            connection.execute("UPDATE turns SET lease_until = ? WHERE key = ? AND newest = 1", (until, lease.key))
        return msgspec.structs.replace(lease, until=until)

    def save_answer(self, lease: Lease, request: Request, reply: Reply, *, at: str) -> None:  # noqa: ARG002 - the port's word; the pass has its own start
        """Keep question and answer on the pass row before it is judged. Raises LeaseLostError."""
        with self.database.writing() as connection:
            held(connection, lease)
            passes.save(connection, lease.pass_id, request, reply)

    def commit(self, settlement: Settlement, lease: Lease, *, at: str) -> PassRecord:
        """Settle the turn, all or nothing. Raises LeaseLostError."""
        with self.database.writing() as connection:
            turn = held(connection, lease)
            plan = self._plan(connection, settlement, lease, turn["project_key"], at=at)
            group = self.new_id()
            carry_out(connection, plan, group=group, actor="pass", at=at, pass_id=lease.pass_id)
            kept_before = connection.execute(WAS_KEPT, (lease.key,)).fetchone() is not None
            state, reason = ledger.outcome(settlement, plan, kept_before=kept_before)
            passes.close(connection, settlement, plan, lease.pass_id, outcome=state, reason=reason)
            settle(connection, settlement, lease, state=state, reason=reason, at=at)
            save_note(connection, settlement, lease)
            return passes.read(connection, "p.id = ?", (lease.pass_id,))[0]

    def _plan(
        self, connection: sqlite3.Connection, settlement: Settlement, lease: Lease, project_key: str, *, at: str
    ) -> Plan:
        if not ledger.needs_plan(settlement):
            return Plan()
        shown = known(connection, settlement.verdict, project_key, self.tombstones)
        return reconcile.plan(
            settlement.verdict, shown, project_key=project_key, at=at, pass_id=lease.pass_id, new_id=self.new_id
        )

    def lease_owners(self, *, at: str) -> set[str]:
        """Owners of the leases that are held at `at`."""
        sql = "SELECT DISTINCT lease_owner FROM turns WHERE state = 'waiting' AND lease_until > ?"
        return {row["lease_owner"] for row in self.database.read(sql, (at,))}

    def release(self, owners: Collection[str], *, at: str) -> int:
        """End the leases of owners that are known to be dead, so that their turns need not wait; how many."""
        sql = """
          UPDATE turns SET lease_owner = NULL, lease_until = NULL, lease_generation = lease_generation + 1
          WHERE state = 'waiting' AND lease_until > ? AND lease_owner IN (SELECT value FROM json_each(?))
        """
        with self.database.writing() as connection:
            return connection.execute(sql, (at, rows.to_json(list(owners)))).rowcount

    def requeue(self, query: TurnQuery, *, keys: Collection[str] | None = None, at: str) -> list[str]:  # noqa: ARG002 - the port's word; "at once" needs no time
        """Make dead (or retrying) turns that still have their text wait again at once, attempts forgiven."""
        where, values = conditions(query)
        values["keys"] = None if keys is None else rows.to_json(list(keys))
        chosen = f"{REQUEUED} AND {where} AND (:keys IS NULL OR t.key IN (SELECT value FROM json_each(:keys)))"
        sql = f"SELECT t.key FROM turns t WHERE {chosen} ORDER BY t.ended_at, t.key LIMIT :limit"
        with self.database.writing() as connection:
            found = [row["key"] for row in connection.execute(sql, values)]
            connection.execute(
                "UPDATE turns SET state = 'waiting', reason = 'queued', attempts = 0, retry_at = NULL,"
                " settled_at = NULL"
                " WHERE newest = 1 AND key IN (SELECT value FROM json_each(?))",
                (rows.to_json(found),),
            )
        return found

    def hold(self, reason: str | None, *, from_reasons: Collection[str], at: str) -> int:  # noqa: ARG002 - the port's word
        """Set the waiting reason of the service's turns that wait for one of `from_reasons` (`queued` when None)."""
        sql = """
          UPDATE turns SET reason = :to
          WHERE state = 'waiting' AND by_hand = 0 AND reason <> :to
            AND reason IN (SELECT value FROM json_each(:from))
        """
        with self.database.writing() as connection:
            values = {"to": reason or "queued", "from": rows.to_json(list(from_reasons))}
            return connection.execute(sql, values).rowcount

    def turns(self, query: TurnQuery) -> list[TurnRow]:
        """Ledger entries at their highest revision, newest first."""
        where, values = conditions(query)
        order = "ORDER BY t.ended_at DESC, t.start_byte DESC, t.key DESC LIMIT :limit"
        found = self.database.read(f"SELECT {TURN} FROM turns t WHERE t.newest = 1 AND {where} {order}", values)
        return [rows.value_of(row, TurnRow) for row in found]

    def turn(self, name: str) -> list[TurnRow]:
        """All revisions of turns whose shown id or key starts with `name`, newest first."""
        sql = f"""
          SELECT {TURN} FROM turns t
          WHERE (t.id >= :name AND t.id < :end) OR (t.key >= :name AND t.key < :end)
          ORDER BY t.ended_at DESC, t.key DESC, t.revision DESC
        """
        found = self.database.read(sql, {"name": name, "end": name + "\U0010ffff"})
        return [rows.value_of(row, TurnRow) for row in found]


def conditions(query: TurnQuery) -> tuple[str, dict[str, Any]]:
    """A query as SQL over `turns t`, and its values."""
    lists = {"state": query.states, "reason": query.reasons}
    plain = {"agent": query.agent, "session_id": query.session_id, "project_key": query.project_key}
    parts = [f"t.{name} IN (SELECT value FROM json_each(:{name}))" for name, wanted in lists.items() if wanted]
    parts += [f"t.{name} = :{name}" for name, wanted in plain.items() if wanted is not None]
    values = {**plain, **{name: rows.to_json(wanted) for name, wanted in lists.items()}}
    return " AND ".join(parts) or "TRUE", {**values, "limit": -1 if query.limit is None else query.limit}


def held(connection: sqlite3.Connection, lease: Lease) -> sqlite3.Row:
    """The leased turn's row. Raises LeaseLostError if the lease has passed on."""
    sql = """
      SELECT project_key FROM turns
      WHERE key = :key AND revision = :revision AND newest = 1 AND state = 'waiting' AND lease_generation = :generation
        AND lease_owner = :owner
    """
    row: sqlite3.Row | None = connection.execute(sql, msgspec.structs.asdict(lease)).fetchone()
    if row is None:
        raise LeaseLostError(f"turn {lease.key} was taken over by another process; nothing was written")
    return row


def settle(
    connection: sqlite3.Connection,
    settlement: Settlement,
    lease: Lease,
    *,
    state: TurnState,
    reason: str | None,
    at: str,
) -> None:
    """Move the turn to its next state; only a turn that waits or died keeps its text."""
    waits = state is TurnState.WAITING
    values = {
        "key": lease.key,
        "revision": lease.revision,
        "state": state,
        "reason": reason,
        "backend": settlement.backend,
        "settled_at": None if waits else at,
        "retry_at": settlement.retry_at if waits else None,
        "forgiven": 0 if settlement.counts_as_attempt else 1,
        "keeps_text": waits or state is TurnState.DEAD,
    }
    connection.execute(SETTLE, values)


def save_note(connection: sqlite3.Connection, settlement: Settlement, lease: Lease) -> None:
    """Keep the revised session note; null means that nothing changed."""
    note = settlement.verdict.session_note
    if note is not None and settlement.state is not TurnState.WAITING:
        sql = "UPDATE sessions SET note = ?, note_turn_key = ? WHERE agent = ? AND id = ?"
        connection.execute(sql, (note, lease.key, lease.agent, lease.session_id))
