"""Values in, text for a terminal or JSON for a program out.

Facts and transcripts are foreign text: control characters are shown, never sent to the terminal.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]")


class Styled(NamedTuple):
    """Text with a look."""

    text: str
    how: dict[str, Any]


def style(text: str, **how: Any) -> Styled:
    """Text with a look (`fg`, `bold`, `dim`), for `say`."""
    return Styled(text, how)


def say(*parts: str | Styled, err: bool = False) -> None:
    """Print parts on one line: the one way to a terminal, so no foreign text gets there unclean.

    Coloured where a person looks on and did not say NO_COLOR.
    """
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    texts = [
        click.style(clean(part.text), **part.how) if isinstance(part, Styled) and coloured else clean(text_of(part))
        for part in parts
    ]
    click.echo("".join(texts), err=err)


def text_of(part: str | Styled) -> str:
    """The text of a part."""
    return part.text if isinstance(part, Styled) else part


def print_json(value: Any) -> None:
    """One JSON value; indented for eyes, on one line for a pipe; nothing in it moves a terminal."""
    data = msgspec.json.encode(value)
    text = (msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data).decode("utf-8", "replace")
    click.echo(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def clean(text: str) -> str:
    """Foreign text that can do nothing to a terminal: control characters and direction marks are shown."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def one_line(text: str, width: int) -> str:
    """At most `width` characters on one line."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: max(0, width - 1)] + "…"


def width() -> int:
    """Columns of the terminal; 100 in a pipe."""
    if not sys.stdout.isatty():
        return 100
    return max(40, min(os.get_terminal_size().columns, 160))


def local(at: str | None, *, zone: bool = False) -> str:
    """A time for eyes, in the person's zone; a dash for none."""
    if not at:
        return "-"
    here = datetime.fromisoformat(at).astimezone()
    return here.strftime("%Y-%m-%d %H:%M %Z" if zone else "%Y-%m-%d %H:%M")


def table(rows: Iterable[Sequence[str]], head: Sequence[str]) -> None:
    """Columns as wide as they must be; the last takes what is left and is cut, never wrapped."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max([len(head[at]), *(len(row[at]) for row in cells)]) for at in range(len(head) - 1)]
    left = max(20, width() - sum(widths) - 2 * len(widths))
    say(style("  ".join([*(f"{name:<{wide}}" for name, wide in zip(head, widths, strict=False)), head[-1]]), bold=True))
    for row in cells:
        start = [f"{cell:<{wide}}" for cell, wide in zip(row, widths, strict=False)]
        say("  ".join([*start, one_line(row[-1], left)]).rstrip())


def size(count: int) -> str:
    """Bytes for eyes."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:  # noqa: PLR2004 -- a thousand
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count = count / 1000  # type: ignore[assignment]  # shown with one digit
    return f"{count:.1f} GB"


def usd(amount: float) -> str:
    """Money for eyes: cents, or what is left of a cent."""
    return f"${amount:.2f}" if amount == 0 or amount >= 0.1 else f"${amount:.4f}"  # noqa: PLR2004 -- ten cents


def plural(count: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
