"""Quotes and claims: sharing a word that means something, and never turned into the opposite."""

from __future__ import annotations

import pytest

from distiller.distill.carries import carries, turns_round


@pytest.mark.parametrize(
    ("quote", "claim"),
    [
        ("we use Go here", "service language\nServices are written in Go"),
        ("don't use npm here, pnpm", "package manager\nUse pnpm in this repo"),
        ("stop mocking the DB in tests", "database mocks\nDo not mock the DB in tests"),
        ("uv everywhere please, docs/ can stay on pip-tools", "package tool\nuv, never pip; docs/ stays on pip-tools"),
        ("Antworte mir immer auf Deutsch", "answer language\nAnswer this person in German"),
        ("テストは必ず pytest で", "test runner\nTests always run with pytest"),
        ("never push to main", "push policy\nPushing to main is forbidden"),
    ],
)  # fmt: skip
def test_a_fair_rendering_passes(quote: str, claim: str) -> None:
    """Paraphrase, another language and another form of negation are no reason to lose a fact."""
    assert carries(quote, claim)
    assert not turns_round(quote, claim)


@pytest.mark.parametrize(
    ("quote", "claim"),
    [
        ("please run the tests again", "indent style\nThe user likes tabs"),
        ("yes, always do that", "lint step\nRun ruff before commits"),
        ("thanks, that is perfect", "answer length\nKeep replies short"),
    ],
)
def test_a_claim_that_shares_no_word_with_its_quotes_is_not_carried(quote: str, claim: str) -> None:
    """A true quote does not prove an invented claim."""
    assert not carries(quote, claim)


@pytest.mark.parametrize(
    ("quote", "claim"),
    [
        ("Never push to main", "push policy\nAlways push to main"),
        ("please don't squash commits", "merge style\nSquash commits before a merge"),
        ("always squash commits", "merge style\nNever squash commits"),
        ("Bitte niemals direkt deployen", "deployment\nDirekt deployen"),
    ],
)
def test_a_rule_turned_into_its_opposite_is_seen(quote: str, claim: str) -> None:
    """Polarity is the one thing that a summary must not lose."""
    assert turns_round(quote, claim)
