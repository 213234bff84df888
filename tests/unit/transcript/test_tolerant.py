"""Whatever stands on a line, the objects on it come out clean, or none does."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.transcript import tolerant


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'\xef\xbb\xbf{"a": 1}', [{"a": 1}]),
        (b'\0\0{"a": "x\\u0000y"}\0', [{"a": "x\0y"}]),
        (b'{"a": "x\xff"}', [{"a": "x\ufffd"}]),
        (b'{"a": "x\\ud83d tail", "b": 1}', [{"a": "x\ufffd tail", "b": 1}]),
        (b'{"a": NaN, "b": [Infinity]}', [{"a": None, "b": [None]}]),
        (b'{"a": 1}{"b": 2}', [{"a": 1}, {"b": 2}]),
        (b'{"a": 1} {"b": 2} \r\n', [{"a": 1}, {"b": 2}]),
        (b'{"a": "raw\ttab"}', [{"a": "raw\ttab"}]),
        (b'{"a": 1', []),
        (b"[1]", []),
        (b"null", []),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", []),
    ],
    ids=["bom", "nul", "no-utf8", "surrogate", "nan", "glued", "glued-spaced", "tab", "torn", "array", "null", "deep"],
)
def test_odd_lines(raw: bytes, expected: list[dict[str, object]]) -> None:
    """F49 and relatives: bytes, surrogates, numbers and glue are mended; what is no object gives nothing."""
    assert tolerant.objects(raw) == expected


@given(st.binary())
def test_no_bytes_raise(raw: bytes) -> None:
    """Anything may stand in a file; what comes out can be written as UTF-8 JSON."""
    for found in tolerant.objects(raw):
        json.dumps(found, ensure_ascii=False, allow_nan=False).encode()


class _Inner(msgspec.Struct):
    text: str | None = None
    items: list[int] | None = None


class _Outer(msgspec.Struct):
    name: str | None = None
    inner: _Inner | None = None


def test_what_fits_is_kept() -> None:
    """A field of another shape is left out; its neighbours and the items that fit stay."""
    value = {"name": 7, "inner": {"text": "kept", "items": [1, "two", 3]}, "more": 1}

    assert tolerant.fit(value, _Outer) == _Outer(None, _Inner("kept", [1, 3]))


def test_undecoded_json_becomes_utf8() -> None:
    """The decoder does not check what it leaves undecoded; we do."""
    assert bytes(tolerant.clean_json(msgspec.Raw(b'"x\xff"'))).decode() == '"x\ufffd"'
