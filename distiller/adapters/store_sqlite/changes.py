"""A plan in, facts changed out: what a settlement and a person's act write alike, inside the caller's transaction."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable

import msgspec

from distiller.adapters.store_sqlite import rows
from distiller.errors import ConflictError
from distiller.vocabulary import Candidate, Evidence, Fact, Operation, Plan, Proposal

PUT_FACT = rows.upsert("facts", rows.FACT_COLUMNS, ("id",))
PUT_CANDIDATE = rows.upsert("candidates", rows.CANDIDATE_COLUMNS, ("id",))
IS_PROPOSED = "SELECT 1 FROM proposals WHERE id = ?"
PUT_PROPOSAL = rows.upsert("proposals", rows.PROPOSAL_COLUMNS, ("id",))
PUT_HISTORY = """
  INSERT INTO fact_history (fact_id, rev, number, op, actor, at, group_id, reason, pass_id, before, after)
  SELECT :id, :rev, coalesce(max(number), 0) + 1, :op, :actor, :at, :group, :reason, :pass_id, :before, :after
  FROM fact_history
"""
PUT_EVIDENCE = f"""
  INSERT INTO evidence ({", ".join(rows.EVIDENCE_COLUMNS)})
  VALUES ({", ".join(":" + name for name in rows.EVIDENCE_COLUMNS)}) ON CONFLICT DO NOTHING
"""
PUT_LINK = """
  INSERT INTO evidence_links (owner, owner_id, evidence_id, part) VALUES (?, ?, ?, ?)
  ON CONFLICT (owner_id, evidence_id) DO UPDATE SET part = min(part, excluded.part) -- claims outweighs supports
"""
PUT_REDIRECT = """
  INSERT INTO redirects (scope, name, fact_id, why, at) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (scope, name) DO UPDATE SET fact_id = excluded.fact_id, why = excluded.why, at = excluded.at
"""


def carry_out(
    connection: sqlite3.Connection, plan: Plan, *, group: str, actor: str, at: str, pass_id: str | None
) -> tuple[Operation, ...]:
    """Write all of a plan; its operations with the revisions that now stand.

    Raises:
        ConflictError: a fact has moved on since it was read, or its name is taken.
    """
    touched: set[str] = set()  # a plan may change one fact more than once; only its first look can be outdated
    done = []
    for operation in plan.operations:
        fact = change(connection, operation, seen=operation.after.id in touched)
        remember(connection, operation, fact, group=group, actor=actor, at=at, pass_id=pass_id)
        link(connection, "fact", fact.id, operation.evidence)
        touched.add(fact.id)
        done.append(Operation(operation.op, operation.before, fact, operation.evidence, operation.reason))
    put_candidates(connection, plan.candidates)
    put_proposals(connection, plan.proposals)
    connection.executemany(PUT_REDIRECT, [(*redirect, at) for redirect in plan.redirects])
    return tuple(done)


def change(connection: sqlite3.Connection, operation: Operation, *, seen: bool) -> Fact:
    """Write one operation's fact at its next revision."""
    after = operation.after
    stands = connection.execute("SELECT rev FROM facts WHERE id = ?", (after.id,)).fetchone()
    rev = stands["rev"] if stands else 0
    expected = operation.before.rev if operation.before else 0
    if not seen and (rev != expected or (stands is None) != (operation.before is None)):
        raise ConflictError(f"{after.name} was changed meanwhile; nothing was written: look at it again")
    fact = msgspec.structs.replace(after, rev=rev + 1)
    try:
        connection.execute(PUT_FACT, rows.parameters(fact))
    except sqlite3.IntegrityError as error:
        raise ConflictError(f"{after.scope} already has a fact named {after.name}; nothing was written") from error
    connection.execute("DELETE FROM redirects WHERE scope = ? AND name = ?", (fact.scope, fact.name))
    return fact


def remember(
    connection: sqlite3.Connection,
    operation: Operation,
    fact: Fact,
    *,
    group: str,
    actor: str,
    at: str,
    pass_id: str | None,
) -> None:
    """Write one operation into the fact's history."""
    before = None if operation.before is None else rows.to_json(operation.before)
    connection.execute(
        PUT_HISTORY,
        {
            "id": fact.id,
            "rev": fact.rev,
            "op": operation.op,
            "actor": actor,
            "at": at,
            "group": group,
            "reason": operation.reason,
            "pass_id": pass_id,
            "before": before,
            "after": rows.to_json(fact),
        },
    )


def link(connection: sqlite3.Connection, owner: str, owner_id: str, evidence: Iterable[Evidence]) -> None:
    """Store quotes once and tie them to what rests on them."""
    for quote in evidence:
        quote_id = evidence_id(quote)
        connection.execute(PUT_EVIDENCE, {**rows.parameters(quote), "id": quote_id})
        connection.execute(PUT_LINK, (owner, owner_id, quote_id, quote.part))


def put_candidates(
    connection: sqlite3.Connection, candidates: Iterable[tuple[Candidate, tuple[Evidence, ...]]]
) -> None:
    """Insert or overwrite candidates by id."""
    for candidate, evidence in candidates:
        connection.execute(PUT_CANDIDATE, rows.parameters(candidate))
        link(connection, "candidate", candidate.id, evidence)


def put_proposals(connection: sqlite3.Connection, proposals: Iterable[tuple[Proposal, tuple[Evidence, ...]]]) -> None:
    """Insert proposals, or decide them; what the person has decided is not opened again by the same words."""
    for proposal, evidence in proposals:
        if proposal.status == "open" and connection.execute(IS_PROPOSED, (proposal.id,)).fetchone():
            continue
        connection.execute(PUT_PROPOSAL, rows.parameters(proposal))
        link(connection, "proposal", proposal.id, evidence)


def propose_withdrawal(
    connection: sqlite3.Connection, fact_ids: Collection[str], *, reason: str, at: str, new_id: Callable[[], str]
) -> None:
    """Ask the person about facts whose only evidence is gone; once each."""
    for fact_id in fact_ids:
        asked = "SELECT 1 FROM proposals WHERE fact_id = ? AND kind = 'withdrawn' AND status = 'open'"
        if connection.execute(asked, (fact_id,)).fetchone() is None:
            change = {"op": "retire", "reason": reason}
            put_proposals(connection, [(Proposal(new_id(), "withdrawn", fact_id, change, "open", at), ())])


def evidence_id(quote: Evidence) -> str:
    """The same quote of the same message has the same id."""
    return hashlib.sha256(f"{quote.agent}\0{quote.message_id}\0{quote.quote}".encode()).hexdigest()[:32]
