"""The store and the daemon's state in, what people ask about them out: `status`, `why`, lists as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from distiller import timestamps
from distiller.ports import Clock, Store, Transcripts
from distiller.service import spending
from distiller.service.backfill import expiring
from distiller.service.gate import Budget, Closed, halt_key, over, rest_key, resting
from distiller.service.recall import quote_of
from distiller.vocabulary import (
    Cursor,
    Evidence,
    Fact,
    HistoryEntry,
    PassRecord,
    Project,
    SessionFile,
    SessionRow,
    TurnRow,
    TurnState,
)

HEARTBEAT_LIMIT_SECONDS = 60
WAITING_LIMIT_SECONDS = 3600

EXPLANATIONS = {
    ("kept", None): "Something in it was worth keeping.",
    ("empty", "no-cue"): "The embedded backend found no explicit standing statement in your own words.",
    ("empty", "nothing-durable"): "Nothing in it would help a later session.",
    ("empty", "one-off"): "It was meant for that moment only.",
    ("empty", "already-known"): "All it says is known already.",
    ("empty", "refused"): "Every claim about it was turned down by the checks; they are listed.",
    ("empty", "suspicious"): "Only text that gives orders or hides itself; it is quarantined and served to no agent.",
    ("skipped", "no-words"): "You said nothing of your own in it (a command, an assent, a bare 'continue').",
    ("skipped", "copy"): "A copy of turns that are settled under another key (a fork, a resumed or copied file).",
    ("skipped", "repeat"): "A program sent the same long prompt before.",
    ("skipped", "paused"): "It ended while memory was paused. `distiller retry --paused` reads such turns after all.",
    ("skipped", "off-record"): "You said that this session is off the record.",
    ("skipped", "withdrawn"): "You took the prompt back (rewind or rollback).",
    ("skipped", "own-session"): "It is a session of distiller itself.",
    ("skipped", "subagent"): "A sub-agent's turn: its prompts were written by a model, not by you.",
    ("skipped", "headless"): "A program's session, and the setting `headless` is `skip`.",
    ("skipped", "project-off"): "Reading is off for this project.",
    ("skipped", "purged"): "It was purged.",
    ("waiting", "queued"): "It will be distilled as soon as the service gets to it.",
    ("waiting", "behind"): "An earlier turn of its session is due first.",
    ("waiting", "retry"): "The backend failed; it is tried again at the time shown.",
    ("waiting", "resting"): "The backend rests (it was busy or away); `distiller status` says until when.",
    (
        "waiting",
        "by-hand",
    ): "It was read for a `distiller backfill` with another backend or money of its own, and waits for "
    "the same command.",
    ("waiting", "budget"): "The day's budget is spent; it is distilled when a new day begins, or with a larger budget.",
    ("waiting", "project"): "You have not said yet whether this project may be read.",
    ("waiting", "halted"): "The service is halted; `distiller status` says why and what to do.",
    ("dead", "backend-failed"): "The backend failed too often. `distiller retry` tries again.",
    ("dead", "answer-unusable"): "Neither the model's answer nor its second try could be used. `distiller retry` "
    "asks again.",
    ("dead", "model-refused"): "The model refused to read it, twice. `distiller retry` asks again.",
    ("dead", "too-long"): "The model takes no prompt of that length: lower `window.tokens`, then `distiller retry`.",
    ("dead", "request-invalid"): "The server turned the request down; why is shown. `distiller retry` asks again.",
    ("dead", "unreadable"): "Its text in the store is damaged; `distiller backfill` reads the session file again.",
    ("dead", "text-lost"): "Its text is gone from the store and from its file.",
}


class Problem(msgspec.Struct, frozen=True):
    """Something a person has to know, and what to do about it."""

    code: str
    text: str
    fix: str


class Backlog(msgspec.Struct, frozen=True):
    """Old sessions that only `backfill` reads."""

    sessions: int
    bytes: int
    oldest_at: str | None
    expiring: int


class AgentRow(msgspec.Struct, frozen=True):
    """One agent and what is known of its sessions."""

    agent: str
    roots: tuple[str, ...]
    sessions: int
    last_at: str | None


def explain(row: TurnRow) -> str:
    """One sentence for a turn's state."""
    by_hand = row.state is TurnState.WAITING and row.by_hand
    return EXPLANATIONS.get(
        (row.state.value, "by-hand" if by_hand else row.reason),
        f"{row.state.value}: {row.reason or 'no reason recorded'}.",
    )


