"""Session files made up line by line, for tests: what Claude Code would have written."""

from __future__ import annotations

import json
from typing import Any

from distiller import timestamps
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import Message, Origin, Text, ToolResult, Turn, Withdrawn

START = "2026-12-01T09:00:00.000Z"
LONG_AFTER = "2026-12-20T00:00:00.000Z"


def line(value: object) -> bytes:
    """One line of a file."""
    return json.dumps(value, ensure_ascii=False).encode() + b"\n"


class Claude:
    """Writes a session as Claude Code 2.1.2xx does, one second a line; each method adds one line and gives its uuid."""

    def __init__(self, session: str = "s1", *, cwd: str = "/work/acme", prefix: str = "u", **common: Any) -> None:
        self.lines: list[bytes] = []
        self.at = START
        self.parent: str | None = None
        self._common = {"sessionId": session, "cwd": cwd, "version": "2.1.300", "userType": "external", **common}
        self._prefix = prefix
        self._messages = 0

    @property
    def raw(self) -> bytes:
        """The file."""
        return b"".join(self.lines)

    def add(self, kind: str, *, after: float = 1, **fields: Any) -> str:
        """Any tree line."""
        self.at = timestamps.after(self.at, seconds=after)
        uuid = str(fields.pop("uuid", f"{self._prefix}{len(self.lines)}"))
        tree = {"parentUuid": self.parent, "isSidechain": False, "type": kind, "uuid": uuid, "timestamp": self.at}
        self.lines.append(line({**tree, **self._common, **fields}))
        self.parent = uuid
        return uuid

    def raw_line(self, raw: bytes) -> None:
        """A line that this class would not write."""
        self.lines.append(raw)

    def prompt(self, text: Any, **fields: Any) -> str:
        """What the person typed."""
        return self.add("user", message={"role": "user", "content": text}, **fields)

    def says(self, *blocks: Any, stop: str | None = "end_turn", message: str | None = None, **fields: Any) -> str:
        """A part of an assistant message: strings are text, the rest are blocks."""
        if message is None:
            self._messages += 1
            message = f"{self._prefix}-msg{self._messages}"
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        said = {"id": message, "role": "assistant", "model": "some-model", "content": content, "stop_reason": stop}
        return self.add("assistant", message={**said, **fields.pop("said", {})}, **fields)

    def calls(self, *ids: str, name: str = "Bash", message: str | None = None, **fields: Any) -> str:
        """An assistant line that calls tools."""
        blocks = [{"type": "tool_use", "id": call, "name": name, "input": {"command": "ls"}} for call in ids]
        return self.says(*blocks, stop=fields.pop("stop", "tool_use"), message=message, **fields)

    def result(self, call: str, content: Any = "ok", *, is_error: bool = False, **fields: Any) -> str:
        """A tool result."""
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        return self.add("user", message={"role": "user", "content": [block]}, **fields)

    def ends(self, **fields: Any) -> str:
        """The end mark of a terminal session."""
        return self.add("system", subtype="turn_duration", durationMs=1, **fields)


def read(raw: bytes, *, agent: str = "claude_code", path: str = "s1.jsonl", at_rest: bool = False) -> list[Turn]:
    """The finished turns of a file; with `at_rest` also those that long silence finishes."""
    reader = SessionReader(agent, path)
    out = reader.feed(raw)
    if at_rest:
        out += reader.finish(now=LONG_AFTER, grown_at=None)
    return turns(out)


def turns(out: list[Turn | Withdrawn]) -> list[Turn]:
    """Only the turns of what a reader gave."""
    return [item for item in out if isinstance(item, Turn)]


def texts(turn: Turn) -> list[str]:
    """All text of a turn, in order."""
    return [block.text for message in turn.messages for block in message.blocks if isinstance(block, Text)]


def results(message: Message) -> list[ToolResult]:
    """The tool results of one message."""
    return [block for block in message.blocks if isinstance(block, ToolResult)]


def said_by(turn: Turn, origin: Origin | None) -> list[str]:
    """The text that stands in a turn's messages of one origin."""
    return [block.text for m in turn.messages if m.origin is origin for block in m.blocks if isinstance(block, Text)]


def reader_of(raw: bytes, *, settle: Settle | None = None, **options: Any) -> tuple[SessionReader, list[Turn]]:
    """A reader that has taken in `raw`, and the turns it gave."""
    reader = SessionReader("claude_code", "s1.jsonl", settle=settle or Settle(), **options)
    return reader, turns(reader.feed(raw))
