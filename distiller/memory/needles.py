"""Words that must not be found any more in, a pattern that finds them however they were written down out."""

from __future__ import annotations

import re
from collections.abc import Collection

NEEDLE_CHARACTERS = 4  # shorter words stand everywhere and tell nothing
SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
PROBE = "a 1-_.\n\u00e9"


def expression(text: str) -> re.Pattern[str]:
    """What a person typed: plain words are found in JSON and with white space folded too, all else is taken as said.

    Raises:
        re.error: it is no regular expression.
    """
    plain = SPECIAL.search(text) is None and len(text.strip()) >= NEEDLE_CHARACTERS
    return pattern({text}) if plain else re.compile(text)


def matches_nothing(wanted: re.Pattern[str]) -> bool:
    """Whether an expression finds the empty text, which stands everywhere."""
    return any(not found[0] for text in ("", PROBE) for found in wanted.finditer(text))


def pattern(texts: Collection[str]) -> re.Pattern[str]:
    """Finds any of the texts, however white space was folded and however deep they lie in JSON inside JSON."""
    long_enough = sorted((text for text in texts if len(text.strip()) >= NEEDLE_CHARACTERS), key=len, reverse=True)
    gap = r"(?:\s|\\+[nrt])+"
    ways = [gap.join(escaped(word) for word in text.split()) for text in long_enough]
    return re.compile("|".join(ways) or r"(?!)")


def escaped(word: str) -> str:
    """A word as a pattern, with any number of backslashes before what JSON escapes.

    A model may spell what is not ASCII by its number, and what lies beyond the first plane by two.
    """
    kinds = {'"': r'\\*"', "\\": r"\\+", "/": r"\\*/"}
    return "".join(kinds.get(character) or spelled(character) for character in word)


def spelled(character: str) -> str:
    """A character as a pattern, as it is or in JSON's ASCII."""
    if character.isascii():
        return re.escape(character)
    units = character.encode("utf-16-be", "surrogatepass").hex()
    ascii_ = "".join(rf"\\+u(?i:{units[start : start + 4]})" for start in range(0, len(units), 4))
    return f"(?:{re.escape(character)}|{ascii_})"
