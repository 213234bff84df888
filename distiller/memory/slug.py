"""Words in, a fact's readable name out; and text in, the words that carry its meaning out."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

SLUG_WORDS = range(2, 6)

_SLUG = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+){1,4}")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9_.+/@-]*[a-z0-9+#]|[a-z0-9]")
_STOP = frozenset(
    """
    a about add all also always an and any are as at be been being both but by can contain contains do does
    doing done each else follow follows for format from go goes had has have he her here his how i if in into
    is it its itself just keep let like listen listens made make may more must my need needs of on only onto
    or our out over pass passed per please prefer prefers put run runs same send sends shall she should show
    shows so some such than that the their them then there these they this those through to too under until up
    us use used user users uses using via want wants was way we well were what when where which while who will
    with within would write writes written you your
    """.split()  # noqa: SIM905 - a hundred words in quotes of their own are unreadable
)
_SYNONYMS = {
    "db": "database", "reply": "answer", "respond": "answer", "response": "answer", "repo": "repository",
    "deps": "dependency", "pr": "pull-request", "prs": "pull-request", "env": "environment", "doc": "documentation",
    "docs": "documentation", "dir": "folder", "directory": "folder", "colour": "color", "i18n": "translation",
    "config": "configuration", "deployment": "deploy", "refactoring": "refactor",
}  # fmt: skip
_NEGATIONS = frozenset(
    """
    not no never none without dont doesnt isnt arent wont cannot cant forbidden avoid stop nie niemals nicht kein keine
    """.split()  # noqa: SIM905 - as above
)


def is_slug(text: str) -> bool:
    """Whether `text` is 2 to 5 kebab-case ASCII words."""
    return _SLUG.fullmatch(text) is not None


def slugify(words: str) -> str | None:
    """A slug of the first content words of `words`; None where there is one word at most.

    Words of other scripts cannot stand in a slug: a text of such words is named by its hash, `note-x` and 8 hex digits.
    """
    found = [word for word in dict.fromkeys(_ascii_words(words)) if word not in _STOP and word not in _NEGATIONS]
    name = "-".join(found[: SLUG_WORDS.stop - 1])
    if is_slug(name):
        return name
    plain = " ".join(words.split())
    if plain.isascii():
        return None
    return f"note-x{hashlib.sha256(plain.encode('utf-8', 'replace')).hexdigest()[:8]}"


def tokens(text: str) -> frozenset[str]:
    """Content words of `text`: lower case, stop words and negations dropped, plurals and common synonyms folded."""
    return frozenset(_fold(word) for word in _words(text) if word not in _STOP and word not in _NEGATIONS)


def negated(text: str) -> bool:
    """Whether `text` denies or forbids something."""
    return not _NEGATIONS.isdisjoint(_words(text))


def _words(text: str) -> list[str]:
    plain = re.sub(r"[\u2019'](?=[a-z])", "", unicodedata.normalize("NFKC", text).casefold())
    latin = _TOKEN.findall(plain)
    return latin + re.findall(r"[^\W\d_a-z]{2,}", plain)  # other scripts: runs of letters


def _ascii_words(text: str) -> Iterable[str]:
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.findall(r"[a-z0-9]+", plain.replace("'", ""))


@lru_cache(maxsize=20_000)
def _fold(word: str) -> str:
    word = _SYNONYMS.get(word, word)
    if re.search(r"[\d_./@+]", word):
        return word.strip(".")
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", "")):
        stem = word[: -len(ending)]
        if word.endswith(ending) and len(stem) > 2 and not word.endswith("ss"):  # noqa: PLR2004 - a stem needs three letters
            stem = re.sub(r"([bdgmnprt])\1\Z", r"\1", stem) if ending in ("ing", "ed") else stem + instead
            return _SYNONYMS.get(stem, stem.rstrip("e"))
    return word.rstrip("e")
