"""A line of a Codex rollout file in, pieces of its conversation out.

Evidence: OTHER_FORMATS §3 and 48 public samples (mid-2025 to 0.147). What surprises: everything said stands twice, as
an event for the screen and as an item for the model. Prompts are read from the events, answers and tools from the
items: among the items of role `user` most are injected. Files before September 2025 have bare items and no events.
A fork repeats its parent's lines with new times but the old turn ids, so the ids alone tell that a turn is known.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from distiller.transcript import tolerant
from distiller.transcript.pieces import (
    About,
    End,
    Last,
    Malformed,
    Part,
    Piece,
    Prompt,
    Results,
    Rollback,
    Unknown,
    Words,
)
from distiller.transcript.times import normal
from distiller.vocabulary import (
    Block,
    EndSign,
    Json,
    Message,
    Origin,
    PromptKind,
    Role,
    SessionRole,
    Text,
    ToolCall,
    ToolResult,
)


class _Text(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None


class _Item(msgspec.Struct, gc=False):
    type: str | None = None
    id: str | None = None
    content: list[_Text] | None = None


class _Payload(msgspec.Struct, gc=False):
    """Fields of all the payloads that are read; no two mean different things by one name."""

    type: str | None = None
    id: str | None = None
    role: str | None = None
    content: str | list[_Text] | None = None
    phase: str | None = None
    name: str | None = None
    call_id: str | None = None
    arguments: str | None = None
    input: str | None = None
    output: str | list[_Text] | None = None
    action: Json = msgspec.Raw(b"{}")
    message: str | None = None
    item: _Item | None = None
    turn_id: str | None = None
    num_turns: int | None = None
    error: Json = msgspec.Raw(b"null")
    thread_name: str | None = None
    cwd: str | None = None
    model: str | None = None
    timestamp: str | None = None
    source: Json = msgspec.Raw(b"null")
    originator: str | None = None
    forked_from_id: str | None = None
    parent_thread_id: str | None = None


class _Line(_Payload, gc=False):
    """The envelope; in bare files the payload itself."""

    payload: _Payload | None = None
    record_type: str | None = None


_decoder = msgspec.json.Decoder(_Line)

_INJECTED = re.compile(
    r"\s*(?:# AGENTS\.md instructions|<(?:environment_context|INSTRUCTIONS|user_instructions|turn_aborted|skill"
    r"|user_action|subagent_notification|goal_context|codex_internal_context|recommended_plugins|image)\b)"
)
_SHELL = re.compile(r"\s*<user_shell_command>")
_FAILED = re.compile(
    r"Exit code: (?!0\b)-?\d|.{0,400}?Process exited with code (?!0\b)-?\d|aborted\b"
    r"|apply_patch verification failed|failed in sandbox",
    re.DOTALL,
)
_EXIT_CODE = re.compile(r'"exit_code":\s*(?!0\b)-?\d')
_ENVELOPES = frozenset(
    {
        "session_meta",
        "turn_context",
        "response_item",
        "event_msg",
        "compacted",
        "world_state",
        "inter_agent_communication",
    }
)
_SILENT_ITEMS = frozenset(
    (
        *("web_search_call", "tool_search_call", "tool_search_output", "image_generation_call", "ghost_snapshot"),
        *("compaction", "compaction_summary", "context_compaction", "other"),
    )
)
_SILENT_EVENTS = frozenset(
    (
        *("agent_message", "agent_reasoning", "agent_reasoning_section_break", "token_count", "exec_command_begin"),
        *("exec_command_end", "patch_apply_begin", "patch_apply_end", "context_compacted", "web_search_begin"),
        *("web_search_end", "mcp_tool_call_begin", "mcp_tool_call_end", "thread_settings_applied", "item_started"),
        *("view_image_tool_call", "plan_update", "error", "warning", "stream_error", "entered_review_mode"),
        *(
            "exited_review_mode",
            "image_generation_end",
            "thread_goal_updated",
            "sub_agent_activity",
            "guardian_assessment",
        ),
    )
)
_HEADLESS = frozenset({"exec"})
_REMEMBERED_TASKS = 1000
_OPEN = "open"  # stands for a stop reason: the agent writes an end mark, silence tells nothing


def matches(lines: list[dict[str, Any]], _path: str) -> bool:
    """Whether one of `lines` is a Codex envelope, or the first line of the old bare format."""
    return any(
        (line.get("type") in _ENVELOPES and isinstance(line.get("payload"), dict))
        or {"id", "timestamp", "instructions", "git"} <= line.keys()
        for line in lines
    )


def parser(path: str, _side: dict[str, Any]) -> Parser:
    """A parser for the file at `path`."""
    return Parser(path)


class Parser:
    """Reads one file; it remembers the running turn's id and what has been said in it."""

    def __init__(self, path: str) -> None:
        self._stem = path.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".jsonl")
        self._id = self._stem
        self._root: str | None = None
        self._identified = False
        self._origin = Origin.PERSON
        self._cwd: str | None = None
        self._turn: str | None = None  # of the newest task_started or turn_context
        self._opened: str | None = None  # the turn whose prompt has been given
        self._marks_ends = False  # the file has task events
        self._tasks: deque[bool] = deque(maxlen=_REMEMBERED_TASKS)  # did it begin with a prompt?
        self._unheard: tuple[Text, ...] = ()  # a prompt known from an item, while its event may still come
        self._message_id: str | None = None  # of the assistant message that the next item belongs to
        self._count = 0
        self.readers: dict[type, Callable[[Any], Sequence[Piece]]] = {_Line: self._line}
        self._items: dict[str, Callable[[_Payload, str | None], Sequence[Piece]]] = {
            "message": self._message,
            "reasoning": self._reasoning,
            "function_call": self._call,
            "custom_tool_call": self._call,
            "local_shell_call": self._call,
            "function_call_output": self._output,
            "custom_tool_call_output": self._output,
        }
        self._events: dict[str, Callable[[_Payload, str | None], Sequence[Piece]]] = {
            "task_started": self._task_started,
            "turn_started": self._task_started,
            "user_message": self._user_event,
            "item_completed": self._item_event,
            "task_complete": self._task_complete,
            "turn_complete": self._task_complete,
            "turn_aborted": self._turn_aborted,
            "thread_rolled_back": self._rolled_back,
            "thread_name_updated": self._renamed,
        }

    @property
    def opening(self) -> About:
        """The name holds the session's id at its end; the first line says it surely."""
        return About(id=self._stem[-36:] if self._stem.startswith("rollout-") else self._stem)

    decode = staticmethod(_decoder.decode_lines)

    def parse(self, raw: bytes) -> Sequence[Piece]:
        """What one line contributes, whatever stands on it."""
        try:
            return self._line(_decoder.decode(raw))
        except (msgspec.DecodeError, RecursionError):
            pass
        found = tolerant.objects(raw)
        if not found:
            return (Malformed(),) if raw.strip() else ()
        return [piece for value in found for piece in self._line(tolerant.fit(value, _Line))]

    def _line(self, line: _Line) -> Sequence[Piece]:
        at = normal(line.timestamp)
        payload = line.payload
        if payload is None:
            return self._bare(line, at)
        match line.type:
            case "response_item":
                return self._known(self._items, _SILENT_ITEMS, payload, at)
            case "event_msg":
                return self._known(self._events, _SILENT_EVENTS, payload, at)
            case "turn_context":
                self._turn = payload.turn_id or self._turn
                self._cwd = payload.cwd or self._cwd
                return (About(cwd=payload.cwd, model=payload.model),)
            case "session_meta":
                return self._meta(payload, at)
            case _:
                return () if line.type in _ENVELOPES else (Unknown(f"{line.type}"[:80]),)

    def _bare(self, line: _Line, at: str | None) -> Sequence[Piece]:
        """A line of the format before September 2025."""
        if line.type in self._items:
            return self._items[line.type](line, at)
        if line.record_type is not None or line.type in _SILENT_ITEMS:
            return ()
        if line.type is None and line.id and line.timestamp:
            return self._meta(line, at)
        return (Unknown(f"{line.type}"[:80]),)

    def _known(
        self,
        readers: dict[str, Callable[[_Payload, str | None], Sequence[Piece]]],
        silent: frozenset[str],
        payload: _Payload,
        at: str | None,
    ) -> Sequence[Piece]:
        kind = payload.type or ""
        if kind in readers:
            return readers[kind](payload, at)
        return () if kind in silent else (Unknown(kind[:80]),)

    # -- the session ---------------------------------------------------------------------------------------------
    def _meta(self, meta: _Payload, at: str | None) -> Sequence[Piece]:
        """The first one says who this is; a fork repeats its parents' behind it, and some builds repeat their own."""
        if self._identified:
            if meta.id == self._root and meta.forked_from_id:
                self._root = meta.forked_from_id
                return (About(root_id=self._root),)
            return ()
        self._identified = True
        self._id = meta.id or self._id
        self._cwd = meta.cwd
        source = msgspec.json.decode(tolerant.clean_json(meta.source))
        subagent = source.get("subagent") if isinstance(source, dict) else None
        parent = meta.parent_thread_id or _parent(subagent)
        self._root = meta.forked_from_id or parent
        role = None
        if subagent is not None:
            role, self._origin = SessionRole.SUBAGENT, Origin.SUBAGENT
        elif (isinstance(source, str) and source in _HEADLESS) or meta.originator == "codex_exec":
            role, self._origin = SessionRole.PROGRAM, Origin.PROGRAM
        return (About(id=meta.id, root_id=self._root, parent_id=parent, role=role, cwd=meta.cwd, at=at),)

    def _renamed(self, event: _Payload, _at: str | None) -> Sequence[Piece]:
        return (About(title=event.thread_name, title_rank=1),)

    # -- turns ---------------------------------------------------------------------------------------------------
    def _task_started(self, event: _Payload, _at: str | None) -> Sequence[Piece]:
        self._turn, self._marks_ends = event.turn_id, True
        self._opened, self._unheard, self._message_id, self._count = None, (), None, 0
        self._tasks.append(False)
        return ()

    def _task_complete(self, event: _Payload, at: str | None) -> Sequence[Piece]:
        failed = bytes(event.error) != b"null"
        opening = self._late_prompt(at)
        if self._tasks and not self._tasks[-1]:
            self._tasks.pop()  # a manual compaction: no turn that a rollback would count
        sign, outcome = (EndSign.FAILED, "error") if failed else (EndSign.MARKED, "done")
        return (*opening, End(sign, at, turn=event.turn_id, outcome=outcome))

    def _turn_aborted(self, event: _Payload, at: str | None) -> Sequence[Piece]:
        return (*self._late_prompt(at), End(EndSign.INTERRUPTED, at, turn=event.turn_id))

    def _rolled_back(self, event: _Payload, _at: str | None) -> Sequence[Piece]:
        """The count includes tasks that were aborted before their prompt was written."""
        turns = sum(self._tasks.pop() for _ in range(min(event.num_turns or 0, len(self._tasks))))
        return (Rollback(turns),) if turns else ()

    # -- prompts -------------------------------------------------------------------------------------------------
    def _user_event(self, event: _Payload, at: str | None) -> Sequence[Piece]:
        return self._prompt((Text(event.message or ""),), at)

    def _item_event(self, event: _Payload, at: str | None) -> Sequence[Piece]:
        item = event.item
        if item is None or item.type != "UserMessage":
            return ()
        return self._prompt(tuple(Text(text.text) for text in item.content or () if text.text), at)

    def _prompt(self, texts: tuple[Text, ...], at: str | None, kind: PromptKind = PromptKind.TYPED) -> Sequence[Piece]:
        """A prompt, or, in a turn that has one already, words typed while the agent worked."""
        self._unheard, self._message_id = (), None
        self._count += 1
        turn = self._turn
        name = f"{turn or self._id}#{self._count}"
        message = Message(name, Role.USER, texts or (Text("[Image]"),), at, self._origin)
        if turn is not None and turn == self._opened:
            return (Words(message),)
        self._opened = turn
        if self._marks_ends and self._tasks:
            self._tasks[-1] = True
        else:
            self._tasks.append(True)
        return (Prompt(message, kind, turn=turn, cwd=self._cwd),)

    def _late_prompt(self, at: str | None) -> Sequence[Piece]:
        """The prompt of a turn in which no event told it."""
        if not self._unheard or (self._turn is not None and self._opened == self._turn):
            return ()
        return self._prompt(self._unheard, at)

    def _message(self, item: _Payload, at: str | None) -> Sequence[Piece]:
        content = [_Text(text=item.content)] if isinstance(item.content, str) else item.content or []
        texts = tuple(Text(text.text) for text in content if text.text)
        if item.role == "assistant":
            return (*self._late_prompt(at), self._part(item, at, texts, Last.TEXT))
        if item.role != "user":
            return ()
        if any(_SHELL.match(text.text) for text in texts):
            return self._prompt(texts, at, PromptKind.SHELL)
        own = tuple(text for text in texts if not _INJECTED.match(text.text))
        if own and isinstance(item, _Line):
            return self._prompt(own, at)  # a bare file: no event will tell it
        self._unheard = own or self._unheard
        return ()

    # -- answers -------------------------------------------------------------------------------------------------
    def _reasoning(self, item: _Payload, at: str | None) -> Sequence[Piece]:
        return (*self._late_prompt(at), self._part(item, at, (), Last.THINKING))

    def _call(self, item: _Payload, at: str | None) -> Sequence[Piece]:
        if not item.call_id:
            return ()
        call = ToolCall(item.call_id, item.name or item.type or "", _input(item))
        return (*self._late_prompt(at), self._part(item, at, (call,), Last.CALL))

    def _part(self, item: _Payload, at: str | None, blocks: tuple[Block, ...], last: Last) -> Part:
        """One item of a model response; items without a result between them are one message."""
        if self._message_id is None:
            self._count += 1
            self._message_id = item.id or item.call_id or f"{self._turn or self._id}#{self._count}"
        stop = "end_turn" if item.phase == "final_answer" else _OPEN if self._marks_ends else None
        return Part(Message(self._message_id, Role.ASSISTANT, blocks, at), last, stop)

    def _output(self, item: _Payload, at: str | None) -> Sequence[Piece]:
        if not item.call_id:
            return ()
        self._message_id = None
        output = item.output
        if isinstance(output, str):
            content, text = tolerant.to_json(output), output
        else:
            blocks = [{"type": "text", "text": part.text} for part in output or () if part.text]
            content, text = tolerant.to_json(blocks), "\n".join(block["text"] for block in blocks)
        result = ToolResult(item.call_id, content, _is_failure(text))
        return (Results(Message(item.id or f"{item.call_id}#output", Role.USER, (result,), at)),)


def _parent(subagent: object) -> str | None:
    spawn = subagent.get("thread_spawn") if isinstance(subagent, dict) else None
    parent = spawn.get("parent_thread_id") if isinstance(spawn, dict) else None
    return parent if isinstance(parent, str) else None


def _input(item: _Payload) -> Json:
    """Arguments are JSON in a string, mostly; a custom tool takes free text."""
    if item.type == "local_shell_call":
        return tolerant.clean_json(item.action)
    written = item.arguments
    if written is None:
        return tolerant.to_json({"input": item.input or ""})
    try:
        return msgspec.Raw(bytes(msgspec.json.decode(written, type=msgspec.Raw)))
    except (msgspec.DecodeError, RecursionError):
        return tolerant.to_json({"input": written})


def _is_failure(output: str) -> bool:
    """There is no flag: the exit code stands in the text, in one of four ways."""
    if output.startswith("{"):
        return bool(_EXIT_CODE.search(output[-400:]))
    return bool(_FAILED.match(output))
