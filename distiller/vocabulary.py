"""Nothing in, the words of this project out: one frozen value for each word of the glossary.

Values, no behaviour. They are `msgspec.Struct`s because one definition then serves as value, as JSON (the text of a
waiting turn, an answer, `--json`) and as type check, at a fraction of a dataclass's cost. Times are text in UTC,
`2026-12-01T12:34:56.789Z`, which sorts as it reads; units stand in the names.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal, NewType

import msgspec

Redacted = NewType("Redacted", str)
"""Text that `distill.redact` has been over. Only such text may be queued, logged, stored or sent."""

Json = msgspec.Raw
"""A piece of JSON left undecoded: tool inputs and results are most of the bytes and are seldom read."""


# --- transcript -------------------------------------------------------------------------------------------------


class TranscriptLine(msgspec.Struct, frozen=True, gc=False):
    """One complete record of a session file; `end` is the byte after its newline (or after its last byte)."""

    start: int
    end: int
    raw: bytes


class Text(msgspec.Struct, frozen=True, gc=False, tag="text", tag_field="type"):
    """A block of plain text."""

    text: str


class ToolCall(msgspec.Struct, frozen=True, gc=False, tag="tool_use", tag_field="type"):
    """A block that calls a tool; `input` is JSON, whatever its shape."""

    id: str
    name: str
    input: Json = msgspec.Raw(b"{}")


class ToolResult(msgspec.Struct, frozen=True, gc=False, tag="tool_result", tag_field="type"):
    """A block that answers a tool call; `content` is JSON (a string or a list of blocks).

    `synthetic` marks a result that repair made up because the call never got one.
    """

    tool_use_id: str
    content: Json = msgspec.Raw(b'""')
    is_error: bool = False
    synthetic: bool = False


Block = Text | ToolCall | ToolResult


class Origin(StrEnum):
    """Who put text into a `user` message; only `PERSON` can hold the person's own words."""

    PERSON = "person"
    PROGRAM = "program"  # typed by a script through -p, exec or an SDK; read like a person's
    INJECTED = "injected"  # reminders, hook output, command output, IDE context, skill bodies
    SUBAGENT = "subagent"
    SUMMARY = "summary"  # a compaction's retelling of earlier turns
    REFUSAL = "refusal"  # the reason a person typed while refusing a tool call


class Role(StrEnum):
    """The two sides of the Messages API."""

    USER = "user"
    ASSISTANT = "assistant"


class Message(msgspec.Struct, frozen=True, gc=False):
    """What one party said, whole, after repair.

    `id` is the id of the API message, or the line's own id for what the person typed; it is what evidence names.
    """

    id: str
    role: Role
    blocks: tuple[Block, ...]
    at: str | None = None
    origin: Origin | None = None  # of user text; None for tool results and the assistant


class EndSign(StrEnum):
    """What told us that a turn was over (DESIGN §3, Finished)."""

    MARKED = "marked"  # the agent wrote an end mark
    INTERRUPTED = "interrupted"
    NEXT_PROMPT = "next-prompt"
    SETTLED = "settled"  # final stop reason, then 3 s of silence
    SETTLED_WEAK = "settled-weak"  # text only without stop reason, then 120 s
    FAILED = "failed"  # API error or synthetic answer, then 120 s
    ABANDONED = "abandoned"  # nothing for 24 h


class PromptKind(StrEnum):
    """What started a turn."""

    TYPED = "typed"
    COMMAND = "command"  # a slash command; only its arguments can be own words
    SHELL = "shell"  # `!` input
    NOTIFICATION = "notification"  # a background task reported; nobody typed anything


class SessionRole(StrEnum):
    """Whose session it is."""

    PERSON = "person"
    PROGRAM = "program"  # headless: -p, exec, an SDK
    SUBAGENT = "subagent"
    OWN = "own"  # distiller's own model session: never distilled


