"""Nothing in, promises out: what the use cases need from the outside world, one Protocol for each kind of thing.

Adapters keep these promises; `tests/conformance` holds every adapter and every fake to them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterator, Sequence
from datetime import datetime
from re import Pattern
from typing import Any, ParamSpec, Protocol, TypeVar

from distiller.vocabulary import (
    Applied,
    Candidate,
    Cursor,
    Declined,
    Enrolled,
    Enrolment,
    Evidence,
    Fact,
    FactQuery,
    FileIdentity,
    HistoryEntry,
    Hit,
    HomeFile,
    Kept,
    Lease,
    Limits,
    Mark,
    PassRecord,
    Pause,
    Plan,
    Project,
    Proposal,
    Purge,
    RecallRecord,
    Reply,
    Request,
    Retention,
    Scrubbed,
    ServiceRecipe,
    ServiceSeen,
    ServiceStep,
    SessionFile,
    SessionRow,
    Settlement,
    Spending,
    Totals,
    TurnQuery,
    TurnRow,
)

P = ParamSpec("P")
T = TypeVar("T")


class Clock(Protocol):
    """The machine's time; nothing else asks for it."""

    def now(self) -> datetime:
        """The time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go back; for durations."""
        ...

    def local_date(self, at: str) -> str:
        """The calendar day (`2026-12-01`) of the UTC text `at` in the person's zone."""
        ...

    def local_day(self, at: str) -> tuple[str, str]:
        """When that day begins and when the next one does, as UTC text."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Come back after that long."""
        ...


