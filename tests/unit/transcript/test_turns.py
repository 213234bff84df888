"""When a turn is over: every row of the rule (DESIGN §3), and what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from distiller import timestamps
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import EndSign, Origin, PromptKind, Turn, Withdrawn
from tests.unit.transcript.made_up import Claude, reader_of, results, said_by, texts, turns


def signs(found: list[Turn]) -> list[EndSign]:
    """How the turns ended."""
    return [turn.end_sign for turn in found]


def closes_after(session: Claude) -> tuple[EndSign | None, float | None]:
    """Which sign silence gives to the last turn, and after how many seconds; tried to the millisecond."""
    reader, _ = reader_of(session.raw)
    if reader.due_at is None:
        return None, None
    seconds = timestamps.seconds_between(session.at, reader.due_at)
    early = timestamps.after(reader.due_at, seconds=-0.001)
    assert reader.tick(now=early, grown_at=None) == []
    (turn,) = turns(reader.tick(now=reader.due_at, grown_at=None))
    return turn.end_sign, seconds


def begun(text: str = "do it") -> Claude:
    """A session with a prompt."""
    session = Claude()
    session.prompt(text)
    return session


# -- at once -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", ["turn_duration", "stop_hook_summary"])
def test_an_end_mark_closes_at_once(subtype: str) -> None:
    """Row `marked`."""
    session = begun()
    session.says("done")
    session.add("system", subtype=subtype)

    reader, found = reader_of(session.raw)

    assert signs(found) == [EndSign.MARKED]
    assert reader.due_at is None


def test_a_blocking_stop_hook_is_no_end() -> None:
    """The hook's summary after a meta "Stop hook feedback" means that the agent goes on; the next one ends it."""
    session = begun()
    session.says("done?")
    session.prompt("Stop hook feedback:\n- run the tests", isMeta=True)
    session.add("system", subtype="stop_hook_summary")
    reader, found = reader_of(session.raw)
    assert found == []
    assert reader.tick(now=timestamps.after(session.at, seconds=600), grown_at=None) == []

    session.says("now done")
    session.add("system", subtype="stop_hook_summary")

    assert signs(reader_of(session.raw)[1]) == [EndSign.MARKED]


@pytest.mark.parametrize("marker", ["[Request interrupted by user]", "[Request interrupted by user for tool use]"])
def test_an_interruption_closes_at_once(marker: str) -> None:
    """Row `interrupted`; the call that was running gets a made-up result."""
    session = begun()
    session.calls("t1")
    session.prompt([{"type": "text", "text": marker}])

    (turn,) = reader_of(session.raw)[1]

    assert turn.end_sign is EndSign.INTERRUPTED
    assert results(turn.messages[-1])[0].synthetic
    assert marker not in texts(turn)


def test_the_next_prompt_closes_what_came_before() -> None:
    """Row `next-prompt`, whatever the turn was waiting for."""
    session = begun("one")
    session.calls("t1")
    session.prompt("two")

    (turn,) = reader_of(session.raw)[1]

    assert (turn.end_sign, texts(turn)) == (EndSign.NEXT_PROMPT, ["one"])


def test_a_mark_that_comes_after_the_next_prompt_is_not_its_end() -> None:
    """A Stop hook runs for seconds; the person may type meanwhile."""
    session = begun("one")
    session.says("done")
    session.prompt("two")
    session.add("system", subtype="stop_hook_summary")

    reader, found = reader_of(session.raw)

    assert signs(found) == [EndSign.NEXT_PROMPT]
    assert reader.cursor_byte == found[0].end_byte


# -- by silence --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", ["end_turn", "max_tokens", "refusal", "stop_sequence"])
def test_a_final_stop_reason_settles_in_3_seconds(stop: str) -> None:
    """Row `settled`."""
    session = begun()
    session.says("done", stop=stop)

    assert closes_after(session) == (EndSign.SETTLED, 3)


def test_text_without_stop_reason_settles_in_120_seconds() -> None:
    """Row `settled-weak`: up to 2.1.58 a tool call may follow the text within the same message."""
    session = begun()
    session.says("done", stop=None)

    assert closes_after(session) == (EndSign.SETTLED_WEAK, 120)


@pytest.mark.parametrize(
    "fields", [{"isApiErrorMessage": True}, {"said": {"model": "<synthetic>", "stop_reason": "stop_sequence"}}]
)
def test_an_api_error_or_a_stand_in_settles_in_120_seconds(fields: dict[str, Any]) -> None:
    """Row `failed`: the person's words still count."""
    session = begun("use pnpm, not npm, from now on")
    session.says("API Error: overloaded", **fields)

    assert closes_after(session) == (EndSign.FAILED, 120)


