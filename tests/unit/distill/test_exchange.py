"""What is sent to a provider, and what of its words is believed and told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.distill import exchange, prompt
from distiller.distill.exchange import Fixes, Refusal, error_of, told_of, user_text
from distiller.errors import BackendError, BackendUnavailableError
from distiller.vocabulary import Redacted, Request, Role, Row, Window

WINDOW = Window((Row(1, "m1", Role.USER, "own", Redacted("Use uv.")),), "2026-12-01", Redacted("/work"))
FIXES = Fixes("set a key", "choose a model")


def test_a_prompt_that_is_written_is_sent_as_it_stands() -> None:
    """What a pass records is what the model saw."""
    assert user_text(Request(WINDOW, (), "p", Redacted("as written"))) == "as written"


def test_a_request_without_prompt_gets_one() -> None:
    """A window alone is enough to ask."""
    assert user_text(Request(WINDOW, (), "p")) == prompt.write(WINDOW, ())


def test_a_second_question_ends_with_one_full_stop() -> None:
    """A reason may come with or without its full stop."""
    text = user_text(Request(WINDOW, (), "p", Redacted("as written"), repair="It was prose."))

    assert text.startswith("as written\n\n")
    assert "could not be used: It was prose. Answer" in text


@given(st.integers(100, 999), st.text(), st.text())
def test_any_refusal_is_an_error_in_one_line(status: int, kind: str, message: str) -> None:
    """Whatever a server says, a call that reached it ends with an error that can be shown."""
    error = error_of(Refusal(status, kind, message), user="the turn", fixes=FIXES)

    assert isinstance(error, BackendError)
    assert error.calls == 1
    assert len(str(error).splitlines()) == 1


@given(st.text(min_size=20), st.text(max_size=40), st.text(max_size=40))
def test_no_run_of_the_turn_is_told(turn: str, before: str, after: str) -> None:
    """However a message is put together, 20 characters of the turn in a row never stand in what is told."""
    told = told_of(before + turn + after, turn)
    flat = " ".join(turn.split())

    assert not any(told[start : start + 20] in flat for start in range(len(told) - 19))
    assert len(told) <= 120


@pytest.mark.parametrize("status", [429, 529, 503])
def test_a_wait_that_a_server_asks_for_is_kept(status: int) -> None:
    """It is obeyed in full, whatever the status."""
    error = error_of(Refusal(status, retry_after_seconds=90_000), user="", fixes=FIXES)

    assert isinstance(error, BackendUnavailableError)
    assert error.retry_after_seconds == 90_000


def test_a_guess_counts_the_fixed_part() -> None:
    """A short turn is not a cheap call."""
    assert exchange.guess_tokens("") > 1500
