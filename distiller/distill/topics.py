"""A statement in, the slug of what it is about out: the topic that stays when the value changes.

A small table holds the questions that a project answers once (which package tool, which indentation); everything else
is named by its own first content words. A topic stands here only if two answers to it cannot both be true.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata

from distiller.vocabulary import NearFact

_TEST_TOOLS = r"(?:pytest|unittest|nose|jest|vitest|mocha|jasmine|junit|rspec|minitest)"
_TOPICS = tuple(
    (slug, re.compile(pattern, re.IGNORECASE))
    for slug, pattern in (
        ("python-package-tool", r"\b(?:uv|pip|pip3|pipenv|poetry|conda|pdm|pip-tools)\b(?!\.(?:py|lock))"),
        ("package-manager", r"\b(?:npm|pnpm|yarn|bun)\b"),
        ("python-version", r"\bpython (?:version )?\d\.\d+"),
        ("node-version", r"\bnode(?:\.?js)? (?:version )?\d\d\b"),
        (
            "answer-language",
            (
                r"\b(?:answer|reply|replies|respond|talk|speak|antworte|antworten|write to me)\b[^.]{0,24}\b(?:in|auf) "
                r"(?:german|english|french|spanish|italian|portuguese|dutch|polish|japanese|chinese|korean|deutsch|englisch)"
            ),
        ),
        ("test-docstrings", r"\bdocstrings?\b[^.]*\btests?\b|\btests?\b[^.]*\bdocstrings?\b"),
        (
            "indentation-style",
            r"\b(?:indent\w*|tabs?\b[^.]*\bspaces?|spaces?\b[^.]*\btabs?|use (?:hard )?tabs)\b",
        ),
        ("commit-message-style", r"\bcommit messages?\b|\bconventional commits\b"),
        ("commit-structure", r"\b(?:one|separate|single|own|second) commits?\b|\bsquash\w*\b"),
        ("plan-before-edit", r"\bplans?\b[^.]*\b(?:before|first)\b|\bbefore\b[^.]*\bplan\b"),
        ("integration-test-database", r"\bmock\w*\b[^.]*\b(?:database|db|postgres)|\bintegration tests\b[^.]*\breal\b"),
        ("test-framework", rf"\b{_TEST_TOOLS}\b[^.]*\b(?:not|over|of|than|to|never)\b[^.]*\b{_TEST_TOOLS}\b"),
        ("code-formatter", r"\b(?:black|yapf|ruff format|prettier|biome|gofmt|rustfmt|clang-format)\b"),
        ("main-branch-policy", r"\bpush\w*\b[^.]*\b(?:main|master)\b"),
        ("force-push-policy", r"\bforce[- ]push"),
        ("release-branch-policy", r"\breleases? (?:branch )?(?:is|are|get|gets)?\b[^.,]*\b(?:cut|built|tagged|from)\b"),
        ("pull-request-target", r"\b(?:prs?|pull requests?)\b[^.]*\b(?:target|against)\b"),
        ("diff-size", r"\bdiffs?\b[^.]*\b(?:under|below|small|lines)\b"),
        ("chart-colours", r"\bcolou?r[- ]?blind\b"),
        ("spelling-variant", r"\b(?:british|american) (?:english|spelling)\b"),
        ("emoji-use", r"\bemojis?\b"),
        ("coauthor-lines", r"\bco-?author"),
        ("user-time-zone", r"\bmy time ?zone\b"),
    )
)  # fmt: skip

_STOP = frozenset(
    """
    a about after again all also always an and any anything are as at be because been before being but by can
    could decided decision did do does doing don done dont each either else ever every everything few for from
    further get go going good had has have having he her here him his how however i if in instead into is it
    its itself just keep kept later let like ll longer look made make makes many may me mean might mind more
    most much must my never new no nor not note now of off on once one only onto or other our out over own per
    please prefer project put rather re really record remember repo repository same say see shall she should
    so some something still stop such sure take than that the their them then there these they thing things
    this those though through to too under until up us use used uses using ve very want was way we well were
    what when where whenever which while who why will with within without would yet you your codebase team
    company forward default stay stays live lives belong belongs goes
    ab als am auf aus bei bitte das dass dem den der die diesem dieser ein eine einem einen es für
    hier ich im immer ist jetzt mit nicht nie niemals nur oder projekt sind statt und uns verwende
    verwenden verwendet von wir zu zum doesnt isnt cant wont ive weve thats lets
    """.split()  # noqa: SIM905 - two hundred words in quotes of their own are unreadable
)
_WORDS = 3
_LETTERS = re.compile(r"[a-z][a-z0-9]*")


def topic(text: str) -> str | None:
    """The slug of a question that a project answers once, or None."""
    return next((slug for slug, pattern in _TOPICS if pattern.search(text)), None)


def name(text: str) -> str:
    """A slug for a statement: its topic, else its first content words."""
    return topic(text) or _by_words(text)


def content(text: str) -> frozenset[str]:
    """Content words of `text`, lower case, plural and spelling folded."""
    return frozenset(map(_stem, _content_words(text)))


def nearest(text: str, near_facts: tuple[NearFact, ...]) -> NearFact | None:
    """The near fact on the same topic as `text`, or None."""
    subject = topic(text)
    words = content(text)
    for near in near_facts:
        if subject and subject in (near.name, topic(near.summary)):
            return near
    best = max(near_facts, key=lambda near: _likeness(words, near), default=None)
    return best if best and _likeness(words, best) >= _SAME else None


_SAME = 0.6  # share of the smaller side's content words


def _likeness(words: frozenset[str], near: NearFact) -> float:
    other = content(near.summary)
    common = len(words & other)
    smaller = min(len(words), len(other))
    return common / smaller if smaller and common > 1 else 0.0


def _by_words(text: str) -> str:
    words = [word for word in dict.fromkeys(_content_words(text)) if not re.search(r"\d", word)][:_WORDS]
    if len(words) > 1:
        return "-".join(words)
    if words:
        return f"{words[0]}-note"
    digest = hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:8]
    return f"note-x{digest}"  # as `memory.slug` names it, so that typed and distilled words meet under one name


def _content_words(text: str) -> list[str]:
    plain = unicodedata.normalize("NFKD", re.sub(r"https?://\S+", " ", text)).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", plain.replace("'", ""))
    return [word for word in words if word not in _STOP and len(word) > 1 and _LETTERS.match(word)]


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s", "ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) > 2:  # noqa: PLR2004 - a stem of two letters says nothing
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word
