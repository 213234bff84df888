"""A line of a Claude Code session file in, pieces of its conversation out.

Evidence: CLAUDE_CODE_FORMAT (254 public files of 88 versions, 1.0.96 to 2.1.235; 2.1.333 driven live). What surprises:
82 % of `user` lines are tool results; words typed while the agent works stand in `attachment` lines; most of what is
written since 2.1.333 is bookkeeping that repeats prompts and is never read here. Nobody publishes a schema, so every
field may be missing or of another shape.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from distiller.transcript import tolerant
from distiller.transcript.pieces import (
    About,
    Copied,
    End,
    Last,
    Malformed,
    Part,
    Piece,
    Prompt,
    Results,
    Sidechain,
    Unknown,
    Words,
)
from distiller.transcript.recent import Recent
from distiller.transcript.times import local_date, normal
from distiller.vocabulary import (
    Block,
    EndSign,
    Message,
    Origin,
    PromptKind,
    Role,
    SessionRole,
    Text,
    ToolCall,
    ToolResult,
)

# --- shapes of lines: only the fields that are read -------------------------------------------------------------


class _Thinking(msgspec.Struct, gc=False, tag="thinking"):
    """Reasoning; never read."""


class _RedactedThinking(msgspec.Struct, gc=False, tag="redacted_thinking"):
    """Encrypted reasoning."""


class _Image(msgspec.Struct, gc=False, tag="image"):
    """A picture in base64; never decoded."""


class _Document(msgspec.Struct, gc=False, tag="document"):
    """A file beside a prompt; never decoded."""


_Blocks = tuple[Text | ToolCall | ToolResult | _Thinking | _RedactedThinking | _Image | _Document, ...]


class _Said(msgspec.Struct, gc=False):
    id: str | None = None
    model: str | None = None
    stop_reason: str | None = None
    content: str | _Blocks = ""


class _Kind(msgspec.Struct, gc=False):
    kind: str | None = None


class _Position(msgspec.Struct, gc=False, rename="camel"):
    prompt_index: int | None = None
    turn_index: int | None = None


class _Tree(msgspec.Struct, gc=False, rename="camel"):
    """Lines that hang together by `parentUuid`."""

    uuid: str | None = None
    timestamp: str | None = None
    is_sidechain: bool | None = None


class _Assistant(_Tree, gc=False, rename="camel", tag="assistant"):
    message: _Said | None = None
    is_api_error_message: bool | None = None


class _User(_Tree, gc=False, rename="camel", tag="user"):
    message: _Said | None = None
    parent_uuid: str | None = None
    session_id: str | None = None
    cwd: str | None = None
    entrypoint: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_visible_in_transcript_only: bool | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    origin: _Kind | str | None = None
    turn_position: _Position | None = None
    tool_denial_kind: str | None = None


class _System(_Tree, gc=False, rename="camel", tag="system"):
    subtype: str | None = None


class _Attached(msgspec.Struct, gc=False, rename="camel"):
    type: str | None = None
    prompt: str | _Blocks = ""
    command_mode: str | None = None


class _Attachment(_Tree, gc=False, rename="camel", tag="attachment"):
    attachment: _Attached | None = None


class _Summary(msgspec.Struct, gc=False, rename="camel", tag="summary"):
    summary: str | None = None
    leaf_uuid: str | None = None


class _AiTitle(msgspec.Struct, gc=False, rename="camel", tag="ai-title"):
    ai_title: str | None = None


class _CustomTitle(msgspec.Struct, gc=False, rename="camel", tag="custom-title"):
    custom_title: str | None = None


_BOOKKEEPING = (
    *("agent-name", "api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state"),
    *("file-history-delta", "file-history-snapshot", "frame-link", "last-prompt", "mode", "permission-mode"),
    *("pr-link", "progress", "queue-operation", "relocated", "tools-used", "worktree-state"),
)
"""Line types that say nothing of the conversation, or repeat it."""

_SYSTEM_SUBTYPES = frozenset(
    (
        *("api_error", "away_summary", "compact_boundary", "informational", "local_command"),
        *("microcompact_boundary", "model_consent_fallback", "model_refusal_fallback", "scheduled_task_fire"),
    )
)

_shapes: tuple[type[msgspec.Struct], ...] = (
    *(_Assistant, _User, _System, _Attachment, _Summary, _AiTitle, _CustomTitle),
    *(msgspec.defstruct(name, (), gc=False, tag=name) for name in _BOOKKEEPING),
)
_SHAPES = {str(shape.__struct_config__.tag): shape for shape in _shapes}
_AnyLine: Any = functools.reduce(operator.or_, _shapes)
_decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_AnyLine)

# --- whose words ------------------------------------------------------------------------------------------------

_INTERRUPTED = "[Request interrupted by user"
_REFUSED = b"\"The user doesn't want to proceed"
_REASON = re.compile(r"the user said:\n(.*?)(?:\n\nNote: The user's next message may contain.*)?\Z", re.DOTALL)
_NO_REASON = "The user wants to clarify these questions."  # the agent's own words behind "the user said"
_SUMMARY = re.compile(r"\s*This session is being continued from a previous conversation")
_HOLDS = re.compile(r"\s*Stop hook feedback")
_NOTIFICATION = re.compile(r"\s*<(?:task-notification|teammate-message)\b")
_COMMAND = re.compile(r"\s*<command-(?:name|message|args)>")
_SHELL = re.compile(r"\s*<bash-input>")
_INJECTED = re.compile(
    r"\s*(?:<local-command-|<bash-std|Caveat: The messages below were generated|Base directory for this skill:"
    r"|\[Image: (?:source|original)|<[a-z-]*hook|\w+ hook (?:feedback|additional|blocking|success)"
    r"|(?:<(system-reminder|ide_\w+)>.*?</\1>\s*)+\Z)",
    re.DOTALL,
)
_IMAGE = (Text("[Image]"),)
_COPIED = (Copied(),)
_MALFORMED = (Malformed(),)
_RANKS = {"custom": 1, "ai": 2, "summary": 3}
_MAX_PENDING_SUMMARIES = 64


def matches(lines: list[dict[str, Any]], _path: str) -> bool:
    """Whether one of `lines` is of a type that only Claude Code writes, with the fields it writes there."""
    return any(_is_session_line(line) for line in lines)


def parser(path: str, _side: dict[str, Any]) -> Parser:
    """A parser for the file at `path`; side files of sub-agents tell nothing that their lines do not."""
    return Parser(path)


class Parser:
    """Reads one file; it remembers the ids of recent lines, which are a tree and may be repeated."""

    def __init__(self, path: str) -> None:
        name = path.replace("\\", "/").rsplit("/", 1)[-1]
        self._stem = name.removesuffix(".jsonl")
        self._is_agent = name.startswith("agent-")
        self._session_known = False
        self._seen = Recent()
        self._order = 0
        self._summaries: dict[str, str] = {}  # by the leaf they retell; most stand in another file
        self.readers: dict[type, Callable[[Any], Sequence[Piece]]] = {
            _Assistant: self._assistant,
            _User: self._user,
            _System: self._system,
            _Attachment: self._attachment,
            _Summary: self._summary,
            _AiTitle: self._ai_title,
            _CustomTitle: self._custom_title,
        }
        if name.startswith("agent-acompact"):
            self.readers = {}  # it repeats its parent's conversation

    @property
    def opening(self) -> About:
        """The file's name is the session's id, or the sub-agent's."""
        return About(id=self._stem, role=SessionRole.SUBAGENT if self._is_agent else None)

    decode = staticmethod(_decoder.decode_lines)

    def parse(self, raw: bytes) -> Sequence[Piece]:
        """What one line contributes, whatever stands on it."""
        try:
            line = _decoder.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return self._odd(raw)
        read = self.readers.get(type(line))
        return read(line) if read else ()

    def _odd(self, raw: bytes) -> Sequence[Piece]:
        """A line that typed decoding refused: unknown, of an odd shape, dirty, glued or torn."""
        found = tolerant.objects(raw)
        if not found:
            return _MALFORMED if raw.strip() else ()
        pieces: list[Piece] = []
        for value in found:
            kind = value.get("type")
            shape = _SHAPES.get(kind) if isinstance(kind, str) else None
            if shape is None:
                pieces.append(Unknown(kind[:80] if isinstance(kind, str) else "untyped"))
            elif read := self.readers.get(shape):
                pieces.extend(Unknown(f"block/{name}") for name in _unknown_blocks(value))
                pieces.extend(read(tolerant.fit(value, shape)))
        return pieces

    # -- lines of the conversation -------------------------------------------------------------------------------
    def _assistant(self, line: _Assistant) -> Sequence[Piece]:
        self._order += 1
        if line.uuid and not self._seen.note(line.uuid, self._order):
            return self._copied(line.uuid)
        said = line.message
        if said is None or not said.content:
            return ()
        content = said.content
        if type(content) is str:
            content = (Text(content),)
        blocks: tuple[Block, ...] = tuple(
            [_own_call(b) if type(b) is ToolCall else b for b in content if type(b) is Text or type(b) is ToolCall]
        )
        piece = Part(
            Message(said.id or line.uuid or "", Role.ASSISTANT, blocks, normal(line.timestamp)),
            _LAST.get(type(content[-1]), Last.TEXT),
            said.stop_reason,
            said.model,
            line.is_api_error_message is True or said.model == "<synthetic>",
        )
        return (piece,) if not (line.is_sidechain or self._summaries) else self._placed(piece, line)

    def _user(self, line: _User) -> Sequence[Piece]:
        self._order += 1
        if line.uuid and not self._seen.note(line.uuid, self._order):
            return self._copied(line.uuid)
        if line.message is None or not line.message.content:
            return ()
        content = line.message.content
        if type(content) is str:
            texts: tuple[Text, ...] = (Text(content),)
        else:
            results = tuple([_own_result(block) for block in content if type(block) is ToolResult])
            if results:
                beside = tuple([block for block in content if type(block) is Text])
                pieces = self._results(line, results)
                return (*pieces, *self._placed(self._beside(line, beside), line)) if beside else pieces
            texts = tuple([block for block in content if type(block) is Text]) or _IMAGE
        placed = self._placed(self._spoken(line, texts), line)
        return placed if self._session_known else (self._about(line), *placed)

    def _results(self, line: _User, results: tuple[ToolResult, ...]) -> Sequence[Piece]:
        at = normal(line.timestamp)
        name = line.uuid or results[0].tool_use_id
        refusal = None
        for result in results:
            if result.is_error and refusal is None:
                refusal = _refusal(name, result, at)
        piece = Results(Message(name, Role.USER, results, at), refusal, line.tool_denial_kind is not None)
        return (piece,) if not (line.is_sidechain or self._summaries) else self._placed(piece, line)

    def _beside(self, line: _User, texts: tuple[Text, ...]) -> Piece:
        """Text beside a tool result: it joins the running turn, whoever wrote it (no real file has shown any)."""
        kind = self._prompt_kind(line, "\n".join([block.text for block in texts]))
        origin = self._origin(line, kind) if kind else Origin.INJECTED
        return Words(Message(f"{line.uuid}#text", Role.USER, texts, normal(line.timestamp), origin))

    def _spoken(self, line: _User, texts: tuple[Text, ...]) -> Piece:
        """What a `user` line without results is; most are not the person's words (CLAUDE_CODE_FORMAT §5)."""
        text = texts[0].text if len(texts) == 1 else "\n".join([block.text for block in texts])
        at = normal(line.timestamp)
        if text.lstrip().startswith(_INTERRUPTED):
            return End(EndSign.INTERRUPTED, at)
        name = line.uuid or ""
        if line.is_compact_summary or _SUMMARY.match(text):
            return Words(Message(name, Role.USER, texts, at, Origin.SUMMARY))
        kind = self._prompt_kind(line, text)
        if kind is None:
            return Words(Message(name, Role.USER, texts, at, Origin.INJECTED), holds=bool(_HOLDS.match(text)))
        position = line.turn_position
        return Prompt(
            Message(name, Role.USER, texts, at, self._origin(line, kind)),
            kind,
            line.uuid,
            line.parent_uuid,
            self._order,
            self._seen.get(line.parent_uuid) if line.parent_uuid else None,
            f"{position.prompt_index}.{position.turn_index}" if position else None,
            line.prompt_source == "typed" or _kind(line) == "human",
            line.cwd,
            local_date(line.timestamp),
        )

    def _prompt_kind(self, line: _User, text: str) -> PromptKind | None:
        """What kind of prompt starts here; None for injected text, which starts no turn."""
        if line.is_meta or line.is_visible_in_transcript_only:
            return None
        if _NOTIFICATION.match(text) or _kind(line) == "task-notification":
            return PromptKind.NOTIFICATION
        if _COMMAND.match(text):
            return PromptKind.COMMAND
        if _SHELL.match(text):
            return PromptKind.SHELL
        return None if _INJECTED.match(text) else PromptKind.TYPED

    def _origin(self, line: _User, kind: PromptKind) -> Origin:
        if kind is PromptKind.NOTIFICATION:
            return Origin.INJECTED
        if self._is_agent or line.is_sidechain:
            return Origin.SUBAGENT
        return Origin.PROGRAM if _is_program(line) else Origin.PERSON

    def _system(self, line: _System) -> Sequence[Piece]:
        if self._is_copy(line.uuid):
            return self._copied(line.uuid)
        subtype = line.subtype
        if subtype in ("turn_duration", "stop_hook_summary"):
            # A hook may run for half a minute, while the next prompt is typed already.
            mark = End(EndSign.MARKED, normal(line.timestamp), needs_answer=True)
            return self._placed(mark, line)
        return () if subtype in _SYSTEM_SUBTYPES else (Unknown(f"system/{subtype}"[:80]),)

    def _attachment(self, line: _Attachment) -> Sequence[Piece]:
        if self._is_copy(line.uuid):
            return self._copied(line.uuid)
        attached = line.attachment
        if attached is None or attached.type != "queued_command" or not attached.prompt:
            return ()
        prompt = attached.prompt
        texts = (Text(prompt),) if type(prompt) is str else tuple(block for block in prompt if type(block) is Text)
        if not texts:
            return ()
        typed = attached.command_mode == "prompt" and not _NOTIFICATION.match(texts[0].text)
        origin = Origin.INJECTED if not typed else Origin.SUBAGENT if self._is_agent else Origin.PERSON
        return self._placed(Words(Message(line.uuid or "", Role.USER, texts, normal(line.timestamp), origin)), line)

    # -- lines about the session ---------------------------------------------------------------------------------
    def _about(self, line: _User) -> About:
        self._session_known = True
        own = line.session_id or self._stem
        if self._is_agent:
            return About(parent_id=own, root_id=own, cwd=line.cwd, at=normal(line.timestamp))
        role = SessionRole.PROGRAM if _is_program(line) else None
        return About(id=self._stem if _is_uuid(self._stem) else own, role=role, cwd=line.cwd, at=normal(line.timestamp))

    def _summary(self, line: _Summary) -> Sequence[Piece]:
        if not line.summary or not line.leaf_uuid:
            return ()
        if self._seen.get(line.leaf_uuid) is not None:
            return (About(title=line.summary, title_rank=_RANKS["summary"]),)
        if len(self._summaries) < _MAX_PENDING_SUMMARIES:
            self._summaries[line.leaf_uuid] = line.summary
        return ()

    def _ai_title(self, line: _AiTitle) -> Sequence[Piece]:
        return (About(title=line.ai_title, title_rank=_RANKS["ai"]),)

    def _custom_title(self, line: _CustomTitle) -> Sequence[Piece]:
        return (About(title=line.custom_title, title_rank=_RANKS["custom"]),)

    # -- places in the file --------------------------------------------------------------------------------------
    def _is_copy(self, uuid: str | None) -> bool:
        """Whether this file has held a line of that id already; notes it otherwise."""
        self._order += 1
        return uuid is not None and not self._seen.note(uuid, self._order)

    def _copied(self, uuid: str | None) -> Sequence[Piece]:
        """A line that is repeated stands at its newest place: what hangs from it there leads back nowhere."""
        if uuid:
            self._seen.change(uuid, self._order)
        return _COPIED

    def _placed(self, piece: Piece, line: _Tree) -> Sequence[Piece]:
        """`piece` where it belongs: with the person's conversation, or with a sub-agent's inside it."""
        placed: Piece = Sidechain(piece) if line.is_sidechain and not self._is_agent else piece
        if self._summaries and line.uuid in self._summaries:
            return (placed, About(title=self._summaries.pop(line.uuid), title_rank=_RANKS["summary"]))
        return (placed,)


