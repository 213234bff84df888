"""Questions about facts in, facts and what they rest on out; and what `reconcile.plan` has to be shown."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from distiller.adapters.store_sqlite import rows
from distiller.adapters.store_sqlite.changes import carry_out
from distiller.adapters.store_sqlite.part import Part
from distiller.adapters.store_sqlite.tombstones import Tombstones
from distiller.vocabulary import (
    Applied,
    Candidate,
    Claim,
    Evidence,
    Fact,
    FactQuery,
    HistoryEntry,
    Hit,
    Known,
    Plan,
    Proposal,
    Verdict,
)

FACT = rows.columns(rows.FACT_COLUMNS, "f")
ID_PREFIX = 8  # characters of an id that may stand for it
NEAR_FACTS = 30
RANKED_FACTS = 1500  # more matches than these are not ranked
NEAR_WORDS = 12
LAST = "\U0010ffff"  # sorts after every text that begins alike


class Facts(Part):
    """Facts, their quotes and their history."""

    def facts(self, query: FactQuery) -> list[Fact]:
        """Facts that match, most lately updated first."""
        where, values = conditions(query)
        sql = f"SELECT {FACT} FROM facts f WHERE {where} ORDER BY f.updated_at DESC, f.number DESC LIMIT :limit"
        return [rows.value_of(row, Fact) for row in self.database.read(sql, values)]

    def fact(self, fact_id: str) -> Fact | None:
        """One fact by its whole id."""
        row = self.database.read_one(f"SELECT {FACT} FROM facts f WHERE f.id = ?", (fact_id,))
        return None if row is None else rows.value_of(row, Fact)

    def resolve_fact(self, name: str, *, scopes: Sequence[str] = ()) -> list[Fact]:
        """Facts addressed by `name`; else by a redirect of that name; else by an id that begins so."""
        here = "(:scopes = '[]' OR {}.scope IN (SELECT value FROM json_each(:scopes)))"
        moved = f"SELECT {FACT} FROM redirects r JOIN facts f ON f.id = r.fact_id WHERE r.name = :name"
        ways = [
            f"SELECT {FACT} FROM facts f WHERE f.name = :name AND {here.format('f')}",
            f"{moved} AND {here.format('r')}",
        ]
        if len(name) >= ID_PREFIX:
            ways.append(
                f"SELECT {FACT} FROM facts f WHERE f.id >= :name AND f.id < :name || :last AND {here.format('f')}"
            )
        values = {"name": name, "scopes": rows.to_json(scopes), "last": LAST}
        for way in ways:
            if found := self.database.read(f"{way} ORDER BY f.scope, f.name", values):
                return [rows.value_of(row, Fact) for row in found]
        return []

    def search(self, terms: Sequence[str], *, query: FactQuery) -> list[Hit]:
        """Facts holding at least one of `terms`, best by bm25 first (words of the name weigh most)."""
        if not terms:
            return []
        where, values = conditions(query)
        sql = (
            f"SELECT {FACT}, -facts_fts.rank AS score FROM facts_fts JOIN facts f ON f.number = facts_fts.rowid"
            f" WHERE facts_fts MATCH :match AND {where} ORDER BY facts_fts.rank LIMIT :limit"
        )
        with self.database.reading() as connection:
            found = connection.execute(sql, {**values, "match": match(telling(connection, terms))}).fetchall()
        return [Hit(rows.value_of(row, Fact), row["score"]) for row in found]

    def evidence(self, owner_ids: Collection[str]) -> dict[str, list[Evidence]]:
        """Quotes by owner id (of facts, candidates or proposals), oldest first."""
        with self.database.reading() as connection:
            return evidence_of(connection, owner_ids)

    def history(
        self, *, fact_id: str | None = None, group: str | None = None, limit: int | None = None
    ) -> list[HistoryEntry]:
        """History entries, newest first."""
        sql = """
          SELECT * FROM fact_history
          WHERE (:fact IS NULL OR fact_id = :fact) AND (:group IS NULL OR group_id = :group)
          ORDER BY number DESC LIMIT :limit
        """
        values = {"fact": fact_id, "group": group, "limit": -1 if limit is None else limit}
        return [rows.history_entry(row) for row in self.database.read(sql, values)]

    def apply(self, plan: Plan, *, actor: str, at: str, pass_id: str | None = None) -> Applied:
        """Apply a plan, all or nothing. Raises ConflictError if a fact is no longer at its `before.rev`."""
        group = self.new_id()
        with self.database.writing() as connection:
            done = carry_out(connection, plan, group=group, actor=actor, at=at, pass_id=pass_id)
        return Applied(group, done)

    def candidates(self, *, status: str = "open") -> list[Candidate]:
        """Candidates, latest first."""
        sql = "SELECT * FROM candidates WHERE status = ? ORDER BY last_at DESC, id"
        return [rows.value_of(row, Candidate) for row in self.database.read(sql, (status,))]

    def proposals(self, *, status: str = "open") -> list[Proposal]:
        """Proposals, latest first."""
        sql = "SELECT * FROM proposals WHERE status = ? ORDER BY created_at DESC, id"
        return [rows.value_of(row, Proposal) for row in self.database.read(sql, (status,))]


def conditions(query: FactQuery) -> tuple[str, dict[str, Any]]:
    """A query as SQL over `facts f`, and its values."""
    lists = {"scope": query.scopes, "status": query.statuses, "kind": query.kinds}
    parts = [f"f.{name} IN (SELECT value FROM json_each(:{name}))" for name, wanted in lists.items() if wanted]
    values: dict[str, Any] = {name: rows.to_json(wanted) for name, wanted in lists.items() if wanted}
    if query.since is not None:
        parts.append("f.updated_at >= :since")
    if query.session is not None:
        parts.append(
            "f.id IN (SELECT l.owner_id FROM evidence e JOIN evidence_links l ON l.evidence_id = e.id"
            " WHERE e.session_id = :session)"
        )
    values.update(since=query.since, session=query.session, limit=-1 if query.limit is None else query.limit)
    return " AND ".join(parts) or "TRUE", values


def match(terms: Iterable[str]) -> str:
    """A full-text question: any of the terms, each quoted, since a person's text is no query language."""
    return " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)


