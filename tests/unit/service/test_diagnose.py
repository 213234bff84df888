"""What `doctor` says about a machine that is well, and about one with one fault."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec
import pytest

from distiller import timestamps
from distiller.errors import StoreUnusableError
from distiller.ports import Store
from distiller.service.diagnose import Finding, diagnose, made_at
from distiller.service.examined import Key, Settled, Subject
from distiller.service.gate import Budget
from distiller.service.installation import ServiceStatus
from distiller.vocabulary import Pause
from tests.fakes.clock import START, FakeClock
from tests.fakes.machine import FakeMachine
from tests.fakes.store import FakeStore
from tests.fakes.transcripts import FakeTranscripts
from tests.fakes.world import World

FOLDERS = {name: f"/home/{name}" for name in ("config", "data", "state", "logs")}
KEY_FILE = "/home/config/keys/anthropic"
FOLDER, FILE = 0o040700, 0o100600
SECRET = "sk-never-shown"
RULE = "From now on use uv in this repo, never pip."


class Bench:
    """A machine, a store and a service that are well; a test breaks one thing and looks."""

    def __init__(self) -> None:
        self.machine = FakeMachine()
        self.machine.there = dict.fromkeys([*FOLDERS.values(), "/claude"], FOLDER)
        self.machine.there |= dict.fromkeys(["/home/data/distiller.db", KEY_FILE], FILE)
        self.clock = FakeClock()
        self.transcripts = FakeTranscripts()
        self.store: Store = FakeStore()
        self.live: dict[str, object] = {"running": True, "pid": 7, "version": "1.0", "heartbeat_at": START}
        self.settled = Settled(
            file="/home/config/config.toml", error=None, backend="embedded", model=None, base_url="", program="claude",
            budget=None, priced=False, roots={"claude_code": ("/claude",)}, own_roots=frozenset(),
        )  # fmt: skip
        self.key: Key | None = Key(SECRET, KEY_FILE)
        self.copies: Sequence[str] = ("/home/data/backups/20261201T041000000Z-nightly.db",)
        self.open_store: Callable[[], Store] | None = lambda: self.store
        self.online = False
        self.unit = ServiceStatus(
            manager="systemd", state="active", healthy=True, stale=[], file="/unit", enabled=True, pid=7, restarts=0,
            result=None, exit_code=None, command=["/bin/distiller", "run"], linger=True, text=None, fix=None,
        )  # fmt: skip

    def service(self) -> ServiceStatus:
        """What the service manager says."""
        return self.unit

    def asks_a_model(self, **changes: object) -> None:
        """The person chose a model behind an API."""
        self.settled = replace(
            self.settled, backend="anthropic", model="claude-haiku-5-5", budget=Budget(600_000, 1.0), priced=True
        )
        self.settled = replace(self.settled, **changes)  # type: ignore[arg-type]  # fields of `Settled`

    def findings(self) -> dict[str, Finding]:
        """All findings by check."""
        found = diagnose(
            Subject(
                machine=self.machine, clock=self.clock, transcripts=self.transcripts, version="1.0", folders=FOLDERS,
                database="/home/data/distiller.db", copies=self.copies, live=self.live, settings=self.settled,
                key=lambda: self.key, open_store=self.open_store, stored_path=lambda path: path, online=self.online,
                service=self.service,
            )
        )  # fmt: skip
        assert SECRET not in str(found)
        return {finding.check: finding for finding in found}

    def troubles(self) -> dict[str, str]:
        """What is not well."""
        return {name: found.result for name, found in self.findings().items() if found.result != "ok"}


@pytest.fixture
def bench() -> Bench:
    """A bench on which everything is well."""
    return Bench()


def test_where_all_is_well_nothing_is_to_be_mended(bench: Bench) -> None:
    """Without a fault every check is ok and gives no advice, with a model too."""
    plain = bench.findings()
    bench.asks_a_model()
    bench.online = True
    bench.machine.answer = (200, frozenset({"claude-haiku-5-5-20261001"}))

    with_model = bench.findings()

    assert {found.result for found in [*plain.values(), *with_model.values()]} == {"ok"}
    assert {found.fix for found in [*plain.values(), *with_model.values()]} == {None}
    assert {"online", "key", "budget"} <= set(with_model)
    assert bench.machine.keys_shown == [SECRET]


Breaking = Callable[[Bench], None]


def with_there(path: str, mode: int) -> Breaking:
    """Something stands at `path` with those rights."""
    return lambda bench: bench.machine.there.update({path: mode})


def with_machine(**changes: object) -> Breaking:
    """The machine is otherwise."""
    return lambda bench: bench.machine.__dict__.update(changes)


def with_live(**changes: object) -> Breaking:
    """The service says otherwise."""
    return lambda bench: bench.live.update(changes)


def with_settings(**changes: object) -> Breaking:
    """The settings are otherwise."""

    def break_(bench: Bench) -> None:
        bench.settled = replace(bench.settled, **changes)  # type: ignore[arg-type]  # fields of `Settled`

    return break_


@pytest.mark.parametrize(
    ("break_", "check", "result", "said", "fix"),
    [
        (with_there("/home/data", 0o040755), "folders", "warn", "others", "chmod 700 /home/data"),
        (with_there("/home/data", FILE), "folders", "broken", "no folder", "mv /home/data /home/data.old"),
        (with_machine(foreign={"/home/logs"}), "folders", "broken", "another account", "sudo chown"),
        (with_there("/home/data/my notes", 0o100644), "files", "warn", "rights", "chmod 600 '/home/data/my notes'"),
        (with_there("/home/config/config.toml", 0o100664), "files", "warn", "config.toml", "chmod 600"),
        (with_machine(unwritable={"/home/data": OSError(30, "Read-only file system")}), "writable", "broken",
         "Read-only file system", "mend the rights"),
        (with_machine(sealed_for={7: {"/home/data"}}), "writable", "broken", "sandbox", "service install"),
        (with_machine(free=150_000_000), "disk", "warn", "150 MB", "free some"),
        (with_machine(free=19_000_000), "disk", "broken", "19 MB", "free some"),
        (with_machine(limits=(11, 128)), "inotify", "warn", "misses nothing", "fs.inotify.max_user_watches=524288"),
        (with_machine(limits=(100_000, 0)), "inotify", "warn", "0 instances", "max_user_instances=128"),
        (with_machine(open=(900, 1024)), "open-files", "warn", "900 are open", "ulimit"),
        (with_machine(open=(1000, 1024)), "open-files", "broken", "1,000 are open", "ulimit"),
        (with_machine(zone_name=None), "time-zone", "warn", "UTC", "timedatectl"),
        (with_live(running=False), "daemon", "broken", "not running", "service start"),
        (with_live(heartbeat_at="2026-12-01T08:58:00.000Z"), "daemon", "broken", "not said a word", "restart"),
        (with_live(version="0.9"), "version", "warn", "runs 0.9, installed is 1.0", "service restart"),
        (with_live(trouble="no room for it"), "trouble", "broken", "no room for it", "logs"),
        (with_live(unreadable={"/claude/a.jsonl": "EACCES"}), "trouble", "broken", "/claude/a.jsonl", "logs"),
        (with_settings(error="config.toml: bad: no such setting."), "config", "broken", "no such setting", "mend"),
        (with_settings(roots={"codex": ("/gone",)}), "agents", "warn", "/gone", "start an agent"),
        (with_settings(roots={"codex": ("/gone",)}, own_roots=frozenset({"codex"})), "agents", "warn", "/gone",
         "config set"),
        (with_settings(backend="claude-cli", model="haiku"), "backend", "broken", "no program claude", "install"),
        (lambda bench: setattr(bench, "copies", ("/b/20261120T041000000Z-nightly.db",)), "copies", "warn", "11 days",
         "db backup"),
        (lambda bench: bench.store.pause(Pause("p", "all", "", START)), "switch", "warn", "paused", "resume"),
        (lambda bench: bench.store.set_setting("halt", {"reason": "suspicious-rate", "text": "31 sessions",
         "at": START}, at=START), "gate", "broken", "31 sessions", "distiller resume"),
        (lambda bench: bench.store.set_setting("first_start_at", "2027-01-01T00:00:00.000Z", at=START), "clock",
         "broken", "behind", "timedatectl"),
    ],
)  # fmt: skip
def test_one_fault_is_one_finding(  # noqa: PLR0917 -- the columns of the table
    bench: Bench, break_: Breaking, check: str, result: str, said: str, fix: str
) -> None:
    """A fault is found by its own check alone, which names what it saw and what to do."""
    break_(bench)

    found = bench.findings()[check]

    assert bench.troubles() == {check: result}
    assert said in found.evidence
    assert found.fix is not None
    assert fix in found.fix


@pytest.mark.parametrize(
    ("answer", "base_url", "result", "said"),
    [
        ((401, None), "", "broken", "refuses the key"),
        ((200, frozenset({"claude-opus-9"})), "", "broken", "does not list claude-haiku-5-5; it lists claude-opus-9"),
        ((200, frozenset({"qwen"})), "http://localhost:1", "warn", "does not list"),
        ((200, frozenset({"claude-haiku-5-5:latest"})), "http://localhost:1", "ok", "lists claude-haiku-5-5"),
        ((404, None), "http://localhost:1", "ok", "does not list its models"),
        ((529, None), "", "warn", "status 529"),
        (ConnectionRefusedError(111, "Connection refused"), "", "broken", "not reached (Connection refused)"),
    ],
)
def test_online_tells_a_server_that_is_away_from_one_that_refuses(
    bench: Bench, answer: tuple[int, frozenset[str] | None] | OSError, base_url: str, result: str, said: str
) -> None:
    """Only with `online` is the server asked; what it answers decides, and no answer says that turns wait."""
    bench.asks_a_model(base_url=base_url)
    bench.machine.answer = answer

    offline = bench.findings()
    bench.online = True
    found = bench.findings()["online"]

    assert "online" not in offline
    assert found.result == result
    assert said in found.evidence
    assert len(bench.machine.keys_shown) == 1


def test_a_key_that_is_missing_or_open_to_others(bench: Bench) -> None:
    """A missing key is broken, one that others may read a warning; a server of the person's own needs none."""
    bench.asks_a_model()
    bench.machine.there[KEY_FILE] = 0o100644
    open_to_others = bench.findings()["key"]
    bench.key = None
    missing = bench.findings()["key"]
    bench.asks_a_model(base_url="http://localhost:1")

    assert (open_to_others.result, open_to_others.fix) == ("warn", f"chmod 600 {KEY_FILE}")
    assert (missing.result, missing.fix) == ("broken", "`distiller config set-key anthropic`")
    assert bench.findings()["key"].result == "ok"


