"""Whatever stands in a line, nothing raises and what comes after it is read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.transcript.session import SessionReader
from distiller.vocabulary import Turn
from tests.fakes.sessions import ClaudeSession

LATER = "2030-01-01T00:00:00.000Z"
CODEX = (
    {"timestamp": "2026-12-01T09:00:00.000Z", "type": "session_meta",
     "payload": {"id": "s", "cwd": "/work", "originator": "codex-tui", "source": "cli"}},
    {"timestamp": "2026-12-01T09:00:01.000Z", "type": "turn_context",
     "payload": {"turn_id": "t1", "model": "m", "cwd": "/work"}},
    {"timestamp": "2026-12-01T09:00:02.000Z", "type": "event_msg",
     "payload": {"type": "user_message", "message": "Use uv here."}},
    {"timestamp": "2026-12-01T09:00:03.000Z", "type": "response_item",
     "payload": {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "c1"}},
    {"timestamp": "2026-12-01T09:00:04.000Z", "type": "response_item",
     "payload": {"type": "function_call_output", "call_id": "c1", "output": "ok"}},
)  # fmt: skip
NEUTRAL = (
    {"id": "m1", "role": "user", "timestamp": "2026-12-01T09:00:00.000Z", "content": "Use uv here."},
    {"id": "m2", "role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "Bash", "input": {}}]},
    {"role": "tool", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]},
    {"type": "turn_end", "status": "done", "timestamp": "2026-12-01T09:00:41.000Z"},
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def claude() -> list[dict[str, Any]]:
    """Lines of a turn."""
    session = ClaudeSession()
    session.prompt("Use uv here.")
    session.call("c1", "Bash", {"command": "ls"})
    session.result("c1", "ok")
    session.say("Done.")
    session.end()
    return [json.loads(line) for line in bytes(session).splitlines()]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places inside a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    """The JSON value with `new` at `path`."""
    if not path:
        return new
    if isinstance(value, dict):
        return value | {path[0]: put(value[path[0]], path[1:], new)}
    return [put(item, path[1:], new) if place == path[0] else item for place, item in enumerate(value)]


@pytest.mark.parametrize("agent", ["claude_code", "codex", "neutral"])
@given(data=st.data())
def test_any_value_at_any_place_of_a_line_raises_nothing(agent: str, data: st.DataObject) -> None:
    """One field of one line holds anything at all: reading goes on and never raises."""
    kinds: dict[str, list[Any]] = {"claude_code": claude(), "codex": list(CODEX), "neutral": list(NEUTRAL)}
    lines = kinds[agent]
    number = data.draw(st.integers(0, len(lines) - 1))
    place = data.draw(st.sampled_from(places(lines[number])))
    lines[number] = put(lines[number], place, data.draw(JSON))
    good = ClaudeSession("22222222-0000-4000-8000-000000000002")
    text = b"".join(json.dumps(line).encode() + b"\n" for line in lines)

    reader = SessionReader(agent, "/s/11111111-0000-4000-8000-000000000001.jsonl")
    found = reader.feed(text + (good.turn("Say it.") if agent == "claude_code" else b""))
    found += reader.finish(now=LATER, grown_at=None)

    assert reader.session.agent == agent
    if agent == "claude_code":
        assert any(isinstance(turn, Turn) and turn.key.startswith("claude_code:22222222") for turn in found)
