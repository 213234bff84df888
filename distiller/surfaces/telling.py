"""A log line's fields in, what a person or the journal reads out."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from distiller.service.places import project_name

JOURNAL_CHARACTERS = 2000
HEAD = ("time", "level", "event", "version", "pid")
JOURNAL_PRIORITY = {"debug": "<7>", "info": "<6>", "warning": "<4>", "error": "<3>"}


def readable(fields: Mapping[str, Any]) -> tuple[str, str]:
    """(head, rest) of a line for eyes: local time, level, event; then what says something."""
    at = datetime.fromisoformat(fields["time"]).astimezone().strftime("%m-%d %H:%M:%S") if "time" in fields else "?"
    event = str(fields.get("event", ""))
    head = f"{at} {fields.get('level', ''):<7} {event:<14}"
    return head, turn(fields) if event.startswith("turn.") and "outcome" in fields else pairs(fields)


def turn(fields: Mapping[str, Any]) -> str:
    """How a turn ended, in the order in which one asks."""
    reason = f" ({fields['reason']})" if fields.get("reason") else ""
    project = project_name(str(fields.get("project") or "-"))
    parts = [
        f"{fields.get('turn')} {fields['outcome']}{reason}",
        f"{fields.get('agent')} {str(fields.get('session'))[:8]} {project}",
        *(f"{name} {told(fields[name])}" for name in ("operations", "refused") if fields.get(name)),
        *([f"{fields['calls']} calls, ${fields.get('cost_usd') or 0:.4f}"] if fields.get("calls") else []),
        f"{fields.get('took_ms', 0)} ms",
    ]
    return ", ".join(parts)


def pairs(fields: Mapping[str, Any]) -> str:
    """`key=value` of all that is not empty."""
    return " ".join(
        f"{key}={told(value)}" for key, value in fields.items() if key not in HEAD and value not in (None, "", {}, 0)
    )


def told(value: Any) -> str:
    """A field's value; counts as `add:1,update:2`."""
    return ",".join(f"{key}:{count}" for key, count in value.items()) if isinstance(value, dict) else str(value)


def journal_line(fields: Mapping[str, Any]) -> str:
    """A line for the journal, which adds time, program and priority itself; short enough not to be cut in pieces."""
    event = str(fields.get("event", ""))
    rest = turn(fields) if event.startswith("turn.") and "outcome" in fields else pairs(fields)
    return f"{event} {rest}"[:JOURNAL_CHARACTERS]


def on_stderr() -> Callable[[Mapping[str, Any], bytes], None] | None:
    """How lines go to stderr: readable on a terminal, with priorities to the journal, else not at all."""
    if sys.stderr.isatty():
        return lambda fields, _line: print(
            "  ".join(readable(fields)).encode("ascii", "replace").decode(), file=sys.stderr
        )
    try:
        status = os.fstat(2)
    except OSError:
        return None
    if os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}":
        return lambda fields, _line: print(
            JOURNAL_PRIORITY[fields["level"]] + journal_line(fields).encode("ascii", "replace").decode(),
            file=sys.stderr,
        )
    return None