def test_a_check_that_fails_itself_is_a_finding(bench: Bench) -> None:
    """Neither an error of the system nor a fault of ours keeps the other checks from being made."""
    bench.settled = replace(bench.settled, backend="claude-cli", model="haiku")
    bench.machine.programs["claude"] = PermissionError(13, "Permission denied", "/bin/claude")
    bench.machine.free = "much"  # type: ignore[assignment]  # a fault of ours

    found = bench.findings()

    assert bench.troubles() == {"backend": "broken", "disk": "broken"}
    assert "Permission denied" in found["backend"].evidence
    assert "a fault of distiller" in found["disk"].evidence


def test_a_database_that_cannot_be_opened_is_told_once(bench: Bench) -> None:
    """One finding says it, and no check that would need it is made; a database that is not made yet is no fault."""

    def fail() -> Store:
        raise StoreUnusableError("it is damaged")

    bench.open_store = fail
    damaged = bench.findings()
    bench.open_store = None

    assert (damaged["database"].result, damaged["database"].evidence) == ("broken", "it is damaged")
    assert not {"clock", "lines", "gate"} & set(damaged)
    assert bench.troubles() == {}


class DamagedStore(FakeStore):
    """Opens, and is not sound."""

    def check(self) -> list[str]:
        """A fault."""
        return ["row 3 missing from index"]


