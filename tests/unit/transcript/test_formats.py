"""Which agent wrote a file, and what is particular to each format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from distiller.transcript import formats
from distiller.transcript.identity import digest
from distiller.transcript.repair import pairing_fault
from distiller.transcript.session import SessionReader
from distiller.vocabulary import EndSign, Origin, PromptKind, SessionRole, Turn, Withdrawn
from tests.unit.transcript.made_up import LONG_AFTER, Claude, line, read, reader_of, results, texts, turns

# -- sniffing ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "first", "agent"),
    [
        ("a.jsonl", {"type": "user", "uuid": "u", "parentUuid": None, "sessionId": "s"}, "claude_code"),
        ("a.jsonl", {"type": "summary", "summary": "x", "leafUuid": "u"}, "claude_code"),
        ("a.jsonl", {"type": "file-history-snapshot", "messageId": "u", "snapshot": {}}, "claude_code"),
        ("a.jsonl", {"type": "mode", "mode": "normal", "sessionId": "s"}, "claude_code"),
        ("a.jsonl", {"timestamp": "x", "type": "session_meta", "payload": {"id": "s"}}, "codex"),
        ("a.jsonl", {"id": "s", "timestamp": "x", "instructions": None, "git": None}, "codex"),
        ("a.jsonl", {"role": "user", "content": "x"}, "neutral"),
        ("a.jsonl", {"type": "turn_end"}, "neutral"),
        ("journal.jsonl", {"type": "user", "parentUuid": None}, None),
        ("a.jsonl", {"type": "started", "key": "x"}, None),
        ("history.jsonl", {"display": "x", "timestamp": 1, "project": "/p"}, None),
        ("a.jsonl", {"display": "x", "timestamp": 1, "project": "/p", "sessionId": "s"}, None),
        ("session_index.jsonl", {"id": "s", "thread_name": "x", "updated_at": "x"}, None),
        ("sessions-index.json", {"version": 1, "entries": []}, None),
        ("a.jsonl", {"session_id": "s", "ts": 1, "text": "x"}, None),
        ("a.jsonl", {"type": "message", "role": "user", "content": []}, None),
        ("a.meta.json", {"role": "user", "content": "x"}, None),
        ("C:\\p\\journal.jsonl", {"role": "user", "content": "x"}, None),
    ],
    ids=range(18),
)
def test_a_session_file_is_known_by_its_lines(path: str, first: dict[str, Any], agent: str | None) -> None:
    """Each agent's files are recognised, and what only stands beside them never is."""
    assert formats.sniff(path, line(first) + b'{"cut off') == agent


def test_nothing_is_claimed_without_a_whole_line() -> None:
    """An empty file, a torn first line, noise."""
    assert {formats.sniff("a.jsonl", head) for head in (b"", b'{"role": "us', b"\xff\xfe\n", b"[]\n1\n")} == {None}


# -- Claude Code -------------------------------------------------------------------------------------------------


def test_copies_of_prompts_and_results_are_never_messages() -> None:
    """`toolUseResult`, `api-request-blob`, `attachment.rendered`, `progress`, `queue-operation` only repeat."""
    session = Claude()
    session.prompt("go")
    copy = {"role": "user", "content": "COPY"}
    for extra in (
        {"type": "api-request-blob", "message": copy},
        {"type": "attachment", "attachment": {"type": "file"}, "rendered": "COPY"},
        {"type": "progress", "data": {"type": "agent_progress", "message": copy}},
        {"type": "queue-operation", "operation": "enqueue", "content": "COPY"},
        {"type": "last-prompt", "lastPrompt": "COPY"},
    ):
        session.raw_line(line(extra))
    session.calls("t1")
    session.result("t1", toolUseResult={"stdout": "COPY"})
    session.says("done")
    session.ends()

    reader, (turn,) = reader_of(session.raw)

    assert "COPY" not in repr([(m.blocks, [bytes(r.content) for r in results(m)]) for m in turn.messages])
    assert reader.counts.unknown == {}


def test_unknown_blocks_hide_no_known_ones() -> None:
    """A block type of tomorrow is counted; its neighbours stay."""
    session = Claude()
    session.prompt([{"type": "text", "text": "go"}, {"type": "hologram", "x": 1}, {"type": "image", "source": {}}])
    session.says({"type": "fallback"}, "done", {"type": "tool_use", "name": "without an id"})
    session.ends()

    reader, (turn,) = reader_of(session.raw)

    assert texts(turn) == ["go", "done"]
    assert reader.counts.unknown == {"block/hologram": 1, "block/fallback": 1}


