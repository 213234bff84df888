"""Text in, the same text with `[REDACTED:kind]` for each secret out.

Runs before a window is cut, a row queued or a line logged: a cut through a secret would leave a half that no pattern
knows. Repeats until nothing changes, which makes it idempotent; each round leaves fewer characters outside of marks.
What it leaves is valid UTF-8: half surrogates of torn tool output are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import msgspec

from distiller.distill.secret_shapes import KEY_LINES, PRIVATE_KEY, PRIVATE_KEY_END, SHAPES
from distiller.vocabulary import Redacted


class _Span(NamedTuple):
    start: int
    end: int
    kind: str


_MARK = re.compile(r"\[REDACTED:[a-z0-9-]+\]")
_LONE = re.compile("[\ud800-\udfff]")
_KEY_TAIL = 16_000  # characters before an END line that may belong to its key
_SHORTEST = 8  # `pwd=abcd`; most strings of a session file are shorter
_NESTING = 60  # levels of JSON inside JSON; deeper is taken as text


class Redactor:
    """Removes secrets from text; `extra_patterns` are the person's own regular expressions (`redact.patterns`).

    Raises:
        re.error: one of `extra_patterns` is no regular expression.
    """

    def __init__(self, extra_patterns: Sequence[str] = ()) -> None:
        self._extra = tuple(re.compile(pattern) for pattern in extra_patterns)

    def __call__(self, text: str) -> Redacted:
        """`text` without secrets."""
        if len(text) < _SHORTEST and not self._extra and text.isascii():
            return Redacted(text)
        if not text.isascii():
            text = _LONE.sub("\N{REPLACEMENT CHARACTER}", text)
        while spans := self._spans(text):
            text = _replaced(text, spans)
        return Redacted(text)

    def json(self, raw: bytes | msgspec.Raw) -> Redacted:
        """JSON without secrets, as JSON; unchanged bytes stay as they were. What is no JSON is taken as text."""
        data = bytes(raw)
        try:
            value = _decoded(data)
            clean = self._value(value, _NESTING)
            if clean == value:
                return Redacted(data.decode())
            return Redacted(msgspec.json.encode(clean).decode())
        except (ValueError, RecursionError):
            return self(data.decode("utf-8", "replace"))

    def _spans(self, text: str) -> list[_Span]:
        lower = text.replace("\u0130", "I").lower()  # the one letter whose lower case is longer
        spans = [
            *_private_keys(text),
            *_shapes(text, lower),
            *_named(text, lower),
            *self._own(text),
        ]
        if not spans:
            return []
        marks = [match.span() for match in _MARK.finditer(text)]
        return sorted(span for span in spans if not any(a <= span.start and span.end <= b for a, b in marks))

    def _own(self, text: str) -> Iterator[_Span]:
        for pattern in self._extra:
            yield from (_Span(*match.span(), "custom") for match in pattern.finditer(text) if match[0])

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self._string(value, depth)
        if isinstance(value, list):
            return self._list(value, depth)
        if isinstance(value, dict):
            named = value.get(
                "name", value.get("key")
            )  # {"name": "DB_PASSWORD", "value": …}, as in a list of variables
            return {
                self(key): self._field(named if key == "value" and isinstance(named, str) else key, item, depth)
                for key, item in value.items()
            }
        return value

    def _string(self, text: str, depth: int) -> str:
        inner = text.strip()
        if depth and inner[:1] in ("{", "["):
            try:
                value = _decoded(inner.encode("utf-8", "surrogatepass"))
            except (ValueError, RecursionError):
                return self(text)
            clean = self._value(value, depth - 1)
            return text if clean == value else msgspec.json.encode(clean).decode()
        return self(text)

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        clean = [self._value(item, depth) for item in items]
        if clean and all(isinstance(item, str) for item in clean):
            joined = "\n".join(clean)  # a key file read line by line is a secret only as a whole
            if (whole := self(joined)) != joined:
                return whole.split("\n")
        return clean

    def _field(self, key: str, item: Any, depth: int) -> Any:
        kind = _names().secret_field(key)
        if (
            kind
            and isinstance(item, str | int)
            and not isinstance(item, bool)
            and _names().secret_in_field(kind, str(item))
        ):
            return f"[REDACTED:{kind}]"
        if kind and isinstance(item, list) and all(isinstance(part, str) for part in item):
            return [f"[REDACTED:{kind}]" if _names().secret_in_field(kind, part) else self(part) for part in item]
        return self._value(item, depth)


def redact(text: str) -> Redacted:
    """`text` without secrets."""
    return _DEFAULT(text)


def holds_secret(text: str) -> bool:
    """Whether `text` holds a secret, or the mark that stands in the place of one."""
    return "[REDACTED:" in text or redact(text) != text


def redact_json(raw: bytes | msgspec.Raw) -> Redacted:
    """JSON without secrets, as JSON: nested JSON strings and fields whose name tells of a secret too."""
    return _DEFAULT.json(raw)


_DEFAULT = Redactor()


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError:
        return json.loads(data.decode("utf-8", "replace"))  # takes half surrogates, which agents do write


def _replaced(text: str, spans: list[_Span]) -> str:
    out: list[str] = []
    at = 0
    for span in spans:
        if span.start >= at:
            out += (text[at : span.start], f"[REDACTED:{span.kind}]")
        at = max(at, span.end)
    return "".join((*out, text[at:]))


# --- finders ----------------------------------------------------------------------------------------------------


def _private_keys(text: str) -> Iterator[_Span]:
    if "PRIVATE KEY" not in text:
        return
    for match in PRIVATE_KEY.finditer(text):
        yield _Span(*match.span(), "private-key")
    before = 0
    for match in PRIVATE_KEY_END.finditer(text):
        first = max(before, match.start() - _KEY_TAIL)
        before = match.end()
        if lines := KEY_LINES.search(text[first : match.start()]):
            yield _Span(first + lines.start(), match.end(), "private-key")


NAME_STEMS = ("pass", "pwd", "kennwort", "contrase", "secret", "credential", "connection", "token", "key")
"""One of these stands in every name of a secret; a text without them need not be looked at more closely."""


def _named(text: str, lower: str) -> Iterator[_Span]:
    if any(stem in lower for stem in NAME_STEMS):
        yield from map(_Span._make, _names().named_secrets(text, lower))


@cache
def _names() -> ModuleType:
    from distiller.distill import secret_names  # noqa: PLC0415 -- its expressions cost 6 ms, which few commands need

    return secret_names


_HINTS = tuple((hint, shape) for shape in SHAPES for hint in shape.hints)  # flat: this loop is what redaction costs


def _shapes(text: str, lower: str) -> Iterator[_Span]:
    for hint, shape in _HINTS:
        if hint in lower:
            group: int | str = "v" if "v" in shape.pattern.groupindex else 0
            for match in shape.pattern.finditer(text):
                yield _Span(*match.span(group), shape.kind)