def test_a_damaged_database_names_the_newest_copy(bench: Bench) -> None:
    """The advice is a command that can be pasted, and nothing that a damaged database says is passed on."""
    bench.store = DamagedStore()

    found = bench.findings()

    assert bench.troubles() == {"database": "broken"}
    assert "lines" not in found
    assert found["database"].fix == f"distiller service stop, then distiller db restore {bench.copies[0]}"


def test_a_turn_that_waits_too_long_and_one_that_waits_for_a_reason(bench: Bench) -> None:
    """A turn that could have been read an hour ago is broken; while memory is paused it is not."""
    world = World(store=bench.store, clock=bench.clock)
    world.session().turn(RULE)
    bench.clock.move(hours=2)
    bench.live["heartbeat_at"] = bench.clock.text()

    late = bench.findings()["waiting"]
    world.pause()

    assert (late.result, "2 h" in late.evidence) == ("broken", True)
    assert bench.troubles() == {"switch": "warn"}


def test_unknown_and_torn_lines_are_counted_and_the_worst_named(bench: Bench) -> None:
    """A format that has grown is told with its kinds, most frequent first."""
    world = World(store=bench.store, clock=bench.clock)
    session = world.session()
    session.add(b'{"type":"hologram","uuid":"h"}\n' * 3 + b"{torn\n")
    session.turn(RULE)
    world.distil()
    bench.live["heartbeat_at"] = bench.clock.text()

    found = bench.findings()["lines"]

    assert found.result == "warn"
    assert found.evidence == "4 lines passed over, most of them: 3 hologram, 1 malformed"


def test_a_copy_tells_by_its_name_when_it_was_made() -> None:
    """The stamp of a copy is read back to the millisecond."""
    at = "2026-12-01T09:15:00.123Z"

    assert timestamps.to_text(timestamps.from_text(made_at("/b/20261201T091500123Z-manual.db"))) == at


@pytest.mark.parametrize(
    ("changes", "check", "result", "told"),
    [
        ({"stale": ["gone"]}, "unit", "broken", "distiller service install"),
        ({"stale": ["program"]}, "unit", "warn", "distiller service install"),
        ({"state": "failed", "result": "exit-code", "pid": None}, "unit", "broken", "distiller service restart"),
        ({"pid": 99}, "unit", "warn", "end `distiller run`"),
        ({"linger": False}, "linger", "warn", "loginctl enable-linger"),
    ],
)
def test_f62_a_service_that_is_not_what_was_installed_is_named(
    bench: Bench, changes: dict[str, object], check: str, result: str, told: str
) -> None:
    """F62: a stale unit, a dead program, a daemon beside the manager's own, a service that ends with the login."""
    bench.unit = msgspec.structs.replace(bench.unit, **changes)

    finding = bench.findings()[check]

    assert (finding.result, finding.fix) == (result, told)


@pytest.mark.parametrize("state", ["not-installed", "no-manager"])
def test_who_runs_it_by_hand_is_not_bothered(bench: Bench, state: str) -> None:
    """Without an installed service there is nothing to say of one."""
    bench.unit = msgspec.structs.replace(bench.unit, state=state, healthy=False, linger=None)

    assert {"unit", "linger"} & set(bench.findings()) == set()
