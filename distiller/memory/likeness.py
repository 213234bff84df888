"""Two statements in, whether they say the same, touch one subject, or neither out.

A wrong merge loses a fact without anybody noticing, a missed one leaves two lines where one would do. So the rule is
guarded: one side's content words must hold all of the other's and at most one more, and nothing that carries a value
may differ. Measured on dedupe60: no wrong merge.
"""

from __future__ import annotations

import re

from distiller.memory.slug import negated, tokens

_ALIKE = 0.5  # share of common content words from which on two statements touch one subject
_CLOSED = tuple(
    frozenset(words.split())
    for words in (
        "python rust go golang java javascript typescript ruby php kotlin swift scala perl lua haskell c cpp c++ c#",
        "english german french spanish italian portuguese dutch polish japanese chinese korean british american",
        "dev development test testing stage staging prod production local ci sandbox preview demo qa",
        "monday tuesday wednesday thursday friday saturday sunday",
        "uv pip poetry pipenv conda pdm npm pnpm yarn bun",
        "pytest unittest jest vitest mocha rspec junit",
        "postgres postgresql mysql mariadb sqlite mongodb redis kafka",
        "tab space",
        "red green blue orange yellow black white purple",
        "vim neovim emacs vscode cursor pycharm intellij",
        "docker podman kubernetes nomad argocd fly heroku vercel aws gcp azur",
        "unit integration e2e end-to-end",
        "main master develop stable trunk",
        "snake_cas camelcas kebab-cas pascalcas",
        "frontend backend api ui cli web mobil ios android",
        "utc local",
    )
)
_CONTRAST = re.compile(
    r"(?i)\b(?:instead of|rather than|statt|prefer\w*(?=.* over\b).*? over)\b|, (?:and )?(?:not|never)\b"
)
_REJECTED = re.compile(r"(?i)\b(?:instead of|rather than|not|never|no longer|statt|from(?! now on\b))\b[^,.;]*")
_VALUES = re.compile(
    r"\b\d[\w.:-]*|`[^`]+`|https?://\S+|--?[a-z][\w-]+|(?:[\w.-]+/)+[\w.-]*|\b\w+_\w+\b|\b[a-z]+[A-Z]\w*\b"
)


def says_the_same(one: str, other: str) -> bool:
    """Whether two statements may be merged without losing anything that either says."""
    if one.split() == other.split():
        return True
    left, right = tokens(one), tokens(other)
    extra = left ^ right
    return (
        alike(one, other)
        and (left <= right or right <= left)
        and len(extra) <= 1
        and not any(extra & closed for closed in _CLOSED)
        and not clash(one, other)
    )


def alike(one: str, other: str) -> bool:
    """Whether two statements share half of their content words."""
    left, right = _subject(one), _subject(other)
    return bool(left and right) and len(left & right) / len(left | right) >= _ALIKE


def _subject(text: str) -> frozenset[str]:
    """Content words without numbers, which are values."""
    return frozenset(word for word in tokens(text) if not word.isdigit())


def clash(one: str, other: str) -> bool:
    """Whether two statements on one subject cannot both hold: a value, a negation or a closed class differs."""
    return (
        _values(one) != _values(other)
        or (negated(one) != negated(other) and not (_CONTRAST.search(one) and _CONTRAST.search(other)))
        or turned_round(one, other)
        or classes_clash(one, other)
    )


def classes_clash(one: str, other: str) -> bool:
    """Whether both choose members of one closed class (languages, weekdays, tools …), but not the same ones."""
    left, right = tokens(_chosen(one)), tokens(_chosen(other))
    return any((left & closed) and (right & closed) and left & closed != right & closed for closed in _CLOSED)


def covers(old: str, new: str) -> bool:
    """Whether `old` says all that `new` says already."""
    return (
        tokens(new) <= tokens(old)
        and _values(new) <= _values(old)
        and negated(new) == negated(old)
        and not turned_round(old, new)
        and not classes_clash(old, new)
    )


def adds(new: str, old: str) -> bool:
    """Whether `new` says all that `old` says."""
    return tokens(old) <= tokens(new)


def _values(text: str) -> frozenset[str]:
    return frozenset(value.strip("`.,;:").casefold() for value in _VALUES.findall(text))


def _chosen(text: str) -> str:
    """`text` without what it rejects: of "pnpm, not npm" only pnpm."""
    return _REJECTED.sub(" ", text)


def turned_round(one: str, other: str) -> bool:
    """Whether what one prefers is what the other rejects: "uv, not pip" and "pip instead of uv"."""
    left, right = _CONTRAST.split(one, maxsplit=1), _CONTRAST.split(other, maxsplit=1)
    if len(left) == 1 or len(right) == 1:
        return False
    chosen, rejected = tokens(left[0]) - tokens(left[1]), tokens(left[1]) - tokens(left[0])
    return bool(chosen & (tokens(right[1]) - tokens(right[0])) or rejected & (tokens(right[0]) - tokens(right[1])))
