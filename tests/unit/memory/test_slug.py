"""Slugs and the words that carry meaning."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.memory.slug import is_slug, negated, slugify, tokens


@pytest.mark.parametrize(
    ("words", "slug"),
    [
        ("The Package Manager", "package-manager"),
        ("we use the release-branch policy", "release-branch-policy"),
        ("Über die Größe der Diffs", "uber-die-groe-der-diffs"),
        ("pnpm", None),
        ("日本語", "note-x77710aed"),
        ("pnpm を使う", "note-x742e8a4f"),
        ("", None),
    ],
)
def test_slugify_names_what_words_are_about(words: str, slug: str | None) -> None:
    """Content words become 2 to 5 kebab-case ASCII words, or there is no slug."""
    assert slugify(words) == slug


@given(st.text())
def test_whatever_slugify_gives_is_a_slug(text: str) -> None:
    """No text makes it raise or give anything but a slug."""
    name = slugify(text)

    assert name is None or is_slug(name)


@pytest.mark.parametrize("text", ["Package-manager", "one", "a--b", "a-b-c-d-e-f", "é-b", "1-a", "a_b-c", "a-b\n"])
def test_other_spellings_are_no_slugs(text: str) -> None:
    """Two to five lower-case ASCII words with single hyphens, and nothing else."""
    assert not is_slug(text)


def test_tokens_fold_what_means_the_same() -> None:
    """Plurals, synonyms and filler words do not tell statements apart; negation is told apart on its own."""
    assert tokens("The replies are in German") == tokens("answer in German")
    assert negated("Never force push")
    assert not negated("Force push")
