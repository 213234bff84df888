"""`10m`, `2h`, `30d`, a date or a time in; UTC text out."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import click

from distiller import timestamps

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
SPAN = re.compile(r"^(\d{1,6})([smhdw])$")


def seconds(text: str) -> float:
    """The seconds of a span such as `2h`.

    Raises:
        click.BadParameter: it is none.
    """
    found = SPAN.match(text.strip())
    if not found:
        raise click.BadParameter(f"{text!r} is no span; write for example 10m, 2h, 30d")
    return int(found[1]) * UNITS[found[2]]


def since(text: str | None, *, now: str) -> str | None:
    """The UTC text of a span before `now`, or of a date or time in the person's zone.

    Raises:
        click.BadParameter: it is neither.
    """
    if text is None:
        return None
    try:
        if SPAN.match(text.strip()):
            return timestamps.after(now, seconds=-seconds(text))
        at = datetime.fromisoformat(text)
        return timestamps.to_text(at if at.tzinfo else at.astimezone())
    except (ValueError, OverflowError):
        raise click.BadParameter(f"{text!r} is no time; write for example 30d, 2h, 2026-12-01") from None


def until(text: str | None, *, now: str) -> str | None:
    """The UTC text of a span after `now`."""
    return None if text is None else timestamps.to_text(timestamps.from_text(now) + timedelta(seconds=seconds(text)))
