"""The cue grammar over labelled turns and real transcripts: what it must find, and what it must leave alone."""

from __future__ import annotations

from typing import Any

import pytest

from distiller.service import enrol
from tests.benchmarks.bench_quality import (
    CASES,
    RULES,
    TRANSCRIPTS,
    TURNS,
    cases,
    distil,
    distil_case,
    found,
    real_turns,
)

pytestmark = pytest.mark.integration

OURS = cases(CASES)
TRAPS = [case for case in OURS if not case["expected"]]
EXPLICIT = [case for case in OURS if case["expected"]]


@pytest.mark.parametrize("case", TRAPS, ids=[case["id"] for case in TRAPS])
def test_nothing_is_made_of_a_trap(case: dict[str, Any]) -> None:
    """No fact from questions, jokes, narrowed words, tools, pages, pasted text, claims of agents or secrets."""
    verdict = distil_case(case)

    assert [claim.body for claim in verdict.kept if claim.op != "retire"] == []
    assert [claim.slug for claim in verdict.kept] == ([case["retires"]] if "retires" in case else [])
    assert bool(verdict.suspicious) == case.get("suspicious", False)


@pytest.mark.parametrize("case", EXPLICIT, ids=[case["id"] for case in EXPLICIT])
def test_what_is_found_is_labelled_rightly(case: dict[str, Any]) -> None:
    """Scope, operation, slug, validity and quote are as the case says, wherever it says them."""
    verdict = distil_case(case)

    for claim in verdict.kept:
        assert claim.scope == case.get("scope", claim.scope)
        assert claim.op == case.get("op", claim.op)
        assert claim.slug == case.get("slug", claim.slug)
        assert claim.valid_until == case.get("valid_until", claim.valid_until)
        assert claim.evidence[0].quote == case.get("quote", claim.evidence[0].quote)
    assert verdict.refusals == ()


def test_explicit_statements_are_found() -> None:
    """At least eight of ten explicit statements become facts."""
    hits = sum(found(case, distil_case(case)) for case in EXPLICIT)

    assert hits >= 0.8 * sum(len(case["expected"]) for case in EXPLICIT)


@pytest.mark.skipif(not TURNS.exists(), reason="no ../shared beside the checkout")
def test_labelled_turns_of_another_hand() -> None:
    """turns60: eight of ten statements found, no fact from its traps."""
    judged = [(case, distil_case(case)) for case in cases(TURNS)]

    assert [case["id"] for case, verdict in judged if verdict.kept and not case["expected"]] == []
    assert sum(found(*pair) for pair in judged) >= 0.8 * sum(len(case["expected"]) for case, _ in judged)


@pytest.mark.slow
@pytest.mark.skipif(not TRANSCRIPTS.exists(), reason="no ../shared beside the checkout")
def test_real_transcripts_stay_quiet() -> None:
    """At most one fact per 100 real turns (F14), and hardly anything suspicious."""
    verdicts = [distil(enrol.number(tuple(enrol.turn_rows(turn, RULES)))) for turn in real_turns()]

    assert len(verdicts) > 100
    assert sum(len(verdict.kept) for verdict in verdicts) <= 0.01 * len(verdicts)
    assert sum(len(verdict.suspicious) for verdict in verdicts) <= 0.01 * len(verdicts)
