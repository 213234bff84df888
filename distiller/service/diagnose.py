"""A subject in, one finding for each check out: what is the case, by what one sees it, and how to mend it.

A check is a function and a line in `CHECKS` or `LEDGER_CHECKS`; None means that it does not apply here. Nothing is
changed by looking. A check that itself fails is a finding too.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeVar

import msgspec

from distiller import timestamps
from distiller.errors import DistillerError
from distiller.service import report, spending
from distiller.service.examined import Ledger, Subject
from distiller.service.gate import rest_key, resting
from distiller.service.installation import STALE
from distiller.vocabulary import Cursor

T = TypeVar("T")

LOW_BYTES = 200_000_000
LEAST_BYTES = 20_000_000
LOW_FILES = 256
LEAST_FILES = 64
CLOCK_SLACK_SECONDS = 60
COPY_AGE_SECONDS = 3 * 86400
SHARE_OF_WATCHES = 0.8  # other programs of the person take some too
SET_KEY = "`distiller config set-key {}`"
ANTHROPIC = "https://api.anthropic.com"
OTHERS = 0o077
OTHERS_WRITE = 0o022
REFUSED = (401, 403)
MISSING = 404


class Found(NamedTuple):
    """What a check sees; `fix` is None where nothing is to be done."""

    result: Literal["ok", "warn", "broken"]
    evidence: str
    fix: str | None = None


class Finding(msgspec.Struct, frozen=True):
    """What `doctor` prints for one check."""

    check: str
    result: str
    evidence: str
    fix: str | None


def diagnose(subject: Subject) -> list[Finding]:
    """All findings, in the order of the checks."""
    told = list(ledger_findings(subject))  # first: a database that was opened has files beside it, with rights too
    findings = [examined(name, check, subject) for name, check in CHECKS]
    return [finding for finding in [*findings, *told] if finding is not None]


def ledger_findings(subject: Subject) -> Iterable[Finding | None]:
    """What the store tells; where it cannot be opened, that alone."""
    if subject.open_store is None:
        yield Finding("database", "ok", f"{subject.database} is not made yet; the service makes it", None)
        return
    try:
        store = subject.open_store()
    except DistillerError as error:
        yield Finding("database", "broken", str(error), "distiller db check")
        return
    try:
        ledger = Ledger(subject, store)
        yield (health := examined("database", database, ledger))
        if health is not None and health.result == "broken":
            return  # what a damaged database tells is nothing to go by
        yield from (examined(name, check, ledger) for name, check in LEDGER_CHECKS)
    finally:
        store.close()


def examined(name: str, check: Callable[[T], Found | None], what: T) -> Finding | None:
    """One check's finding; its own failure is one."""
    try:
        found = check(what)
    except DistillerError as error:
        found = Found("broken", str(error))
    except Exception as error:  # noqa: BLE001 -- a doctor that falls over tells nothing about all the rest
        text = str(error) if isinstance(error, OSError) else f"a fault of distiller ({type(error).__name__}: {error})"
        found = Found("broken", f"could not be checked: {text}", "mend that, or report it")
    return found and Finding(name, *found)


def ago(seconds: float) -> str:
    """A span for eyes: the largest unit of which there is more than one."""
    for unit, size in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"


def some(names: Sequence[str]) -> str:
    """The first names of a list and how many more there are."""
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")  # noqa: PLR2004 -- three


# --- folders, files, the machine --------------------------------------------------------------------------------