def test_a_prompt_of_pictures_alone_is_a_turn_without_words() -> None:
    """It starts a turn, but holds no own words."""
    session = Claude()
    session.prompt([{"type": "image", "source": {"data": "x"}}])
    session.says("a cat")
    session.ends()

    (turn,) = read(session.raw)

    assert texts(turn) == ["[Image]", "a cat"]


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>x</system-reminder>",
        "<ide_opened_file>x</ide_opened_file>",
        "<local-command-stdout>x</local-command-stdout>",
        "<bash-stdout>x</bash-stdout>",
        "Caveat: The messages below were generated by the user while running local commands.",
        "Base directory for this skill: /x",
    ],
    ids=range(6),
)
def test_injected_lines_open_no_turn(text: str) -> None:
    """Most `user` lines are nobody's words, with or without `isMeta`."""
    session = Claude()
    session.prompt(text)
    session.prompt("go")
    session.prompt(text)
    session.says("done")
    session.ends()

    (turn,) = read(session.raw)

    assert (texts(turn)[0], turn.messages[1].origin) == ("go", Origin.INJECTED)


def test_an_editor_s_context_beside_a_prompt_leaves_it_a_prompt() -> None:
    """It mostly stands as a separate block."""
    session = Claude()
    session.prompt([{"type": "text", "text": "<ide_opened_file>x</ide_opened_file>"}, {"type": "text", "text": "go"}])
    session.says("done")
    session.ends()

    (turn,) = read(session.raw)

    assert (turn.kind, turn.messages[0].origin) == (PromptKind.TYPED, Origin.PERSON)


# -- Codex -------------------------------------------------------------------------------------------------------


class Codex:
    """Writes a rollout file."""

    def __init__(self, **meta: Any) -> None:
        self.raw = b""
        self.add("session_meta", id="c-1", cwd="/work/acme", **meta)

    def add(self, kind: str, **payload: Any) -> None:
        """A line with its envelope."""
        self.raw += line({"timestamp": "2026-12-01T09:00:00.000Z", "type": kind, "payload": payload})

    def event(self, kind: str, **payload: Any) -> None:
        """An event."""
        self.add("event_msg", type=kind, **payload)

    def turn(self, name: str, text: str) -> None:
        """A finished turn."""
        self.event("task_started", turn_id=name)
        self.event("user_message", message=text)
        said = {"content": [{"type": "output_text", "text": f"did {text}"}], "phase": "final_answer"}
        self.add("response_item", type="message", role="assistant", **said)
        self.event("task_complete", turn_id=name)


def codex(raw: bytes) -> tuple[SessionReader, list[Turn | Withdrawn]]:
    """A reader that has read a rollout file, and what came out."""
    reader = SessionReader("codex", "rollout-x.jsonl")
    return reader, reader.feed(raw)


