"""Attempts at turns in, what they asked, were answered and spent out.

A claim opens a pass with its reservation as usage, and a further call is reserved on top, so that a process that dies
has paid for its calls; the saved answer and the commit replace it. An answer that nobody judged goes on to the next
pass: it holds question and answer again, but their cost stays where it was paid.
"""

from __future__ import annotations

import sqlite3

import msgspec

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.part import Part
from distiller.memory import ledger
from distiller.timestamps import seconds_between
from distiller.vocabulary import (
    Declined,
    Lease,
    Limits,
    PassRecord,
    Plan,
    Reply,
    Request,
    Saved,
    Settlement,
    Spending,
    TurnState,
)

BEGIN = """
  INSERT INTO passes (
    id, turn_key, revision, attempt, started_at, wait_ms, purse, input_tokens, cost_usd, prompt, answer, fault, backend,
    model, prompt_version
  ) VALUES (
    :pass_id, :key, :revision, :attempt, :at, :wait_ms, :purse, :tokens, :usd, :prompt, :answer, :fault, :backend,
    :model, :prompt_version
  )
"""
USED = ", ".join(f"{name} = :{name}" for name in rows.USAGE_COLUMNS)
SAVE = f"""
  UPDATE passes SET prompt = :prompt, answer = :answer, fault = :fault, backend = :backend, model = :model,
    prompt_version = :prompt_version, {USED}
  WHERE id = :pass_id
"""
TOLD_BY = ("backend", "model", "prompt_version")
# An answer that is not judged yet goes on telling whose it is, whoever gives its turn back.
CLOSE = f"""
  UPDATE passes SET outcome = :outcome, reason = :reason, error = :error, operations = :operations,
    refusals = :refusals, {USED},
    {", ".join(f"{name} = iif(:outcome = 'waiting' AND answer IS NOT NULL, {name}, :{name})" for name in TOLD_BY)}
  WHERE id = :pass_id
"""
# Passes of a revision in the order in which they began, which is that of their rows: a clock may be set back.
HANDED_ON = """
  SELECT * FROM passes p
  WHERE turn_key = :key AND revision = :revision AND prompt IS NOT NULL AND answer IS NOT NULL AND NOT EXISTS (
    SELECT 1 FROM passes j WHERE j.turn_key = :key AND j.revision = :revision AND j.rowid >= p.rowid
      AND j.outcome IN ('kept', 'empty', 'dead')
  ) ORDER BY p.rowid DESC LIMIT 1
"""
# A claim's own reservation is a call too, though none is counted yet. What costs nothing known stays of unknown price.
RESERVE = """
  UPDATE passes SET calls = max(calls, input_tokens > 0) + 1, input_tokens = input_tokens + :tokens,
    cost_usd = coalesce(cost_usd + :usd, nullif(:usd, 0))
  WHERE id = :pass_id
"""
SPENT = """
  SELECT coalesce(sum(input_tokens + output_tokens + cache_read_tokens + cache_write_tokens), 0) AS tokens,
    coalesce(sum(cost_usd), 0) AS usd
  FROM passes WHERE purse = :purse AND started_at >= :since AND (:until IS NULL OR started_at < :until)
"""
CALLING = """
  SELECT started_at, max(calls, 1) AS calls FROM passes
  WHERE started_at > ? AND started_at < ? AND (calls > 0 OR input_tokens > 0) ORDER BY started_at
"""
SPENDING = f"""
  SELECT substr(started_at, 1, 16) AS minute, backend, model, purse, count(DISTINCT turn_key) AS turns,
    count(CASE WHEN outcome = 'dead' AND reason IN ('answer-unusable', 'model-refused') THEN 1 END) AS unusable,
    {rows.USAGE_SUMS}
  FROM passes WHERE started_at >= ? GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""


class Passes(Part):
    """What was tried, for people."""

    def passes(self, key: str) -> list[PassRecord]:
        """Attempts at one turn, newest first."""
        with self.database.reading() as connection:
            return read(connection, "p.turn_key = ?", (key,))

    def exchange(self, pass_id: str) -> tuple[Request | None, str | None]:
        """What was asked in a pass and what was answered, as long as they are kept."""
        row = self.database.read_one("SELECT prompt, answer FROM passes WHERE id = ?", (pass_id,))
        return (None, None) if row is None else rows.exchange(row)

    def spending(self, *, since: str) -> list[Spending]:
        """What the passes started at or after `since` used, by minute, oldest first; `""` for all."""
        plain = ("minute", "backend", "model", "purse", "turns", "unusable")
        return [
            Spending(**{name: row[name] for name in plain}, usage=rows.usage(row))
            for row in self.database.read(SPENDING, (since,))
        ]


def declined(connection: sqlite3.Connection, limits: Limits, *, at: str) -> Declined | None:
    """Why a call does not fit into its limits, or None; the caller's transaction is the one that spends."""
    purse = connection.execute(SPENT, msgspec.structs.asdict(limits)).fetchone()
    calls = tuple((row["started_at"], row["calls"]) for row in connection.execute(CALLING, ledger.around(at)))
    return ledger.declined(limits, ledger.Spent(purse["tokens"], purse["usd"], calls), at=at)


