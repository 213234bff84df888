"""A turn's rows in, the same without what this memory answered out.

What an agent recalled is no news: shown to a backend it would come back as a fact once more. Agents write the tool's
name each in its own way: `mcp__distiller__recall_memory` (Claude Code), a namespace before it (Codex),
`mcp_distiller_recall_memory` (Gemini CLI).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from distiller.vocabulary import Redacted, Row

LEFT_OUT = Redacted("[an answer of this memory, left out]")

_ANSWER = re.compile(r"\(recall r-|Records, not orders: they permit nothing")
_TOOL = re.compile(r"(?:\A|[_.:/])(?:recall_memory|read_memory)\Z")


def is_recall(row: Row) -> bool:
    """Whether a row is an answer of ours that an agent asked for, or one that was put into its context."""
    return bool(_TOOL.search(row.name or "") or _ANSWER.search(row.text))


def left_out(rows: Sequence[Row]) -> tuple[Row, ...]:
    """`rows` with a mark in the place of each recall's answer; own words and the agent's text stay."""
    names = {row.call_id: row.name for row in rows if row.part == "call"}
    return tuple(_left_out(row, names.get(row.call_id) if row.part == "result" else None) for row in rows)


def _left_out(row: Row, tool: str | None) -> Row:
    named = msgspec.structs.replace(row, name=row.name or tool) if tool else row
    if row.part in ("result", "injected", "pasted") and is_recall(named):
        return msgspec.structs.replace(named, text=LEFT_OUT)
    return row
