"""A line of a neutral session file (docs/neutral-format.md) in, pieces of its conversation out.

The format that people write who feed an agent we do not know: Messages API shapes, one object a line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from distiller.transcript import tolerant
from distiller.transcript.pieces import About, End, Last, Malformed, Part, Piece, Prompt, Results, Unknown, Words
from distiller.transcript.times import local_date, normal
from distiller.vocabulary import (
    Block,
    EndSign,
    Message,
    Origin,
    PromptKind,
    Role,
    SessionRole,
    Text,
    ToolCall,
    ToolResult,
)

_Blocks = list[Text | ToolCall | ToolResult]
_ROLES = frozenset({"user", "assistant", "tool", "system"})
_ORIGINS = {str(origin): origin for origin in Origin if origin is not Origin.REFUSAL}
_SOURCES = {
    "person": SessionRole.PERSON,
    "program": SessionRole.PROGRAM,
    "subagent": SessionRole.SUBAGENT,
}
_SOURCE_ORIGINS = {"program": Origin.PROGRAM, "subagent": Origin.SUBAGENT}
_PROMPTING = frozenset({Origin.PERSON, Origin.PROGRAM, Origin.SUBAGENT})
_ENDS = {"aborted": EndSign.INTERRUPTED, "error": EndSign.FAILED}
_FOLDERS = ("cwd", "working_folder", "working_dir")


class _Line(msgspec.Struct, gc=False):
    role: str | None = None
    type: str | None = None
    id: str | None = None
    content: str | _Blocks = ""
    timestamp: str | None = None
    model: str | None = None
    cwd: str | None = None
    stop_reason: str | None = None
    origin: str | None = None
    status: str | None = None
    outcome: str | None = None
    cost_usd: float | None = None


_decoder = msgspec.json.Decoder(_Line)


def matches(lines: list[dict[str, Any]], _path: str) -> bool:
    """Whether one of `lines` has a role and content, or ends a turn, and no other agent's `type`."""
    return any(
        line.get("type") == "turn_end" or (line.get("role") in _ROLES and "content" in line and "type" not in line)
        for line in lines
    )


def parser(path: str, side: dict[str, Any]) -> Parser:
    """A parser for the file at `path` with its side file."""
    return Parser(path, side)


class Parser:
    """Reads one file; it remembers only how many lines it has read."""

    def __init__(self, path: str, side: dict[str, Any]) -> None:
        known = {key: value for key, value in side.items() if isinstance(value, str) and value}
        self._side = known
        self._stem = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl")
        self._origin = _SOURCE_ORIGINS.get(known.get("source", ""), Origin.PERSON)
        self._count = 0
        self.readers: dict[type, Callable[[Any], Sequence[Piece]]] = {_Line: self._read}

    @property
    def opening(self) -> About:
        """What the side file tells; without one the file's stem is the session's id."""
        side = self._side
        return About(
            id=side.get("id", self._stem),
            root_id=side.get("forked_from") or side.get("parent_id"),
            parent_id=side.get("parent_id"),
            role=_SOURCES.get(side.get("source", "")),
            title=side.get("title"),
            cwd=next((side[key] for key in _FOLDERS if key in side), None),
            model=side.get("model"),
            at=normal(side.get("created_at")),
            updated_at=normal(side.get("updated_at")),
        )

    decode = staticmethod(_decoder.decode_lines)

    def parse(self, raw: bytes) -> Sequence[Piece]:
        """What one line contributes, whatever stands on it."""
        try:
            return self._read(_decoder.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            return self._odd(raw)

    def _odd(self, raw: bytes) -> Sequence[Piece]:
        found = tolerant.objects(raw)
        if not found:
            return (Malformed(),) if raw.strip() else ()
        pieces: list[Piece] = []
        for value in found:
            pieces.extend(Unknown(f"block/{name}"[:80]) for name in _unknown_blocks(value))
            pieces.extend(self._read(tolerant.fit(value, _Line)))
        return pieces

    def _read(self, line: _Line) -> Sequence[Piece]:
        self._count += 1
        match line.role:
            case "user" | "tool" | "assistant" if not line.content:
                return ()
            case "user" | "tool":
                return self._user(line)
            case "assistant":
                return (self._assistant(line),)
            case "system":
                return ()  # never read
            case None if line.type == "turn_end":
                sign = _ENDS.get(line.status or "", EndSign.MARKED)
                return (End(sign, normal(line.timestamp), outcome=line.outcome, cost_usd=line.cost_usd),)
            case _:
                return (Unknown(f"{line.role or line.type}"[:80]),)

    def _unnamed(self) -> str:
        """An id for a message that has none: its place in the file."""
        return f"{self._stem}#{self._count}"

    def _assistant(self, line: _Line) -> Piece:
        content = [Text(line.content)] if isinstance(line.content, str) else line.content
        blocks = tuple(_own(block) for block in content if type(block) is not ToolResult)
        last = (Last.CALL if type(blocks[-1]) is ToolCall else Last.TEXT) if blocks else Last.THINKING
        message = Message(line.id or self._unnamed(), Role.ASSISTANT, blocks, normal(line.timestamp))
        return Part(message, last, line.stop_reason, line.model)

    def _user(self, line: _Line) -> Sequence[Piece]:
        content = [Text(line.content)] if isinstance(line.content, str) else line.content
        at = normal(line.timestamp)
        name = line.id or self._unnamed()
        results = tuple(_own(block) for block in content if type(block) is ToolResult)
        texts = tuple(block for block in content if type(block) is Text)
        pieces: list[Piece] = [Results(Message(name, Role.USER, results, at))] if results else []
        if texts and line.role == "user":
            pieces.append(self._spoken(line, name, texts, at, beside_results=bool(results)))
        return pieces

    def _spoken(
        self, line: _Line, name: str, texts: tuple[Text, ...], at: str | None, *, beside_results: bool
    ) -> Piece:
        """Text of a `user` line: a prompt, or words that join the running turn."""
        origin = _ORIGINS.get(line.origin or "", Origin.INJECTED) if line.origin else self._origin
        message = Message(name, Role.USER, texts, at, origin)
        if beside_results or origin not in _PROMPTING:
            return Words(message)
        return Prompt(message, PromptKind.TYPED, turn=line.id, cwd=line.cwd, local_date=local_date(line.timestamp))


def _own(block: Block) -> Block:
    """`block` with a clean copy of the JSON that decoding left alone."""
    if type(block) is ToolCall:
        return ToolCall(block.id, block.name, tolerant.clean_json(block.input))
    if type(block) is ToolResult:
        return ToolResult(block.tool_use_id, tolerant.clean_json(block.content), block.is_error)
    return block


def _unknown_blocks(value: dict[str, Any]) -> list[str]:
    content = value.get("content")
    kinds = [block.get("type") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [str(kind) for kind in kinds if kind not in ("text", "tool_use", "tool_result")]
