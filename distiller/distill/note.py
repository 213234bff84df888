"""A request in, the session's note brought up to date out: what a later turn of the same session should know.

Extractive and bounded: sentences that decide, constrain or ask to remember, names that are hard to guess, and what the
tools answered. The old note is read back and added to, never summarised again; what is oldest goes first.
"""

from __future__ import annotations

import re

from distiller.distill.redact import redact
from distiller.vocabulary import Redacted, Request, Row

WORDS = 200

_HEADS = ("Asked", "Decided", "Remember", "Names", "Tools")
_KEPT = {"Asked": 3, "Decided": 5, "Remember": 4, "Names": 12, "Tools": 5}  # items per heading
_ITEM_WORDS = 24
_SEPARATOR = " | "
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DECIDED = re.compile(
    r"(?i)\b(?:decided|decision|agreed|because|instead of|must|only|never|always|don't|do not|not allowed)\b"
)
_REMEMBER = re.compile(r"(?i)\b(?:remember|keep in mind|don't forget|note that|from now on|merk dir)\b")
_NAMES = re.compile(
    r"https?://[^\s)>\]\"'`]+|(?<![\w/.-])(?:[\w.-]{1,80}/){1,20}[\w-]{1,80}\.\w{1,5}\b|\b[A-Z]{2,20}-\d+\b|`[^`\n]{2,40}`"
)


def write(request: Request) -> str | None:
    """The revised note, at most 200 words; None when this turn adds nothing to it."""
    old = _parsed(request.window.note)
    new = {head: list(items) for head, items in old.items()}
    for head, item in _gathered(request):
        if item not in new[head]:
            new[head] = [*new[head], item][-_KEPT[head] :]
    return None if new == old else _fitted(new)


def _gathered(request: Request) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for row in request.window.rows:
        if row.previous:
            continue
        if row.part == "own":
            found += _said(row)
        elif row.part == "result" and row.name and row.text.strip():
            found.append(("Tools", _item(f"{row.name}: {_last_line(row.text)}")))
    return found


def _last_line(result: str) -> str:
    """The end of what a tool answered, which mostly tells how it went; results are JSON."""
    return re.split(r"\n|\\n", result.strip().strip('"'))[-1].strip()


def _said(row: Row) -> list[tuple[str, str]]:
    parts = [part.strip() for part in _SENTENCE.split(row.text) if part.strip()]
    found = [("Asked", _item(" ".join(parts)))] if parts else []
    for part in parts:
        if _REMEMBER.search(part):
            found.append(("Remember", _item(part)))
        elif _DECIDED.search(part):
            found.append(("Decided", _item(part)))
    return found + [("Names", _item(name.strip("`"))) for name in _NAMES.findall(row.text)]


def _item(text: str) -> str:
    words = text.replace("|", "/").split()
    return redact(" ".join(words[:_ITEM_WORDS]) + (" …" if len(words) > _ITEM_WORDS else ""))


def _parsed(note: Redacted | None) -> dict[str, list[str]]:
    """The items of a note of ours; a note that a model wrote is kept whole, as something to remember."""
    items: dict[str, list[str]] = {head: [] for head in _HEADS}
    for line in (note or "").splitlines():
        head, colon, rest = line.partition(": ")
        if colon and head in items:
            items[head] += [item for item in rest.split(_SEPARATOR) if item]
        elif line.strip():
            items["Remember"].append(_item(line))
    return items


def _fitted(items: dict[str, list[str]]) -> str:
    """The note as text; while it is too long, the heading with most items loses its oldest."""
    while len((text := _text(items)).split()) > WORDS:
        longest = max(items, key=lambda head: len(items[head]))
        items[longest] = items[longest][1:]
    return text


def _text(items: dict[str, list[str]]) -> str:
    return "\n".join(f"{head}: {_SEPARATOR.join(items[head])}" for head in _HEADS if items[head])
