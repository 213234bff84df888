"""A backend's answer as text in, its claims as values out, or why nothing can be read from it.

Anything may come: prose, HTML, half a JSON object. Whatever it is, nothing here raises, and text that is no answer
never becomes one (F57): an empty answer is a valid result, an unreadable one is not.
"""

from __future__ import annotations

import json
from typing import Any, Literal

import msgspec

from distiller.vocabulary import FactKind, Refusal

Strings = tuple[str, ...]


class Quote(msgspec.Struct, frozen=True):
    """What a claim rests on: a row of the window, who spoke there, and the words."""

    row: int
    role: Literal["user", "assistant", "tool"]
    quote: str


class Item(msgspec.Struct, frozen=True):
    """One claim as a backend wrote it; nothing in it is believed yet."""

    op: Literal["add", "update", "supersede", "retire", "none"]
    slug: str
    kind: FactKind
    scope: Literal["user", "project"]
    summary: str
    body: str
    strength: Literal["stated", "confirmed"]
    evidence: tuple[Quote, ...]
    related: Strings = ()
    valid_until: str | None = None
    near: int | None = None  # number of the near fact that is meant


class Answer(msgspec.Struct, frozen=True):
    """A readable answer; `refusals` are its items that break the schema."""

    facts: tuple[Item, ...] = ()
    candidates: tuple[Item, ...] = ()
    suspicious: tuple[Item, ...] = ()
    session_note: str | None = None
    empty_reason: str | None = None
    refusals: tuple[Refusal, ...] = ()


class Unusable(msgspec.Struct, frozen=True):
    """An answer from which nothing can be read."""

    reason: str


EMPTY_REASONS = (
    "nothing-durable",
    "one-off",
    "discoverable",
    "already-known",
    "unverified",
    "hypothetical",
    "sensitive",
    "no-cue",
)


def _schema() -> dict[str, Any]:
    def record(**properties: Any) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }

    text: dict[str, Any] = {"type": "string"}
    maybe_text: dict[str, Any] = {"type": ["string", "null"]}
    item = record(
        op={"type": "string", "enum": ["add", "update", "supersede", "retire", "none"]},
        near={"type": ["integer", "null"]},
        slug=text,
        kind={"type": "string", "enum": [kind.value for kind in FactKind]},
        scope={"type": "string", "enum": ["user", "project"]},
        summary=text,
        body=text,
        related={"type": "array", "items": text},
        strength={"type": "string", "enum": ["stated", "confirmed"]},
        valid_until=maybe_text,
        evidence={
            "type": "array",
            "items": record(
                row={"type": "integer"}, role={"type": "string", "enum": ["user", "assistant", "tool"]}, quote=text
            ),
        },
    )
    items = {"type": "array", "items": {"$ref": "#/$defs/item"}}  # told once: a provider counts it with each call
    answer = record(facts=items, candidates=items, suspicious=items, session_note=maybe_text, empty_reason=maybe_text)
    return {**answer, "$defs": {"item": item}}


ANSWER_SCHEMA = _schema()
"""The JSON schema of an answer, for back ends that can be held to one."""


def read(text: str) -> Answer | Unusable:
    """Read an answer: plain JSON, JSON in a fence, JSON with words around it. Never raises.

    An answer in which every item breaks the schema is unusable (F56); beside readable items such an item is refused.
    """
    start = text.find("{")
    if start < 0:
        return Unusable("no JSON object in the answer")
    try:
        value, _ = json.JSONDecoder().raw_decode(text, start)
    except (ValueError, RecursionError):
        return Unusable("the JSON of the answer is broken or cut off")
    if not isinstance(value, dict) or not isinstance(value.get("facts"), list):
        return Unusable("the answer has no list of facts")
    refusals: list[Refusal] = []
    facts = _items(value["facts"], refusals)
    candidates = _items(value.get("candidates"), refusals)
    suspicious = _items(value.get("suspicious"), refusals)
    if refusals and not (facts or candidates or suspicious):
        return Unusable(f"every item breaks the schema: {refusals[0].detail}")
    return Answer(
        facts,
        candidates,
        suspicious,
        _text(value.get("session_note")),
        _reason(value.get("empty_reason")),
        tuple(refusals),
    )


def _items(value: Any, refusals: list[Refusal]) -> tuple[Item, ...]:
    items: list[Item] = []
    for one in value if isinstance(value, list) else ():
        try:
            items.append(msgspec.json.decode(_whole(json.dumps(one, ensure_ascii=False)), type=Item))
        except (msgspec.DecodeError, RecursionError) as error:
            slug = one.get("slug") if isinstance(one, dict) else None
            refusals.append(Refusal("schema", (_text(slug) or "")[:80], str(error)[:200]))
    return tuple(items)


def _text(value: Any) -> str | None:
    """A text that is not blank, or None."""
    return _whole(value).strip() or None if isinstance(value, str) else None


def _reason(value: Any) -> str | None:
    code = value.strip().replace("_", "-") if isinstance(value, str) else None
    return code if code in EMPTY_REASONS else None


def _whole(text: str) -> str:
    """`text` without half surrogates, which JSON escapes can smuggle in and no store takes."""
    return text.encode("utf-8", "replace").decode()
