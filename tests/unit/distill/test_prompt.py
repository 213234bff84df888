"""What a model is asked: its fixed part, its form, its size."""

from __future__ import annotations

import hashlib
import json
import re

from distiller.distill import prompt, reply, window
from distiller.vocabulary import NearFact, Redacted, Role, Row, WaitingText, Window

FIXED = {"1": "03efec7e02b319d2"}


def shown(*rows: Row, near: tuple[NearFact, ...] = (), language: str = "en") -> str:
    """The changing part for these rows."""
    return prompt.write(Window(rows, "2026-11-30", Redacted("/work/api")), near, language=language)


def row(number: int, text: str, part: str = "own", **more: object) -> Row:
    """One row."""
    role = Role.ASSISTANT if part in ("assistant", "call") else Role.USER
    return Row(number, f"m{number}", role, part, Redacted(text), **more)  # type: ignore[arg-type]


def test_a_changed_prompt_has_a_new_version() -> None:
    """Passes record the version: two texts under one would make recorded answers and `why --prompt` lie."""
    assert hashlib.sha256(prompt.SYSTEM.encode()).hexdigest()[:16] == FIXED[prompt.VERSION]


def test_its_examples_are_answers_that_we_can_read() -> None:
    """Three worked examples, two of them empty, each in the very form that is asked for."""
    examples = [line for line in prompt.SYSTEM.splitlines() if line.startswith('{"facts"')]
    answers = [reply.read(line) for line in examples]

    assert [len(answer.facts) for answer in answers if isinstance(answer, reply.Answer)] == [0, 0, 1]
    assert all(set(json.loads(line)) == set(reply.ANSWER_SCHEMA["required"]) for line in examples)


def test_the_schema_is_strict_everywhere() -> None:
    """No extra keys and no missing ones, in the answer and in each item."""
    objects = [reply.ANSWER_SCHEMA, reply.ANSWER_SCHEMA["$defs"]["item"]]
    objects.append(objects[1]["properties"]["evidence"]["items"])

    assert all(one["additionalProperties"] is False for one in objects)
    assert all(set(one["required"]) == set(one["properties"]) for one in objects)


def test_who_speaks_stands_before_each_row() -> None:
    """Own words, pasted, injected, assistant, tools and earlier rows are told apart; the day has its weekday."""
    text = shown(
        row(1, "use uv", previous=True), row(2, "From now on use uv"), row(3, "Traceback", "pasted"),
        row(4, "reminder", "injected"), row(5, '{"command":"ls"}', "call", name="Bash"),
        row(6, "a\nb", "result", name="Bash"), row(7, "Done.", "assistant"),
    )  # fmt: skip

    rows = re.findall(r"(?m)^\[(\d)\] ([^:]+):", text)
    assert rows == [
        ("1", "earlier user"), ("2", "user"), ("3", "pasted"), ("4", "injected"), ("5", "tool call Bash"),
        ("6", "tool result Bash"), ("7", "assistant"),
    ]  # fmt: skip
    assert "turn of 2026-11-30, Monday in /work/api" in text
    assert "[6] tool result Bash: a\n  b" in text


def test_the_language_of_the_settings_is_asked_for() -> None:
    """Summaries come in the person's language, quotes as they were said."""
    assert shown(row(1, "x"), language="de").startswith("Write summary, body and session_note in German; quotes as")


def test_no_prompt_is_larger_than_what_is_reserved_for_it() -> None:
    """The budget reserves the most that a prompt can have: a full window and twenty near facts of full length."""
    text = WaitingText(tuple(row(n, "ä" * 5000, "result" if n % 2 else "own", call_id=str(n)) for n in range(1, 40)))
    cut = window.cut(text, note=Redacted("n" * 9000), tokens=2500)
    near = tuple(NearFact(n, "a-slug-of-five-words-" + "x" * 20, "s" * 120, "user", "id") for n in range(1, 21))

    asked = prompt.SYSTEM + json.dumps(reply.ANSWER_SCHEMA) + prompt.write(cut, near)

    assert window.tokens_of(asked) <= prompt.most_tokens(2500, 20)
