"""A person's act on facts in, a plan committed out: add, edit, move, pin, forget, undo.

Each act is one group, so that `undo GROUP` takes it back whole. A fact that changed since it was read is not
overwritten: the store refuses with ConflictError and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from distiller.errors import AmbiguousNameError, ConflictError, UnknownNameError, UsageError
from distiller.memory import slug
from distiller.ports import Store
from distiller.vocabulary import (
    Applied,
    Evidence,
    Fact,
    FactKind,
    FactStatus,
    HistoryEntry,
    Op,
    Operation,
    Plan,
    Redacted,
    Strength,
)

PERSON = "person"
RESERVED = "quarantined-"  # names of what only waits for the person's eyes
SUMMARY_CHARACTERS = 120
BODY_CHARACTERS = 2000
NewId = Callable[[], str]


def find(store: Store, reference: str, *, scopes: Sequence[str] = ()) -> Fact:
    """The one fact that `reference` means: a name, `project/name`, or an id prefix of 8 and more.

    A name that stands in several scopes means the one in `scopes` (this project and `user`), if only one is there.

    Raises:
        UnknownNameError, AmbiguousNameError
    """
    owner, _, name = reference.rpartition("/")
    found = store.resolve_fact(name or reference)
    if owner:
        keys = {f"project:{project.key}" for project in store.projects() if owner in (project.name, project.key)}
        found = [fact for fact in found if fact.scope in keys or fact.scope == owner]
    here = [fact for fact in found if fact.scope in scopes]
    chosen = here if len(here) == 1 else found
    if len(chosen) > 1:
        listed = ", ".join(f"{fact.id[:8]} ({shown_scope(fact)})" for fact in chosen[:8])
        raise AmbiguousNameError(f"{reference}: {len(chosen)} facts go by that name: {listed}. Name one by its id.")
    if not chosen:
        raise UnknownNameError(f"{reference}: no fact goes by that name. `distiller facts list` shows all.")
    return chosen[0]


def shown_scope(fact: Fact) -> str:
    """A scope for eyes."""
    return fact.scope.removeprefix("project:")


def said(text: str, *, at: str, local_date: str, project_key: str, message_id: str) -> Evidence:
    """What the person typed here as evidence, so that `facts show` names a source for every fact."""
    return Evidence(
        agent="distiller",
        session_id="command-line",
        turn_key="",
        message_id=message_id,
        role=PERSON,
        quote=Redacted(text),
        said_at=at,
        local_date=local_date,
        project_key=project_key,
        file="",
    )


def add(
    store: Store,
    text: Redacted,
    *,
    name: str | None,
    kind: FactKind,
    scope: str,
    evidence: Evidence,
    new_id: NewId,
    at: str,
) -> Applied:
    """Store what the person says as a fact; under a name that is taken in that scope, the new text replaces the old.

    Raises:
        UsageError: the text is empty or too long, or gives no name; nothing was written.
    """
    said_text = " ".join(text.split())
    if not said_text or len(said_text) > BODY_CHARACTERS:
        raise UsageError(f"A fact has 1 to {BODY_CHARACTERS} characters; nothing was stored.")
    if name is not None and (not slug.is_slug(name) or name.startswith(RESERVED)):
        raise UsageError(f"{name}: a name is two to five words, lower case, joined by dashes; nothing was stored.")
    chosen = name or slug.slugify(said_text)
    if chosen is None:
        raise UsageError("No name can be made of that text; give one with --name (two to five words, a-b-c).")
    taken = next((fact for fact in store.resolve_fact(chosen, scopes=(scope,)) if fact.name == chosen), None)
    fresh = Fact(
        id=taken.id if taken else new_id(),
        scope=scope,
        name=chosen,
        kind=kind,
        status=FactStatus.ACTIVE,
        strength=Strength.STATED,
        summary=shortened(said_text),
        body=said_text,
        created_at=taken.created_at if taken else at,
        updated_at=at,
        first_said_at=taken.first_said_at if taken else at,
        last_confirmed_at=at,
        pinned=taken.pinned if taken else False,
        edited_by_person=True,
        rev=taken.rev if taken else 0,
    )
    op = Op.ADD if taken is None else Op.RESTORE if taken.status is FactStatus.BINNED else Op.EDIT
    return _apply(store, [Operation(op, taken, fresh, (evidence,))], at)


def edit(store: Store, fact: Fact, *, at: str, summary: str | None, body: str | None, kind: FactKind | None) -> Applied:
    """Change the words or the kind of a fact.

    Raises:
        UsageError: nothing to change, or too long; ConflictError: it changed meanwhile. Nothing was written.
    """
    if summary is None:  # the line that is listed follows the body, or it would say what no longer holds
        summary = fact.summary if body is None else shortened(" ".join(body.split()))
    changed = msgspec.structs.replace(
        fact,
        summary=" ".join(summary.split()),
        body=fact.body if body is None else body.strip(),
        kind=kind or fact.kind,
        updated_at=at,
        edited_by_person=True,
    )
    if not 0 < len(changed.summary) <= SUMMARY_CHARACTERS or not 0 < len(changed.body) <= BODY_CHARACTERS:
        raise UsageError(
            f"A summary has 1 to {SUMMARY_CHARACTERS} characters, a body 1 to {BODY_CHARACTERS}; nothing was changed."
        )
    return _apply(store, [Operation(Op.EDIT, fact, changed)], at)


def move(store: Store, fact: Fact, *, scope: str, name: str | None, at: str) -> Applied:
    """Give a fact another scope or name; the old one redirects to it."""
    target = name or fact.name
    if not slug.is_slug(target) or target.startswith(RESERVED):
        raise UsageError(f"{target}: a name is two to five words, lower case, joined by dashes; nothing was changed.")
    if any(other.id != fact.id and other.name == target for other in store.resolve_fact(target, scopes=(scope,))):
        raise ConflictError(f"{target}: that name is taken there; nothing was changed. Choose another with --name.")
    moved = msgspec.structs.replace(fact, scope=scope, name=target, updated_at=at, edited_by_person=True)
    redirect = (fact.scope, fact.name, fact.id, "moved")
    plan = Plan(operations=(Operation(Op.MOVE, fact, moved),), redirects=(redirect,))
    return store.apply(plan, actor=PERSON, at=at)


def pin(store: Store, facts: Sequence[Fact], *, pinned: bool, at: str) -> Applied:
    """Pin or unpin facts: what is pinned is listed first and changes only by the person."""
    op = Op.PIN if pinned else Op.UNPIN
    changes = [
        Operation(op, fact, msgspec.structs.replace(fact, pinned=pinned, updated_at=at))
        for fact in facts
        if fact.pinned is not pinned
    ]
    return _apply(store, changes, at)


def forget(store: Store, facts: Sequence[Fact], *, at: str) -> Applied:
    """Put facts into the bin: hidden at once, back with `undo` until the bin is emptied."""
    changes = [
        Operation(
            Op.FORGET, fact, msgspec.structs.replace(fact, status=FactStatus.BINNED, forgotten_at=at, updated_at=at)
        )
        for fact in facts
        if fact.status is not FactStatus.BINNED
    ]
    return _apply(store, changes, at)


def undo(store: Store, *, group: str | None, at: str) -> Applied:
    """Take back a group of changes (the person's last one, without `group`).

    Raises:
        UnknownNameError: no such group; ConflictError: a fact changed since. Nothing was written.
    """
    if group is None:
        lately = [entry for entry in store.history(limit=1000) if entry.actor == PERSON]
        undone = {entry.reason for entry in lately if entry.op is Op.UNDO}
        mine = (entry.group_id for entry in lately if entry.op is not Op.UNDO and entry.group_id not in undone)
        group = next(mine, None)
    entries = store.history(group=group) if group else []
    if not entries:
        raise UnknownNameError(f"{group or 'undo'}: no such change. `distiller facts history NAME` lists them.")
    return _apply(store, [_reversed(store, entry, at) for entry in entries], at)


def _reversed(store: Store, entry: HistoryEntry, at: str) -> Operation:
    now = store.fact(entry.fact_id)
    if now is None:
        raise ConflictError(f"{entry.fact_id[:8]}: the fact was erased; nothing was changed.")
    if entry.after is None or _content(now) != _content(entry.after):
        raise ConflictError(f"{now.name}: it changed since; nothing was changed. Undo the later change first.")
    before = entry.before or msgspec.structs.replace(now, status=FactStatus.BINNED, forgotten_at=at)
    restored = msgspec.structs.replace(before, updated_at=at, rev=now.rev)
    return Operation(Op.UNDO, now, restored, reason=entry.group_id)


def _content(fact: Fact) -> Fact:
    """What a fact says, without when and how often it was changed: a change that was undone is none."""
    return msgspec.structs.replace(fact, updated_at="", rev=0)


def _apply(store: Store, operations: Sequence[Operation], at: str) -> Applied:
    if not operations:
        return Applied("", ())
    return store.apply(Plan(operations=tuple(operations)), actor=PERSON, at=at)


def shortened(text: str) -> str:
    """At most 120 characters, cut between words."""
    if len(text) <= SUMMARY_CHARACTERS:
        return text
    return text[: SUMMARY_CHARACTERS - 1].rsplit(" ", 1)[0] + "…"