def folders(subject: Subject) -> Found | None:
    """Our four folders are there, folders, ours, and nobody else's to look into."""
    modes = {path: subject.machine.mode(path) for path in subject.folders.values()}
    there = {path: mode for path, mode in modes.items() if mode is not None}
    if not there:
        return Found("ok", "not made yet; the service makes them, for you alone")
    if wrong := [path for path, mode in there.items() if not stat.S_ISDIR(mode)]:
        return Found("broken", f"{wrong[0]} is no folder", f"mv {shlex.join([wrong[0], wrong[0] + '.old'])}")
    if foreign := [path for path in there if not subject.machine.is_ours(path)]:
        return Found("broken", f"{some(foreign)}: of another account", f"sudo chown -R $USER {shlex.join(foreign)}")
    if loose := [path for path, mode in there.items() if mode & OTHERS]:
        return Found("warn", f"others of this machine may look into {some(loose)}", f"chmod 700 {shlex.join(loose)}")
    if missing := [path for path in modes if path not in there]:
        return Found("ok", f"private; {some(missing)} is not made yet")
    return Found("ok", f"{len(there)} folders, private")


def files(subject: Subject) -> Found | None:
    """Files of ours are nobody else's to read; the settings file, which holds no secret, not theirs to write."""
    config, data = subject.folders["config"], subject.folders["data"]
    private = [data, f"{data}/backups", subject.folders["state"], subject.folders["logs"], f"{config}/keys"]
    ours = [file for folder in private for file in subject.machine.files(folder)]
    loose = [path for path, mode in ours if mode & OTHERS]
    loose += [path for path, mode in subject.machine.files(config) if mode & OTHERS_WRITE]
    if loose:
        return Found("warn", f"others of this machine have rights on {some(loose)}", f"chmod 600 {shlex.join(loose)}")
    return Found("ok", f"{len(ours)} files, private") if ours else None


def writable(subject: Subject) -> Found | None:
    """We can write where we must; the service, in its sandbox, too."""
    there = [path for path in subject.folders.values() if subject.machine.mode(path) is not None]
    for folder in there:
        try:
            subject.machine.try_writing(folder)
        except OSError as error:
            fix = "free some disk space" if "space" in str(error) else f"mend the rights of {folder}, or choose --home"
            return Found("broken", f"{folder} cannot be written to ({error.strerror})", fix)
    if subject.pid is not None and (shut := [path for path in there if subject.machine.sealed(subject.pid, path)]):
        return Found(
            "broken",
            f"the service's sandbox does not let it write to {some(shut)}: it was installed for other folders",
            "distiller service install",
        )
    return Found("ok", "all folders can be written to") if there else None


def disk(subject: Subject) -> Found:
    """There is room."""
    free = subject.machine.free_bytes(subject.folders["data"])
    evidence = f"{free / 1e6:,.0f} MB free for {subject.folders['data']}"
    if free < LEAST_BYTES:
        return Found("broken", evidence, "free some disk space; turns wait and nothing is lost until then")
    return Found("warn", evidence, "free some disk space") if free < LOW_BYTES else Found("ok", evidence)


def config(subject: Subject) -> Found:
    """The settings can be used."""
    settings = subject.settings
    if settings.error:
        fix = f"mend that, or move {settings.file} away"
        return Found("broken", f"{settings.error} All else was checked with the defaults.", fix)
    there = subject.machine.mode(settings.file) is not None
    return Found("ok", settings.file if there else f"no settings file ({settings.file}); the defaults hold")


def inotify(subject: Subject) -> Found | None:
    """The system lets us watch as many folders as there are."""
    limits = subject.machine.inotify_limits()
    if limits is None:
        return None
    watches, instances = limits
    need = subject.machine.folder_count(subject.places)
    evidence = f"{need:,} folders to watch, the system allows {watches:,} watches and {instances:,} instances"
    if need > SHARE_OF_WATCHES * watches or instances < 1:
        name, least = ("watches", max(524_288, 2 * need)) if instances else ("instances", 128)
        return Found(
            "warn",
            f"{evidence}; without them the service looks at all files every few seconds, and misses nothing",
            f"sudo sysctl fs.inotify.max_user_{name}={least} (a file in /etc/sysctl.d keeps it)",
        )
    return Found("ok", evidence)