def telling(connection: sqlite3.Connection, terms: Sequence[str]) -> Sequence[str]:
    """The terms worth ranking by: all of them, or the rarest where all together stand in too many facts.

    Finding is cheap, ranking is not (measured: 0.6 ms and 7.5 ms for 6,200 facts), and a word that stands in every
    tenth fact tells little.
    """
    if matches(connection, terms) <= RANKED_FACTS:
        return terms
    kept: list[str] = []
    total = 0
    for count, term in sorted((matches(connection, [term]), term) for term in set(terms)):
        if total and total + count > RANKED_FACTS:
            break
        kept.append(term)
        total += count
    return kept


def matches(connection: sqlite3.Connection, terms: Sequence[str]) -> int:
    """How many facts hold any of the terms."""
    row = connection.execute("SELECT count(*) FROM facts_fts WHERE facts_fts MATCH ?", (match(terms),)).fetchone()
    return int(row[0])


def evidence_of(connection: sqlite3.Connection, owner_ids: Collection[str]) -> dict[str, list[Evidence]]:
    """Quotes by owner id, oldest first."""
    found: dict[str, list[Evidence]] = {}
    sql = f"""
      SELECT l.owner_id, l.part, {rows.columns(rows.EVIDENCE_COLUMNS, "e")}
      FROM evidence_links l JOIN evidence e ON e.id = l.evidence_id
      WHERE l.owner_id IN (SELECT value FROM json_each(?)) ORDER BY e.said_at, e.id
    """
    for row in connection.execute(sql, (rows.to_json(list(owner_ids)),)):
        found.setdefault(row["owner_id"], []).append(rows.value_of(row, Evidence))
    return found


# --- what reconciling is shown ----------------------------------------------------------------------------------


