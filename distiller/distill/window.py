"""A turn's redacted rows in, the part of them that fits the model's budget out.

What is least likely to hold the person's words goes first: tool results, then calls, what was injected, assistant text,
what was pasted; own words go last. Within one kind every row keeps a fair share before the oldest are dropped.
Numbers are given before cutting, so a missing number is a visible gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from distiller.vocabulary import Redacted, Row, WaitingText, Window

_BYTES_PER_TOKEN = 3  # a guess that holds for code and for most languages
_ROW_TOKENS = 8  # what naming a row costs in a prompt
_GAP_BYTES = 54  # room for the longest gap mark
_FLOOR_TOKENS = _ROW_TOKENS + _GAP_BYTES // _BYTES_PER_TOKEN  # a row cut down to its gap mark
_NOTE_SHARE = 4  # the note gets at most a quarter

_TIERS = ("own", "pasted", "assistant", "injected", "call")


class _Unit(NamedTuple):
    """Rows that stay or go together: a call with its results, or one row of anything else."""

    row: Row
    results: tuple[Row, ...] = ()


def cut(text: WaitingText, *, note: Redacted | None, tokens: int, previous: tuple[Row, ...] = ()) -> Window:
    """Fit a turn, the rows of turns before it and the session's note into `tokens`.

    Rows are renumbered from 1, `previous` first; rows of `text` may be previous ones too. `size` of what comes out is
    at most `tokens`.
    """
    rows = [
        msgspec.structs.replace(row, number=number, previous=row.previous or number <= len(previous))
        for number, row in enumerate((*previous, *text.rows), 1)
    ]
    shown_note = _shorten(note, tokens // _NOTE_SHARE) if note else None
    left = tokens - (tokens_of(shown_note) if shown_note else 0)
    units = _units(rows)
    kept: list[Row] = []
    results: list[Row] = []
    for part in _TIERS:
        for earlier in (False, True):
            tier = [unit for unit in units if unit.row.part == part and unit.row.previous == earlier]
            for unit in sorted(_fit(tier, left), key=lambda unit: unit.row.number):
                kept.append(unit.row)
                results += unit.results
                left -= _floor(unit) - _least(unit.row) + _cost(unit.row)
            if part == "own" and not earlier and [unit.row for unit in tier] != kept:
                left = 0  # own words had to be cut: nothing else is shown
    kept += _widen(results, left)
    shown = tuple(sorted(kept, key=lambda row: row.number))
    return Window(shown, text.local_date, text.cwd, shown_note, cut=len(rows) - len(shown))


def size(window: Window) -> int:
    """What a window costs, in guessed tokens: its rows and its note."""
    return sum(map(_cost, window.rows)) + (tokens_of(window.note) if window.note else 0)


def tokens_of(text: str) -> int:
    """A guess at the tokens of `text` that errs on the high side."""
    return -(-_bytes(text) // _BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _cost(row: Row) -> int:
    return _ROW_TOKENS + tokens_of(row.text) + tokens_of(row.name or "")


def _least(row: Row) -> int:
    """What a row costs at least, cut down to its gap mark."""
    return min(_cost(row), _FLOOR_TOKENS + tokens_of(row.name or ""))


def _floor(unit: _Unit) -> int:
    return _least(unit.row) + sum(map(_least, unit.results))


def _units(rows: Sequence[Row]) -> list[_Unit]:
    """Bind results to their calls, whose tool's name they get; one whose call is not there is left out."""
    names = {row.call_id: row.name for row in rows if row.part == "call"}
    results: dict[tuple[bool, str | None], list[Row]] = {}
    for row in rows:
        if row.part == "result":
            named = msgspec.structs.replace(row, name=row.name or names.get(row.call_id))
            results.setdefault((row.previous, row.call_id), []).append(named)
    return [
        _Unit(row, tuple(results.pop((row.previous, row.call_id), ())) if row.part == "call" and row.call_id else ())
        for row in rows
        if row.part != "result"
    ]


def _fit(tier: list[_Unit], left: int) -> list[_Unit]:
    """The newest units of a tier that fit, long ones cut to a fair share; results count as their gap marks."""
    shown: list[_Unit] = []
    for unit in reversed(tier):
        if _floor(unit) > left:
            break
        left -= _floor(unit)
        shown.append(unit)
    extras = _shares([_cost(unit.row) - _least(unit.row) for unit in shown], left)
    return [
        _Unit(_cut_row(unit.row, _least(unit.row) + extra), unit.results)
        for unit, extra in zip(shown, extras, strict=True)
    ]


def _widen(results: list[Row], left: int) -> list[Row]:
    """Give results, so far counted as gap marks, what is left."""
    extras = _shares([_cost(row) - _least(row) for row in results], left)
    return [_cut_row(row, _least(row) + extra) for row, extra in zip(results, extras, strict=True)]


def _shares(wishes: list[int], left: int) -> list[int]:
    """Divide `left` so that small wishes are met in full and large ones get equal parts; in the order of `wishes`."""
    given = [0] * len(wishes)
    waiting = len(wishes)
    for index in sorted(range(len(wishes)), key=wishes.__getitem__):
        given[index] = min(wishes[index], left // waiting)
        left -= given[index]
        waiting -= 1
    return given


def _cut_row(row: Row, tokens: int) -> Row:
    if _cost(row) <= tokens:
        return row
    text = _shorten(row.text, tokens - _ROW_TOKENS - tokens_of(row.name or ""))
    return msgspec.structs.replace(row, text=text)


def _shorten(text: Redacted, tokens: int) -> Redacted:
    """`text` with a marked gap in its middle, at most `tokens` long; cut between code points."""
    room = tokens * _BYTES_PER_TOKEN
    data = text.encode("utf-8", "replace")
    if len(data) <= room:
        return text
    third = max(0, room - _GAP_BYTES) // 3  # the beginning says more than the end
    head = data[: 2 * third].decode("utf-8", "ignore")
    tail = data[len(data) - third :].decode("utf-8", "ignore")
    gap = f"[… {len(text) - len(head) - len(tail)} characters left out …]"
    gap = f"\n{gap}\n" if head else gap
    return Redacted(f"{head}{gap}{tail}" if room >= _GAP_BYTES else "")
