"""A finished turn in, its ledger enrolment out: own words told apart, everything redacted, nothing sent yet.

This is the only way from a transcript into the store, so it is where raw text ends: every string of an `Enrolment`
has been redacted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence

import msgspec

from distiller.memory.ledger import shown_id
from distiller.ports import Notifier
from distiller.service.places import Redact
from distiller.transcript import episode, identity, words
from distiller.vocabulary import (
    Enrolled,
    EnrolledAs,
    Enrolment,
    Message,
    Origin,
    PromptKind,
    Redacted,
    Role,
    Row,
    Session,
    SessionRole,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    WaitingText,
)

RedactJson = Callable[[msgspec.Raw], Redacted]

REPEAT_CHARACTERS = 200
SHOWN_CHARACTERS = 80
BACKGROUND_CHARACTERS = 2000
OWN_ORIGINS = (Origin.PERSON, Origin.PROGRAM, Origin.REFUSAL)


class Rules(msgspec.Struct, frozen=True):
    """What of the configuration decides how turns are enrolled."""

    redact: Redact
    redact_json: RedactJson
    headless: str = "repeats"
    off_record: tuple[str, ...] = ("off the record",)
    kept_text_bytes: int = 1048576
    previous_turns: int = 2
    own_folders: tuple[str, ...] = ()  # where our own model sessions run


def enrolment(
    turn: Turn,
    *,
    rules: Rules,
    file: str,
    project_key: str,
    ended_at: str,
    local_date: str,
    previous: Sequence[Row] = (),
    reading: str | None = None,
    ask: bool = False,
) -> Enrolment:
    """Prepare one turn for the ledger.

    `ended_at` stands in where the lines have no time. `previous` are rows of the turns before, `reading` the
    person's yes or no to the project, `ask` whether an unanswered project makes its turns wait.
    """
    own = "\n".join(own_words(turn))
    redact = rules.redact
    rows = cap(number((*previous, *turn_rows(turn, rules))), rules.kept_text_bytes)
    skip = skip_reason(turn, own, rules, reading)
    program = turn.session.role is SessionRole.PROGRAM
    repeats = program and rules.headless == "repeats" and len(own) >= REPEAT_CHARACTERS
    return Enrolment(
        key=turn.key,
        session=redacted_session(turn.session, rules.redact),
        kind=turn.kind,
        project_key=project_key,
        file=file,
        start_byte=turn.start_byte,
        end_byte=turn.end_byte,
        prompt_at=turn.prompt_at,
        ended_at=ended_at,
        end_sign=turn.end_sign,
        digest=identity.digest(turn),
        words_digest=identity.words_digest(turn),
        message_ids=tuple(map(redact, turn.message_ids)),
        text=WaitingText(rows, turn.local_date or local_date, rules.redact(turn.cwd or "")),
        prompt=Redacted(shown(rules.redact(own or prompt_text(turn)))),
        prompt_digest=hashlib.sha256(own.encode("utf-8", "replace")).hexdigest() if repeats else None,
        skip=skip,
        wait="project" if ask and reading is None else "queued",
        off_record=says_off_record(own, rules.off_record),
        outcome=turn.outcome,
        cost_usd=turn.cost_usd,
        tool_calls=tuple((redact(name), well) for name, well in episode.tool_calls(turn)),
    )


def skip_reason(turn: Turn, own: str, rules: Rules, reading: str | None) -> str | None:
    """Why this turn is shown to no backend, as far as the turn itself tells; None if it may be."""
    role = turn.session.role
    checks = (
        ("own-session", is_own(turn, rules)),
        ("subagent", role is SessionRole.SUBAGENT),
        ("headless", role is SessionRole.PROGRAM and rules.headless == "skip"),
        ("project-off", reading == "off"),
        ("off-record", says_off_record(own, rules.off_record)),
        ("no-words", not words.has_own_words(turn_parts(turn))),
    )
    return next((reason for reason, holds in checks if holds), None)


def is_own(turn: Turn, rules: Rules) -> bool:
    """Whether the session is one of distiller's own: it bears our mark, or ran in a folder where only we work."""
    folder = turn.cwd or turn.session.cwd or ""
    inside = any(folder == own or folder.startswith(f"{own}/") for own in rules.own_folders)
    return turn.session.role is SessionRole.OWN or inside


def turn_parts(turn: Turn) -> list[tuple[words.Part, str]]:
    """(part, text) of everything that stands where a person types, in order."""
    return [part for message in turn.messages for part in message_parts(message)]


def own_words(turn: Turn) -> list[str]:
    """The person's own words of a turn, in order."""
    return [text for part, text in turn_parts(turn) if part == "own"]


