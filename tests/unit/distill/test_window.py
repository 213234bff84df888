"""Windows: within their size, in order, no half pairs, own words last."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from distiller.distill.window import cut, size
from distiller.vocabulary import Redacted, Role, Row, WaitingText

PARTS = st.sampled_from(["own", "pasted", "injected", "assistant", "pair"])


def row(number: int, part: str, text: str, *, call_id: str | None = None, previous: bool = False) -> Row:
    """A row of a turn."""
    role = Role.USER if part in ("own", "pasted", "injected", "result") else Role.ASSISTANT
    name = "Bash" if part == "call" else None
    return msgspec.convert(
        {
            "number": number, "message_id": f"m{number}", "role": role, "part": part, "text": text,
            "call_id": call_id, "name": name, "previous": previous,
        },
        Row,
    )  # fmt: skip


@st.composite
def turns(draw: st.DrawFn) -> WaitingText:
    """Turns of rows of any length; calls come with their results."""
    rows: list[Row] = []
    for part in draw(st.lists(PARTS, max_size=12)):
        text = draw(st.text(max_size=40)) * draw(st.integers(1, 60))
        if part == "pair":
            rows.append(row(0, "call", text, call_id=f"c{len(rows)}"))
            rows.append(row(0, "result", draw(st.text(max_size=40)) * 60, call_id=rows[-1].call_id))
        else:
            rows.append(row(0, part, text))
    return WaitingText(tuple(rows), "2026-12-01")


@given(turns(), st.integers(0, 3000), st.none() | st.text(max_size=2000))
def test_a_window_keeps_its_size_its_order_and_whole_pairs(text: WaitingText, tokens: int, note: str | None) -> None:
    """Property 7: never over the budget, original order, a call if and only if its result."""
    window = cut(text, note=None if note is None else Redacted(note), tokens=tokens)

    numbers = [one.number for one in window.rows]
    calls = {one.call_id for one in window.rows if one.part == "call"}
    results = {one.call_id for one in window.rows if one.part == "result"}
    assert size(window) <= tokens
    assert numbers == sorted(numbers)
    assert calls == results
    assert window.cut == len(text.rows) - len(window.rows)


@given(turns(), st.integers(200, 3000))
def test_own_words_are_cut_only_when_nothing_else_is_left(text: WaitingText, tokens: int) -> None:
    """Property 7: as long as any other row is shown whole-size, every own word stands there verbatim."""
    window = cut(text, note=None, tokens=tokens)

    shown = {one.number: one.text for one in window.rows}
    own = {number: one.text for number, one in enumerate(text.rows, 1) if one.part == "own"}
    if any(one.part != "own" for one in window.rows):
        assert {number: shown.get(number) for number in own} == own


def test_tool_results_go_before_calls_and_calls_before_text() -> None:
    """A budget that is too small takes the result first and marks the gap in it."""
    rows = (row(0, "own", "do it"), row(0, "call", "run", call_id="c"), row(0, "result", "x" * 9000, call_id="c"))

    window = cut(WaitingText(rows), note=None, tokens=150)

    assert [one.part for one in window.rows] == ["own", "call", "result"]
    assert window.rows[:2] == tuple(msgspec.structs.replace(one, number=n) for n, one in enumerate(rows[:2], 1))
    assert "characters left out" in window.rows[2].text
    assert window.rows[2].name == "Bash"


def test_rows_of_earlier_turns_stay_marked_as_background() -> None:
    """What the person said in an earlier turn is no evidence in this one, however it came into the window."""
    rows = (row(0, "own", "always use tabs", previous=True), row(0, "own", "and now the tests"))

    window = cut(WaitingText(rows), note=None, tokens=500, previous=(row(0, "assistant", "Shall I?"),))

    assert [(one.number, one.previous) for one in window.rows] == [(1, True), (2, True), (3, False)]


def test_a_cut_falls_between_code_points() -> None:
    """Emoji and other wide characters are never halved (F49)."""
    window = cut(WaitingText((row(0, "own", "😀é" * 4000),)), note=None, tokens=300)

    assert window.rows[0].text.encode().decode() == window.rows[0].text
    assert set(window.rows[0].text) <= set("😀é\n[… 0123456789characterslftou]")
