"""A question in, its search words out; and hits in, the same in the order in which they deserve to be read out.

The store's bm25 decides; pin, confirmation, age and use only tip the scales between facts that fit about equally.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from distiller import timestamps
from distiller.vocabulary import Hit, Strength

TERMS = 8

_STOP = frozenset(
    """
    a about all am an and any are as ask at be been but by can could did do does for from get give had has
    have how i if in into is it its just know like me my no not of on or our out please say shall should show
    so some tell than that the their them then there these they this to us use used uses using was we were
    what when where which who why will with would you your again always usual usually here
    """.split()  # noqa: SIM905 - a hundred words in quotes of their own are unreadable
)
_PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+|[^\W\d_A-Za-z]+")
_WORD = re.compile(r"[\w.+#-]*\w|\w")
_RECENT_DAYS = 90
_SECONDS_A_DAY = 86_400
_CLEAR = 0.25  # share of the best score below which a hit is chance


def terms(question: str) -> list[str]:
    """At most 8 search words, lower case, in the order of the question; identifiers whole and in parts."""
    found: dict[str, None] = {}
    for word in _WORD.findall(question):
        plain = word.lower().strip("-._")
        parts = [part.lower() for part in _PARTS.findall(word)]
        for term in (*([plain] if plain.isalnum() else []), *parts):
            if term not in _STOP and (len(term) > 1 or term.isdigit() or not term.isascii()):
                found[term] = None
    return list(found)[:TERMS]


def rank(hits: Sequence[Hit], *, now: str, uses: Mapping[str, tuple[int, str]]) -> list[Hit]:
    """Order hits, best first, and leave out those that fit only by chance; may be empty.

    `uses` is (how often, last when) by fact id. Facts that have run out (`valid_until`) are left out.
    """
    day = now[:10]
    fitting = [hit for hit in hits if not hit.fact.valid_until or hit.fact.valid_until >= day]
    best = max((hit.score for hit in fitting), default=0.0)
    weighed = [
        msgspec.structs.replace(hit, score=hit.score * _weight(hit, now, uses))
        for hit in fitting
        if hit.score >= best * _CLEAR
    ]
    return sorted(weighed, key=lambda hit: (-hit.score, hit.fact.name))


def _weight(hit: Hit, now: str, uses: Mapping[str, tuple[int, str]]) -> float:
    fact = hit.fact
    weight = 1.2 if fact.pinned else 1.0
    weight *= 0.7 if fact.strength is Strength.AGENT else 1.0
    age_days = max(0.0, timestamps.seconds_between(fact.last_confirmed_at, now) / _SECONDS_A_DAY)
    weight *= 1 + 0.1 / (1 + age_days / _RECENT_DAYS)
    weight *= 1 + 0.02 * min(uses.get(fact.id, (0, ""))[0], 5)
    return weight * (1.05 if fact.last_confirmed_at > fact.first_said_at else 1.0)
