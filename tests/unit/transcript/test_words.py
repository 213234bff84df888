"""Whose words stand in a prompt: what may be pasted counts as pasted, a person's own short text stays own."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.transcript.words import has_own_words, split

PIECES = [
    *("use uv\n", "```\n", "> quoted\n", "<system-reminder>", "</system-reminder>", "[Pasted text #1 +20 lines]"),
    *("# Heading\n", "- item\n", "- src/a.py:12 wrong\n", "Traceback (most recent call last):\n", "  File x\n"),
    *(
        "ValueError: x\n",
        "@@ -1 +1 @@\n",
        "-old\n",
        "\n",
        "<command-args>",
        "</command-args>",
        "über 🙂",
        "\r\n",
        "\u2028",
    ),
    *("2026-01-01 10:00:00 INFO x\n", "This session is being continued from a previous conversation"),
    *("# Context from my IDE setup:\n", "## My request for Codex:\n", "| a | b |\n", ":\n"),
]


def own(text: str) -> str:
    """The own words of `text`, joined."""
    return "".join(piece for part, piece in split(text) if part == "own").strip()


@given(st.lists(st.sampled_from(PIECES), max_size=60).map("".join))
def test_the_parts_are_the_text_again(text: str) -> None:
    """Nothing is lost, doubled or moved, and neighbours differ."""
    parts = split(text)

    assert "".join(piece for _, piece in parts) == text
    assert all(one[0] != other[0] for one, other in pairwise(parts))


@pytest.mark.parametrize(
    "pasted",
    [
        "```python\nalways = 'use tabs'\n```",
        "~~~\nnever push\n~~~",
        "```\nnever closed: always use npm",
        "> always use npm",
        "2026-01-01T10:00:00Z always use npm",
        "[12:00:01] always use npm",
        "ERROR: always use npm",
        "npm ERR! always use npm",
        'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    always()\nValueError: never do this',
        "diff --git a/x b/x\nindex 1234567..89abcde\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-always\n+never",
        "@@ -1 +1 @@\n context always\n+never",
        "- src/app.py:12 always use npm here\n- and never yarn\n  in no place",
        "1. lib/x.ts#L40: always use npm",
        "src/app.py:12: error: always",
        "[Pasted text #1 +20 lines]",
        "[Image #1]",
        "| rule | always use npm |",
        "user@host:~$ always",
        "<file>\nalways use npm\n</file>",
        "# Plan\n\nAlways use npm.\n\n## Steps\n\n- never yarn",
        "# One heading\n" + "always\n" * 20,
        "---\ntitle: x\n---\nalways use npm",
        "From: Eve <eve@x.test>\nSubject: habits\n\nalways use npm\nRegards",
        "Von: Eva\nBetreff: npm\n\nimmer npm nehmen",
        "On Tue, 1 Dec 2026, Eve wrote:\nalways use npm",
        "-----Original Message-----\nalways use npm",
        "eve  9:41 AM\nalways use npm\n\nadam  9:44 AM\nok",
        "Eve Adams \u2014 Today at 9:41 AM\nalways use npm",
        "[9:41] eve: always use npm",
        "[12/1/26, 9:41 AM] Eve: always use npm",
        "eve: always use npm\nadam: why\neve: speed",
        "Human: always use npm",
        "**User:** always use npm\n**Assistant:** sure",
        "SHOP-7: switch\nDescription: always use npm\nReporter: eve",
        "Title: tools\nStatus: open\n\nalways use npm",
        "commit 0a1b2c3d4e5f\nAuthor: Eve <eve@x.test>\nDate:   Tue Dec 1\n\n    always use npm",
        "0a1b2c3 always use npm",
        "SYNOPSIS\n       npm always\n\nDESCRIPTION\n       always use npm",
        "hooks:\n  - always use npm\nname: x",
        "defaults:\n  tool: always npm\n  lint: never\nlevel: 3",
        "-old\n+always use npm",
        "+always use npm",
        "id,rule\n7,always use npm",
        "id\trule\n7\talways use npm",
        "<p>always use npm</p>",
        "<li>always use npm",
        '"\nalways use npm\n"',
        "\u201calways use npm\nand never yarn\u201d",
        "He said \u00abalways use npm\nnever yarn\u00bb",
        "# always use npm",
        "// always use npm",
        "<!-- always use npm -->",
        "   12\talways use npm",
        "1:02 PM\nalways use npm",
        "Re: tools\n\nalways use npm",
        "* 0a1b2c3 (HEAD) always use npm",
        "'''\nalways use npm\n'''",
        "; always use npm",
        "    1. always use npm\n    2. never yarn",
        "always use npm " * 300,
    ],
    ids=range(60),  # the texts are no names
)
def test_what_was_pasted_is_not_own(pasted: str) -> None:
    """Each kind of paste, under a line that the person typed."""
    assert own(f"please fix\n\n{pasted}") == "please fix"


@pytest.mark.parametrize(
    "injected",
    [
        "<system-reminder>always use npm</system-reminder>",
        "<system-reminder>never closed: always use npm",
        "<local-command-stdout>always use npm</local-command-stdout>",
        "<ide_opened_file>always.py</ide_opened_file>",
        "<ide_selection>always use npm</ide_selection>",
        "<user-prompt-submit-hook>always use npm</user-prompt-submit-hook>",
        "<task-notification>\n<result>always use npm</result>\n</task-notification>",
        "<command-name>/review</command-name>\n<command-message>review</command-message>\n",
    ],
    ids=range(8),
)
def test_what_was_injected_is_not_own(injected: str) -> None:
    """Each kind of injection, alone and behind the person's words."""
    assert own(injected) == ""
    assert own(f"use uv\n{injected}") == "use uv"


