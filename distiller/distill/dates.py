"""A sentence and the day it was said in, the same sentence with absolute dates out.

Relative words are reckoned from the turn's own day on the person's calendar, never from the machine's clock: a turn
read months later means the same Thursday (F50). The words stay; the date is put behind them in brackets.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import NamedTuple


class Dated(NamedTuple):
    """A sentence with its dates made absolute; `valid_until` if it holds only up to a day."""

    text: str
    valid_until: str | None


_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GERMAN_DAYS = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_WEEKDAY = rf"(?P<day>{'|'.join((*_DAYS, *_GERMAN_DAYS))})"
_RELATIVE = re.compile(
    r"(?i)\b(?:(?P<word>today|tomorrow|yesterday|heute|morgen|gestern)"
    r"|(?P<span>last|next|this) (?P<unit>week|month|year)"
    rf"|(?:(?:every|each|on|by|until|next|this|jeden|bis) )?{_WEEKDAY})\b(?! (?:evening|morning|night|afternoon)s)"
)
_OFFSETS = {"today": 0, "heute": 0, "tomorrow": 1, "morgen": 1, "yesterday": -1, "gestern": -1}
_UNTIL = re.compile(r"(?i)\b(?:until|till|by|bis) \(?(?:\w+ \()?(\d{4}-\d\d-\d\d)")
_RECURS = re.compile(r"(?i)\b(?:every|each|always|never|jeden|immer|freezes?|usually)\b|\bon \w+days\b")
_EVENT = re.compile(
    r"(?i)\b(?:ship|release|launch|go live|freeze|demo|cut|deploy|deadline|due)\b[^.]*\((\d{4}-\d\d-\d\d)\)"
)


def absolute(text: str, local_date: str) -> Dated:
    """Put dates behind relative words of `text`, said on `local_date`; unchanged where that day is not known."""
    try:
        said = date.fromisoformat(local_date)
    except ValueError:
        return Dated(text, None)
    recurs = bool(_RECURS.search(text))
    dated = _RELATIVE.sub(lambda match: _with_date(match, said, recurs=recurs), text)
    until = _UNTIL.search(dated) or (None if recurs else _EVENT.search(dated))
    return Dated(dated, until[1] if until else None)


def _with_date(match: re.Match[str], said: date, *, recurs: bool) -> str:
    if match["word"]:
        return f"{match[0]} ({said + timedelta(days=_OFFSETS[match['word'].lower()])})"
    if match["span"]:
        return f"{match[0]} ({_span(match['span'].lower(), match['unit'].lower(), said)})"
    if recurs:
        return match[0]
    name = match["day"].lower()
    index = _DAYS.index(name) if name in _DAYS else _GERMAN_DAYS.index(name)
    ahead = (index - said.weekday() - 1) % 7 + 1  # the coming one; said on the day itself it means the next
    return f"{match[0]} ({said + timedelta(days=ahead)})"


def _span(which: str, unit: str, said: date) -> str:
    step = {"last": -1, "this": 0, "next": 1}[which]
    if unit == "year":
        return str(said.year + step)
    if unit == "month":
        months = said.year * 12 + said.month - 1 + step
        return f"{months // 12}-{months % 12 + 1:02}"
    monday = said + timedelta(days=7 * step - said.weekday())
    return f"week of {monday}"