def status(
    store: Store,
    *,
    files: Sequence[SessionFile],
    live: Mapping[str, Any],
    version: str,
    backend: str,
    model: str | None,
    budget: Budget | None,
    priced: bool,
    clock: Clock,
    roots: Mapping[str, Sequence[str]],
    path: str,
    stored_path: Callable[[str], str],
    keep_days: Callable[[str], int | None],
) -> dict[str, Any]:
    """All that `status --json` prints (CONTRACTS §7)."""
    now = timestamps.to_text(clock.now())
    totals = store.totals(day_from=clock.local_day(now)[0])
    pauses = store.pauses(at=now)
    halt = halted(store, backend, now)
    rest = resting(store.setting(rest_key(backend)), now)
    running = bool(live.get("running"))
    paused = next((pause for pause in pauses if pause.level == "all"), None)
    state = "stopped" if not running else "paused" if paused else "halted" if halt else "running"
    since = (
        paused.from_at
        if paused
        else halt["at"]
        if halt
        else live.get("started_at")
        if running
        else live.get("heartbeat_at")
    )
    at_budget = halt is not None and halt["reason"] == "budget"
    oldest_due = None if paused or at_budget or rest else totals.oldest_due_at
    problems = found_problems(live, None if at_budget else halt, oldest_due, now)
    if budget is not None and (bad := spending.badly_answered(store, now)):
        problems.append(Problem("answers-unusable", bad, "choose another model: `distiller config set`"))
    cursors = store.cursors()
    read_to = {file.path: cursor for file in files if (cursor := cursors.get(stored_path(file.path))) is not None}
    first_start = store.setting("first_start_at")
    return {
        "version": version,
        "healthy": not problems,
        "problems": problems,
        "state": state,
        "reason": halt["reason"] if halt and not paused else None,
        "since": since,
        "until": paused.until_at if paused else halt.get("until") if halt else None,
        "daemon": {key: live.get(key) for key in ("pid", "version", "started_at", "heartbeat_at")},
        "backend": {"name": backend, "model": model, "resting_until": rest.until if rest else None},
        "turns": {state.value: totals.states.get(state.value, 0) for state in ORDER},
        "waiting": totals.waiting,
        "skipped": totals.skipped,
        "dead": totals.dead,
        "oldest_waiting_at": totals.oldest_waiting_at,
        "backlog": backlog(files, read_to, first_start, now, keep_days),
        "today": {
            "calls": totals.today.calls,
            "input_tokens": totals.today.input_tokens,
            "output_tokens": totals.today.output_tokens,
            "tokens": spending.tokens(totals.today),
            "cost_usd": totals.today.cost_usd,
            "budget_tokens": budget.daily_tokens if budget else None,
            "budget_usd": budget.daily_usd if budget else None,
        },
        "priced": priced,
        "note": told(halt if at_budget else None, rest, spending.enough(store, clock, budget) if budget else None),
        "facts": totals.facts,
        "candidates": totals.candidates,
        "proposals": totals.proposals,
        "last_settled_at": totals.last_settled_at,
        "last_error": dict(zip(("at", "code", "text"), totals.last_error, strict=True)) if totals.last_error else None,
        "agents": [agent_row(agent, places, files, store) for agent, places in roots.items()],
        "lines": {
            "malformed": totals.lines_malformed,
            "too_long": totals.lines_too_long,
            "unknown": totals.lines_unknown,
        },
        "store": {"path": path, "bytes": totals.store_bytes, "wal_bytes": totals.wal_bytes, "schema": totals.schema},
    }