class Session(msgspec.Struct, frozen=True, gc=False):
    """One agent's conversation, as far as its file told; a later value with the same (agent, id) replaces it."""

    agent: str
    id: str
    root_id: str = ""  # the first session of a chain of forks or parents; "" = itself
    parent_id: str | None = None
    role: SessionRole = SessionRole.PERSON
    title: str | None = None
    cwd: str | None = None
    model: str | None = None
    started_at: str | None = None
    last_at: str | None = None


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A person's prompt and all that follows up to the answer's end, repaired, not yet redacted.

    `messages` satisfy the pairing rule of the Messages API. `message_ids` are the ids of this turn's own assistant
    messages, in file order: what makes a copy recognisable. `key` is stable under re-reading, copying, forking.
    """

    key: str
    session: Session
    kind: PromptKind
    messages: tuple[Message, ...]
    message_ids: tuple[str, ...]
    start_byte: int
    end_byte: int
    prompt_at: str | None
    ended_at: str | None
    end_sign: EndSign
    cwd: str | None = None
    model: str | None = None
    local_date: str = ""  # the prompt's calendar day where its time was written with an offset; "" = machine's zone
    typed: bool = False  # the agent says that a person typed the prompt (never assumed)
    outcome: str | None = None  # done | turn_limit | budget | error, where the agent says so
    cost_usd: float | None = None


class Withdrawn(msgspec.Struct, frozen=True):
    """An earlier turn of this session was taken back by the person (rewind, rollback); its key."""

    key: str


class ReadCounts(msgspec.Struct):
    """What a reader passed over in one file; mutable, summed up by callers."""

    lines: int = 0
    malformed: int = 0
    too_long: int = 0
    unknown: dict[str, int] = msgspec.field(default_factory=dict)
    split_messages: int = 0
    pairs: int = 0
    calls_without_result: int = 0
    results_without_call: int = 0
    copied_lines: int = 0
    withdrawn: int = 0
    subagent_turns: int = 0


# --- files ------------------------------------------------------------------------------------------------------


class FileIdentity(msgspec.Struct, frozen=True):
    """What tells a file from another one that came to stand at its path (SERVICE §6)."""

    device: int
    inode: int
    head_hash: str
    head_bytes: int
    tail_hash: str = ""  # of the bytes just before the cursor


class Cursor(msgspec.Struct, frozen=True):
    """Where reading of one file goes on after a restart: the byte at which the oldest unfinished turn begins."""

    path: str
    agent: str
    session_id: str
    identity: FileIdentity
    offset_byte: int
    size_bytes: int
    seen_at: str
    backfilled_to_byte: int = 0
    lines_malformed: int = 0
    lines_too_long: int = 0
    lines_unknown: dict[str, int] = msgspec.field(default_factory=dict)
    backlog_to_byte: int = 0  # up to here stand turns older than the first start, passed without ledger rows


class SessionFile(msgspec.Struct, frozen=True):
    """A session file as a folder listing shows it."""

    path: str
    agent: str
    size_bytes: int
    modified_at: str
    device: int
    inode: int


# --- ledger -----------------------------------------------------------------------------------------------------


class TurnState(StrEnum):
    """Where a finished turn stands; all but `WAITING` are settled."""

    WAITING = "waiting"
    KEPT = "kept"  # at least one operation, piece of evidence or candidate
    EMPTY = "empty"
    SKIPPED = "skipped"  # never shown to a backend
    DEAD = "dead"  # given up; `retry` requeues


class Row(msgspec.Struct, frozen=True):
    """One numbered row of a window: what evidence points at. `part` own | pasted | injected | assistant | tool."""

    number: int
    message_id: str
    role: Role
    part: Literal["own", "pasted", "injected", "assistant", "call", "result"]
    text: Redacted
    at: str | None = None
    name: str | None = None  # the tool, for calls and results
    call_id: str | None = None  # pairs a call with its result
    previous: bool = False  # stands in a turn before this one: background only


class WaitingText(msgspec.Struct, frozen=True):
    """The redacted text of a finished turn, as the ledger keeps it until the turn is settled."""

    rows: tuple[Row, ...]
    local_date: str = ""  # the day on the person's calendar when the prompt was typed
    cwd: Redacted = Redacted("")


class Enrolment(msgspec.Struct, frozen=True):
    """A finished turn on its way into the ledger: identity, place and redacted text.

    `skip` is a reason known before the ledger is asked (`no-words`, `own-session`, `subagent`, …), or None.
    `digest` covers the whole turn, `words_digest` the person's own words alone: a change of the first alone is
    no new turn. `prompt_digest` is set for prompts of 200 characters and more from programs (`repeat`).
    """

    key: str
    session: Session
    kind: PromptKind
    project_key: str
    file: str
    start_byte: int
    end_byte: int
    prompt_at: str | None
    ended_at: str
    end_sign: EndSign
    digest: str
    words_digest: str
    message_ids: tuple[str, ...]
    text: WaitingText
    prompt: Redacted = Redacted("")  # the first 80 characters, for people
    prompt_digest: str | None = None
    skip: str | None = None
    wait: str = "queued"  # why it waits when it is not skipped: `queued`, or `project` (unanswered yes/no)
    off_record: bool = False  # "off the record" was said in it: the session is marked from here on
    outcome: str | None = None
    cost_usd: float | None = None
    tool_calls: tuple[tuple[str, bool], ...] = ()  # (name, went well), for the run record
    despite_pause: bool = False  # the person asks for it although it ended while memory was paused
    again: bool = False  # the person asks for a new pass over a settled turn: a revision even if nothing changed
    by_hand: bool = False  # read for a command of the person, at its cost: the service leaves it alone


class EnrolledAs(StrEnum):
    """What the ledger made of an enrolment."""

    NEW = "new"  # waits
    SKIPPED = "skipped"
    KNOWN = "known"  # nothing was written (or digest and span only)
    REVISION = "revision"  # new own words under a known key: waits as revision n+1


class Enrolled(msgspec.Struct, frozen=True):
    """The ledger's answer to one enrolment."""

    key: str
    revision: int
    how: EnrolledAs
    state: TurnState
    reason: str | None = None


