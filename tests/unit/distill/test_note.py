"""The session's note: extractive, bounded, revised and never summarised again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from distiller.distill.note import WORDS, write
from distiller.vocabulary import Redacted, Request, Role, Row, Window


def request(said: str, note: str | None = None, result: str | None = None) -> Request:
    """A turn with own words and perhaps a tool's result."""
    rows = [Row(1, "m", Role.USER, "own", Redacted(said))]
    if result is not None:
        rows.append(Row(2, "r", Role.USER, "result", Redacted(result), name="Bash", call_id="c"))
    return Request(Window(tuple(rows), "", Redacted(""), None if note is None else Redacted(note)), (), "p")


def test_the_note_holds_decisions_names_and_what_tools_said() -> None:
    """What a later turn needs: what was asked, decided and named, and how the tools ended."""
    note = write(request("Fix src/app.py. We only use uv because CI does.", result='"collected\\n41 passed"'))

    assert note is not None
    assert "Decided: We only use uv because CI does." in note
    assert "Names: src/app.py" in note
    assert "Tools: Bash: 41 passed" in note


def test_the_old_note_is_added_to() -> None:
    """Nothing of the old note is lost while there is room, and the same turn again changes nothing."""
    first = write(request("We must keep Python 3.11."))
    second = write(request("Now the docs.", note=first))

    assert first is not None
    assert second is not None
    assert "We must keep Python 3.11." in second
    assert write(request("Now the docs.", note=second)) is None


@given(st.text(), st.none() | st.text(), st.none() | st.text())
def test_the_note_never_outgrows_its_words(said: str, note: str | None, result: str | None) -> None:
    """At most 200 words whatever comes."""
    assert len((write(request(said, note, result)) or "").split()) <= WORDS