ORDER = (TurnState.KEPT, TurnState.EMPTY, TurnState.SKIPPED, TurnState.WAITING, TurnState.DEAD)


def halted(store: Store, backend: str, now: str) -> dict[str, Any] | None:
    """What halts the service: the growth alarm, or what `backend` met, unless it has ended by itself."""
    alarm = store.setting("halt")
    halt = store.setting(halt_key(backend))
    return alarm or (halt if halt and not over(halt, now) else None)


def told(halt: Mapping[str, Any] | None, rest: Closed | None, enough: str | None) -> str | None:
    """What is no fault and still explains why turns wait: a spent budget, a rest."""
    if halt is not None:
        wish = f" Three days in a row now: {enough} would suffice." if enough else ""
        return f"{halt['text'][:1].upper()}{halt['text'][1:]}.{wish}"
    return f"The backend rests: {rest.text}. Turns wait." if rest is not None else None


def found_problems(
    live: Mapping[str, Any], halt: Mapping[str, Any] | None, oldest_waiting_at: str | None, now: str
) -> list[Problem]:
    """What keeps the service from being healthy."""
    problems = []
    heartbeat = live.get("heartbeat_at")
    if not live.get("running"):
        problems.append(
            Problem("stopped", "The service is not running; new turns are read when it starts.", "distiller run")
        )
    elif heartbeat is None or timestamps.seconds_between(heartbeat, now) > HEARTBEAT_LIMIT_SECONDS:
        problems.append(Problem("no-heartbeat", f"The service has not said a word since {heartbeat}.", "restart it"))
    if trouble := live.get("trouble"):
        problems.append(Problem("trouble", str(trouble), "see `distiller logs`"))
    if unreadable := live.get("unreadable"):
        file, reason = next(iter(unreadable.items()))
        text = f"{len(unreadable)} session file(s) cannot be read, the first is {file} ({reason}); the others are."
        problems.append(Problem("file-unreadable", text, "see `distiller logs --level warning`"))
    if halt:
        fix = f"{halt['fix']}, then `distiller resume`" if halt.get("fix") else "distiller resume"
        problems.append(Problem(str(halt["reason"]), f"Halted: {halt['text']}. Turns wait.", fix))
    if oldest_waiting_at is not None and timestamps.seconds_between(oldest_waiting_at, now) > WAITING_LIMIT_SECONDS:
        text = f"A turn could have been read since {oldest_waiting_at} and was not."
        problems.append(Problem("waiting-long", text, "see `distiller logs`"))
    return problems


def backlog(
    files: Sequence[SessionFile],
    cursors: Mapping[str, Cursor],
    first_start: str | None,
    now: str,
    keep_days: Callable[[str], int | None],
) -> Backlog:
    """Sessions with turns older than the first start that no backfill has read; the page of nothing lost."""
    left = [file for file in files if is_backlog(file, cursors.get(file.path), first_start or now)]
    return Backlog(
        sessions=len(left),
        bytes=sum(file.size_bytes for file in left),
        oldest_at=min((file.modified_at for file in left), default=None),
        expiring=sum(expiring(file, keep_days(file.agent), now) for file in left),
    )


def is_backlog(file: SessionFile, cursor: Cursor | None, first_start: str) -> bool:
    """Whether `file` holds turns that only a backfill reads."""
    if cursor is None:
        return file.modified_at < first_start
    if cursor.backfilled_to_byte:
        return cursor.backlog_to_byte > cursor.backfilled_to_byte
    return cursor.backlog_to_byte > 0 or (cursor.offset_byte == 0 and file.modified_at < first_start)


