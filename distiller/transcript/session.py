"""The room's front door: bytes of one session file in, its finished turns out.

The reader keeps its place and its unfinished turn in memory. Losing that memory is safe: a reader that starts behind
byte 0 and meets conversation asks to be started again from 0, since roles, rewinds, titles and keys without an id rest
on what stands before; the ledger removes the doubles. A cursor thus saves reading files that no longer grow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from distiller.transcript import formats, words
from distiller.transcript.lines import MAX_LINE_BYTES, Block, LineReader
from distiller.transcript.pieces import (
    OWN_SESSION_MARK,
    About,
    Copied,
    End,
    Malformed,
    Part,
    Piece,
    Prompt,
    Results,
    Rollback,
    Sidechain,
    Unknown,
    Words,
)
from distiller.transcript.tally import Tally
from distiller.transcript.turns import Settle, Turns
from distiller.vocabulary import ReadCounts, Session, SessionRole, Text, Turn, Withdrawn

TITLE_CHARACTERS = 120
TITLE_SOURCE_CHARACTERS = 400  # of the first prompt: it may be a paste of megabytes
FIRST_PROMPT_RANK = 9  # of titles; those that an agent writes rank lower and win
MAX_UNKNOWN_NAMES = 200  # a name comes from the file and must not fill the memory

Taker = Callable[[Any, int, int], None]


class SessionReader:
    """Reads one file of `agent` (a name in `formats.FORMATS`) from `start_byte` on.

    `side` is the decoded `.meta.json` beside it, if there is one. Nothing in a file makes it raise.
    `needs_rereading` means: drop this reader, start another one at byte 0; until then it gives nothing.
    """

    def __init__(
        self,
        agent: str,
        path: str,
        *,
        start_byte: int = 0,
        side: dict[str, Any] | None = None,
        max_line_bytes: int = MAX_LINE_BYTES,
        settle: Settle = Settle(),  # noqa: B008 - a frozen value
    ) -> None:
        self.counts = ReadCounts()
        self.needs_rereading = False
        self._agent = agent
        self._lines = LineReader(start_byte, max_line_bytes)
        self._about = About(id="")
        self._first_prompt_seen = False
        self._started_at: str | None = None
        self._rest_at: str | None = None
        self._out: list[Turn | Withdrawn] = []
        tally = Tally(self.counts)
        self._side = Turns(agent, self._describe_side, tally, settle, self._out)
        self._main = Turns(agent, lambda: self.session, tally, settle, self._out, before_emitting=self._side.close)
        self._parser = formats.FORMATS[agent].parser(path, side or {})
        self._learn(self._parser.opening)
        self._side_takers = _conversation(self._side)
        self._takers = self._all_takers() if start_byte == 0 else self._takers_behind()

    # -- reading -------------------------------------------------------------------------------------------------
    def feed(self, data: bytes) -> list[Turn | Withdrawn]:
        """Take in the bytes that follow; what they finish, in order. However they are cut, the same comes out."""
        self._read(self._lines.feed(data))
        self.counts.too_long = self._lines.too_long
        return self._taken()

    def tick(self, *, now: str, grown_at: str | None) -> list[Turn | Withdrawn]:
        """Let time pass: what silence finishes at `now`; `grown_at` is when the file was last seen to grow."""
        self._rest_at = grown_at or self._about.updated_at
        if not self.needs_rereading:
            self._side.tick(now=now, rest_at=self._rest_at)
            self._main.tick(now=now, rest_at=self._rest_at)
        return self._taken()

    def finish(self, *, now: str, grown_at: str | None) -> list[Turn | Withdrawn]:
        """Read a last line that is whole but for its newline, then let time pass."""
        tail = self._lines.take_tail()
        if tail:
            self._read([tail])
        return self.tick(now=now, grown_at=grown_at)

    # -- where and what ------------------------------------------------------------------------------------------
    @property
    def position(self) -> int:
        """The byte after all that was taken in: where to read on."""
        return self._lines.position

    @property
    def cursor_byte(self) -> int:
        """Where reading may start after a restart: the oldest unfinished turn, else the end of the last whole line."""
        starts = (self._main.unfinished_byte, self._side.unfinished_byte, self._lines.complete_byte)
        return min(start for start in starts if start is not None)

    @property
    def unfinished(self) -> bool:
        """Whether a turn has begun and not ended yet."""
        return self._main.unfinished_byte is not None or self._side.unfinished_byte is not None

    @property
    def due_at(self) -> str | None:
        """When the next tick could finish something (UTC text); None if time alone finishes nothing."""
        if self.needs_rereading:
            return None
        times = (self._main.due_at(self._rest_at), self._side.due_at(self._rest_at))
        return min((at for at in times if at), default=None)

    @property
    def session(self) -> Session:
        """The session as far as its file has told."""
        about = self._about
        return Session(
            agent=self._agent,
            id=about.id or "",
            root_id=about.root_id or "",
            parent_id=about.parent_id,
            role=about.role or SessionRole.PERSON,
            title=about.title,
            cwd=about.cwd,
            model=self._main.model or about.model,
            started_at=self._started_at,
            last_at=self._main.last_at or about.updated_at or self._started_at,
        )

    def _describe_side(self) -> Session:
        """The sub-agents whose conversation stands in their parent's file; all of them together."""
        parent = self.session
        return msgspec.structs.replace(
            parent, id=f"{parent.id}:sidechain", parent_id=parent.id, role=SessionRole.SUBAGENT, title=None
        )

    # -- lines ---------------------------------------------------------------------------------------------------
    def _read(self, blocks: list[Block]) -> None:
        for block in blocks:
            ends = block.line_ends()
            try:
                values = self._parser.decode(block.raw)
            except (msgspec.DecodeError, RecursionError):
                values = []
            if len(values) == len(ends):
                self._read_decoded(block.start, ends, values)
            else:
                self._read_one_by_one(block)  # one of its lines is odd, blank, or holds two objects

    def _read_decoded(self, base: int, ends: list[int], values: list[Any]) -> None:
        """Read lines that are decoded already; this loop runs once for each line of a session."""
        readers, takers = self._parser.readers, self._takers
        self.counts.lines += len(values)
        start = base
        for value, end in zip(values, ends, strict=True):
            kind = type(value)
            if kind in readers:
                for piece in readers[kind](value):
                    takers[type(piece)](piece, start, base + end)
            start = base + end

    def _read_one_by_one(self, block: Block) -> None:
        takers = self._takers
        for line in block.lines():
            if line.raw.isspace():
                continue
            self.counts.lines += 1
            for piece in self._parser.parse(line.raw):
                takers[type(piece)](piece, line.start, line.end)

    def _taken(self) -> list[Turn | Withdrawn]:
        taken = self._out.copy()
        self._out.clear()
        return taken

    def _all_takers(self) -> dict[type, Taker]:
        """What is done with each kind of piece; a table, because this runs once for each line."""
        return {
            **_conversation(self._main),
            Prompt: self._prompt,
            Rollback: self._main.rollback,
            Sidechain: self._sidechain,
            **self._bookkeepers(),
        }

    def _takers_behind(self) -> dict[type, Taker]:
        """The same for a reader that has not seen the beginning."""
        conversation = (Prompt, Part, Results, Words, Rollback, Sidechain)
        return {End: _pass, **dict.fromkeys(conversation, self._ask_for_rereading), **self._bookkeepers()}

    def _bookkeepers(self) -> dict[type, Taker]:
        return {
            About: lambda piece, _start, _end: self._learn(piece),
            Unknown: self._unknown,
            Copied: self._copied,
            Malformed: self._malformed,
        }

    # -- pieces --------------------------------------------------------------------------------------------------
    def _prompt(self, piece: Prompt, start: int, end: int) -> None:
        if not self._first_prompt_seen:
            self._first_prompt_seen = True
            self._learn(_about_first_prompt(piece))
        self._main.prompt(piece, start, end)

    def _sidechain(self, piece: Sidechain, start: int, end: int) -> None:
        self._side_takers[type(piece.piece)](piece.piece, start, end)

    def _learn(self, news: About) -> None:
        known = self._about
        self._started_at = self._started_at or news.at
        retitled = news.title is not None and (known.title is None or news.title_rank <= known.title_rank)
        self._about = About(
            id=news.id or known.id,
            root_id=news.root_id or known.root_id,
            parent_id=news.parent_id or known.parent_id,
            role=news.role or known.role,
            title=news.title if retitled else known.title,
            title_rank=news.title_rank if retitled else known.title_rank,
            cwd=news.cwd or known.cwd,
            model=news.model or known.model,
            updated_at=news.updated_at or known.updated_at,
        )

    def _unknown(self, piece: Unknown, _start: int, _end: int) -> None:
        names = self.counts.unknown
        name = piece.name if piece.name in names or len(names) < MAX_UNKNOWN_NAMES else "other"
        names[name] = names.get(name, 0) + 1

    def _copied(self, _piece: Copied, _start: int, _end: int) -> None:
        self.counts.copied_lines += 1

    def _malformed(self, _piece: Malformed, _start: int, _end: int) -> None:
        self.counts.malformed += 1

    def _ask_for_rereading(self, _piece: Piece, _start: int, _end: int) -> None:
        self.needs_rereading = True


def _conversation(turns: Turns) -> dict[type, Taker]:
    """Which method takes which piece of a conversation."""
    return {Prompt: turns.prompt, Part: turns.part, Results: turns.results, Words: turns.words, End: turns.end}


def _pass(_piece: Piece, _start: int, _end: int) -> None:
    """A late end mark changes nothing."""


def _about_first_prompt(piece: Prompt) -> About:
    text = "\n".join(block.text for block in piece.message.blocks if isinstance(block, Text)).lstrip()
    own = "\n".join(own for part, own in words.split(text[:TITLE_SOURCE_CHARACTERS]) if part == "own").strip()
    title = own.split("\n", 1)[0][:TITLE_CHARACTERS] or None
    role = SessionRole.OWN if text.startswith(OWN_SESSION_MARK) else None
    return About(title=title, title_rank=FIRST_PROMPT_RANK, role=role, cwd=piece.cwd, at=piece.message.at)
