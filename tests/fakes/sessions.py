"""Session files as Claude Code 2.1.333 writes them, made up by us, one call a line."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from typing import Any

from distiller import timestamps


class ClaudeSession:
    """Writes lines of one session; each method returns the bytes it adds, `bytes()` all of them."""

    def __init__(
        self, session_id: str = "11111111-0000-4000-8000-000000000001", *, cwd: str = "/work/app",
        at: str = "2026-12-01T09:00:00.000Z", uuids: Iterator[int] | None = None, **common: Any,
    ) -> None:  # fmt: skip
        self.session_id = session_id
        self.at = at
        self._cwd = cwd
        self._uuids = uuids or itertools.count(1)
        self._messages = itertools.count(1)
        self._prompts = itertools.count(0)
        self._parent: str | None = None
        self._common = common
        self._lines: list[bytes] = []

    def __bytes__(self) -> bytes:
        return b"".join(self._lines)

    def line(self, **fields: Any) -> bytes:
        """Any tree line."""
        uuid = f"{self.session_id[:8]}-aaaa-4000-8000-{next(self._uuids):012d}"
        whole = {
            "parentUuid": self._parent, "isSidechain": False, "userType": "external", "cwd": self._cwd,
            "sessionId": self.session_id, "version": "2.1.333", "gitBranch": "main", **self._common, **fields,
            "uuid": uuid, "timestamp": self.at,
        }  # fmt: skip
        self._parent = uuid
        return self.raw(whole)

    def raw(self, whole: dict[str, Any]) -> bytes:
        """Any line at all."""
        data = json.dumps(whole).encode() + b"\n"
        self._lines.append(data)
        return data

    def later(self, seconds: float) -> None:
        """Let time pass between lines."""
        self.at = timestamps.after(self.at, seconds=seconds)

    def prompt(self, text: str, **fields: Any) -> bytes:
        """What a person typed."""
        place = next(self._prompts)
        position = {"promptIndex": place, "turnIndex": place}
        more = {"promptSource": "typed", "turnPosition": position} | fields
        return self.line(type="user", message={"role": "user", "content": text}, **more)

    def say(self, text: str, *, stop: str | None = "end_turn", message: str | None = None) -> bytes:
        """A text block of the assistant."""
        return self.part({"type": "text", "text": text}, stop=stop, message=message)

    def call(self, call_id: str, name: str, tool_input: dict[str, Any], *, message: str | None = None) -> bytes:
        """A tool call."""
        block = {"type": "tool_use", "id": call_id, "name": name, "input": tool_input}
        return self.part(block, stop="tool_use", message=message)

    def part(self, block: dict[str, Any], *, stop: str | None, message: str | None = None) -> bytes:
        """One block of an assistant message; parts with the same `message` are one."""
        name = message or f"msg_{self.session_id[:8]}_{next(self._messages)}"
        whole = {"id": name, "type": "message", "role": "assistant", "model": "claude-test", "content": [block],
                 "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 1}}  # fmt: skip
        return self.line(type="assistant", requestId=f"req_{name}", message=whole)

    def result(self, call_id: str, content: Any, *, is_error: bool = False, **fields: Any) -> bytes:
        """A tool's answer."""
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}
        return self.line(type="user", message={"role": "user", "content": [block]}, **fields)

    def end(self) -> bytes:
        """The end mark of a terminal session."""
        return self.line(type="system", subtype="turn_duration", durationMs=1000)

    def turn(
        self, words: str, answer: str = "Done.", *, calls: Sequence[tuple[str, dict[str, Any], str]] = ()
    ) -> bytes:
        """A whole turn: prompt, tool calls (name, input, result), answer, end mark."""
        data = self.prompt(words)
        for number, (name, tool_input, result) in enumerate(calls):
            call_id = f"toolu_{self.session_id[:8]}_{next(self._messages)}_{number}"
            data += self.call(call_id, name, tool_input) + self.result(call_id, result)
        return data + self.say(answer) + self.end()
