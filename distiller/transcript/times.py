"""A time as an agent wrote it in, UTC text with milliseconds out, or None."""

from __future__ import annotations

from datetime import UTC, datetime

from distiller import timestamps

_LENGTH = len("2026-12-01T12:34:56.789Z")
_FIRST, _LAST = 1970, 9998  # years in which one can reckon: nothing was written before, and a day may be added


def normal(text: str | None) -> str | None:
    """`text` in UTC with milliseconds; None if it is no time. Most agents write that form already."""
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    if not _FIRST <= at.year <= _LAST:
        return None
    if len(text) == _LENGTH and text[-1] == "Z" and text[10] == "T":
        return text
    return timestamps.to_text(at if at.tzinfo else at.replace(tzinfo=UTC))


def local_date(text: str | None) -> str:
    """The calendar day where it was written, if `text` carries an offset of its own; else ""."""
    if not text or text[-1] in "Zz" or not ("+" in text[10:] or "-" in text[10:]):
        return ""
    return text[:10] if normal(text) else ""
