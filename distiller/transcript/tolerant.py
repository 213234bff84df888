"""One line's bytes in, the JSON objects on it out, whatever else stands there; the slow path of every format.

Typed decoding reads healthy lines. What it refuses comes here: a byte order mark, NUL bytes, bytes that are no UTF-8,
half a surrogate pair, NaN, two objects glued together by two writers, fields of a shape nobody expected. None of them
may hide what stands beside or after them.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar, get_args

import msgspec

_SURROGATE = re.compile("[\ud800-\udfff]")
_decoder = json.JSONDecoder(strict=False, parse_constant=lambda _: None)
S = TypeVar("S", bound=msgspec.Struct)


def objects(raw: bytes) -> list[dict[str, Any]]:
    """The objects written on one line, one after the other; empty if anything else stands there too.

    Text in them is clean: bytes that are no UTF-8 and lone surrogates have become U+FFFD, NaN has become null.
    """
    text = raw.decode("utf-8", "replace").strip("\ufeff\0 \t\r\n")
    found: list[dict[str, Any]] = []
    at = 0
    try:
        while at < len(text):
            value, at = _decoder.raw_decode(text, at)
            if not isinstance(value, dict):
                return []
            found.append(_clean(value))
            at += len(text) - at - len(text[at:].lstrip("\0 \t\r"))
    except (ValueError, RecursionError):
        return []
    return found


def fit(value: dict[str, Any], shape: type[S]) -> S:
    """Make a `shape` of what fits it; fields and list items of another shape are left out.

    Every field of `shape` needs a default.
    """
    return msgspec.json.decode(_encode(_trim(value, shape)), type=shape)


def clean_json(raw: msgspec.Raw) -> msgspec.Raw:
    """An own copy of undecoded JSON, surely UTF-8: the decoder does not check what it leaves undecoded.

    A copy, because a piece left undecoded keeps the whole line in memory, and results are often a small part of it.
    """
    data = bytes(raw)
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode("utf-8", "replace").encode()
    return msgspec.Raw(data)


def to_json(value: Any) -> msgspec.Raw:
    """Write a decoded value as JSON."""
    return msgspec.Raw(_encode(value))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _encode(value: Any) -> bytes:
    # Not msgspec's encoder: it refuses integers of more than 64 bits.
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _trim(value: dict[str, Any], shape: type[msgspec.Struct]) -> dict[str, Any]:
    config = shape.__struct_config__
    kept = {config.tag_field: config.tag} if config.tag_field else {}
    for field in msgspec.structs.fields(shape):
        if field.encode_name in value and (fitting := _fitting(value[field.encode_name], field.type)) is not None:
            kept[field.encode_name] = fitting
    return kept


def _fitting(value: Any, kind: Any) -> Any:
    """`value`, or as much of it as `kind` can hold, or None."""
    if _fits(value, kind):
        return value
    choices = get_args(kind)
    if isinstance(value, dict):
        inner = next((c for c in choices if isinstance(c, type) and issubclass(c, msgspec.Struct)), None)
        return _trim(value, inner) if inner else None
    if isinstance(value, list):
        items = next(
            (get_args(c)[0] for c in (kind, *choices) if getattr(c, "__origin__", None) in {list, tuple}), None
        )
        return [item for item in value if _fits(item, items)] if items else None
    return None


def _fits(value: Any, kind: Any) -> bool:
    try:
        msgspec.json.decode(_encode(value), type=kind)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
