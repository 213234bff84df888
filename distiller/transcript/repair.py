"""Parts of messages in file order in, whole messages out that satisfy the Messages API's pairing rule.

Agents write one API message as several lines, put results between them, in order of completion, and lose some when they
are killed. The rule: each tool call is answered in the very next user message, and results stand nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from distiller.vocabulary import Block, Message, Role, Text, ToolCall, ToolResult

NO_RESULT = msgspec.Raw(b'"No result of this tool call was recorded."')


def repair(parts: Sequence[Message]) -> tuple[Message, ...]:
    """Join parts of one message id, put results behind their calls, make up missing ones, drop stray ones.

    A message stands where its first part stood; user text keeps its place but never parts a call from its results.
    Calling it on its own output changes nothing.
    """
    said = _joined(parts)
    results = _first_results(parts)
    whole: list[Message] = []
    for part in parts:
        if part.role is Role.ASSISTANT:
            blocks = said.pop(part.id, None)
            if blocks:
                whole.append(_with_blocks(part, blocks))
                whole.extend(_answers(part, blocks, results))
        elif texts := tuple(block for block in part.blocks if type(block) is Text):
            whole.append(_with_blocks(part, texts))
    return tuple(whole)


def pairing_fault(messages: Iterable[Message]) -> str | None:
    """What breaks the pairing rule in `messages`, or None."""
    called: list[str] = []
    for number, message in enumerate(messages):
        answered = [block.tool_use_id for block in message.blocks if isinstance(block, ToolResult)]
        calls = [block.id for block in message.blocks if isinstance(block, ToolCall)]
        if sorted(answered) != sorted(called):
            return f"message {number}: results {sorted(answered)} do not match calls {sorted(called)}"
        if calls and message.role is Role.USER:
            return f"message {number}: a call in a user message"
        if len(set(calls)) < len(calls):
            return f"message {number}: a call id twice"
        called = calls
    return f"the last message's calls {sorted(called)} have no results" if called else None


def _joined(parts: Sequence[Message]) -> dict[str, tuple[Block, ...]]:
    """Blocks of each assistant message id, in order, repeated blocks and call ids left out."""
    said: dict[str, tuple[Block, ...]] = {}
    calls: set[str] = set()
    for part in parts:
        if part.role is not Role.ASSISTANT:
            continue
        before = said.get(part.id, ())
        fresh: list[Block] = []
        for block in part.blocks:
            if type(block) is ToolCall:
                if block.id not in calls:
                    calls.add(block.id)
                    fresh.append(block)
            elif type(block) is Text and block not in before:
                fresh.append(block)
        said[part.id] = (*before, *fresh)
    return said


def _first_results(parts: Sequence[Message]) -> dict[str, tuple[Message, ToolResult]]:
    results: dict[str, tuple[Message, ToolResult]] = {}
    for part in parts:
        if part.role is Role.USER:
            for block in part.blocks:
                if type(block) is ToolResult:
                    results.setdefault(block.tool_use_id, (part, block))
    return results


def _answers(
    asked: Message, blocks: tuple[Block, ...], results: dict[str, tuple[Message, ToolResult]]
) -> Iterable[Message]:
    """The one user message that answers the calls in `blocks`; none where nothing was called."""
    calls = [block for block in blocks if type(block) is ToolCall]
    if not calls:
        return ()
    found = [results[call.id] for call in calls if call.id in results]
    answers = tuple(
        results[call.id][1] if call.id in results else ToolResult(call.id, NO_RESULT, is_error=True, synthetic=True)
        for call in calls
    )
    name, at = (found[0][0].id, found[0][0].at) if found else (f"{asked.id}#results", None)
    return (Message(name, Role.USER, answers, at),)


def _with_blocks(message: Message, blocks: tuple[Block, ...]) -> Message:
    if blocks == message.blocks:
        return message
    return Message(message.id, message.role, blocks, message.at, message.origin)