def known(connection: sqlite3.Connection, verdict: Verdict, project_key: str, tombstones: Tombstones) -> Known:
    """All that `reconcile.plan` may need to know about the claims of a verdict."""
    claims = (*verdict.kept, *verdict.candidates, *verdict.suspicious)
    places = {(scope_of(claim, project_key), claim.slug) for claim in claims}
    candidates = open_candidates(connection, {scope for scope, _ in places})
    places |= {(candidate.scope, candidate.name) for candidate in candidates}  # one may be about to become a fact
    redirects = redirects_at(connection, places)
    facts = {
        fact.id: fact
        for fact in (
            *facts_at(connection, places),
            *facts_by_id(connection, redirects.values()),
            *(fact for claim in verdict.suspicious for fact in quarantined(connection, scope_of(claim, project_key))),
            *(fact for claim in claims for fact in near(connection, claim, project_key)),
        )
    }
    quotes = evidence_of(connection, [*facts, *(candidate.id for candidate in candidates)])
    return Known(
        facts=tuple(facts.values()),
        evidence={fact_id: tuple(quotes.get(fact_id, ())) for fact_id in facts},
        candidates=tuple(candidates),
        candidate_evidence={candidate.id: tuple(quotes.get(candidate.id, ())) for candidate in candidates},
        redirects=redirects,
        forgotten=tombstones.barred(connection, claims, project_key),
    )


def scope_of(claim: Claim, project_key: str) -> str:
    """The full scope of a claim made in a project."""
    return "user" if claim.scope == "user" else f"project:{project_key}"


def facts_at(connection: sqlite3.Connection, places: Iterable[tuple[str, str]]) -> list[Fact]:
    """Facts that bear one of these (scope, name), or wanted to (quarantined ones), whatever their status."""
    sql = f"""
      SELECT {FACT} FROM facts f WHERE f.scope = :scope AND f.name = :name
      UNION ALL SELECT {FACT} FROM facts f WHERE f.scope = :scope AND f.proposed_name = :name
    """
    return [
        rows.value_of(row, Fact)
        for scope, name in sorted(places)
        for row in connection.execute(sql, {"scope": scope, "name": name})
    ]


def quarantined(connection: sqlite3.Connection, scope: str) -> list[Fact]:
    """Facts of a scope that bear the name of what is quarantined: the same poison is kept once."""
    sql = f"SELECT {FACT} FROM facts f WHERE f.scope = ? AND f.name >= 'quarantined-' AND f.name < 'quarantined.'"
    return [rows.value_of(row, Fact) for row in connection.execute(sql, (scope,))]


def facts_by_id(connection: sqlite3.Connection, fact_ids: Iterable[str]) -> list[Fact]:
    """Facts by whole ids."""
    sql = f"SELECT {FACT} FROM facts f WHERE f.id IN (SELECT value FROM json_each(?)) ORDER BY f.id"
    return [rows.value_of(row, Fact) for row in connection.execute(sql, (rows.to_json(list(fact_ids)),))]


def redirects_at(connection: sqlite3.Connection, places: Iterable[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Where names that moved or merged lead."""
    sql = "SELECT scope, name, fact_id FROM redirects WHERE scope = ? AND name = ?"
    found = (row for place in sorted(places) for row in connection.execute(sql, place))
    return {(row["scope"], row["name"]): row["fact_id"] for row in found}


def near(connection: sqlite3.Connection, claim: Claim, project_key: str) -> list[Fact]:
    """Active facts that share words with a claim, in its scope and, for a project's, everywhere."""
    scopes = tuple({scope_of(claim, project_key), "user"})
    terms = near_terms(claim)
    if not terms:
        return []
    where, values = conditions(FactQuery(scopes=scopes, limit=NEAR_FACTS))
    sql = (
        f"SELECT {FACT} FROM facts_fts JOIN facts f ON f.number = facts_fts.rowid"
        f" WHERE facts_fts MATCH :match AND {where} ORDER BY facts_fts.rank LIMIT :limit"
    )
    return [
        rows.value_of(row, Fact)
        for row in connection.execute(sql, {**values, "match": match(telling(connection, terms))})
    ]


def near_terms(claim: Claim) -> list[str]:
    """The words by which to look for facts like a claim: its slug's, then the longest of its summary and body."""
    slug = claim.slug.lower().split("-")
    others = sorted(
        set(re.findall(r"\w{3,}", f"{claim.summary} {claim.body}".lower())), key=lambda word: (-len(word), word)
    )
    return list(dict.fromkeys([word for word in slug if word] + others))[:NEAR_WORDS]


def open_candidates(connection: sqlite3.Connection, scopes: Collection[str]) -> list[Candidate]:
    """Open candidates of these scopes, oldest first."""
    sql = """
      SELECT * FROM candidates WHERE status = 'open' AND scope IN (SELECT value FROM json_each(?)) ORDER BY first_at, id
    """
    return [rows.value_of(row, Candidate) for row in connection.execute(sql, (rows.to_json(sorted(scopes)),))]
