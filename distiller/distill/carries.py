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
_OTHER_LETTER = re.compile(r"[^\W\d_A-Za-z]")
_FOREIGN = re.compile(
    r"\b(?:immer|nie|niemals|nicht|bitte|statt|kein\w*|toujours|jamais|siempre|nunca|sempre|niet|altijd|nooit|alltid|aldrig)\b",
    re.IGNORECASE,
)
_FOREIGN_SMALL = re.compile(
    r"\b(?:der|das|und|ich|wir|für|auf|nous|pas|les|une|pour|dans|los|las|para|usar|che|het|een|inte)\b", re.IGNORECASE
)
_NEGATION = re.compile(
    r"\b(?:never|not|no|don'?t|doesn'?t|won'?t|cannot|can'?t|mustn'?t|shouldn'?t|isn'?t|avoid\w*|stop|without"
    r"|instead of|rather than|no longer|except|unless|only|forbidden|forbid\w*|refuse\w*|nor|none|ban\w*|disallow\w*"
    r"|prohibit\w*|off|skip\w*|drop\w*|remove\w*|exclud\w*|statt|nicht|nie|niemals|kein\w*|ohne)\b",
    re.IGNORECASE,
)
_DENIED = re.compile(
    r"\b(?:never|not|don'?t|no longer|instead of|rather than|avoid(?:ing)?|stop|without|statt|nicht|nie|niemals"
    r"|keine?n?)\b[ \t]+([^.;,:\n]+)",
    re.IGNORECASE,
)
_DEMANDED = re.compile(r"\b(?:always|must|immer)\s+([^.;,\n]+)", re.IGNORECASE)
_RULED = 2  # content words after a negation that say what is denied

_SENTENCE_END = re.compile(r"[.!?](?=\s|\Z)|\n")
_REQUEST = re.compile(
    r"\b(?:can|could|would|will) you\b|\bplease\b|\bfrom now on\b|\balways\b|\bnever\b|\bremember\b|\bbitte\b"
    r"|, (?:ok(?:ay)?|right|yes)\?",
    re.IGNORECASE,
)
_ONE_PROJECT = re.compile(
    r"\b(?:in|for|of) (?:this|our|the) "
    r"(?:repo|repository|project|codebase|code base|package|service|app|module|branch)\b"
    r"|\bin diesem (?:repo|projekt)\b|\bdans ce (?:projet|dépôt)\b|\ben este (?:proyecto|repo\w*)\b",
    re.IGNORECASE,
)
_ALL_PROJECTS = re.compile(
    r"\b(?:all|any|every|other) (?:of )?(?:my |our |the )?(?:other )?(?:repos?|repositories|projects?)\b"
    r"|\beverywhere\b",
    re.IGNORECASE,
)


def carries(quotes: str, claim: str) -> bool:
    """Whether quotes and claim share a word that means something; true where their languages may differ."""
    if _is_foreign(quotes) or _is_foreign(claim):
        return True
    return bool(_words(quotes) & _words(claim))


def turns_round(quotes: str, claim: str) -> bool:
    """Whether the claim demands what the quotes forbid, or forbids what they demand and demands what they forbid."""
    forbidden, denied = _denied(quotes), _denied(claim)
    if any(ruled <= _words(claim) for ruled in forbidden) and not _NEGATION.search(claim):
        return True
    if denied and not forbidden and not _NEGATION.search(quotes):
        return any(_demands(quotes, ruled) for ruled in denied)
    wanted, unwanted = _words(quotes) - _joined(forbidden), _joined(denied)
    return bool(wanted & unwanted and _joined(forbidden) & (_words(claim) - unwanted))


def asks(quote: str, text: str) -> bool:
    """Whether the sentence of `text` in which `quote` stands is a question; "could you always …?" is a request."""
    start = text.find(quote)
    end = start + len(quote)
    before = max((match.end() for match in _SENTENCE_END.finditer(text, 0, max(start, 0))), default=0)
    after = _SENTENCE_END.search(text, max(before, end - 1))
    sentence = text[before : after.end() if after else len(text)].strip()
    return sentence.endswith("?") and not _REQUEST.search(sentence)


def speaks_of_one_project(quotes: str) -> bool:
    """Whether the person's words bind a rule to the project that they were said in."""
    return bool(_ONE_PROJECT.search(quotes)) and not _ALL_PROJECTS.search(quotes)


def _is_foreign(text: str) -> bool:
    """Whether a text is in another language than English, as far as a look at its words tells."""
    return bool(_OTHER_LETTER.search(text) or _FOREIGN.search(text) or len(_FOREIGN_SMALL.findall(text)) > 1)


def _denied(text: str) -> list[frozenset[str]]:
    """What each negation of a text denies, in stems."""
    return [ruled for found in _DENIED.finditer(text) if (ruled := _first_words(found[1]))]


def _demands(text: str, ruled: frozenset[str]) -> bool:
    """Whether a text says that `ruled` is always to be done."""
    return any(ruled <= _words(found[1]) for found in _DEMANDED.finditer(text))


def _joined(parts: list[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*parts)


def _first_words(text: str) -> frozenset[str]:
    stems = [_stem(word) for word in _WORD.findall(text) if word.casefold() not in _STOP]
    return frozenset(stems[:_RULED])


def _words(text: str) -> frozenset[str]:
    return frozenset(_stem(word) for word in _WORD.findall(text) if word.casefold() not in _STOP)


def _stem(word: str) -> str:
    return word.casefold()[:_STEM]
