"""Parts of messages in file order in, whole messages out that satisfy the Messages API's pairing rule.

Agents write one API message as several lines, put results between them, in order of completion, and lose some when they
are killed. The rule: each tool call is answered in the very next user message, and results stand nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from distiller.vocabulary import Block, Message, Role, Text, ToolCall, ToolResult

NO_RESULT = msgspec.Raw(b'"No result of this tool call was recorded."')


def repair(parts: Sequence[Message]) -> tuple[Message, ...]:
    """Join parts of one message id, put results behind their calls, make up missing ones, drop stray ones.

    A message stands where its first part stood; user text keeps its place but never parts a call from its results.
    Calling it on its own output changes nothing.
    """
    gathered = _Gathered()
    for part in parts:
        if part.role is Role.ASSISTANT:
            gathered.said(part)
        else:
            gathered.heard(part)
    return tuple(gathered.whole_messages())


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


class _Gathered:
    """The blocks of a turn on their way from parts into whole messages."""

    def __init__(self) -> None:
        self._order: list[tuple[Message, list[Block]]] = []  # the first part of each message, all blocks of it
        self._said: dict[str, list[Block]] = {}  # the same lists, by id of assistant messages
        self._called: set[str] = set()
        self._results: dict[str, tuple[Message, ToolResult]] = {}

    def said(self, part: Message) -> None:
        """Add a part of an assistant message; repeated texts and call ids leave no second block."""
        blocks = self._said.get(part.id)
        if blocks is None:
            blocks = self._said[part.id] = []
            self._order.append((part, blocks))
        for block in part.blocks:
            if type(block) is ToolCall:
                if block.id in self._called:
                    continue
                self._called.add(block.id)
            elif type(block) is not Text or block in blocks:
                continue
            blocks.append(block)

    def heard(self, part: Message) -> None:
        """Add a user message: results are kept for their calls, the first one wins; text keeps its place."""
        texts: list[Block] = []
        for block in part.blocks:
            if type(block) is ToolResult:
                self._results.setdefault(block.tool_use_id, (part, block))
            elif type(block) is Text:
                texts.append(block)
        if texts:
            self._order.append((part, texts))

    def whole_messages(self) -> Iterator[Message]:
        """What was gathered, in order; messages without a block are left out."""
        for first, blocks in self._order:
            if blocks:
                yield Message(first.id, first.role, tuple(blocks), first.at, first.origin)
                calls = [block.id for block in blocks if type(block) is ToolCall]
                if calls:
                    yield self._answer(first, calls)

    def _answer(self, asked: Message, calls: list[str]) -> Message:
        """The one user message that holds the results of `calls`, in call order."""
        name, at = None, None
        answers: list[ToolResult] = []
        for call in calls:
            source, result = self._results.get(call, (None, None))
            if source is None or result is None:
                answers.append(ToolResult(call, NO_RESULT, is_error=True, synthetic=True))
                continue
            answers.append(result)
            if name is None:
                name, at = source.id, source.at
        return Message(name or f"{asked.id}#results", Role.USER, tuple(answers), at)