def reserve(connection: sqlite3.Connection, pass_id: str, limits: Limits) -> None:
    """Add a further call, at what it may cost, to what a pass holds."""
    reserved = {"tokens": limits.reserved_tokens, "usd": limits.reserved_usd}
    connection.execute(RESERVE, {**reserved, "pass_id": pass_id})


def handed_on(connection: sqlite3.Connection, key: str, revision: int) -> Saved | None:
    """The newest answered question about that revision, if no pass since then judged it or gave the turn up."""
    row = connection.execute(HANDED_ON, {"key": key, "revision": revision}).fetchone()
    return None if row is None else rows.saved(row)


def interrupt(connection: sqlite3.Connection, pass_id: str | None) -> None:
    """Close a pass that its owner left open; it keeps what it holds as cost."""
    connection.execute("UPDATE passes SET outcome = 'interrupted' WHERE id = ? AND outcome IS NULL", (pass_id,))


def begin(connection: sqlite3.Connection, lease: Lease, reserved: dict[str, float], *, purse: str, at: str) -> None:
    """Open the lease's pass with what it reserved (`tokens`, `usd`) and with the answer that it takes over."""
    values = {
        **{name: getattr(lease, name) for name in ("pass_id", "key", "revision", "attempt")},
        **answered(lease.saved),
        **reserved,
        "wait_ms": max(0, round(1000 * seconds_between(lease.enrolled_at, at))),
        "purse": purse,
        "at": at,
    }
    connection.execute(BEGIN, values)


def save(connection: sqlite3.Connection, pass_id: str, request: Request, reply: Reply) -> None:
    """Keep question and answer; what they used takes the place of what was reserved."""
    values = {**answered(Saved(request, reply)), **rows.usage_parameters(reply.usage), "pass_id": pass_id}
    connection.execute(SAVE, values)


def answered(saved: Saved | None) -> dict[str, object]:
    """A question and its answer as they lie in columns; all empty if there is none."""
    names = ("backend", "model", "prompt_version", "fault")
    if saved is None:
        return dict.fromkeys(("prompt", "answer", *names))
    how = {name: getattr(saved.reply, name) for name in names}
    return {"prompt": rows.pack(saved.request), "answer": rows.pack(saved.reply.text), **how}


def close(
    connection: sqlite3.Connection,
    settlement: Settlement,
    plan: Plan,
    pass_id: str,
    *,
    outcome: TurnState,
    reason: str | None,
) -> None:
    """Complete the pass row; what it used takes the place of what it had reserved."""
    values = {
        **rows.usage_parameters(settlement.usage),
        **{name: getattr(settlement, name) for name in (*TOLD_BY, "error")},
        "pass_id": pass_id,
        "outcome": outcome,
        "reason": reason,
        "operations": rows.to_json(ledger.operations(plan)),
        "refusals": rows.to_json((*settlement.verdict.refusals, *plan.refusals)),
    }
    connection.execute(CLOSE, values)


def read(connection: sqlite3.Connection, where: str, values: tuple[str, ...]) -> list[PassRecord]:
    """Pass records with the names of the facts that they changed, newest first."""
    sql = f"""
      SELECT p.*, t.id AS turn_id, t.agent, t.session_id, t.project_key, t.end_sign
      FROM passes p JOIN turns t ON t.key = p.turn_key AND t.newest = 1
      WHERE {where} ORDER BY p.started_at DESC, p.rowid DESC
    """
    names = """
      SELECT json_extract(after, '$.name') AS name FROM fact_history WHERE pass_id = ? GROUP BY 1 ORDER BY min(number)
    """
    return [
        rows.pass_record(row, tuple(name["name"] for name in connection.execute(names, (row["id"],))))
        for row in connection.execute(sql, values).fetchall()
    ]