def message_parts(message: Message) -> list[tuple[words.Part, str]]:
    """(part, text) of one message's text; empty for the assistant and for tool results."""
    if message.role is not Role.USER or message.origin is None:
        return []
    texts = [block.text for block in message.blocks if isinstance(block, Text)]
    if message.origin not in OWN_ORIGINS:
        return [("injected", text) for text in texts]
    return [part for text in texts for part in words.split(text)]


def turn_rows(turn: Turn, rules: Rules) -> Iterator[Row]:
    """The rows of a turn, redacted (names and ids too: they come from the file), unnumbered, in order."""
    for message in turn.messages:
        name = rules.redact(message.id)
        for part, text in message_parts(message):
            yield Row(0, name, Role.USER, part, rules.redact(text), message.at)
        for block in message.blocks:
            if isinstance(block, Text) and message.role is Role.ASSISTANT:
                yield Row(0, name, Role.ASSISTANT, "assistant", rules.redact(block.text), message.at)
            elif isinstance(block, ToolCall):
                yield Row(
                    0, name, Role.ASSISTANT, "call", rules.redact_json(block.input), message.at,
                    name=rules.redact(block.name), call_id=rules.redact(block.id),
                )  # fmt: skip
            elif isinstance(block, ToolResult):
                yield Row(
                    0, name, Role.USER, "result", rules.redact_json(block.content), message.at,
                    call_id=rules.redact(block.tool_use_id),
                )  # fmt: skip


def background(rows: Sequence[Row]) -> tuple[Row, ...]:
    """What a later turn may see of this one: own words and the assistant's texts, shortened, marked as previous."""
    return tuple(
        msgspec.structs.replace(row, previous=True, text=Redacted(row.text[:BACKGROUND_CHARACTERS]))
        for row in rows
        if row.part in ("own", "assistant") and not row.previous
    )


def number(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Rows numbered from 1."""
    return tuple(msgspec.structs.replace(row, number=place) for place, row in enumerate(rows, 1))


def cap(rows: tuple[Row, ...], limit_bytes: int) -> tuple[Row, ...]:
    """Shorten what is least needed (results, then calls, then assistant text) until the rows fit the limit."""
    excess = sum(len(row.text) for row in rows) - limit_bytes
    kept = list(rows)
    for part in ("result", "call", "assistant", "injected", "pasted"):
        for place in sorted(range(len(kept)), key=lambda at: -len(kept[at].text)):
            row = kept[place]
            if excess <= 0:
                return tuple(kept)
            if row.part == part:
                shorter = row.text[: max(200, len(row.text) - excess)]
                excess -= len(row.text) - len(shorter)
                kept[place] = msgspec.structs.replace(row, text=Redacted(shorter))
    return tuple(kept)


def redacted_session(session: Session, redact: Redact) -> Session:
    """A session that holds no secret in title, folder, model or ids."""
    optional = ("title", "cwd", "model", "parent_id")
    texts = {name: getattr(session, name) for name in ("id", "root_id", *optional)}
    return msgspec.structs.replace(
        session, **{name: None if text is None else redact(text) for name, text in texts.items()}
    )


def says_off_record(own: str, phrases: Sequence[str]) -> bool:
    """Whether one of `phrases` stands alone on a line of the person's words."""
    wanted = {phrase.strip().casefold() for phrase in phrases}
    return any(line.strip(" \t.!").casefold() in wanted for line in own.splitlines())


def prompt_text(turn: Turn) -> str:
    """The first text of a turn, whoever wrote it; for people to recognise it by."""
    texts = (block.text for message in turn.messages for block in message.blocks if isinstance(block, Text))
    return next(texts, turn.kind.value if turn.kind is not PromptKind.TYPED else "")


def shown(text: str) -> str:
    """The first 80 characters on one line."""
    return " ".join(text[: SHOWN_CHARACTERS * 4].split())[:SHOWN_CHARACTERS]


def tell_skipped(notifier: Notifier, turns: Sequence[Enrolment], done: Sequence[Enrolled]) -> None:
    """One line for each turn that the ledger settled by itself: it is over, and no pass will tell of it."""
    for turn, one in zip(turns, done, strict=True):
        if one.how is EnrolledAs.SKIPPED:
            notifier.event(
                "turn.settled",
                turn=shown_id(turn.key),
                revision=one.revision,
                agent=turn.session.agent,
                session=turn.session.id,
                project=turn.project_key,
                outcome=one.state.value,
                reason=one.reason,
                end_sign=turn.end_sign.value,
            )