class Mark(msgspec.Struct, frozen=True):
    """What a reader must know of a turn that the ledger has: its newest revision, in short."""

    digest: str
    state: TurnState
    reason: str | None
    backend: str | None
    project_key: str


class TurnRow(msgspec.Struct, frozen=True):
    """A ledger entry as people and use cases read it (CONTRACTS §6, turns)."""

    key: str
    revision: int
    id: str  # shown: `t` + 12 hex
    agent: str
    session_id: str
    project_key: str
    file: str
    start_byte: int
    end_byte: int
    prompt_at: str | None
    ended_at: str
    end_sign: EndSign
    state: TurnState
    reason: str | None
    backend: str | None
    attempts: int
    retry_at: str | None
    enrolled_at: str
    settled_at: str | None
    pass_id: str | None
    prompt: str = ""
    by_hand: bool = False
    has_text: bool = False


class Lease(msgspec.Struct, frozen=True):
    """The right to settle one turn for a while; a commit under an older generation writes nothing."""

    key: str
    revision: int
    owner: str
    generation: int
    until: str
    pass_id: str
    attempt: int
    text: WaitingText
    session_id: str
    agent: str
    project_key: str
    ended_at: str
    end_sign: EndSign
    file: str
    enrolled_at: str
    root_session_id: str = ""
    prompt_at: str | None = None
    note: Redacted | None = None  # the session's rolling note so far
    saved: Saved | None = None  # by an earlier owner that died or was stopped after the call: not paid twice


# --- distilling -------------------------------------------------------------------------------------------------


class FactKind(StrEnum):
    """What a fact is about."""

    USER = "user"
    FEEDBACK = "feedback"
    PROJECT = "project"
    REFERENCE = "reference"


class Strength(StrEnum):
    """How surely the person meant it to last."""

    STATED = "stated"
    CONFIRMED = "confirmed"
    AGENT = "agent"  # written by an agent, not confirmed by the person


class NearFact(msgspec.Struct, frozen=True):
    """A fact shown to the model, numbered, so that it reuses the slug."""

    number: int
    name: str
    summary: str
    scope: str
    fact_id: str
    kind: FactKind = FactKind.PROJECT