_LAST: dict[type, Last] = {
    Text: Last.TEXT,
    ToolCall: Last.CALL,
    _Thinking: Last.THINKING,
    _RedactedThinking: Last.THINKING,
}


def _is_session_line(line: dict[str, Any]) -> bool:
    kind = line.get("type")
    if kind == "summary":
        return "leafUuid" in line
    if kind == "file-history-snapshot":
        return "messageId" in line
    return isinstance(kind, str) and kind in _SHAPES and ("sessionId" in line or "parentUuid" in line)


def _is_uuid(stem: str) -> bool:
    return len(stem) == 36 and stem.count("-") == 4  # noqa: PLR2004 - the shape of a UUID


def _is_program(line: _User) -> bool:
    """Whether a script typed it. The desktop app drives the SDK too, but says that its prompts are a human's."""
    if line.entrypoint:
        return line.entrypoint.startswith("sdk")
    return line.prompt_source == "sdk" and _kind(line) != "human"


def _kind(line: _User) -> str | None:
    origin = line.origin
    return (origin.kind if isinstance(origin, _Kind) else origin) or line.turn_origin


def _own_call(call: ToolCall) -> ToolCall:
    return ToolCall(call.id, call.name, tolerant.clean_json(call.input))


def _own_result(result: ToolResult) -> ToolResult:
    return ToolResult(result.tool_use_id, tolerant.clean_json(result.content), result.is_error)


def _refusal(name: str, result: ToolResult, at: str | None) -> Message | None:
    """The reason that the person typed while refusing the call."""
    content = bytes(result.content)
    if content.startswith(_REFUSED) and (found := _REASON.search(msgspec.json.decode(content, type=str))):
        reason = found[1].strip()
        if reason and not reason.startswith(_NO_REASON):
            return Message(f"{name}#refusal", Role.USER, (Text(reason),), at, Origin.REFUSAL)
    return None


def _unknown_blocks(value: dict[str, Any]) -> list[str]:
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    kinds = [block.get("type") for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    return [str(kind)[:80] for kind in kinds if not (isinstance(kind, str) and kind in _BLOCK_TYPES)]


_BLOCK_TYPES = frozenset({"text", "tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document"})