def open_files(subject: Subject) -> Found:
    """There is room for open files."""
    now, most = subject.machine.open_files(subject.pid)
    whose = "the service" if subject.pid is not None else "this shell"
    evidence = f"{whose} may open {most:,} files" + (f", {now:,} are open" if now is not None else "")
    left = most - (now or 0)
    if left >= LOW_FILES:
        return Found("ok", evidence)
    return Found("broken" if left < LEAST_FILES else "warn", evidence, "ulimit -n 4096, or LimitNOFILE= of the service")


def zone(subject: Subject) -> Found:
    """The person's days are known: budgets end with them."""
    name = subject.machine.zone()
    if name is None:
        return Found(
            "warn", "the time zone is not known; days are counted in UTC", "sudo timedatectl set-timezone ZONE"
        )
    return Found("ok", name)


# --- the service ------------------------------------------------------------------------------------------------


def daemon(subject: Subject) -> Found:
    """The service runs and is alive."""
    problems = report.found_problems(subject.live, None, None, subject.now)
    for problem in problems:
        if problem.code == "stopped":
            return Found("broken", problem.text, "distiller service start (or `distiller run` in the foreground)")
        if problem.code == "no-heartbeat":
            return Found("broken", problem.text, "distiller service restart")
    age = timestamps.seconds_between(str(subject.live.get("heartbeat_at")), subject.now)
    return Found("ok", f"pid {subject.pid}, heard {ago(age)} ago")


def unit(subject: Subject) -> Found | None:
    """What the service manager knows is what this program would install; None where nothing is installed."""
    seen = subject.service() if subject.service is not None else None
    if seen is None or seen.state in ("not-installed", "no-manager"):
        return None
    if seen.stale:
        told = "; ".join(STALE[code] for code in seen.stale)
        return Found("broken" if "gone" in seen.stale else "warn", told, "distiller service install")
    if seen.state == "failed":
        return Found("broken", f"it failed ({seen.result})", seen.fix or "distiller service restart")
    if seen.pid is not None and subject.pid not in (None, seen.pid):
        return Found("warn", f"pid {subject.pid} runs, not the one that {seen.manager} started", "end `distiller run`")
    return Found("ok", f"{seen.manager}: {seen.state}")


def linger(subject: Subject) -> Found | None:
    """An installed service goes on after the logout, or the person knows that it does not."""
    seen = subject.service() if subject.service is not None else None
    if seen is None or seen.state in ("not-installed", "no-manager") or seen.linger is not False:
        return None
    return Found("warn", "it runs only while you are logged in", "loginctl enable-linger")


def version(subject: Subject) -> Found | None:
    """The service that runs is the one that is installed."""
    runs = subject.live.get("version")
    if subject.pid is None:
        return None
    if runs != subject.version:
        return Found("warn", f"the service runs {runs}, installed is {subject.version}", "distiller service restart")
    return Found("ok", f"{runs}, as installed")


def trouble(subject: Subject) -> Found | None:
    """The service has no trouble, and can read the session files."""
    if subject.pid is None:
        return None
    problems = report.found_problems(subject.live, None, None, subject.now)
    found = [problem for problem in problems if problem.code in {"trouble", "file-unreadable"}]
    if found:
        return Found("broken", " ".join(problem.text for problem in found), found[0].fix)
    return Found("ok", "none, and it can read the session files")


# --- agents and backends ----------------------------------------------------------------------------------------


def agents(subject: Subject) -> Found:
    """There is something to read."""
    there: list[str] = []
    named: list[str] = []
    absent: list[str] = []
    for agent, roots in subject.settings.roots.items():
        for root in roots:
            if subject.machine.mode(root) is not None:
                there.append(f"{agent} ({root})")
            else:
                (named if agent in subject.settings.own_roots else absent).append(f"{agent} ({root})")
    if named:
        return Found("warn", f"not there: {some(named)}", "distiller config set agents.AGENT.roots '[\"FOLDER\"]'")
    if not there:
        fix = "start an agent once; if it keeps its sessions elsewhere, set agents.AGENT.roots"
        return Found("warn", f"no agent's folder is there: {some(absent) or 'none is switched on'}", fix)
    return Found("ok", f"reads {some(there)}" + (f"; not there: {some(absent)}" if absent else ""))


