"""Pieces of one conversation in, finished turns out; everything that decides "finished" stands in this file.

A turn starts at a prompt and is over (DESIGN §3, replayed on 624 real turns, none closed too early):

    marked        at once     the agent wrote an end mark
    interrupted   at once     the person interrupted
    next-prompt   at once     the next prompt came
    settled       3 s         a final stop reason, text last, no open call
    settled-weak  120 s       a text-only message without stop reason, no open call
    failed        120 s       an API error or a stand-in came last; the person's words still count
    abandoned     24 h        anything else: an open call may wait for a permission all night

An emitted turn stays current until the next prompt. If more of it arrives, it is emitted again when it ends again,
whole and under the same key; late marks and bookkeeping change nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from distiller import timestamps
from distiller.transcript import identity
from distiller.transcript.pieces import FINAL_STOPS, End, Last, Part, Prompt, Results, Rollback, Words
from distiller.transcript.repair import repair
from distiller.transcript.tally import Tally
from distiller.vocabulary import (
    EndSign,
    Message,
    PromptKind,
    Role,
    Session,
    SessionRole,
    ToolCall,
    ToolResult,
    Turn,
    Withdrawn,
)

REMEMBERED_TURNS = 1000  # how far back a rewind is understood
_REWINDING = frozenset({PromptKind.TYPED, PromptKind.COMMAND})  # notifications may share a parent by chance


class Settle(msgspec.Struct, frozen=True):
    """How long a turn must be silent before it counts as finished, in seconds."""

    strong_seconds: float = 3.0
    weak_seconds: float = 120.0
    abandon_seconds: float = 24 * 3600.0


class _Past(msgspec.Struct, frozen=True, gc=False):
    """What a later rewind has to know of an emitted turn."""

    key: str
    kind: PromptKind
    parent: str | None
    order: int


class _Running(msgspec.Struct):
    """The turn that is going on, or has been emitted and may still grow."""

    prompt: Prompt
    start: int
    end: int
    parts: list[Message]
    key: str = ""  # set for good when it is first emitted
    emitted: bool = False
    changed: bool = True  # since it was last emitted
    answered: bool = False
    held: bool = False  # a Stop hook sent the agent back to work
    failed: bool = False
    last: Last = Last.PROMPT
    last_at: str | None = None
    message_id: str = ""  # of the newest assistant message
    message_calls: bool = False  # it has called a tool
    stop: str | None = None
    model: str | None = None
    outcome: str | None = None
    cost_usd: float | None = None
    open: dict[str, str] = msgspec.field(default_factory=dict)  # call id -> tool
    early: set[str] = msgspec.field(default_factory=set)  # results that stand before their call


class Turns:
    """The state machine of one conversation: one per file, and one more for sub-agents that share it.

    `describe` tells the session as it is known now. What is finished is appended to `out`; `before_emitting` is called
    with the sign of a turn that is over, before it is appended.
    """

    def __init__(
        self,
        agent: str,
        describe: Callable[[], Session],
        tally: Tally,
        settle: Settle,
        out: list[Turn | Withdrawn],
        *,
        before_emitting: Callable[[EndSign], None] | None = None,
    ) -> None:
        self._agent = agent
        self._describe = describe
        self._tally = tally
        self._settle = settle
        self._out = out
        self._before_emitting = before_emitting
        self._running: _Running | None = None
        self._past: deque[_Past] = deque(maxlen=REMEMBERED_TURNS)
        self.model: str | None = None  # the newest that answered

    # -- what the caller may ask ---------------------------------------------------------------------------------
    @property
    def last_at(self) -> str | None:
        """The time of the newest line of the running turn."""
        return self._running.last_at if self._running else None

    @property
    def unfinished_byte(self) -> int | None:
        """Where the turn begins that has not been emitted as it stands; None if there is none."""
        return self._running.start if self._running and self._running.changed else None

    def due_at(self, rest_at: str | None) -> str | None:
        """When silence could close the running turn, given the growth last seen; None if there is nothing to close."""
        if self._running is None or not self._running.changed:
            return None
        since = _later(self._running.last_at, rest_at)
        return since and timestamps.after(since, seconds=self._patience(self._running)[1])

    # -- pieces --------------------------------------------------------------------------------------------------
    def prompt(self, piece: Prompt, start: int, end: int) -> None:
        """Start a turn; what came before it is over, or was withdrawn."""
        before = self._running
        if before is not None:
            if not before.answered and _withdraws(piece, before.prompt):
                self._withdraw_unanswered(before)
            else:
                self.close(EndSign.NEXT_PROMPT)
        self._rewind(piece)
        self._running = _Running(piece, start, end, [piece.message], last_at=piece.message.at)

    def part(self, piece: Part, _start: int, end: int) -> None:
        """Add to the answer."""
        run, message = self._running, piece.message
        self._tally.part(message.id)
        calls = [block for block in message.blocks if type(block) is ToolCall]
        for call in calls:
            self._tally.call(call.id)
        if run is None or (piece.failed and not run.changed):
            return  # a stand-in after the end ("No response requested.") is bookkeeping
        if message.id != run.message_id:
            run.message_id, run.message_calls = message.id, False
        for call in calls:
            run.message_calls = True
            if call.id not in run.early:
                run.open[call.id] = call.name
        run.last, run.stop, run.failed = piece.last, piece.stop, piece.failed
        run.answered, run.held = True, False
        if piece.model and not piece.failed:
            run.model = self.model = piece.model
        _grow(run, message, end)

    def results(self, piece: Results, _start: int, end: int) -> None:
        """Add results of tool calls, and a refusal's reason as words of the person."""
        run, forgeable = self._running, False
        for block in piece.message.blocks:
            if type(block) is ToolResult:
                self._tally.result(block.tool_use_id)
                if run is None:
                    continue
                name = run.open.pop(block.tool_use_id, None)
                if name is None:
                    run.early.add(block.tool_use_id)
                # The agent words its own tools' results; an MCP server words its own and could forge a refusal.
                forgeable = forgeable or name is None or name.startswith("mcp__")
        if run is None:
            return
        run.last, run.answered = Last.RESULT, True
        _grow(run, piece.message, end)
        if piece.refusal and (piece.refusal_sure or not forgeable):
            run.parts.append(piece.refusal)

    def words(self, piece: Words, start: int, end: int) -> None:
        """Add text to the running turn; typed words without one start a turn, other text without one is dropped."""
        run = self._running
        if piece.message.origin in identity.OWN_ORIGINS:
            if run is None:
                self.prompt(Prompt(piece.message), start, end)
            else:
                run.last, run.held = Last.WORDS, False
                _grow(run, piece.message, end)
        elif run is not None and run.changed:
            run.held = run.held or piece.holds
            _grow(run, piece.message, end)

    def end(self, piece: End, _start: int, end: int) -> None:
        """Close the running turn as the agent says, unless the mark means another one."""
        run = self._running
        if run is None or not run.changed or _is_foreign(piece, run):
            return
        if run.held and piece.sign is EndSign.MARKED and piece.needs_answer and piece.turn is None:
            return
        run.end, run.last_at = end, _later(run.last_at, piece.at)
        run.answered = True
        run.outcome, run.cost_usd = piece.outcome or run.outcome, piece.cost_usd
        self._emit(run, piece.sign)

    def rollback(self, piece: Rollback, _start: int, _end: int) -> None:
        """Take back the last turns; one that is still running counts as the last."""
        run = self._running
        if run is not None and not run.emitted:
            self._tally.counts.withdrawn += 1
            piece = Rollback(piece.turns - 1)
        self._running = None
        for _ in range(min(piece.turns, len(self._past))):
            self._withdraw(self._past.pop())

    # -- time ----------------------------------------------------------------------------------------------------
    def tick(self, *, now: str, rest_at: str | None) -> None:
        """Close the running turn if it has been silent for long enough at `now`.

        Silence counts from the later of its last line's time and `rest_at`; with neither it counts as at rest.
        """
        run = self._running
        if run is None or not run.changed:
            return
        sign, seconds = self._patience(run)
        since = _later(run.last_at, rest_at)
        if since is None or timestamps.seconds_between(since, now) >= seconds:
            self._emit(run, sign)

    def close(self, sign: EndSign) -> None:
        """Emit what has not been emitted, whatever it waits for."""
        if self._running is not None and self._running.changed:
            self._emit(self._running, sign)

    def _patience(self, run: _Running) -> tuple[EndSign, float]:
        """Which sign silence would be, and after how many seconds."""
        if not run.open and not run.held:
            if run.failed:
                return EndSign.FAILED, self._settle.weak_seconds
            if run.last is Last.TEXT and run.stop in FINAL_STOPS:
                return EndSign.SETTLED, self._settle.strong_seconds
            if run.last is Last.TEXT and run.stop is None and not run.message_calls:
                return EndSign.SETTLED_WEAK, self._settle.weak_seconds
        return EndSign.ABANDONED, self._settle.abandon_seconds

    # -- what comes out ------------------------------------------------------------------------------------------
    def _emit(self, run: _Running, sign: EndSign) -> None:
        if self._before_emitting:
            self._before_emitting(sign)
        messages = repair(run.parts)
        session = self._describe()
        if not run.key:
            run.key = self._key(run, messages)
        prompt = run.prompt
        self._out.append(
            Turn(
                key=run.key,
                session=session,
                kind=prompt.kind,
                messages=messages,
                message_ids=tuple(dict.fromkeys([part.id for part in run.parts if part.role is Role.ASSISTANT])),
                start_byte=run.start,
                end_byte=run.end,
                prompt_at=prompt.message.at,
                ended_at=run.last_at or session.last_at,
                end_sign=sign,
                cwd=prompt.cwd or session.cwd,
                model=run.model or session.model,
                local_date=prompt.local_date,
                typed=prompt.typed,
                outcome=run.outcome,
                cost_usd=run.cost_usd,
            )
        )
        run.changed = False
        if not run.emitted:
            run.emitted = True
            self._past.append(_Past(run.key, prompt.kind, prompt.parent, prompt.order))
            self._tally.counts.subagent_turns += session.role is SessionRole.SUBAGENT

    def _key(self, run: _Running, messages: tuple[Message, ...]) -> str:
        if run.prompt.turn:
            return f"{self._agent}:{run.prompt.turn}"
        previous = self._past[-1].key if self._past else ""
        answer = next((message for message in messages if message.role is Role.ASSISTANT), None)
        return identity.turn_key(self._agent, messages[0], previous=previous, cwd=run.prompt.cwd, answer=answer)

    # -- withdrawals ---------------------------------------------------------------------------------------------
    def _withdraw_unanswered(self, run: _Running) -> None:
        self._tally.counts.withdrawn += 1
        self._running = None
        if run.emitted:
            self._out.append(Withdrawn(self._past.pop().key))

    def _rewind(self, piece: Prompt) -> None:
        """Withdraw the turns from which the new prompt leads away: it hangs where an earlier prompt hung."""
        if piece.parent is None or piece.kind not in _REWINDING:
            return
        for back, past in enumerate(self._past):
            led_back = piece.parent_order is None or piece.parent_order <= past.order
            if past.parent == piece.parent and past.kind in _REWINDING and led_back:
                for _ in range(len(self._past) - back):
                    self._withdraw(self._past.pop())
                return

    def _withdraw(self, past: _Past) -> None:
        self._tally.counts.withdrawn += 1
        self._out.append(Withdrawn(past.key))


def _withdraws(new: Prompt, old: Prompt) -> bool:
    """Whether `new` shows that `old`, which has no answer, was taken back before there was one."""
    if new.kind not in _REWINDING or old.kind not in _REWINDING:
        return False
    if new.position is not None and new.position == old.position:
        return True
    if new.parent is not None and new.parent == old.parent:
        return True
    return new.parent_order is not None and new.parent_order < old.order


def _is_foreign(mark: End, run: _Running) -> bool:
    if mark.turn is not None and run.prompt.turn is not None:
        return mark.turn != run.prompt.turn
    return mark.needs_answer and not run.answered


def _grow(run: _Running, message: Message, end: int) -> None:
    run.parts.append(message)
    run.end, run.changed = end, True
    at = message.at
    if at is not None and (run.last_at is None or at > run.last_at):
        run.last_at = at


def _later(one: str | None, other: str | None) -> str | None:
    if one is None or other is None:
        return one or other
    return max(one, other)