class Window(msgspec.Struct, frozen=True):
    """The redacted part of a turn that fits the budget; rows in original order, gaps marked by missing numbers."""

    rows: tuple[Row, ...]
    local_date: str
    cwd: Redacted
    note: Redacted | None = None  # the session's rolling note so far
    cut: int = 0  # rows left out


class Request(msgspec.Struct, frozen=True):
    """What one distillation pass asks. `prompt` is what a model is shown of it, after the fixed part."""

    window: Window
    near_facts: tuple[NearFact, ...]
    project_key: str
    prompt: Redacted | None = None
    prompt_version: str | None = None  # of the fixed part and of how the rest was written
    repair: str | None = None  # why the first answer to the same question could not be used


class Usage(msgspec.Struct, frozen=True):
    """What a pass used."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    took_ms: int = 0


class Reply(msgspec.Struct, frozen=True):
    """A backend's answer as it came: JSON text of the strict schema if all is well.

    `fault` says that the model itself ended badly: it refused, or its answer was cut off at its limit.
    """

    text: str
    usage: Usage
    backend: str
    model: str | None = None
    prompt_version: str | None = None
    fault: Literal["refused", "cut-off"] | None = None


class Saved(msgspec.Struct, frozen=True):
    """A question whose answer was saved (and paid) and not judged yet; the reply's text is redacted."""

    request: Request
    reply: Reply


class Evidence(msgspec.Struct, frozen=True):
    """A verbatim quote from one message and where it was said; `part` claims | supports.

    `role` is who said it: `person`, `assistant`, `tool`.
    """

    agent: str
    session_id: str
    turn_key: str
    message_id: str
    role: str
    quote: Redacted
    said_at: str
    local_date: str
    project_key: str
    file: str
    part: Literal["claims", "supports"] = "claims"
    id: str = ""
    root_session_id: str = ""


class Claim(msgspec.Struct, frozen=True):
    """One fact that a reply asserts; before `verify` only asserted, after it backed by evidence.

    `op` is what the backend asked for; `near` the number of the near fact it means, if any.
    """

    op: Literal["add", "update", "supersede", "retire", "none"]
    slug: str
    kind: FactKind
    scope: Literal["user", "project"]
    summary: Redacted
    body: Redacted
    strength: Strength
    related: tuple[str, ...] = ()
    valid_until: str | None = None
    evidence: tuple[Evidence, ...] = ()
    near: int | None = None