@pytest.mark.parametrize(
    ("meta", "role", "parent", "root"),
    [
        ({"source": "cli"}, SessionRole.PERSON, None, ""),
        ({"source": "exec"}, SessionRole.PROGRAM, None, ""),
        ({"originator": "codex_exec"}, SessionRole.PROGRAM, None, ""),
        ({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p"}}}}, SessionRole.SUBAGENT, "p", "p"),
        ({"source": {"subagent": "review"}}, SessionRole.SUBAGENT, None, ""),
        ({"source": "cli", "forked_from_id": "f"}, SessionRole.PERSON, None, "f"),
    ],
    ids=range(6),
)
def test_whose_session_a_rollout_is(meta: dict[str, Any], role: SessionRole, parent: str | None, root: str) -> None:
    """The first line says it; a fork follows its root."""
    file = Codex(**meta)
    file.turn("t-1", "go")

    _, (turn,) = codex(file.raw)

    assert isinstance(turn, Turn)
    assert (turn.session.id, turn.session.role, turn.session.parent_id, turn.session.root_id) == (
        "c-1",
        role,
        parent,
        root,
    )


def test_a_fork_of_a_fork_follows_to_the_first() -> None:
    """Behind its own line a fork repeats those of its parents."""
    file = Codex(forked_from_id="c-0")
    file.add("session_meta", id="c-0", forked_from_id="c-00")
    file.turn("t-1", "go")

    reader, _ = codex(file.raw)

    assert (reader.session.id, reader.session.root_id) == ("c-1", "c-00")


def test_a_rollback_takes_back_turns_and_those_that_never_began() -> None:
    """A task aborted before its prompt was written counts for Codex, and takes no earlier turn with it."""
    file = Codex()
    for number in range(3):
        file.turn(f"t-{number}", f"{number}")
    file.event("task_started", turn_id="t-3")
    file.event("turn_aborted", turn_id="t-3")
    file.event("thread_rolled_back", num_turns=3)
    file.turn("t-4", "4")

    reader, out = codex(file.raw)

    assert [item.key for item in out if isinstance(item, Withdrawn)] == ["codex:t-2", "codex:t-1"]
    assert [turn.key for turn in turns(out)] == ["codex:t-0", "codex:t-1", "codex:t-2", "codex:t-4"]
    assert reader.counts.withdrawn == 2


def test_commentary_waits_for_the_end_mark() -> None:
    """Where tasks are marked, a pause after text is thinking, not an end; without marks two minutes end it."""
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]}
    marked, bare = Codex(), Codex()
    marked.event("task_started", turn_id="t-1")
    for file in (marked, bare):
        file.event("user_message", message="go")
        file.add("response_item", **said)

    assert codex(marked.raw)[0].due_at == "2026-12-02T09:00:00.000Z"
    assert codex(bare.raw)[0].due_at == "2026-12-01T09:02:00.000Z"


def test_a_prompt_that_no_event_tells_is_taken_from_the_items() -> None:
    """Some builds write the item alone."""
    file = Codex()
    file.event("task_started", turn_id="t-1")
    file.add("response_item", type="message", role="user", content=[{"type": "input_text", "text": "plan it"}])
    said = {"content": [{"type": "output_text", "text": "a plan"}]}
    file.add("response_item", type="message", role="assistant", **said)
    file.event("task_complete", turn_id="t-1", error={"message": "boom"})

    _, (turn,) = codex(file.raw)

    assert isinstance(turn, Turn)
    assert (turn.key, texts(turn), turn.end_sign, turn.outcome) == (
        "codex:t-1",
        ["plan it", "a plan"],
        EndSign.FAILED,
        "error",
    )


@pytest.mark.parametrize(
    ("output", "is_error"),
    [
        ("Exit code: 0\nok", False),
        ("Exit code: 1\nno", True),
        ("Chunk ID: 1\nProcess exited with code 0\n", False),
        ("Chunk ID: 1\nProcess exited with code 127\n", True),
        ('{"output":"x","metadata":{"exit_code":0,"duration_seconds":1}}', False),
        ('{"output":"x","metadata":{"exit_code":1,"duration_seconds":1}}', True),
        ("aborted by user after 1.0s", True),
        ("apply_patch verification failed: x", True),
        ("Success. Updated the following files", False),
    ],
    ids=range(9),
)
def test_failures_are_read_from_the_output(output: str, *, is_error: bool) -> None:
    """Codex has no flag for them."""
    file = Codex()
    file.event("task_started", turn_id="t-1")
    file.event("user_message", message="go")
    file.add("response_item", type="function_call", name="shell", arguments="{}", call_id="c")
    file.add("response_item", type="function_call_output", call_id="c", output=output)
    file.event("task_complete", turn_id="t-1")

    _, (turn,) = codex(file.raw)

    assert isinstance(turn, Turn)
    assert [result.is_error for result in results(turn.messages[-1])] == [is_error]


# -- neutral -----------------------------------------------------------------------------------------------------


def neutral(*lines: dict[str, Any], side: dict[str, Any] | None = None) -> tuple[SessionReader, list[Turn]]:
    """A reader that has read a neutral file at rest, and its turns."""
    reader = SessionReader("neutral", "n.jsonl", side=side)
    out = reader.feed(b"".join(line(value) for value in lines))
    return reader, turns(out + reader.finish(now=LONG_AFTER, grown_at=None))