def _open_call(session: Claude) -> None:
    session.says("let me look", {"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}, stop="tool_use")


def _result_last(session: Claude) -> None:
    session.calls("t1")
    session.result("t1")


def _thinking_last(session: Claude) -> None:
    session.says({"type": "thinking", "thinking": "hm", "signature": "x"}, stop=None)


def _text_of_a_calling_message(session: Claude) -> None:
    session.calls("t1", message="m", stop=None)
    session.result("t1")
    session.says("and", stop=None, message="m")


def _queued(session: Claude) -> None:
    session.says("done")
    session.add("attachment", attachment={"type": "queued_command", "prompt": "also lint", "commandMode": "prompt"})


def _nothing(_session: Claude) -> None:
    pass


@pytest.mark.parametrize(
    "work", [_open_call, _result_last, _thinking_last, _text_of_a_calling_message, _queued, _nothing]
)
def test_only_a_day_of_silence_closes_what_waits(work: Callable[[Claude], None]) -> None:
    """Row `abandoned`: an open call may wait for a permission overnight, a result is followed by an answer."""
    session = begun()
    work(session)

    assert closes_after(session) == (EndSign.ABANDONED, 24 * 3600)


def test_silence_counts_from_the_later_of_last_line_and_growth() -> None:
    """A file that just grew is not silent, however old its lines say they are."""
    session = begun()
    session.says("done")
    reader, _ = reader_of(session.raw)
    grown = timestamps.after(session.at, seconds=100)

    assert reader.tick(now=timestamps.after(grown, seconds=2), grown_at=grown) == []
    assert reader.due_at == timestamps.after(grown, seconds=3)
    assert len(reader.tick(now=timestamps.after(grown, seconds=3), grown_at=grown)) == 1


def test_thresholds_are_parameters() -> None:
    """`turns.settle_seconds` and its relatives come from the configuration."""
    session = begun()
    session.says("done")

    reader, _ = reader_of(session.raw, settle=Settle(strong_seconds=30))

    assert reader.due_at == timestamps.after(session.at, seconds=30)


# -- after the end -----------------------------------------------------------------------------------------------


def test_late_marks_and_bookkeeping_change_nothing() -> None:
    """A settled turn is not emitted again by its own late mark, a reminder or a resume's stand-in."""
    session = begun()
    session.says("done")
    reader, _ = reader_of(session.raw)
    (turn,) = turns(reader.tick(now=timestamps.after(session.at, seconds=5), grown_at=None))
    late = Claude(prefix="late")
    late.ends()
    late.prompt("<system-reminder>x</system-reminder>", isMeta=True)
    late.says("No response requested.", said={"model": "<synthetic>"})

    assert reader.feed(late.raw) == []
    assert reader.tick(now=timestamps.after(late.at, seconds=10**6), grown_at=None) == []
    assert turn.end_byte == len(session.raw)


def test_more_conversation_emits_the_turn_again_whole_under_its_key() -> None:
    """F74: the ledger makes a revision of it."""
    session = begun()
    session.says("done")
    session.ends()
    session.says("one more thing")
    session.ends()

    first, second = reader_of(session.raw)[1]

    assert first.key == second.key == "claude_code:u0"
    assert texts(second) == ["do it", "done", "one more thing"]
    assert (second.start_byte, second.end_byte) == (0, len(session.raw))


# -- withdrawn and rewound ---------------------------------------------------------------------------------------


def test_a_prompt_withdrawn_before_any_answer_is_no_turn() -> None:
    """Interrupted at once, the text goes back to the input line: the next prompt has the same position."""
    session = begun("never push to main, I mean mian")
    session.add("attachment", attachment={"type": "skill_listing"})
    session.parent = None
    session.prompt("never push to main", turnPosition={"promptIndex": 0, "turnIndex": 0})
    session.lines[0] = session.lines[0].replace(
        b'"sessionId"', b'"turnPosition":{"promptIndex":0,"turnIndex":0},"sessionId"'
    )
    session.says("noted")
    session.ends()

    reader, (turn,) = reader_of(session.raw)

    assert texts(turn)[0] == "never push to main"
    assert reader.counts.withdrawn == 1


def test_a_prompt_whose_successor_skips_it_is_withdrawn() -> None:
    """The same, told by the parent link alone."""
    session = begun("zero")
    before = session.says("done")
    session.ends()
    session.prompt("withdrawn", uuid="gone")
    session.parent = before
    session.prompt("stands")
    session.says("ok")
    session.ends()

    reader, found = reader_of(session.raw)

    assert [texts(turn)[0] for turn in found] == ["zero", "stands"]
    assert reader.counts.withdrawn == 1


def test_a_rewind_takes_back_the_turns_behind_it() -> None:
    """A prompt that hangs where an earlier prompt hung withdraws that one and all after it."""
    session = begun("zero")
    fork = session.says("done")
    for text in ("one", "two"):
        session.prompt(text)
        session.says(f"did {text}")
    session.parent = fork
    session.prompt("another way")

    out = SessionReader("claude_code", "s1.jsonl").feed(session.raw)

    assert [item.key for item in out if isinstance(item, Withdrawn)] == ["claude_code:u4", "claude_code:u2"]
    assert [texts(turn)[0] for turn in turns(out)] == ["zero", "one", "two"]


# -- bursts, queues, copies --------------------------------------------------------------------------------------


def test_plan_mode_refused_six_times_is_one_turn() -> None:
    """F04: rejected plans do not end a turn; the approval and the answer belong to it."""
    session = begun("plan it")
    for number in range(6):
        session.calls(f"t{number}", name="ExitPlanMode")
        session.result(f"t{number}", "The user doesn't want to proceed with this tool use.", is_error=True)
    session.calls("t6", name="ExitPlanMode")
    session.result("t6", "User has approved your plan.")
    session.says("done")
    session.ends()

    (turn,) = reader_of(session.raw)[1]

    assert len(turn.message_ids) == 8


def test_a_session_growing_turn_by_turn_gives_each_turn_once() -> None:
    """F12: only what just finished comes out."""
    reader = SessionReader("claude_code", "s1.jsonl")
    session = Claude()
    found = []
    for text in ("we use uv", "thanks", "next"):
        before = len(session.lines)
        session.prompt(text)
        session.says("ok")
        session.ends()
        found.append(turns(reader.feed(b"".join(session.lines[before:]))))

    assert [[texts(turn) for turn in batch] for batch in found] == [
        [["we use uv", "ok"]],
        [["thanks", "ok"]],
        [["next", "ok"]],
    ]


def test_words_typed_while_the_agent_works_belong_to_the_turn() -> None:
    """They stand in no user line, only in an attachment."""
    session = begun()
    session.calls("t1")
    session.add("attachment", attachment={"type": "queued_command", "prompt": "use uv", "commandMode": "prompt"})
    session.result("t1")
    session.says("done")
    session.ends()

    (turn,) = reader_of(session.raw)[1]

    assert said_by(turn, Origin.PERSON) == ["do it", "use uv"]
    assert texts(turn) == ["do it", "use uv", "done"]


def test_a_repeated_record_hides_nothing() -> None:
    """F25: record 101 repeats the uuid of record 60 under another parent; what hangs from it is read."""
    session = Claude()
    for number in range(33):
        session.prompt(f"p{number}")
        session.says(f"a{number}")
        session.ends()
    repeated = session.lines[59].replace(b'"parentUuid": "u58"', b'"parentUuid": "u97"')
    session.raw_line(repeated)
    for number in range(33, 43):
        session.prompt(f"p{number}")
        session.says(f"a{number}")
        session.ends()

    reader, found = reader_of(session.raw)

    assert [texts(turn) for turn in found] == [[f"p{number}", f"a{number}"] for number in range(43)]
    assert reader.counts.copied_lines == 1


def test_hook_progress_between_call_and_results_orphans_nothing() -> None:
    """F26: a progress line hangs from the assistant line, results come in the order of completion."""
    session = begun()
    session.calls("t1", "t2")
    session.add("progress", data={"type": "hook_progress"})
    session.result("t2")
    session.result("t1")
    session.says("done")
    session.ends()

    reader, (turn,) = reader_of(session.raw)

    assert [result.tool_use_id for result in results(turn.messages[2])] == ["t1", "t2"]
    assert (reader.counts.pairs, reader.counts.calls_without_result, reader.counts.results_without_call) == (2, 0, 0)


def test_a_compaction_summary_is_no_one_s_words() -> None:
    """F76: four turns, and the summary is never a prompt."""
    session = Claude()
    for number in range(3):
        session.prompt(f"p{number}")
        session.says(f"a{number}")
        session.ends()
    session.add("system", subtype="compact_boundary", logicalParentUuid=session.parent)
    session.prompt(
        "This session is being continued from a previous conversation. Always use uv.", isCompactSummary=True
    )
    session.prompt("p3")
    session.says("a3")
    session.ends()

    found = reader_of(session.raw)[1]

    assert [texts(turn) for turn in found] == [[f"p{number}", f"a{number}"] for number in range(4)]


def test_what_starts_a_turn_says_so() -> None:
    """Prompt, slash command, shell input and notification each open one; the sums hold."""
    session = Claude()
    session.prompt("typed")
    session.prompt("<command-name>/review</command-name><command-args>be strict</command-args>")
    session.prompt("<bash-input>ls</bash-input>")
    session.prompt("<task-notification><status>completed</status></task-notification>")
    session.prompt("last")

    found = reader_of(session.raw)[1]

    assert [turn.kind for turn in found] == [
        PromptKind.TYPED,
        PromptKind.COMMAND,
        PromptKind.SHELL,
        PromptKind.NOTIFICATION,
    ]
