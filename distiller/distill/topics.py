"""A statement in, the slug of what it is about out: the topic that stays when the value changes.

A small table holds the questions that a project answers once (which package tool, which indentation); everything else
is named by its own first content words. A topic stands here only if two answers to it cannot both be true.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator

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
        ("emoji-use", r"\bemojis?\b"),
        ("coauthor-lines", r"\bco-?author"),
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
_WORDS, _MOST_WORDS = 3, 5
_CONTENT_WORD = re.compile(r"(?P<part>(?<=[a-z0-9][_/])[a-z0-9]+)|[a-z0-9]+")  # of `schema_a` also the "a"
_LETTERS = re.compile(r"[a-z][a-z0-9]*")


def _stem(word: str) -> str:
    for ending in ("ies", "es", "s", "ing", "ed"):
        if word.endswith(ending) and len(word) - len(ending) > 2:  # noqa: PLR2004 - a stem of two letters says nothing
            return word[: -len(ending)] + ("y" if ending == "ies" else "")
    return word


_SAME = 0.6  # share of the smaller side's content words
_PLACE_WORDS = """
    python rust go java javascript typescript ruby php kotlin swift scala lua haskell yaml json toml html css scss sql
    markdown shell bash frontend backend api ui cli web mobile ios android server client worker doc documentation test
    ci dev development staging prod production script example migration
    """
_PLACES = frozenset(map(_stem, _PLACE_WORDS.split()))
"""Where a rule may hold; the same question has one answer in each."""
_DOING = frozenset("run write edit deploy build test commit limit cap set put touch call name".split())  # noqa: SIM905
_NUMBER = re.compile(r"\b\d")
_TELLING = 2  # content words in common from which on two statements may be about one thing


def topic(text: str) -> str | None:
    """The slug of a question that a project answers once, or None."""
    return next((slug for slug, pattern in _TOPICS if pattern.search(text)), None)


def name(text: str, near_facts: tuple[NearFact, ...] = ()) -> str:
    """A slug for a statement: its topic, else its first content words; one that no near fact bears, where there is."""
    taken = {near.name for near in near_facts}
    return next((slug for slug in _names(text) if slug not in taken), next(_names(text)))


def content(text: str) -> frozenset[str]:
    """Content words of `text`, lower case, plural and spelling folded."""
    return frozenset(map(_stem, _content_words(text)))


def nearest(text: str, near_facts: tuple[NearFact, ...], *, moved: bool = False) -> NearFact | None:
    """The near fact about the same thing as `text`, or None; `moved` says that `text` names an earlier value.

    Strict, because a newer statement replaces what it meets: "the worker runs on port 9090" says nothing of the api.
    """
    subject = topic(text)
    there = [near for near in near_facts if not _elsewhere(text, near.summary)]
    for near in there:
        if subject and subject in (near.name, topic(near.summary)):
            return near
    same = [near for near in there if _same_subject(text, near.summary, moved=moved)]
    return max(same, key=lambda near: _likeness(content(text), content(near.summary)), default=None)


def _elsewhere(one: str, other: str) -> bool:
    """Whether two statements hold in places that they name and that differ: yaml files, python files."""
    left, right = content(one) & _PLACES, content(other) & _PLACES
    return bool(left and right and not left & right)


def _same_subject(text: str, other: str, *, moved: bool) -> bool:
    left, right = content(text), content(other)
    if len(left & right) < _TELLING:
        return False
    if left <= right or right <= left:
        return True
    about = _head(other)
    numbers = _NUMBER.search(text) and _NUMBER.search(other) and _head(text) == about
    named = about not in _DOING and (numbers or (moved and about in left))
    return bool(named) and _likeness(left, right) >= _SAME


def _head(text: str) -> str:
    """The first content word: of a statement that is no order, what it is about."""
    return next(map(_stem, _content_words(text)), "")


def _likeness(words: frozenset[str], other: frozenset[str]) -> float:
    smaller = min(len(words), len(other))
    return len(words & other) / smaller if smaller else 0.0


def _names(text: str) -> Iterator[str]:
    """Slugs for `text`, best first."""
    if subject := topic(text):
        yield subject
        yield from (f"{subject}-{place}" for place in sorted(content(text) & _PLACES))
    words = [word for word in dict.fromkeys(_content_words(text)) if not re.search(r"\d", word)]
    yield _by_words(text)
    yield from ("-".join(words[:count]) for count in range(_WORDS + 1, min(len(words), _MOST_WORDS) + 1))
    yield from ("-".join((*words[:2], word)) for word in words[_MOST_WORDS:])


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
    return [
        found[0]
        for found in _CONTENT_WORD.finditer(plain.replace("'", ""))
        if _LETTERS.match(found[0]) and (found["part"] or (found[0] not in _STOP and len(found[0]) > 1))
    ]
