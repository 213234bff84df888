"""An agent's name in, its reading of lines out; a file's first bytes in, the agent that wrote it out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from distiller.transcript import tolerant
from distiller.transcript.formats import claude_code, codex, neutral
from distiller.transcript.pieces import About, Piece

NO_TRANSCRIPTS = frozenset({"journal.jsonl", "history.jsonl", "session_index.jsonl", "sessions-index.json"})
"""Files that stand among session files and hold no conversation."""


class Parser(Protocol):
    """Reads the lines of one file, in order; it may remember what earlier ones said.

    Healthy lines are decoded many at once and then read, each by the reader of its type (types without one say
    nothing); a block in which one line is odd is parsed line by line.
    """

    @property
    def opening(self) -> About:
        """What path and side file tell before the first line."""
        ...

    @property
    def readers(self) -> Mapping[type, Callable[[Any], Sequence[Piece]]]:
        """What a decoded line contributes, by its type."""
        ...

    def decode(self, raw: bytes, /) -> list[Any]:
        """Decode whole lines. Raises msgspec.DecodeError or RecursionError if one of them is odd."""
        ...

    def parse(self, raw: bytes) -> Sequence[Piece]:
        """What one line contributes, whatever stands on it. Never raises."""
        ...


class Format(Protocol):
    """What an agent's module offers."""

    def matches(self, lines: list[dict[str, Any]], path: str) -> bool:
        """Whether a file that begins with these objects is a session of this agent."""
        ...

    def parser(self, path: str, side: dict[str, Any]) -> Parser:
        """A parser for the file at `path` with the decoded side file `side` ({} if there is none)."""
        ...


FORMATS: dict[str, Format] = {"claude_code": claude_code, "codex": codex, "neutral": neutral}


def sniff(path: str, head: bytes) -> str | None:
    """The agent that wrote the file at `path` which begins with `head`, or None if it is no session file.

    The last line of `head` may be cut; 64 KiB tell most formats apart.
    """
    name = path.replace("\\", "/").rsplit("/", 1)[-1]
    if name in NO_TRANSCRIPTS or not name.endswith(".jsonl"):
        return None
    lines = [found for raw in head.split(b"\n") for found in tolerant.objects(raw)]
    return next((agent for agent, module in FORMATS.items() if module.matches(lines, path)), None)
