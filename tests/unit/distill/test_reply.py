"""Replies: whatever a backend says, nothing raises and no prose becomes a fact."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.distill.reply import ANSWER_SCHEMA, Answer, Unusable, read

ITEM: dict[str, Any] = {
    "op": "add", "near": None, "slug": "package-manager", "kind": "project", "scope": "project", "summary": "pnpm",
    "body": "pnpm only.", "related": [], "strength": "stated", "valid_until": None,
    "evidence": [{"row": 1, "role": "user", "quote": "pnpm only"}],
}  # fmt: skip
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.text())
def test_no_text_raises(text: str) -> None:
    """Property 8: anything is read or unusable."""
    assert isinstance(read(text), Answer | Unusable)


@given(st.lists(JSON, max_size=4), st.booleans(), JSON, JSON)
def test_every_item_is_read_or_refused(items: list[Any], good: bool, note: Any, reason: Any) -> None:  # noqa: FBT001 - hypothesis draws it
    """Property 8: items read and items refused are the items that came."""
    facts = [*items, *([ITEM] if good else [])]

    answer = read(json.dumps({"facts": facts, "session_note": note, "empty_reason": reason}))

    if isinstance(answer, Answer):
        assert len(answer.facts) + len(answer.refusals) == len(facts)
    else:
        assert facts


@pytest.mark.parametrize(
    "text",
    ['{"facts":[]}', '```json\n{"facts":[]}\n```', '{"facts":[]}\nThat is all I found.', 'Here you are: {"facts": []}'],
)
def test_an_empty_answer_is_a_result_however_it_is_wrapped(text: str) -> None:
    """F57: plain, fenced or with words around it, an empty list of facts is an answer."""
    assert read(text) == Answer()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "You have hit your monthly spend limit",
        "<html>502</html>",
        '{"facts":[',
        '["facts"]',
        '{"haiku": "…"}',
        '"facts"',
    ],
)
def test_prose_and_torn_json_are_unusable(text: str) -> None:
    """F20, F58: what is no answer is a failure with a reason, never a result."""
    answer = read(text)

    assert isinstance(answer, Unusable)
    assert answer.reason


def test_an_answer_of_which_nothing_can_be_read_is_unusable() -> None:
    """F56: facts that miss their fields are no empty result."""
    assert isinstance(read('{"facts":[{"slug":"x"}]}'), Unusable)


def test_a_broken_item_beside_a_good_one_is_refused() -> None:
    """One bad item costs only itself."""
    answer = read(json.dumps({"facts": [ITEM, {"slug": "half"}]}))

    assert isinstance(answer, Answer)
    assert [item.slug for item in answer.facts] == ["package-manager"]
    assert [(one.code, one.slug) for one in answer.refusals] == [("schema", "half")]


def test_half_surrogates_in_escapes_are_replaced() -> None:
    """F49: an escape cannot smuggle in what no store takes."""
    answer = read(json.dumps({"facts": [{**ITEM, "body": "x"}]}).replace('"x"', '"\\ud83d x"'))

    assert isinstance(answer, Answer)
    answer.facts[0].body.encode()


def test_the_schema_allows_no_other_keys() -> None:
    """The schema that models are held to is closed on every level and asks for every key."""
    item = ANSWER_SCHEMA["$defs"]["item"]

    for level in (ANSWER_SCHEMA, item, item["properties"]["evidence"]["items"]):
        assert level["additionalProperties"] is False
        assert level["required"] == list(level["properties"])
    assert set(item["properties"]) == set(ITEM)