def agent_row(agent: str, roots: Sequence[str], files: Sequence[SessionFile], store: Store) -> AgentRow:
    """An agent, its folders and its sessions."""
    own = [file for file in files if file.agent == agent]
    known = store.sessions(agent=agent, limit=1)
    return AgentRow(agent, tuple(roots), len(own), known[0].session.last_at if known else None)


def fact_json(
    fact: Fact, *, evidence: Sequence[Evidence], uses: tuple[int, str] | None, projects: Mapping[str, Project]
) -> dict[str, Any]:
    """A fact as `facts list --json` prints it."""
    key = fact.scope.removeprefix("project:") if fact.scope != "user" else None
    project = projects.get(key) if key else None
    return {
        "id": fact.id,
        "name": fact.name,
        "scope": "user" if key is None else "project",
        "project": project.name if project else None,
        "project_key": key,
        "kind": fact.kind.value,
        "status": fact.status.value,
        "strength": fact.strength.value,
        "pinned": fact.pinned,
        "summary": fact.summary,
        "body": fact.body,
        "related": list(fact.related),
        "quote": quote_of(fact, evidence),
        "evidence_count": len(evidence),
        "created_at": fact.created_at,
        "updated_at": fact.updated_at,
        "first_said_at": fact.first_said_at,
        "last_confirmed_at": fact.last_confirmed_at,
        "valid_until": fact.valid_until,
        "last_recalled_at": uses[1] if uses else None,
        "recalls": uses[0] if uses else 0,
    }


def evidence_json(one: Evidence) -> dict[str, Any]:
    """A quote as `facts show --json` prints it."""
    return {
        "id": one.id, "agent": one.agent, "session": one.session_id, "turn": one.turn_key, "message": one.message_id,
        "role": one.role, "quote": one.quote, "said_at": one.said_at, "part": one.part, "file": one.file,
    }  # fmt: skip


def history_json(entry: HistoryEntry) -> dict[str, Any]:
    """A history entry as `facts history --json` prints it."""
    return {
        "rev": entry.rev, "op": entry.op.value, "actor": entry.actor, "at": entry.at, "group": entry.group_id,
        "reason": entry.reason, "before": entry.before, "after": entry.after,
    }  # fmt: skip


def turn_json(row: TurnRow, passes: Sequence[PassRecord], project: str | None) -> dict[str, Any]:
    """A turn as `why --json` prints it."""
    return {
        "turn": row.id,
        "revision": row.revision,
        "key": row.key,
        "agent": row.agent,
        "session": row.session_id,
        "project": project,
        "file": row.file,
        "start_byte": row.start_byte,
        "end_byte": row.end_byte,
        "prompt_at": row.prompt_at,
        "ended_at": row.ended_at,
        "end_sign": row.end_sign.value,
        "state": row.state.value,
        "reason": row.reason,
        "explanation": explain(row),
        "until": row.retry_at,
        "attempts": row.attempts,
        "passes": [
            {
                "id": one.id, "attempt": one.attempt, "backend": one.backend, "model": one.model,
                "outcome": one.outcome.value, "reason": one.reason, "started_at": one.started_at,
                "took_ms": one.usage.took_ms, "calls": one.usage.calls,
                "input_tokens": one.usage.input_tokens, "output_tokens": one.usage.output_tokens,
                "cost_usd": one.usage.cost_usd, "prompt_version": one.prompt_version, "error": one.error,
            }
            for one in passes
        ],
        "operations": [{"op": op, "count": count} for one in passes for op, count in one.operations.items()],
        "refusals": [refusal for one in passes for refusal in one.refusals],
    }  # fmt: skip


def session_state(row: SessionRow, files: Mapping[str, SessionFile], first_start: str) -> str:
    """`live`, `backlog` or `gone`, for `sessions list`."""
    file = files.get(row.file or "")
    if file is None:
        return "gone"
    return "backlog" if (row.session.last_at or file.modified_at) < first_start else "live"


def listed(transcripts: Transcripts) -> list[SessionFile]:
    """All session files there are now."""
    return list(transcripts.sessions())
