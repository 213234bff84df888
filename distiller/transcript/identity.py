"""A turn in, digests out that tell whether it, or only the person's own words in it, changed.

Both depend on what was said alone: not on session, path, byte offsets, ids or times, which copies and forks re-stamp.
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from distiller.transcript import words
from distiller.vocabulary import Message, Origin, Text, Turn

OWN_ORIGINS = frozenset({Origin.PERSON, Origin.PROGRAM, Origin.REFUSAL})
"""Whose user text can hold own words; a program's prompt is read like a person's."""

_encode = msgspec.json.Encoder().encode


def digest(turn: Turn) -> str:
    """SHA-256 (hex) of all that was said in `turn`."""
    return _digest([(message.role, message.origin, message.blocks) for message in turn.messages])


def words_digest(turn: Turn) -> str:
    """SHA-256 (hex) of the person's own words in `turn`; equal for all turns that have none."""
    own = (text.strip() for message in turn.messages for text in own_words(message))
    return _digest([text for text in own if text])


def own_words(message: Message) -> list[str]:
    """What the person said in `message` in words of their own, in order; often nothing."""
    if message.origin not in OWN_ORIGINS:
        return []
    texts = (block.text for block in message.blocks if isinstance(block, Text))
    return [text for whole in texts for part, text in words.split(whole) if part == "own"]


def turn_key(agent: str, prompt: Message, *, previous: str, cwd: str | None, answer: Message | None) -> str:
    """A key for a turn whose format has no id: made of what copies keep and two equal prompts do not share.

    `answer` is the turn's first assistant message, if there is one; `previous` the key of the turn before, or "".
    """
    said = answer.blocks if answer else ()
    return f"{agent}:sha256:{_digest([prompt.blocks, previous, cwd, said])}"


def _digest(value: object) -> str:
    return sha256(_encode(value)).hexdigest()