class Worker(Protocol):
    """Runs synchronous store calls without holding up the loop: one thread in the daemon, inline in tests."""

    async def __call__(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` and give its result or raise its error."""
        ...


class Timer(Protocol):
    """Runs jobs at intervals and times of day; a job that raises stays scheduled."""

    def every(self, seconds: float, name: str, job: Callable[[], Any]) -> None:
        """Run `job` (a function or coroutine function) every `seconds`; missed runs become one."""
        ...

    def daily(self, at: str, name: str, job: Callable[[], Any]) -> None:
        """Run `job` each day at the local time `at` (`"03:30"`)."""
        ...

    def start(self) -> None:
        """Begin; needs a running loop."""
        ...

    def stop(self) -> None:
        """Run nothing any more; jobs already running are the caller's to drain."""
        ...


class Transcripts(Protocol):
    """Session files, read only: never changed, touched or locked."""

    def sessions(self, paths: Sequence[str] = ()) -> Iterator[SessionFile]:
        """All session files below the configured roots, or below `paths` (files count too), in no order.

        A folder that cannot be read is left out and reported by `unreadable`.
        """
        ...

    def unreadable(self) -> Sequence[tuple[str, str]]:
        """(path, reason) of what the last listing could not read."""
        ...

    def look(self, path: str) -> SessionFile | None:
        """The file as it is now, or None if it is gone or no session file."""
        ...

    def read(self, path: str, start_byte: int, limit_bytes: int) -> bytes:
        """At most `limit_bytes` from `start_byte`; empty at the end of the file.

        Raises:
            FileNotFoundError, PermissionError, OSError: as the system says.
        """
        ...

    def identify(self, path: str, *, head_bytes: int, cursor_byte: int) -> FileIdentity | None:
        """Hash the first `head_bytes` (at most what is there) and the 64 bytes before `cursor_byte`."""
        ...

    def keep_days(self, agent: str) -> int | None:
        """After how many days the agent deletes a session, as its own settings say; None if it never does."""
        ...

    def side_file(self, path: str) -> dict[str, Any] | None:
        """The `.meta.json` beside a session file, decoded, or None."""
        ...


class Watcher(Protocol):
    """Wakes us when session files change; only a hint, the sweep is the truth."""

    def changes(self) -> AsyncIterator[frozenset[str]]:
        """Paths that changed, batch by batch; paths in folders that just appeared are included."""
        ...


class Projects(Protocol):
    """Which repository a folder belongs to, from `.git` files alone; no git process."""

    def resolve(self, folder: str) -> Project:
        """The project of `folder` (an absolute path, perhaps of another machine or long gone)."""
        ...


class Backend(Protocol):
    """What distils a window into an answer; chosen by the person."""

    name: str

    async def distill(self, request: Request) -> Reply:
        """Ask once; nothing is asked again in here.

        Raises:
            BackendUnavailableError: no answer this time; the turn waits.
            BackendHaltedError: none until a person acts; the turn waits.
            RequestRefusedError: not for this request, ever.
            OutdatedProgramError: the program was replaced while it ran; a restart helps.
        """
        ...


class Notifier(Protocol):
    """Tells people what happened; ids, codes and counts only, never a fact's or a prompt's text."""

    def settled(self, record: PassRecord) -> None:
        """One line for one attempt at one turn."""
        ...

    def event(self, name: str, *, level: str = "info", **fields: Any) -> None:
        """One line for anything else; `name` as in CONTRACTS §9."""
        ...


class Home(Protocol):
    """Our own files beside the store: logs, live state, copies; never an agent's."""

    def listing(self) -> list[HomeFile]:
        """Our folders and files with sizes and rights, by path."""
        ...

    def find_text(self, pattern: Pattern[str]) -> dict[str, int]:
        """Lines that match, by path of the log or state file."""
        ...

    def scrub(self, pattern: Pattern[str]) -> dict[str, int]:
        """Overwrite the matches where they stand; lines changed, by path. Whoever has a file open notices nothing."""
        ...

    def holding(self, texts: Collection[str]) -> list[str]:
        """Paths of our files, of any kind, in whose bytes one of `texts` stands."""
        ...


class Store(Protocol):
    """Facts and ledger in one place, so that a turn and its facts commit together or not at all.

    Synchronous; safe to use from several processes at once. Every method that writes is one transaction.

    Raises (any method): StoreBusyError, DiskFullError, StoreUnusableError; nothing was written then.
    """

    # -- reading ------------------------------------------------------------------------------------------------
    def cursor(self, path: str) -> Cursor | None:
        """Where reading of the file at `path` goes on."""
        ...

    def cursors(self) -> dict[str, Cursor]:
        """All cursors by path."""
        ...

    def marks(self, keys: Collection[str]) -> dict[str, Mark]:
        """The newest revision of each of `keys` that the ledger knows, in short."""
        ...

    def enrol(
        self, turns: Sequence[Enrolment], cursor: Cursor | None, *, withdrawn: Sequence[str] = (), at: str
    ) -> list[Enrolled]:
        """Enter finished turns into the ledger and move the cursor (None: leave it), in one transaction.

        For each turn, in this order: same key and digest is `known`; same key, other digest but same
        `words_digest` is `known` too, with digest, span and message ids updated; the words of an earlier revision are
        `known`; same key and other words (or
        `again`, for a settled turn) is a `revision` that waits; another key whose message ids (at least one) are
        all entered under other keys, of which one has the same `words_digest`, is `skipped(copy)`; one that holds
        erased words is `skipped(purged)` (under a known key nothing is written); its own `skip`;
        a turn that ended inside a pause is `skipped(paused)` (not if `despite_pause`); one of a session marked off
        the record before it ended `skipped(off-record)`; a `prompt_digest` that an earlier turn has is
        `skipped(repeat)`; else it waits with reason `wait`. Sessions are upserted. A withdrawn key that waits
        becomes `skipped(withdrawn)`; one that was settled otherwise gets a revision `skipped(withdrawn)`, and
        facts that rested on it alone a proposal of kind `withdrawn`.
        """
        ...

    def mark_backfilled(self, cursor: Cursor) -> None:
        """Note that a backfill read `cursor.path` up to `cursor.backfilled_to_byte`; move nothing else.

        A path without a cursor row gets one that starts at byte 0.
        """
        ...

    # -- settling -----------------------------------------------------------------------------------------------
    def due(
        self,
        *,
        at: str,
        limit: int,
        only: Collection[str] | None = None,
        newest_first: bool = False,
        by_hand: bool = False,
    ) -> list[str]:
        """Keys of waiting turns that may be claimed now, oldest first.

        Left out: leased ones, ones under an open pause (of everything, their project or their session), ones whose
        `retry_at` is ahead, ones whose reason is `project`, and for the service also ones whose reason is `halted` or
        `budget` and ones enrolled by hand; and a turn of a session in which an earlier one waits that is due within
        10 minutes. A command of the person (`by_hand`) is not bound by what holds the service back.
        """
        ...

    def claim(
        self,
        key: str,
        *,
        owner: str,
        at: str,
        lease_seconds: float = 300,
        limits: Limits | None = None,
    ) -> Lease | Declined | None:
        """Take the turn for a while and reserve its cost; None if it is settled, leased elsewhere or unknown.

        A turn whose answer is saved already costs nothing more and is never declined: that of the newest pass about
        this revision that holds one and was not judged (its owner died, was stopped, or got no second answer). What a
        process that died had reserved stays spent.
        """
        ...

    def reserve(self, lease: Lease, limits: Limits, *, at: str) -> Declined | None:
        """Reserve the cost of a further call on the lease's pass, on top of what stands there; None if it fits.

        Raises LeaseLostError.
        """
        ...

    def renew(self, lease: Lease, *, at: str, lease_seconds: float = 300) -> Lease:
        """Hold on to the turn. Raises LeaseLostError."""
        ...

    def save_answer(self, lease: Lease, request: Request, reply: Reply, *, at: str) -> None:
        """Keep a question and its raw answer, both redacted, on the pass row before it is judged.

        The usage so far replaces what was reserved. Raises LeaseLostError.
        """
        ...

    def commit(self, settlement: Settlement, lease: Lease, *, at: str) -> PassRecord:
        """Settle the turn in one transaction.

        Reconcile the verdict with the facts there are (`memory.reconcile.plan`), apply the plan, complete the pass
        row, save the session note, free the text. A WAITING settlement gives the lease back; the text stays.

        Raises:
            LeaseLostError: another process took the turn over; nothing was written.
        """
        ...

    def lease_owners(self, *, at: str) -> set[str]:
        """Owners of the leases that are held at `at`."""
        ...

    def release(self, owners: Collection[str], *, at: str) -> int:
        """End the leases of owners that are known to be dead, so that their turns need not wait; how many."""
        ...

    def requeue(self, query: TurnQuery, *, keys: Collection[str] | None = None, at: str) -> list[str]:
        """Make dead (or retrying) turns wait again at once, their attempts forgiven; their keys.

        A turn without text cannot be requeued this way and is left as it is.
        """
        ...

    def hold(self, reason: str | None, *, from_reasons: Collection[str], at: str) -> int:
        """Set the waiting reason of turns that wait for one of `from_reasons` (`queued` when None); how many.

        Turns enrolled by hand are left as they are: what holds the service back does not concern them.
        """
        ...

    # -- facts --------------------------------------------------------------------------------------------------
    def facts(self, query: FactQuery) -> list[Fact]:
        """Facts that match, most lately updated first."""
        ...

    def fact(self, fact_id: str) -> Fact | None:
        """One fact by its whole id."""
        ...

    def resolve_fact(self, name: str, *, scopes: Sequence[str] = ()) -> list[Fact]:
        """Facts (any status, binned included) addressed by `name`, id prefix (8 and more) or redirect."""
        ...

    def search(self, terms: Sequence[str], *, query: FactQuery) -> list[Hit]:
        """Facts holding at least one of `terms` (already tokenised, lower case), best by bm25 first."""
        ...

    def evidence(self, owner_ids: Collection[str]) -> dict[str, list[Evidence]]:
        """Quotes by owner id (of facts, candidates or proposals), oldest first."""
        ...

    def history(
        self, *, fact_id: str | None = None, group: str | None = None, limit: int | None = None
    ) -> list[HistoryEntry]:
        """History entries, newest first."""
        ...

    def apply(self, plan: Plan, *, actor: str, at: str, pass_id: str | None = None) -> Applied:
        """Apply a plan, all or nothing; a proposal of an id that is there stays as it was decided.

        Raises:
            ConflictError: a fact is no longer at its `before.rev`; nothing was written.
        """
        ...

    def erase(self, fact_ids: Collection[str], *, at: str) -> int:
        """Remove facts and every trace of their text, leaving tombstones (DESIGN §2.10); how many.

        All leases end with it: what a running call was asked may tell of them, so its answer is written nowhere.
        """
        ...

    def expire(self, keep: Retention, *, at: str) -> dict[str, int]:
        """Do what time does: empty the bin, expire facts and candidates, drop old records; counts by what was done.

        Keys: `erased`, `expired`, `candidates`, `answers`, `texts`, `runs`, `recalls`, `passes`.
        """
        ...

    def candidates(self, *, status: str = "open") -> list[Candidate]:
        """Candidates, latest first."""
        ...

    def proposals(self, *, status: str = "open") -> list[Proposal]:
        """Proposals, latest first."""
        ...

    # -- switches, projects, sessions ---------------------------------------------------------------------------
    def pauses(self, *, at: str | None = None) -> list[Pause]:
        """All pauses, or those open at `at`."""
        ...

    def pause(self, pause: Pause) -> None:
        """Switch off from `pause.from_at` on."""
        ...

    def resume(self, *, level: str, target: str, at: str) -> int:
        """End the open pauses of that level and target; how many."""
        ...

    def projects(self) -> list[Project]:
        """Known projects with their folders."""
        ...

    def save_project(self, project: Project, *, at: str) -> Project:
        """Insert or freshen a project and its folders; the answer follows aliases and keeps `reading`."""
        ...

    def project_of(self, folder: str) -> Project | None:
        """The project a folder was resolved to before, aliases followed."""
        ...

    def alias_project(self, key: str, of: str, *, at: str) -> int:
        """Make `key` another name of `of`; its facts move along; how many did."""
        ...

    def sessions(
        self, *, agent: str | None = None, project_key: str | None = None, limit: int | None = None
    ) -> list[SessionRow]:
        """Sessions, latest first."""
        ...

    def session(self, session_id: str) -> list[SessionRow]:
        """Sessions whose id starts with `session_id`."""
        ...

    def turns(self, query: TurnQuery) -> list[TurnRow]:
        """Ledger entries, newest first."""
        ...

    def turn(self, name: str) -> list[TurnRow]:
        """All revisions of turns whose shown id or key starts with `name`, newest first."""
        ...

    def passes(self, key: str) -> list[PassRecord]:
        """Attempts at one turn, newest first."""
        ...

    def exchange(self, pass_id: str) -> tuple[Request | None, str | None]:
        """What was asked in a pass and what was answered, as long as they are kept."""
        ...

    def spending(self, *, since: str) -> list[Spending]:
        """What the passes started at or after `since` used, by minute, oldest first; `""` for all."""
        ...

    # -- records ------------------------------------------------------------------------------------------------
    def record_recall(self, record: RecallRecord) -> bool:
        """Note a recall; False if the store was busy for 50 ms and it was dropped."""
        ...

    def recall_counts(self, fact_ids: Collection[str]) -> dict[str, tuple[int, str]]:
        """(how often, last when) of the facts that were ever recalled."""
        ...

    def setting(self, key: str) -> Any:
        """A value kept in the store (`first_start_at`, …), or None."""
        ...

    def set_setting(self, key: str, value: Any, *, at: str, only_if_absent: bool = False) -> Any:
        """Keep a JSON value; gives what stands after the call."""
        ...

    def totals(self, *, day_from: str) -> Totals:
        """The ledger in numbers; `today` counts passes started at or after `day_from`."""
        ...

    # -- removal, inventory -------------------------------------------------------------------------------------
    def purgeable(self, what: Purge) -> dict[str, int]:
        """What `purge` would remove, by kind; all zero when there is nothing.

        Keys: `turns`, `waiting_texts`, `facts`, `quotes`, `candidates`, `proposals`, `notes`, `answers`, `recalls`,
        `runs`.
        """
        ...

    def purge(self, what: Purge, *, at: str) -> dict[str, int]:
        """Remove what came from those turns and nothing else bears, copies included; what was removed, by kind.

        The turns stay as `skipped(purged)` without text; facts that rest on them alone leave tombstones. All leases
        end with it.

        Raises:
            StoreUnusableError: a copy could not be rewritten; nothing was removed from the database.
        """
        ...

    def find_text(self, pattern: Pattern[str]) -> Scrubbed:
        """Where the pattern matches, decompressed cells and copies included."""
        ...

    def scrub(self, pattern: Pattern[str], *, at: str) -> Scrubbed:
        """Put `[REDACTED:scrub]` in place of each match, everywhere; where it stood. All leases end with it.

        Paths and project keys stay told apart, names stay names. Raises as `purge`.
        """
        ...

    def recalls(self, *, fact_id: str | None = None, since: str = "") -> list[RecallRecord]:
        """Recalls at or after `since` (those that handed over `fact_id`), newest first."""
        ...

    def outcomes(self, *, since: str) -> list[tuple[str, str, int]]:
        """(minute, state, how many) of the turns settled at or after `since`, oldest first."""
        ...

    def inventory(self) -> list[Kept]:
        """What is stored, by kind; no text."""
        ...

    # -- upkeep -------------------------------------------------------------------------------------------------
    def check(self) -> list[str]:
        """What is wrong with the database; empty when it is sound."""
        ...

    def backup(self, kind: str, *, at: str) -> str:
        """Copy the database into `data/backups`, keep 7 nightly and 3 of each other kind; the new file's path."""
        ...

    def checkpoint(self) -> None:
        """Fold the WAL back when nobody needs it."""
        ...

    def close(self) -> None:
        """Let go of the database."""
        ...


class Supervisor(Protocol):
    """The machine's manager of a person's services: systemd --user, launchd.

    Raises (`run`): DistillerError, which says what the manager refused and what to do.
    """

    name: str
    file: str  # where our unit belongs

    def obstacle(self) -> str | None:
        """What keeps the manager from serving this person and what to do, in one line; None if nothing does."""
        ...

    def text(self, recipe: ServiceRecipe) -> str:
        """The unit made from `recipe`.

        Raises:
            SettingError: a path cannot be written in it.
        """
        ...

    def steps(self, act: str) -> list[ServiceStep]:
        """The commands of an act, as things are now.

        `load` (the file is new), `unload` (before it goes), `forget` (it is gone), `start`, `stop`, `restart`.
        """
        ...

    def lingers(self) -> bool | None:
        """Whether the service outlives the last logout; None where that is no question or nobody can say."""
        ...

    def linger_step(self, *, on: bool) -> ServiceStep:
        """The command that lets it outlive that, or no longer."""
        ...

    def run(self, step: ServiceStep) -> None:
        """Do a command; returns when what it asked for is the case."""
        ...

    def look(self) -> ServiceSeen:
        """How the service is now; `inactive` where the manager knows none."""
        ...


class Changes(Protocol):
    """Files of the person that we write and remove, and the record by which each is taken back."""

    def record(self, group: str) -> dict[str, Any] | None:
        """What was kept for `group` (`service`, `setup`), or None."""
        ...

    def keep(self, group: str, record: dict[str, Any] | None) -> None:
        """Keep that instead, or nothing; the file goes with its last record."""
        ...

    def text(self, path: str) -> str | None:
        """What the file holds; None if there is none."""
        ...

    def missing_folders(self, path: str) -> list[str]:
        """The folders above `path` and itself that are not there, outermost first."""
        ...

    def make_folder(self, path: str) -> None:
        """Make it, with all above it."""
        ...

    def write(self, path: str, text: str) -> None:
        """Replace the file whole, readable for all: what stands in it is no secret."""
        ...

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder if it is empty; whether it is gone."""
        ...

    def purge(self, kind: str, folder: str) -> list[str]:
        """Remove what we keep in our `config`, `data`, `state` or `logs` folder, and it if that was all; what is left.

        Only names of ours are removed (CONTRACTS §1), so a folder that was chosen by mistake keeps what is in it.
        """
        ...