class Refusal(msgspec.Struct, frozen=True):
    """A claim that was not believed, and why (CONTRACTS §5, claim refused)."""

    code: str
    slug: str = ""
    detail: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """A judged reply: each claim stands in exactly one of `kept`, `candidates`, `suspicious`, `refusals`."""

    kept: tuple[Claim, ...] = ()
    candidates: tuple[Claim, ...] = ()
    suspicious: tuple[Claim, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    session_note: Redacted | None = None
    empty_reason: str | None = None


class Settlement(msgspec.Struct, frozen=True):
    """How a pass ended, to be committed as one: verdict, usage and the turn's next state.

    A settlement with `state` WAITING gives the lease back and says when to try again.
    """

    state: TurnState
    reason: str | None
    verdict: Verdict
    usage: Usage
    backend: str
    model: str | None = None
    prompt_version: str | None = None
    retry_at: str | None = None
    counts_as_attempt: bool = True
    error: str | None = None  # what failed, in words, without a word of the turn


class PassRecord(msgspec.Struct, frozen=True):
    """What one attempt to settle a turn did; also the fields of its log line and of `why`."""

    id: str
    turn_key: str
    turn_id: str
    revision: int
    attempt: int
    agent: str
    session_id: str
    project_key: str
    outcome: TurnState
    reason: str | None
    end_sign: EndSign
    backend: str
    model: str | None
    usage: Usage
    started_at: str
    wait_ms: int
    operations: dict[str, int] = msgspec.field(default_factory=dict)
    refused: dict[str, int] = msgspec.field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    fact_names: tuple[str, ...] = ()
    prompt_version: str | None = None
    error: str | None = None


# --- spending -----------------------------------------------------------------------------------------------------


DAILY_PURSE = "daily"


class Price(msgspec.Struct, frozen=True):
    """What a model costs, in USD per million tokens."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0


class Limits(msgspec.Struct, frozen=True):
    """What a claim may spend; None is no limit.

    A store checks it against the passes of that purse since `since`, open ones at what they reserved, in the
    transaction that opens the next one: no two processes spend the same money.
    """

    since: str
    until: str | None = None  # passes that begin at or after it belong to a clock that was once ahead
    tokens: int | None = None
    usd: float | None = None
    calls_per_minute: int | None = None  # over all purses
    purse: str = DAILY_PURSE
    reserved_tokens: int = 0
    reserved_usd: float = 0


class Declined(msgspec.Struct, frozen=True):
    """A claim that does not fit into its limits; `until` is known for a burst."""

    reason: Literal["budget", "burst"]
    until: str | None = None


class Spending(msgspec.Struct, frozen=True):
    """What the passes of one minute, backend, model and purse used; `minute` is `2026-12-01T09:30`."""

    minute: str
    backend: str | None
    model: str | None
    purse: str
    turns: int
    unusable: int  # passes that ended dead because no answer could be used
    usage: Usage


# --- memory -----------------------------------------------------------------------------------------------------


class FactStatus(StrEnum):
    """Only `ACTIVE` facts are listed, answered or shown to a model."""

    ACTIVE = "active"
    QUARANTINED = "quarantined"
    RETIRED = "retired"
    EXPIRED = "expired"
    BINNED = "binned"


class Fact(msgspec.Struct, frozen=True):
    """One durable statement worth remembering; unique by (scope, name). Scope is `user` or `project:<key>`."""

    id: str
    scope: str
    name: str
    kind: FactKind
    status: FactStatus
    strength: Strength
    summary: str
    body: str
    created_at: str
    updated_at: str
    first_said_at: str
    last_confirmed_at: str
    pinned: bool = False
    related: tuple[str, ...] = ()
    proposed_name: str | None = None
    valid_until: str | None = None
    forgotten_at: str | None = None
    source_pass_id: str | None = None
    edited_by_person: bool = False
    expires_at: str | None = None
    rev: int = 0  # of its newest history entry; what an edit must have seen


class Candidate(msgspec.Struct, frozen=True):
    """An implied preference, waiting to be seen in a second root session. `status` open | promoted | expired."""

    id: str
    scope: str
    name: str
    kind: FactKind
    summary: str
    body: str
    sessions: tuple[str, ...]  # distinct root sessions
    first_at: str
    last_at: str
    status: str = "open"
    fact_id: str | None = None


class Proposal(msgspec.Struct, frozen=True):
    """A change that only the person may make. `kind` and `status` as in CONTRACTS §5."""

    id: str
    kind: str
    fact_id: str | None
    change: dict[str, Any]
    status: str
    created_at: str
    decided_at: str | None = None
    decided_by: str | None = None
    pass_id: str | None = None


class Op(StrEnum):
    """What a history entry did (CONTRACTS §5)."""

    ADD = "add"
    EVIDENCE = "evidence"
    UPDATE = "update"
    SUPERSEDE = "supersede"
    RETIRE = "retire"
    EXPIRE = "expire"
    QUARANTINE = "quarantine"
    ACCEPT = "accept"
    EDIT = "edit"
    MOVE = "move"
    MERGE = "merge"
    PIN = "pin"
    UNPIN = "unpin"
    RELINK = "relink"
    FORGET = "forget"
    RESTORE = "restore"
    UNDO = "undo"


class Operation(msgspec.Struct, frozen=True):
    """One change of one fact. `before` is what the planner saw (None: the fact is new), `after` what shall stand.

    A store applies it only if the fact still is at `before.rev`.
    """

    op: Op
    before: Fact | None
    after: Fact
    evidence: tuple[Evidence, ...] = ()
    reason: str = ""


class Plan(msgspec.Struct, frozen=True):
    """All that one settlement or one act of a person changes, applied together or not at all."""

    operations: tuple[Operation, ...] = ()
    candidates: tuple[tuple[Candidate, tuple[Evidence, ...]], ...] = ()  # upserted by id
    proposals: tuple[tuple[Proposal, tuple[Evidence, ...]], ...] = ()
    refusals: tuple[Refusal, ...] = ()  # what reconciling turned down (`forgotten`, `same-turn-duplicate`)
    redirects: tuple[tuple[str, str, str, str], ...] = ()  # (scope, name, fact_id, why)


class Known(msgspec.Struct, frozen=True):
    """What a store shows to `reconcile.plan` inside the write transaction.

    `facts`: those that bear a claim's (scope, name) or are its redirect's target, whatever their status, and the
    active ones near it by words. `forgotten`: pairs (claim's slug, message id) that a tombstone bars; slug alone
    with message id "" bars everything said before the erasure (the store has compared the times).
    """

    facts: tuple[Fact, ...] = ()
    evidence: dict[str, tuple[Evidence, ...]] = msgspec.field(default_factory=dict)  # by fact id
    candidates: tuple[Candidate, ...] = ()  # open ones of the scopes concerned
    candidate_evidence: dict[str, tuple[Evidence, ...]] = msgspec.field(default_factory=dict)
    redirects: dict[tuple[str, str], str] = msgspec.field(default_factory=dict)  # (scope, name) -> fact id
    forgotten: frozenset[tuple[str, str]] = frozenset()


class HistoryEntry(msgspec.Struct, frozen=True):
    """One row of a fact's history; `before` and `after` are facts, None where there was none."""

    fact_id: str
    rev: int
    op: Op
    actor: str
    at: str
    group_id: str
    reason: str
    pass_id: str | None = None
    before: Fact | None = None
    after: Fact | None = None


class Applied(msgspec.Struct, frozen=True):
    """What `Store.apply` did: the group (for `undo`) and its operations in order."""

    group: str
    operations: tuple[Operation, ...]


class Hit(msgspec.Struct, frozen=True):
    """A fact that answers a question; a higher score is better."""

    fact: Fact
    score: float


class RecallRecord(msgspec.Struct, frozen=True):
    """One recall, for the person: who asked what, and which facts were handed over."""

    id: str
    at: str
    channel: str  # mcp | cli | web
    agent: str | None
    session_id: str | None
    project_key: str | None
    query: Redacted | None
    names: tuple[str, ...]
    scope: str
    k: int
    fact_ids: tuple[str, ...]
    matched: int
    took_ms: int


# --- projects, switches, reports --------------------------------------------------------------------------------


class Project(msgspec.Struct, frozen=True):
    """A repository or folder whose facts belong together (DESIGN §4, Project key)."""

    key: str
    name: str
    remote: str | None = None
    alias_of: str | None = None
    reading: str | None = None  # on | off | None (not asked)
    folders: tuple[str, ...] = ()
    first_at: str | None = None
    last_at: str | None = None


class Pause(msgspec.Struct, frozen=True):
    """The person's switch: `level` all | project | session; open while `until_at` is None or ahead."""

    id: str
    level: str
    target: str  # "" for all, a project key, or agent:session
    from_at: str
    until_at: str | None = None


class SessionRow(msgspec.Struct, frozen=True):
    """A session as the store knows it, with the counts of its turns."""

    session: Session
    project_key: str | None
    off_record_at: str | None
    note: str | None
    turns: dict[str, int]  # by state
    facts: int
    file: str | None


class FactQuery(msgspec.Struct, frozen=True):
    """Which facts are asked for; None and empty mean "any". `scopes` are full scopes."""

    scopes: tuple[str, ...] = ()
    statuses: tuple[FactStatus, ...] = (FactStatus.ACTIVE,)
    kinds: tuple[FactKind, ...] = ()
    since: str | None = None  # updated at or after
    session: str | None = None  # has evidence from this session id
    limit: int | None = None


class TurnQuery(msgspec.Struct, frozen=True):
    """Which ledger entries are asked for (highest revisions only); newest first."""

    states: tuple[TurnState, ...] = ()
    reasons: tuple[str, ...] = ()
    agent: str | None = None
    session_id: str | None = None
    project_key: str | None = None
    limit: int | None = None


class Retention(msgspec.Struct, frozen=True):
    """How many days things are kept (settings `retention.…`)."""

    bin_days: int = 30
    candidate_days: int = 90
    answer_days: int = 30  # prompt and raw answer of a pass
    dead_text_days: int = 90  # text of a dead turn
    run_days: int = 180
    recall_days: int = 180
    pass_days: int = 365


class Totals(msgspec.Struct, frozen=True):
    """The ledger in numbers: what `status` shows. Totals count keys at their highest revision."""

    states: dict[str, int]
    waiting: dict[str, int]
    skipped: dict[str, int]
    dead: dict[str, int]
    oldest_waiting_at: str | None
    oldest_due_at: (
        str | None
    )  # since when the service could have settled one: none that it must leave alone or wait for
    facts: dict[str, int]
    candidates: int
    proposals: int
    last_settled_at: str | None
    last_error: tuple[str, str, str] | None  # at, code, text
    today: Usage
    sessions: dict[str, int]  # by agent
    lines_malformed: int
    lines_too_long: int
    lines_unknown: dict[str, int]
    schema: int
    store_bytes: int
    wal_bytes: int


# --- the service as the machine runs it -------------------------------------------------------------------------


class ServiceRecipe(msgspec.Struct, frozen=True):
    """What a unit file is made from; paths are absolute, nothing in here is secret."""

    command: tuple[str, ...]  # the stable launcher and its arguments
    config: str
    data: str
    state: str
    logs: str
    environment: dict[str, str]
    private_tmp: bool = True  # False where something of ours or an agent's lies below /tmp
    sandbox: bool = True


class ServiceStep(msgspec.Struct, frozen=True):
    """One thing that a plan does to the machine; shown before it is done.

    `act`: `folder` (make it, for you alone), `write` (a file), `remove` (a file, or a folder that is empty), `run` (a
    command of the service manager).
    """

    act: str
    target: str  # a path, or the command line as it would be typed
    why: str
    text: str | None = None  # what the file will hold
    words: tuple[str, ...] = ()  # of the command
    may_fail: bool = False


class ServiceSeen(msgspec.Struct, frozen=True):
    """What the service manager says of our service."""

    state: str  # active | activating | inactive | failed
    enabled: bool = False
    pid: int | None = None
    program: str | None = None  # what it starts
    file: str | None = None  # where it read that
    needs_reload: bool = False
    result: str | None = None  # how the last run ended, where that is known
    exit_code: int | None = None
    restarts: int | None = None
    text: str | None = None  # what the daemon says of itself


# --- removal, inventory -----------------------------------------------------------------------------------------


class Purge(msgspec.Struct, frozen=True):
    """What is to be removed: the turns that all of these mean together; None and empty mean "any"."""

    project_keys: tuple[str, ...] = ()
    session: tuple[str, str] | None = None  # agent, id
    since: str | None = None  # ended at or after
    before: str | None = None  # ended before


class Scrubbed(msgspec.Struct, frozen=True):
    """Where an expression was found in a store: rows by table, copies by path, and what it matched.

    `texts` never leaves the process: it is what a search for leftovers looks for. `ids` are ids of sessions and
    messages that match; a store does not rewrite those, or it would take known turns for new ones.
    """

    rows: dict[str, int]
    copies: dict[str, int]
    ids: int
    facts: int  # all that there are
    texts: frozenset[str]


class Kept(msgspec.Struct, frozen=True):
    """How much of one kind a store holds, in rows and in bytes of their content."""

    kind: str
    rows: int
    bytes: int
    oldest_at: str | None
    newest_at: str | None


class HomeFile(msgspec.Struct, frozen=True):
    """One of our own files or folders; `mode` are its rights."""

    path: str
    bytes: int
    mode: int