def sessions(subject: Subject) -> Found:
    """Every session file that is there can be listed."""
    count = sum(1 for _ in subject.transcripts.sessions())
    if lost := subject.transcripts.unreadable():
        path, reason = lost[0]
        return Found(
            "broken",
            f"{len(lost)} place(s) cannot be read, the first is {path} ({reason})",
            f"chmod u+rX {shlex.quote(path)}",
        )
    return Found("ok", f"{count:,} session files")


def backend(subject: Subject) -> Found:
    """What distils is there."""
    settings = subject.settings
    if settings.backend == "anthropic":
        return Found("ok", f"anthropic: {settings.model} at {settings.base_url or ANTHROPIC}")
    if settings.backend != "claude-cli":
        return Found("ok", "embedded: rules on this machine, nothing leaves it")
    found = subject.machine.program(settings.program)
    if found is None:
        return Found(
            "broken",
            f"claude-cli: there is no program {settings.program}",
            "install Claude Code, or `distiller config set claude_cli.program PATH`",
        )
    path, told = found
    return Found("ok", f"claude-cli: {path} ({told or 'tells no version'}), model {settings.model}")


def key(subject: Subject) -> Found | None:
    """The backend's key is there, and nobody else's to read."""
    settings = subject.settings
    if settings.model is None:
        return None
    found = subject.key()
    if found is None:
        if settings.base_url and settings.backend == "anthropic":
            return Found("ok", f"none is stored; {settings.base_url} may need none")
        first = "`claude setup-token`, then " if settings.backend == "claude-cli" else ""
        return Found("broken", f"no key of {settings.backend} is stored", first + SET_KEY.format(settings.backend))
    mode = subject.machine.mode(found.where) if not found.where.startswith("$") else None
    if mode is not None and mode & OTHERS:
        return Found("warn", f"others of this machine may read {found.where}", f"chmod 600 {shlex.quote(found.where)}")
    return Found("ok", f"found in {found.where}")


def online(subject: Subject) -> Found | None:
    """The server answers, takes the key and knows the model; no model is asked."""
    settings = subject.settings
    found = subject.key() if subject.online and settings.backend == "anthropic" else None
    if not subject.online or settings.backend != "anthropic" or not (found or settings.base_url):
        return None
    server = settings.base_url or ANTHROPIC
    try:
        status, models = subject.machine.models(server, found.value if found else None)
    except OSError as error:
        fix = "check the network, or `distiller config set anthropic.base_url URL`"
        return Found("broken", f"{server} is not reached ({error.strerror or error}); turns wait", fix)
    if status in REFUSED:
        return Found("broken", f"{server} refuses the key ({status})", SET_KEY.format("anthropic"))
    if status == MISSING or (models is None and status == 200):  # noqa: PLR2004 -- HTTP's "OK"
        return Found("ok", f"{server} answers; it does not list its models")
    if models is None:
        return Found("warn", f"{server} answers with status {status}", "try again later; turns wait")
    return known_model(settings.model or "", models, server, own=bool(settings.base_url))


def known_model(model: str, models: frozenset[str], server: str, *, own: bool) -> Found:
    """Whether a server lists the model; Anthropic's own names may go without their date, others' without their tag."""
    if any(one == model or one.startswith((f"{model}-20", f"{model}:")) for one in models):
        return Found("ok", f"{server} takes the key and lists {model}")
    listed = some(sorted(models)) or "none"
    fix = "distiller config set anthropic.model NAME"
    return Found("warn" if own else "broken", f"{server} does not list {model}; it lists {listed}", fix)


# --- what the store tells ---------------------------------------------------------------------------------------


