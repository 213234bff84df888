"""Whatever order parts stand in, whole messages pair every call with its result."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.transcript.repair import pairing_fault, repair
from distiller.vocabulary import Block, Message, Origin, Role, Text, ToolCall, ToolResult

SHARED = Path(os.environ.get("DISTILLER_SHARED", Path(__file__).parents[4] / "shared"))


def said(name: str, *blocks: Block) -> Message:
    """A part of an assistant message."""
    return Message(name, Role.ASSISTANT, blocks)


def heard(name: str, *blocks: Block) -> Message:
    """A user message."""
    return Message(name, Role.USER, blocks, None, Origin.PERSON if isinstance(blocks[0], Text) else None)


def call(name: str) -> ToolCall:
    """A tool call."""
    return ToolCall(name, "Bash")


def result(name: str) -> ToolResult:
    """Its result."""
    return ToolResult(name, msgspec.Raw(b'"ok"'))


_ids = st.sampled_from("abcd")
_blocks = st.one_of(st.sampled_from(["x", "y", "z"]).map(Text), _ids.map(call))
_parts = st.one_of(
    st.builds(lambda name, blocks: said(name, *blocks), st.sampled_from("123"), st.lists(_blocks, max_size=3)),
    st.builds(lambda name, blocks: Message(name, Role.USER, tuple(blocks)), st.sampled_from("pqr"),
              st.lists(st.one_of(st.sampled_from(["v", "w"]).map(Text), _ids.map(result)), max_size=3)),
)  # fmt: skip


@given(st.lists(_parts, max_size=12))
def test_repair_pairs_is_idempotent_and_loses_no_block(parts: list[Message]) -> None:
    """Each call has one result in the next message; a second repair changes nothing; calls and user text all stay."""
    whole = repair(parts)

    assert pairing_fault(whole) is None
    assert repair(whole) == whole
    assert _calls(whole) == _calls(parts)
    assert _user_texts(whole) == _user_texts(parts)
    assert _texts_by_message(whole) == _texts_by_message(parts)


def _calls(messages: Any) -> set[str]:
    return {block.id for m in messages for block in m.blocks if isinstance(block, ToolCall)}


def _user_texts(messages: Any) -> Counter[str]:
    return Counter(b.text for m in messages if m.role is Role.USER for b in m.blocks if isinstance(b, Text))


def _texts_by_message(messages: Any) -> set[tuple[str, str]]:
    return {(m.id, b.text) for m in messages if m.role is Role.ASSISTANT for b in m.blocks if isinstance(b, Text)}


def test_parts_of_one_message_are_joined_though_results_stand_between() -> None:
    """F26, F74: results follow their calls in call order, whatever order they were written in."""
    parts = [
        heard("p", Text("do")),
        said("m", Text("I will"), call("1")),
        heard("r1", result("1")),
        said("m", call("2"), call("3")),
        heard("r3", result("3")),
        heard("r2", result("2")),
    ]

    prompt, answer, results = repair(parts)

    assert prompt.blocks == (Text("do"),)
    assert answer.blocks == (Text("I will"), call("1"), call("2"), call("3"))
    assert (results.id, results.blocks) == ("r1", (result("1"), result("2"), result("3")))


def test_a_lost_result_is_made_up_and_marked_and_a_stray_one_dropped() -> None:
    """A call that was killed still gets an answer, so that the turn can be shown to a model."""
    _, results = repair([said("m", call("1")), heard("r", result("9"))])

    (made_up,) = results.blocks
    assert isinstance(made_up, ToolResult)
    assert (made_up.tool_use_id, made_up.is_error, made_up.synthetic) == ("1", True, True)
    assert b"No result" in bytes(made_up.content)


def test_words_typed_meanwhile_never_part_a_call_from_its_result() -> None:
    """What the person typed while a tool ran comes after the result."""
    parts = [said("m", call("1")), heard("w", Text("faster")), heard("r", result("1"))]

    assert [message.id for message in repair(parts)] == ["m", "r", "w"]


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([said("m", call("1"))], "no results"),
        ([said("m", call("1")), heard("w", Text("x"))], "do not match"),
        ([heard("r", result("1"))], "do not match"),
        ([said("m", call("1"), call("1")), heard("r", result("1"), result("1"))], "twice"),
        ([Message("u", Role.USER, (call("1"),)), heard("r", result("1"))], "call in a user message"),
    ],
)
def test_the_validator_finds_faults(messages: list[Message], fault: str) -> None:
    """A validator that finds nothing would prove nothing."""
    assert fault in (pairing_fault(messages) or "")


@pytest.mark.skipif(not (SHARED / "tools").is_dir(), reason=f"no shared tools at {SHARED}")
@given(parts=st.lists(_parts, max_size=12))
def test_a_real_endpoint_would_take_it(parts: list[Message]) -> None:
    """The scripted Messages API, which refuses what the real one refuses, finds nothing unpaired."""
    messages = [
        {"role": m.role.value, "content": msgspec.to_builtins([_wire(b) for b in m.blocks])} for m in repair(parts)
    ]

    assert _scripted_anthropic().unpaired(messages) is None


def _wire(block: Block) -> dict[str, Any]:
    if isinstance(block, Text):
        return {"type": "text", "text": block.text}
    if isinstance(block, ToolCall):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": {}}
    return {"type": "tool_result", "tool_use_id": block.tool_use_id, "content": "ok"}


def _scripted_anthropic() -> Any:
    spec = importlib.util.spec_from_file_location("scripted_anthropic", SHARED / "tools" / "scripted_anthropic.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
