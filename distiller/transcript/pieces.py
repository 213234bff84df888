"""Nothing in, the words between formats and turns out: what one transcript line can contribute, whatever the agent.

A format turns a line into pieces; `turns` knows pieces only. A line mostly gives one, bookkeeping none, and two objects
glued on one line give two.
"""

from __future__ import annotations

from enum import Enum, auto

import msgspec

from distiller.vocabulary import EndSign, Message, PromptKind, SessionRole

OWN_SESSION_MARK = "distiller: distillation pass"
"""The first words of each prompt that distiller itself sends through an agent: such a session is never distilled."""

FINAL_STOPS = frozenset({"end_turn", "max_tokens", "refusal", "stop_sequence"})
"""Stop reasons of the Messages API after which the model says nothing more."""


class Last(Enum):
    """What the newest line of a turn's conversation was; it decides which timer may close the turn."""

    PROMPT = auto()
    TEXT = auto()
    CALL = auto()
    THINKING = auto()
    RESULT = auto()
    WORDS = auto()  # typed while the agent worked: it will answer


class Prompt(msgspec.Struct, frozen=True, gc=False):
    """The start of a turn.

    `order` and `parent_order` are places in the file, where its lines form a tree: a parent that stands before another
    prompt skips that prompt. `position` is the agent's own count of prompts, as opaque text.
    """

    message: Message
    kind: PromptKind = PromptKind.TYPED
    turn: str | None = None  # the format's own id of the turn
    parent: str | None = None
    order: int = 0
    parent_order: int | None = None
    position: str | None = None
    typed: bool = False
    cwd: str | None = None
    local_date: str = ""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of an assistant message; parts of one message share its id. Thinking leaves no block."""

    message: Message
    last: Last
    stop: str | None = None  # a stop reason of the Messages API; None: the agent does not say
    model: str | None = None
    failed: bool = False  # an API error or a stand-in of the agent's, not the model's words


class Results(msgspec.Struct, frozen=True, gc=False):
    """Results of tool calls, and the reason that the person typed while refusing one.

    `refusal_sure`: the agent itself marks the refusal; else it is only known by its wording.
    """

    message: Message
    refusal: Message | None = None
    refusal_sure: bool = False


class Words(msgspec.Struct, frozen=True, gc=False):
    """Text that joins the running turn: typed while the agent worked, injected, or a compaction's summary.

    `holds`: the agent will go on because of it, whatever end marks follow before its next words.
    """

    message: Message
    holds: bool = False


class End(msgspec.Struct, frozen=True, gc=False):
    """The agent says that the turn is over.

    `needs_answer`: the mark is written late, and so cannot mean a prompt that has no answer yet. `turn`: the id of the
    turn it means, where the agent says so.
    """

    sign: EndSign
    at: str | None = None
    turn: str | None = None
    needs_answer: bool = False
    outcome: str | None = None
    cost_usd: float | None = None


class Rollback(msgspec.Struct, frozen=True, gc=False):
    """The person took back the last `turns` turns."""

    turns: int


class About(msgspec.Struct, frozen=True, gc=False):
    """What a line tells about the session; None leaves what is known. A title of lower `title_rank` wins."""

    id: str | None = None
    root_id: str | None = None
    parent_id: str | None = None
    role: SessionRole | None = None
    title: str | None = None
    title_rank: int = 0
    cwd: str | None = None
    model: str | None = None
    at: str | None = None
    updated_at: str | None = None  # stands in where lines have no time


class Sidechain(msgspec.Struct, frozen=True, gc=False):
    """A piece of a sub-agent's conversation that stands in the file of its parent."""

    piece: Piece


class Unknown(msgspec.Struct, frozen=True, gc=False):
    """A line or block of a type nobody told us about; counted by name."""

    name: str


class Copied(msgspec.Struct, frozen=True, gc=False):
    """A line that this file has already held."""


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A line that is no JSON object."""


Piece = Prompt | Part | Results | Words | End | Rollback | About | Sidechain | Unknown | Copied | Malformed
