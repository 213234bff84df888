"""A claim and its quotes in, whether they can be about the same thing and mean it the same way round out.

A quote that stands in the turn proves that the person said it, not that the claim follows from it. Meaning is beyond
code; what code sees is a claim that shares not a word with its quotes, and one that turns a rule into its opposite.
Words in another language than the claim prove nothing either way and are let through.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]{2,}|\d+")
_STEM = 5  # characters: endings differ between what is said and how it is noted
_STOP = frozenset(
    word
    for line in (
        "an as at be by do he if in is it me my no of on or so to up us we the and for are with this that",
        "from now you your please use uses using used should must always never not dont does into when then",
        "than our all any can has have was were will would here there them they its just only also more",
        "project repo repository user person agent work works working stated decided prefer prefers want",
        "wants need needs make made keep get let remember instead rather",
    )
    for word in line.split()
)
_FOREIGN = re.compile(
    r"\b(?:der|die|das|und|nicht|immer|nie|bitte|ich|wir|für|kein\w*|statt|auf|mit|jamais|toujours|nous|pas|les|des|une?|pour"
    r"|dans|siempre|nunca|los|las|el|una?|para|usar?|non|sempre|mai|che|niet|altijd|nooit|het|een|inte|alltid|aldrig)\b"
    r"|[^\x00-\x7f\u00a0-\u00bf\u2000-\u206f]",
    re.IGNORECASE,
)
_NEGATION = re.compile(
    r"\b(?:never|not|no|don'?t|doesn'?t|won'?t|cannot|can'?t|mustn'?t|shouldn'?t|isn'?t|avoid\w*|stop|without"
    r"|instead of|rather than|no longer|except|unless|only|forbidden|forbid\w*|refuse\w*|nor|none|ban\w*|disallow\w*"
    r"|prohibit\w*|off|skip\w*|drop\w*|remove\w*|exclud\w*|statt|nicht|nie|niemals|kein\w*|ohne)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(r"\b(?:never|do not|don'?t|must not|mustn'?t|nie|niemals)\s+([^.;,\n]+)", re.IGNORECASE)
_DEMANDED = re.compile(r"\b(?:always|must|immer)\s+([^.;,\n]+)", re.IGNORECASE)
_RULED = 2  # content words after never or always that say what is ruled


def carries(quotes: str, claim: str) -> bool:
    """Whether quotes and claim share a word that means something; true where their languages may differ."""
    if _FOREIGN.search(quotes) or _FOREIGN.search(claim):
        return True
    return bool(_words(quotes) & _words(claim))


def turns_round(quotes: str, claim: str) -> bool:
    """Whether the claim demands what the quotes forbid, or forbids what they demand."""
    return _reversed(_DENIED, quotes, claim) or (
        _reversed(_DEMANDED, quotes, claim, to=_DENIED) and not _NEGATION.search(quotes)
    )


def _reversed(rule: re.Pattern[str], quotes: str, claim: str, *, to: re.Pattern[str] | None = None) -> bool:
    """Whether something ruled in `quotes` stands in `claim` without a negation, or under the opposite rule `to`."""
    for found in rule.finditer(quotes):
        ruled = _first_words(found[1])
        if not ruled:
            continue
        if to is None and ruled <= _words(claim) and not _NEGATION.search(claim):
            return True
        if to is not None and any(ruled <= _words(other[1]) for other in to.finditer(claim)):
            return True
    return False


def _first_words(text: str) -> frozenset[str]:
    stems = [_stem(word) for word in _WORD.findall(text) if word.casefold() not in _STOP]
    return frozenset(stems[:_RULED])


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text) if word.casefold() not in _STOP)


def _stem(word: str) -> str:
    return word.casefold()[:_STEM]
