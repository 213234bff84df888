"""The guarded rule: merging must never lose a fact."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from distiller.memory.likeness import clash, classes_clash, covers, says_the_same

SHARED = Path(os.environ.get("DISTILLER_SHARED", Path(__file__).parents[3] / "../shared"))
PAIRS = SHARED / "bench" / "dedupe60.jsonl"

SAME = [
    ("Run make fmt before each commit", "Before committing, run make fmt"),
    ("No emojis in commit messages", "Commit messages should not have emojis"),
    ("The database listens on port 5433", "Database port is 5433"),
]
DIFFERENT = [
    ("Use uv instead of pip", "Use pip instead of uv"),
    ("Use tool alpha, not beta", "Use tool beta, not alpha"),
    ("Never squash commits", "Squash commits"),
    ("The dev database is Postgres", "The test database is Postgres"),
    ("Deploy on Mondays", "Deploy on Tuesdays"),
    ("Node 20 is used", "Node 22 is used"),
    ("Dana owns the payments service", "Miguel owns the search service"),
    ("Database listens on port 5433", "Test database listens on port 5433"),
    ("Pull requests target develop", "Pull requests target main"),
    ("Do not edit vendor/", "Do not edit gen/"),
    ("Answer in German", "Answer in German, comments in English"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words_is_merged(one: str, other: str) -> None:
    """Order, filler and plurals make no second fact."""
    assert says_the_same(one, other)
    assert says_the_same(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_differs_in_a_value_is_never_merged(one: str, other: str) -> None:
    """Numbers, negation, direction, environment, weekday, tools, paths and one changed slot keep facts apart."""
    assert not says_the_same(one, other)
    assert not says_the_same(other, one)


def test_what_is_rejected_is_no_choice() -> None:
    """Whoever says "pnpm, not npm" chooses pnpm, so it clashes with npm and agrees with pnpm."""
    assert classes_clash("pnpm, not npm", "npm is used")
    assert not classes_clash("pnpm, not npm", "pnpm is used")


def test_a_fact_covers_what_it_says_already() -> None:
    """A shorter way to say a part of a fact adds nothing to it; an opposite does."""
    assert covers("Run make fmt before each commit and push", "run make fmt before commits")
    assert not covers("Never run make fmt before each commit", "run make fmt before commits")
    assert clash("port 5432", "port 5433")


@pytest.mark.skipif(not PAIRS.exists(), reason="no ../shared beside the checkout")
def test_labelled_pairs_are_never_merged_wrongly() -> None:
    """dedupe60: no wrong merge, a third of the duplicates found without a model."""
    pairs = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    merged = [pair for pair in pairs if says_the_same(pair["a"]["summary"], pair["b"]["summary"])]

    assert [pair["id"] for pair in merged if not pair["same"]] == []
    assert len(merged) >= 0.33 * sum(pair["same"] for pair in pairs)
