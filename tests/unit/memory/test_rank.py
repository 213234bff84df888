"""Search words and the order of answers."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from distiller.memory.rank import TERMS, rank, terms
from distiller.vocabulary import Fact, FactKind, FactStatus, Hit, Strength

NOW = "2026-12-01T00:00:00.000Z"


def hit(name: str, score: float, **more: object) -> Hit:
    """A hit on a fact."""
    old = "2026-01-01T00:00:00.000Z"
    fact = Fact(name, "user", name, FactKind.USER, FactStatus.ACTIVE, Strength.STATED, name, name, old, old, old, old)
    return Hit(msgspec.structs.replace(fact, **more), score)


def test_identifiers_are_searched_whole_and_in_parts() -> None:
    """snake_case, camelCase, paths and flags are found by their parts; stop words are not searched."""
    assert terms("how do we call getUserName in src/api_v2 with --dry-run?") == [
        "call", "getusername", "user", "name", "src", "api", "2", "dry",
    ]  # fmt: skip


@given(st.text())
def test_any_question_has_at_most_eight_terms(question: str) -> None:
    """Search words are lower case, without repeats, eight at most."""
    found = terms(question)

    assert len(found) <= TERMS
    assert len(set(found)) == len(found)
    assert all(term == term.lower() for term in found)


def test_the_score_leads_and_the_rest_tips_the_scales() -> None:
    """A clearly better match stays first; between equals the pinned, used or lately confirmed one does."""
    hits = [
        hit("better", 4.0),
        hit("pinned", 2.0, pinned=True),
        hit("plain", 2.0),
        hit("agent", 2.0, strength=Strength.AGENT),
    ]

    assert [one.fact.name for one in rank(hits, now=NOW, uses={})] == ["better", "pinned", "plain", "agent"]
    assert rank([hit("plain", 2.0), hit("used", 2.0)], now=NOW, uses={"used": (3, NOW)})[0].fact.name == "used"
    fresh = hit("fresh", 2.0, last_confirmed_at=NOW)
    assert rank([hit("plain", 2.0), fresh], now=NOW, uses={})[0].fact.name == "fresh"


def test_chance_hits_and_facts_that_ran_out_are_left_out() -> None:
    """Places are never filled for the sake of filling them."""
    hits = [hit("good", 8.0), hit("chance", 1.0), hit("over", 9.0, valid_until="2026-11-30")]

    assert [one.fact.name for one in rank(hits, now=NOW, uses={})] == ["good"]
    assert rank([], now=NOW, uses={}) == []
