"""Small values for tests of stores: each has a sensible default for all that a test does not speak of."""

from __future__ import annotations

from typing import Any

from distiller.vocabulary import (
    Claim,
    Cursor,
    EndSign,
    Enrolment,
    Evidence,
    Fact,
    FactKind,
    FactStatus,
    FileIdentity,
    Op,
    Operation,
    PromptKind,
    Redacted,
    Reply,
    Request,
    Role,
    Row,
    Session,
    Settlement,
    Strength,
    TurnState,
    Usage,
    Verdict,
    WaitingText,
    Window,
)

AT = "2026-12-01T12:00:00.000Z"


def session(session_id: str = "s1", *, agent: str = "claude_code") -> Session:
    """A person's session."""
    return Session(agent, session_id, cwd="/work/shop")


def enrolment(
    key: str,
    *,
    of: Session | None = None,
    digest: str = "d1",
    words: str = "w1",
    own: str = "From now on use uv in this repo",
    **more: Any,
) -> Enrolment:
    """A finished turn in which the person said `own`."""
    text = WaitingText((Row(1, "u1", Role.USER, "own", Redacted(own), AT),), "2026-12-01", Redacted("/work/shop"))
    fields: dict[str, Any] = {
        "kind": PromptKind.TYPED,
        "project_key": "p1",
        "file": "/s/a.jsonl",
        "start_byte": 0,
        "end_byte": 100,
        "prompt_at": AT,
        "ended_at": AT,
        "end_sign": EndSign.MARKED,
        "message_ids": (f"a-{key}",),
        "prompt": Redacted("From now on use uv"),
    }
    return Enrolment(
        key=key, session=of or session(), digest=digest, words_digest=words, text=text, **{**fields, **more}
    )


def cursor(path: str, offset_byte: int) -> Cursor:
    """A cursor; its inode is as large as they come."""
    return Cursor(path, "claude_code", "s1", FileIdentity(1, 2**64 - 1, "h", 64, "t"), offset_byte, 500, AT)


def quote(message_id: str, turn_key: str, **more: Any) -> Evidence:
    """The person's words in a turn."""
    fields: dict[str, Any] = {"said_at": AT, "quote": Redacted("From now on use uv"), "session_id": "s1"}
    return Evidence(
        agent="claude_code",
        turn_key=turn_key,
        message_id=message_id,
        role="person",
        local_date="2026-12-01",
        project_key="p1",
        file="/s/a.jsonl",
        root_session_id="s1",
        **{**fields, **more},
    )


def claim(slug: str, **more: Any) -> Claim:
    """A verified claim about the project."""
    fields: dict[str, Any] = {
        "op": "add",
        "kind": FactKind.FEEDBACK,
        "scope": "project",
        "summary": Redacted("Use uv for packages"),
        "body": Redacted("Use uv in this repo, not pip."),
        "strength": Strength.STATED,
        "evidence": (quote("u1", "k1"),),
    }
    return Claim(slug=slug, **{**fields, **more})


def fact(fact_id: str, **more: Any) -> Fact:
    """An active fact of project p1."""
    fields: dict[str, Any] = {
        "scope": "project:p1",
        "name": "package-manager",
        "kind": FactKind.FEEDBACK,
        "status": FactStatus.ACTIVE,
        "strength": Strength.STATED,
        "summary": "Use uv for packages",
        "body": "Use uv in this repo, not pip.",
        "created_at": AT,
        "updated_at": AT,
        "first_said_at": AT,
        "last_confirmed_at": AT,
    }
    return Fact(id=fact_id, **{**fields, **more})


def add(fact_id: str, *, evidence: tuple[Evidence, ...] = (), **more: Any) -> Operation:
    """The operation that brings a fact into being."""
    return Operation(Op.ADD, None, fact(fact_id, **more), evidence)


def settled(
    state: TurnState,
    reason: str | None = None,
    *,
    kept: tuple[Claim, ...] = (),
    note: str | None = None,
    usage: Usage | None = None,
    **more: Any,
) -> Settlement:
    """A judged pass."""
    verdict = Verdict(kept=kept, session_note=None if note is None else Redacted(note))
    return Settlement(state, reason, verdict, usage or Usage(), **{"backend": "embedded", **more})


def asked(own: str = "From now on use uv in this repo", **more: Any) -> Request:
    """A question about a window in which the person said `own`."""
    window = Window((Row(1, "u1", Role.USER, "own", Redacted(own), AT),), "2026-12-01", Redacted("/work/shop"))
    return Request(window, (), "p1", **{"prompt": Redacted(f"[1] user: {own}"), "prompt_version": "1", **more})


def answered(text: str = "{}", *, usage: Usage | None = None, **more: Any) -> Reply:
    """A model's answer that took one call."""
    used = usage or Usage(calls=1, input_tokens=400, output_tokens=50, cost_usd=0.004)
    return Reply(text, used, **{"backend": "anthropic", "model": "haiku", "prompt_version": "1", **more})


def waits(retry_at: str) -> Settlement:
    """A pass whose backend did not answer."""
    return Settlement(TurnState.WAITING, "retry", Verdict(), Usage(), "embedded", retry_at=retry_at)