def database(ledger: Ledger) -> Found:
    """The database is sound."""
    subject = ledger.subject
    if problems := ledger.store.check():
        newest = subject.copies[0] if subject.copies else "COPY"
        fix = f"distiller service stop, then distiller db restore {newest}"
        return Found("broken", f"{subject.database} is damaged: {some(problems)}", fix)
    size = (ledger.totals.store_bytes + ledger.totals.wal_bytes) / 1e6
    return Found("ok", f"{subject.database} is sound, schema {ledger.totals.schema}, {size:.1f} MB")


def copies(ledger: Ledger) -> Found | None:
    """There is a copy of late; one is made each night."""
    subject = ledger.subject
    first = ledger.store.setting("first_start_at")
    newest = max((made_at(path) for path in subject.copies), default=first)
    if newest is None:
        return None
    age = timestamps.seconds_between(newest, subject.now)
    whose = "the newest copy" if subject.copies else "there is no copy of the database; its first start"
    if age > COPY_AGE_SECONDS:
        return Found("warn", f"{whose} is {ago(age)} old", "distiller db backup")
    return Found("ok", f"{len(subject.copies)} copies, the newest {ago(age)} old" if subject.copies else "none yet")


def made_at(path: str) -> str:
    """When a copy was made, as its name says (`20261201T091500000Z-nightly.db`)."""
    stamp = path.rpartition("/")[2].partition("-")[0]
    day, hour = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", f"{stamp[9:11]}:{stamp[11:13]}:{stamp[13:15]}"
    return f"{day}T{hour}.{stamp[15:18]}Z"


def clock(ledger: Ledger) -> Found:
    """It is not earlier than what was done already."""
    known = [
        ledger.totals.last_settled_at,
        ledger.store.setting("first_start_at"),
        ledger.subject.live.get("heartbeat_at"),
    ]
    newest = max((str(at) for at in known if at), default=ledger.subject.now)
    behind = timestamps.seconds_between(ledger.subject.now, newest)
    if behind > CLOCK_SLACK_SECONDS:
        text = f"the clock is {ago(behind)} behind what was done already ({newest}); turns may wait that long"
        return Found("broken", text, "set the clock: sudo timedatectl set-ntp true")
    return Found("ok", f"{ledger.subject.now}, not before what was done")


def switch(ledger: Ledger) -> Found | None:
    """Memory is on."""
    paused = [pause for pause in ledger.store.pauses(at=ledger.subject.now) if pause.level == "all"]
    if not paused:
        return None
    return Found("warn", f"you paused memory at {paused[0].from_at}; turns are passed over", "distiller resume")


def gate(ledger: Ledger) -> Found:
    """Nothing keeps turns from being distilled."""
    subject, settings = ledger.subject, ledger.subject.settings
    halt = (
        report.halted(ledger.store, settings.backend, subject.now)
        if settings.budget is not None
        else ledger.store.setting("halt")
    )
    if halt and halt["reason"] == "budget":
        return Found("warn", f"{halt['text']}; turns wait until {halt.get('until')}", "raise budget.daily_usd, or wait")
    if halt:
        problem = report.found_problems(subject.live, halt, None, subject.now)[-1]
        return Found("broken", problem.text, problem.fix)
    rest = resting(ledger.store.setting(rest_key(settings.backend)), subject.now) if settings.budget else None
    if rest is not None:
        return Found(
            "warn", f"the backend rests until {rest.until}: {rest.text}; turns wait", "nothing: it goes on then"
        )
    return Found("ok", "open: turns are distilled as they come")


def budget(ledger: Ledger) -> Found | None:
    """There is money to spend, and prices to count it with."""
    limits = ledger.subject.settings.budget
    if limits is None:
        return None
    today = ledger.totals.today
    used = f"today {spending.tokens(today):,} tokens"
    most = "no limit" if limits.daily_tokens is None else f"{limits.daily_tokens:,}"
    usd = "no limit" if limits.daily_usd is None else f"${limits.daily_usd:.2f}"
    evidence = f"{used} of {most}, ${today.cost_usd or 0:.4f} of {usd}"
    if 0 in (limits.daily_tokens, limits.daily_usd):
        return Found("warn", f"{evidence}: a budget of 0 allows no call", "distiller config set budget.daily_usd 1.00")
    if not ledger.subject.settings.priced and limits.daily_usd is not None:
        return Found("ok", f"{evidence}; the model's price is not known, so only tokens are counted")
    return Found("ok", evidence)