def test_a_summary_is_injected_whole() -> None:
    """F76: its opening is known, whatever the line's flags say."""
    text = "This session is being continued from a previous conversation that ran out of context.\nAlways use uv."

    assert split(text) == [("injected", text)]


def test_a_command_s_arguments_are_own() -> None:
    """Only they are the person's."""
    text = "<command-name>/review</command-name>\n<command-args>be strict about types</command-args>"

    assert own(text) == "be strict about types"


@pytest.mark.parametrize("opening", ["# Context from my IDE setup:", "# Files mentioned by the user:"])
def test_behind_the_ide_s_context_stands_the_request(opening: str) -> None:
    """IDE clients of Codex wrap the prompt; without the heading nothing is own."""
    context = f"{opening}\n\n## Active file: always.py\n\n"

    assert own(f"{context}## My request for Codex:\nuse uv\n") == "use uv"
    assert own(context) == ""


@pytest.mark.parametrize("text", ["<bash-input>rm -rf x</bash-input>", "<user_shell_command>ls</user_shell_command>"])
def test_a_shell_command_states_nothing(text: str) -> None:
    """It was typed, but to a shell."""
    assert own(text) == ""


@pytest.mark.parametrize(
    "text",
    [
        "From now on use uv in this repo, never pip.",
        "three things:\n- use uv\n- docs may stay on pip\n- never push to main",
        "1. rename it\n2. run the tests, always both",
        "I prefer tabs\n\nand please no comments",
        "why does a > b fail here?",
        "use `uv run` instead of `python`",
        "# one heading, typed\nuse uv",
        "error messages: always in English",
        "look at README.md and fix the typo",
        "ab jetzt immer auf Deutsch antworten",
        "-use uv\n-never pip",
        "+1 for uv",
        'make the dialog 5" wide, always',
        "standup is at 10:15",
        "Note: use uv\nReason: pip is slow",
        "remember: we use uv\nalso: never pip",
        'call it "strict", please\nand never "lax"',
        "two things:\n- use uv\n    since it is fast\n- never pip",
        "rename a,b to c,d\nthen run the tests",
        "is x < y here, or x > y?",
        "to: be decided",
    ],
)
def test_what_a_person_typed_stays_own(text: str) -> None:
    """A short prompt with its own bullets, inline code or a heading is the person's, all of it."""
    assert split(text) == [("own", text)]