@pytest.mark.parametrize(
    ("last", "sign"),
    [
        ({"type": "turn_end", "status": "done"}, EndSign.MARKED),
        ({"type": "turn_end", "status": "aborted"}, EndSign.INTERRUPTED),
        ({"type": "turn_end", "status": "error"}, EndSign.FAILED),
        ({"type": "turn_end"}, EndSign.MARKED),
        ({"role": "user", "content": "next", "id": "p2"}, EndSign.NEXT_PROMPT),
        ({"role": "assistant", "content": "done", "stop_reason": "end_turn"}, EndSign.SETTLED),
        ({"role": "assistant", "content": "done"}, EndSign.SETTLED_WEAK),
    ],
    ids=range(7),
)
def test_how_a_neutral_turn_ends(last: dict[str, Any], sign: EndSign) -> None:
    """The contract's end marks, stop reasons and silences."""
    _, found = neutral({"role": "user", "content": "go", "id": "p1"}, {"role": "assistant", "content": "ok"}, last)

    assert (found[0].key, found[0].end_sign) == ("neutral:p1", sign)


def test_only_a_person_s_text_can_hold_own_words() -> None:
    """`origin` says whose it is; an unknown one counts as injected."""
    _, (turn,) = neutral(
        {"role": "user", "content": "go", "id": "p1"},
        {"role": "user", "content": "x", "origin": "injected"},
        {"role": "user", "content": "x", "origin": "summary"},
        {"role": "user", "content": "x", "origin": "from-tomorrow"},
        {"role": "system", "content": "x"},
        {"role": "assistant", "content": "done"},
    )

    assert [message.origin for message in turn.messages] == [
        Origin.PERSON,
        Origin.INJECTED,
        Origin.SUMMARY,
        Origin.INJECTED,
        None,
    ]


def test_text_beside_results_joins_the_running_turn() -> None:
    """A user line with results is no prompt; what the person added stands behind them."""
    _, (turn,) = neutral(
        {"role": "user", "content": "go", "id": "p1"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "x", "input": {}}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "and lint"}, {"type": "tool_result", "tool_use_id": "c"}],
        },
        {"role": "assistant", "content": "done"},
    )

    assert texts(turn) == ["go", "and lint", "done"]
    assert pairing_fault(turn.messages) is None


@pytest.mark.parametrize(
    ("side", "role", "origin"),
    [
        ({"source": "program"}, SessionRole.PROGRAM, Origin.PROGRAM),
        ({"source": "subagent", "parent_id": "p"}, SessionRole.SUBAGENT, Origin.SUBAGENT),
        ({"source": 7, "cwd": None}, SessionRole.PERSON, Origin.PERSON),
        (None, SessionRole.PERSON, Origin.PERSON),
    ],
    ids=range(4),
)
def test_the_side_file_says_whose_session_it_is(side: dict[str, Any] | None, role: SessionRole, origin: Origin) -> None:
    """Optional, and never trusted to have the right types."""
    _, (turn,) = neutral({"role": "user", "content": "go"}, {"role": "assistant", "content": "ok"}, side=side)

    assert (turn.session.role, turn.messages[0].origin) == (role, origin)


def test_equal_prompts_of_two_sessions_stay_two_turns() -> None:
    """Without an id the first answer tells them apart; a copy of the file gives the same keys."""
    prompt = {"role": "user", "content": "hello"}
    one = [prompt, {"role": "assistant", "content": "Hi Ada"}, prompt, {"role": "assistant", "content": "Hi Ada"}]

    _, first = neutral(*one)
    _, copied = neutral(*one, side={"id": "another", "title": "x"})
    _, (other,) = neutral(prompt, {"role": "assistant", "content": "Hi Bob"})

    assert [(turn.key, digest(turn)) for turn in first] == [(turn.key, digest(turn)) for turn in copied]
    assert len({*(turn.key for turn in first), other.key}) == 3


def test_odd_shapes_of_neutral_lines_do_no_harm() -> None:
    """People write these files."""
    reader, (turn,) = neutral(
        {"role": "user", "content": "go", "id": 7, "timestamp": 12, "cwd": ["x"]},
        {"role": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "chart"}, "bare", {"type": "text"}]},
        {"role": "assistant", "content": None},
        {"role": "robot", "content": "x"},
        {"content": "x"},
        {"type": "turn_end", "status": 7, "cost_usd": "x"},
    )

    assert (texts(turn), turn.end_sign) == (["go", "ok"], EndSign.MARKED)
    assert reader.counts.unknown == {"block/chart": 1, "robot": 1, "None": 1}
    json.dumps(reader.counts.unknown)