def answers(ledger: Ledger) -> Found | None:
    """The model's answers can be used."""
    bad = spending.badly_answered(ledger.store, ledger.subject.now) if ledger.subject.settings.budget else None
    return Found("warn", bad, "choose another model: `distiller config set`") if bad else None


def waiting(ledger: Ledger) -> Found:
    """No turn waits that could have been read long ago."""
    now = ledger.subject.now
    held = bool(ledger.store.pauses(at=now)) or gate(ledger).result != "ok"
    due = None if held else ledger.totals.oldest_due_at
    dead = sum(ledger.totals.dead.values())
    if due and timestamps.seconds_between(due, now) > report.WAITING_LIMIT_SECONDS:
        age = ago(timestamps.seconds_between(due, now))
        return Found("broken", f"a turn could have been read {age} ago and was not", "see `distiller logs`")
    if dead:
        return Found("warn", f"{dead} turns were given up; their text is kept for a while", "distiller retry")
    return Found("ok", f"{ledger.totals.states.get('waiting', 0)} turns wait, none too long")


def backlog(ledger: Ledger) -> Found:
    """No old session will be gone before it is read."""
    subject = ledger.subject
    cursors = ledger.store.cursors()
    read_to: dict[str, Cursor] = {
        file.path: cursor
        for file in ledger.files
        if (cursor := cursors.get(subject.stored_path(file.path))) is not None
    }
    first = ledger.store.setting("first_start_at")
    left = report.backlog(ledger.files, read_to, first, subject.now, subject.transcripts.keep_days)
    if left.expiring:
        text = f"{left.expiring} sessions that were never read will soon be deleted by their agent"
        return Found("warn", text, "distiller backfill")
    if left.sessions:
        text = f"{left.sessions} old sessions ({left.bytes / 1e6:.1f} MB) were not read; no agent deletes them soon"
        return Found("ok", f"{text}: distiller backfill --preview")
    return Found("ok", "no old session is left unread")


def lines(ledger: Ledger) -> Found:
    """All lines of the session files are understood."""
    totals = ledger.totals
    odd = {"malformed": totals.lines_malformed, "too long": totals.lines_too_long, **totals.lines_unknown}
    seen = sorted(((count, name) for name, count in odd.items() if count), reverse=True)
    if not seen:
        return Found("ok", "every kind of line is known")
    text = f"{sum(count for count, _ in seen):,} lines passed over, most of them: "
    worst = some([f"{count:,} {name}" for count, name in seen])
    if totals.lines_unknown:
        fix = "the agent's format has grown: look for a newer distiller; all other lines are read"
        return Found("warn", text + worst, fix)
    return Found("warn", text + worst, "nothing, unless it grows: see `distiller logs --level warning`")


CHECKS: tuple[tuple[str, Callable[[Subject], Found | None]], ...] = (
    ("config", config),
    ("folders", folders),
    ("files", files),
    ("writable", writable),
    ("disk", disk),
    ("daemon", daemon),
    ("version", version),
    ("unit", unit),
    ("linger", linger),
    ("trouble", trouble),
    ("agents", agents),
    ("sessions", sessions),
    ("inotify", inotify),
    ("open-files", open_files),
    ("time-zone", zone),
    ("backend", backend),
    ("key", key),
    ("online", online),
)
LEDGER_CHECKS: tuple[tuple[str, Callable[[Ledger], Found | None]], ...] = (
    ("copies", copies),
    ("clock", clock),
    ("switch", switch),
    ("gate", gate),
    ("budget", budget),
    ("answers", answers),
    ("waiting", waiting),
    ("backlog", backlog),
    ("lines", lines),
)