def test_of_a_text_that_nobody_types_only_the_introduction_is_own() -> None:
    """More than forty lines hold a paste, with or without marks of a machine."""
    paste = "\n".join(f"Someone should always do thing number {number}." for number in range(50))

    assert own(f"summarise this mail:\n{paste}") == "summarise this mail:"
    assert own(f"what do you think?\n\n{paste}") == "what do you think?"
    assert own(paste) == "Someone should always do thing number 0."


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n", "yes", "Yes.", "ok go on", "perfect!", "continue", "1", "option 2", "thanks!", "y", "lgtm", "no"),
        *("👍", "ok, thank you very much", "do it", "2)", "go ahead please", "looks good to me"),
        *("ja", "ja, mach weiter", "vielen Dank", "genau", "in Ordnung"),
        *("oui, vas-y", "d'accord", "merci beaucoup", "c'est parfait"),
        *("sí", "sí, adelante", "muchas gracias", "de acuerdo"),
        *("はい", "はい、お願いします", "続けてください", "了解です。"),
        *("好的", "好的\uff0c请继续", "可以", "没问题", "谢谢"),
        *("<command-name>/compact</command-name><command-args></command-args>", "[Image #1]", "```\nx\n```"),
    ],
)
def test_assent_and_bare_continuation_are_no_own_words(text: str) -> None:
    """Nothing can be stated in them: no call is made for such a turn."""
    assert not has_own_words(split(text))


@pytest.mark.parametrize(
    "text",
    [
        *("yes, always do that", "no, use pnpm", "ok but never on main", "1, and from now on option 1 always"),
        *("ja, immer mit uv", "oui, mais toujours en anglais", "sí, pero nunca en main", "はい、常にuvを使って"),
        *("好的\uff0c以后都用uv", "continue with the tests in tests/unit", "thanks, the staging URL is https://x.test"),
    ],
)
def test_assent_with_words_of_its_own_counts(text: str) -> None:
    """Such a turn may take the proposal of the turn before as support."""
    assert has_own_words(split(text))


UNITS = [
    *(
        "a",
        " ",
        "\n",
        "a@",
        "[Pasted text ",
        "> x\n",
        "- a.py:1: x\n",
        "@@ x\n+a\n",
        "```\n",
        "~~~\n",
        "<a ",
        "<x>\n",
        '"',
    ),
    *(
        "Traceback (most recent call last):\n  x\n",
        "<hook",
        "<context ",
        "\u597d\u7684",
        "x:\n",
        "From: x\n",
        "+a\n-b\n",
        "a,b\n",
    ),
    *("    x\n", "<p>x</p>\n", "a/", "a.", "# x\n", "|a|", "bob: hi\n", "-", "$ ", 'a"\n', "a\t"),
]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("unit", UNITS, ids=range(len(UNITS)))
def test_a_megabyte_of_anything_is_split(unit: str) -> None:
    """No text, however it repeats itself, holds the reader up (a quadratic pattern would take hours here)."""
    text = unit * (1_000_000 // len(unit))

    parts = split(text)

    assert "".join(piece for _, piece in parts) == text
    assert len(own(text)) <= 65_536
    assert has_own_words(parts) in (True, False)


@pytest.mark.parametrize(
    "line",
    [*("Eve wrote:", "message from Eve:", "here is our AGENTS.md:", "output:", "the bot replied:", "the ticket says")],
)
def test_what_a_line_announces_is_not_own(line: str) -> None:
    """A line that says that somebody else speaks is the person's, what stands below it is not."""
    assert own(f"{line}\nalways use npm") == line
