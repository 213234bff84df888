"""A turn in, what the run record keeps of it out: which tools were called, how it went."""

from __future__ import annotations

from distiller.vocabulary import EndSign, ToolCall, ToolResult, Turn

_OUTCOMES = {
    EndSign.MARKED: "done",
    EndSign.SETTLED: "done",
    EndSign.SETTLED_WEAK: "done",
    EndSign.NEXT_PROMPT: "done",
    EndSign.FAILED: "error",
}


def tool_calls(turn: Turn) -> tuple[tuple[str, bool], ...]:
    """(name, went well) of each call in order; a call without result did not go well."""
    went = {
        block.tool_use_id: not block.is_error
        for message in turn.messages
        for block in message.blocks
        if isinstance(block, ToolResult)
    }
    return tuple(
        (block.name, went.get(block.id, False))
        for message in turn.messages
        for block in message.blocks
        if isinstance(block, ToolCall)
    )


def outcome(turn: Turn) -> str | None:
    """`done`, `turn_limit`, `budget`, `error`: the agent's own word, else what its end tells; None if cut off."""
    return turn.outcome or _OUTCOMES.get(turn.end_sign)
