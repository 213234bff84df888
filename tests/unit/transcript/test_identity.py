"""Digests follow what was said and nothing else; the run record follows the tools."""

from __future__ import annotations

import pytest

from distiller.transcript import episode
from distiller.transcript.identity import digest, words_digest
from distiller.vocabulary import EndSign
from tests.unit.transcript.made_up import Claude, read


def session(prompt: str = "use uv", answer: str = "ok", *, name: str = "s1") -> Claude:
    """One short turn."""
    made = Claude(name)
    made.prompt(prompt)
    made.calls("t1")
    made.result("t1", is_error=True)
    made.calls("t2", name="Read")
    made.result("t2")
    made.says(answer)
    return made


def only(made: Claude) -> tuple[str, str]:
    """Both digests of its turn."""
    (turn,) = read(made.raw, at_rest=True)
    return digest(turn), words_digest(turn)


def test_what_the_assistant_says_changes_only_the_whole_digest() -> None:
    """A longer answer under a known key is no new turn: the person's words are the same."""
    (whole, words), (other_whole, other_words) = only(session()), only(session(answer="ok, done"))

    assert (whole != other_whole, words == other_words) == (True, True)


def test_own_words_change_both() -> None:
    """What was pasted beside them does not count as own."""
    assert only(session())[1] != only(session("use pip"))[1]
    assert only(session())[1] == only(session("use uv\n```\npaste\n```"))[1]


def test_times_places_and_sessions_change_neither() -> None:
    """Forks and copies re-stamp them."""
    moved = session(name="other")
    moved.lines = [b'{"type":"mode"}\n', *(raw.replace(b"2026-12-01", b"2025-01-01") for raw in moved.lines)]

    assert only(moved) == only(session())


def test_the_run_record_names_each_call_and_how_it_went() -> None:
    """In order, with the agent's own flag."""
    (turn,) = read(session().raw, at_rest=True)

    assert episode.tool_calls(turn) == (("Bash", False), ("Read", True))
    assert episode.outcome(turn) == "done"


@pytest.mark.parametrize(("marker", "sign"), [("[Request interrupted by user]", EndSign.INTERRUPTED)])
def test_what_was_cut_off_has_no_outcome(marker: str, sign: EndSign) -> None:
    """Neither done nor failed; a call without result did not go well."""
    made = Claude()
    made.prompt("go")
    made.calls("t1")
    made.prompt(marker)

    (turn,) = read(made.raw)

    assert (turn.end_sign, episode.outcome(turn), episode.tool_calls(turn)) == (sign, None, (("Bash", False),))
