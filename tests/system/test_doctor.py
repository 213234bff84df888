"""`doctor` and `db` as people meet them: a real home, real faults, a real server on loopback."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from distiller.adapters.machine_linux import LinuxMachine
from tests.fakes.claude_program import stand_in
from tests.fakes.model_server import ModelServer
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip."
OTHER = "In this repo we always squash commits."
SECRET = "sk-ant-api03-not-a-real-key"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A home with one settled turn and its fact."""
    program = Program(tmp_path)
    put(program, "first", RULE)
    program.json("backfill")
    return program


def put(program: Program, name: str, said: str) -> None:
    """An old session with one turn."""
    session = ClaudeSession(f"{name:0<8}-0000-4000-8000-000000000001", cwd="/work/depot", at=OLD)
    (program.projects / f"{name}.jsonl").write_bytes(session.turn(said))


def findings(program: Program, *words: str) -> dict[str, dict[str, Any]]:
    """What `doctor --json` finds, by check."""
    found: list[dict[str, Any]] = program.json("doctor", *words)
    assert all(set(one) == {"check", "result", "evidence", "fix"} for one in found)
    return {one["check"]: one for one in found}


def names(program: Program) -> set[str]:
    """The names of the facts that are active."""
    return {fact["name"] for fact in program.json("facts", "list")}


def copy(program: Program) -> str:
    """A copy made by hand."""
    return program.run("db", "backup").stdout.strip()


def damage(program: Program) -> None:
    """Overwrite the middle of the database."""
    with (program.home / "data/distiller.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * 65536)


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Rights and content of all that stands below a folder; SQLite's own scratch files left out."""
    return {
        str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else b"")
        for path in folder.rglob("*")
        if not path.name.endswith(("-shm", "-wal"))
    }


# --- doctor -----------------------------------------------------------------------------------------------------


def test_a_doctor_changes_nothing(program: Program) -> None:
    """Neither a home that is not there yet nor one with facts is touched by looking."""
    fresh = Program(program.folder / "fresh")
    before = tree(program.home)

    told = fresh.run("doctor")
    program.run("doctor", "-v")

    assert not fresh.home.exists()
    assert tree(program.home) == before
    assert told.stdout.splitlines()[0].startswith("broken  daemon      The service is not running")
    assert told.stdout.splitlines()[-1].endswith("checks ok")


def test_a_service_that_is_well_is_ok_and_ends_with_0(program: Program) -> None:
    """With a daemon that runs nothing is broken; the exit code says so."""
    with program.daemon():
        done = program.run("doctor")
        found = findings(program)

    assert (done.returncode, done.stdout, done.stderr) == (0, f"{len(found)} checks ok\n", "")
    assert found["version"]["result"] == "ok"
    assert findings(program)["daemon"]["result"] == "broken"


def test_rights_are_mended_by_what_it_says(program: Program) -> None:
    """The advice about rights, pasted into a shell, is all that is needed."""
    (program.home / "data").chmod(0o755)
    (program.home / "data/distiller.db").chmod(0o644)
    found = findings(program)
    for check in ("folders", "files"):
        subprocess.run(found[check]["fix"], shell=True, check=True)  # noqa: S602 -- what a person would do

    mended = findings(program)

    assert [found[check]["result"] for check in ("folders", "files")] == ["warn", "warn"]
    assert [mended[check]["result"] for check in ("folders", "files")] == ["ok", "ok"]


def test_settings_that_cannot_be_used_do_not_stop_the_doctor(program: Program) -> None:
    """A bad settings file is one finding with its key, and all else is looked at."""
    (program.home / "config/config.toml").write_text("bad = 1\n")

    found = findings(program)

    assert "bad: no such setting" in found["config"]["evidence"]
    assert found["database"]["result"] == "ok"
    assert program.run("doctor").returncode == 1


def test_a_server_is_asked_only_when_wanted_and_the_key_is_never_shown(program: Program) -> None:
    """`--online` is one GET of the models, with the key, past any proxy; nothing that is printed holds the key."""
    with ModelServer() as server:
        program.environment |= {
            "DISTILLER_BACKEND": "anthropic", "DISTILLER_ANTHROPIC__BASE_URL": server.url,
            "http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9",
        }  # fmt: skip
        program.run("config", "set-key", "anthropic", given=SECRET)
        offline = program.run("doctor", "-v")
        asked_offline = len(server.requests)
        told = program.run("doctor", "-v", "--online")
        seen = list(server.requests)
    gone = findings(program, "--online")["online"]

    assert (asked_offline, [one.path for one in seen]) == (0, ["/v1/models?limit=1000"])
    assert seen[0].headers["x-api-key"] == SECRET
    assert "does not list its models" in told.stdout
    assert (gone["result"], "Connection refused" in gone["evidence"]) == ("broken", True)
    assert SECRET not in offline.stdout + told.stdout + str(gone)


def test_the_claude_program_tells_its_version_in_a_home_of_its_own(program: Program) -> None:
    """It is found and asked for its version, and the person's own home is not its home."""
    folder = program.folder / "bin"
    claude = stand_in(folder, out="2.1.333 (stand-in)\n")
    program.environment |= {"DISTILLER_BACKEND": "claude-cli", "DISTILLER_CLAUDE_CLI__PROGRAM": claude}

    found = findings(program)["backend"]
    run = json.loads((folder / "run.json").read_text())
    stand_in(folder, err="no node here\n", code=127)
    failed = findings(program)["backend"]

    assert (found["result"], "2.1.333 (stand-in)" in found["evidence"]) == ("ok", True)
    assert run["arguments"] == ["--version"]
    assert run["environment"]["HOME"] != str(program.folder)
    assert (failed["result"], "no node here" in failed["evidence"]) == ("broken", True)


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A process that sees a folder as read-only; skips where mount namespaces are not to be had."""
    place = tmp_path / "sealed"
    place.mkdir()
    script = f"mount --bind {place} {place} && mount -o remount,bind,ro {place} && echo on && exec sleep 60"
    process = subprocess.Popen(["unshare", "-m", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"on\n":
            pytest.skip("no mount namespaces for this account")
        yield process.pid, place
    finally:
        process.kill()
        process.communicate()


def test_a_folder_that_the_sandbox_closed_is_seen_from_outside(sealed: tuple[int, Path], tmp_path: Path) -> None:
    """The process's own view counts: read-only for it, although we can write there."""
    pid, place = sealed
    machine = LinuxMachine({}, program_home=str(tmp_path))

    machine.try_writing(str(place))

    assert machine.sealed(pid, str(place))
    assert not machine.sealed(pid, str(tmp_path))


# --- db ---------------------------------------------------------------------------------------------------------


def test_a_copy_is_restored_and_what_stood_there_is_kept(program: Program) -> None:
    """Facts are those of the copy again, the former database can be restored in turn, and its turns are counted."""
    made = copy(program)
    before = names(program)
    put(program, "second", OTHER)
    program.json("backfill")
    after = names(program)

    asked = program.run("db", "restore", made)
    done = program.run("db", "restore", Path(made).name, "--yes", "--json")
    restored = names(program)
    told = json.loads(done.stdout)
    program.run("db", "restore", told["kept"], "--yes")

    assert (asked.returncode, "add --yes" in asked.stderr, len(after)) == (2, True, 2)
    assert "1 turn settled since that copy would be read again" in done.stderr
    assert (restored, names(program)) == (before, after)
    assert told["settled_since"] == {"turns": 1, "paid": 0, "usd": 0}
    assert Path(made).exists()


def test_a_damaged_database_is_found_and_replaced(program: Program) -> None:
    """`db check` says so and what to do, `db restore` puts the copy there and the damaged file aside."""
    made = copy(program)
    damage(program)

    check = program.run("db", "check")
    found = findings(program)["database"]
    done = program.run("db", "restore", made, "--yes", "--json")
    kept = Path(json.loads(done.stdout)["kept"])

    assert check.returncode == 1
    assert f"distiller db restore {made}" in check.stdout
    assert (found["result"], made in found["fix"]) == ("broken", True)
    assert b"\xa5" * 4096 in kept.read_bytes()
    assert "cannot tell" in done.stderr or "settled since" in done.stderr
    assert program.run("db", "check").returncode == 0
    assert len(names(program)) == 1


def test_what_was_erased_stays_erased_in_an_older_copy(program: Program) -> None:
    """A copy from elsewhere, made before an erasure, is restored without the fact that was erased."""
    elsewhere = program.folder / "usb.db"
    elsewhere.write_bytes(Path(copy(program)).read_bytes())
    (name,) = names(program)
    program.run("facts", "forget", name, "--erase", "--yes")

    done = program.run("db", "restore", str(elsewhere), "--yes")

    assert done.returncode == 0, done.stderr
    assert names(program) == set()
    assert program.json("facts", "list", "--status", "all") == []


def test_a_restore_is_refused_where_it_would_do_harm(program: Program) -> None:
    """Under a running service, of no copy of ours, of a damaged one: one line each, and nothing is changed."""
    made = copy(program)
    odd = program.folder / "odd.db"
    with closing(sqlite3.connect(odd)) as database:
        database.execute("CREATE TABLE t (a)")
    torn = program.folder / "torn.db"
    torn.write_bytes(Path(made).read_bytes()[:20000])
    before = (program.home / "data/distiller.db").read_bytes()

    refused = [program.run("db", "restore", str(file), "--yes") for file in (odd, torn, "gone.db")]
    unnamed = program.run("db", "restore")
    itself = program.run("db", "restore", str(program.home / "data/distiller.db"), "--yes")

    assert (program.home / "data/distiller.db").read_bytes() == before
    assert [done.returncode for done in refused] == [78, 78, 1]
    assert (unnamed.returncode, made in unnamed.stderr, itself.returncode) == (2, True, 2)
    assert all("othing was changed" in done.stderr for done in [*refused, unnamed, itself])
    with program.daemon():
        running = program.run("db", "restore", made, "--yes")
    assert (running.returncode, "distiller service stop" in running.stderr) == (75, True)
    assert not (program.home / "data/restoring.tmp").exists()


def test_another_process_in_the_database_stops_a_restore(program: Program) -> None:
    """A backfill or memory server that has it open would write into a lost file, so it must end first."""
    made = copy(program)
    with closing(sqlite3.connect(program.home / "data/distiller.db")) as other:
        other.execute("SELECT count(*) FROM facts").fetchone()

        held = program.run("db", "restore", made, "--yes")

    assert (held.returncode, "in use by another process" in held.stderr) == (1, True)
    assert program.run("db", "restore", made, "--yes").returncode == 0


def test_a_killed_restore_leaves_a_sound_database(program: Program) -> None:
    """Whenever it is killed, the database is the old or the restored one, and the next restore ends well."""
    made = copy(program)
    for wait in (0.05, 0.15, 0.2, 0.25, 0.3, 0.4):
        process = program.start("db", "restore", made, "--yes")
        time.sleep(wait)
        process.kill()
        process.communicate()
        assert program.run("db", "check").returncode == 0
        assert len(names(program)) == 1

    assert program.run("db", "restore", made, "--yes").returncode == 0


def test_an_older_database_is_migrated_after_a_copy(program: Program) -> None:
    """`db migrate` says from where to where and where the copy is; checking alone migrates nothing."""
    database = program.home / "data/distiller.db"
    database.unlink()
    subprocess.run([sys.executable, "-c", FIRST_SCHEMA, str(database)], check=True)

    checked = program.json("db", "check")
    told = program.json("db", "migrate")

    assert (checked["sound"], checked["schema"]) == (True, 1)
    assert (told["from"], told["to"]) == (1, checked["known_schema"])
    assert told["copy"].endswith("-migration.db")
    assert program.json("db", "migrate") == {"from": told["to"], "to": told["to"], "copy": None}


FIRST_SCHEMA = """
import sqlite3, sys
from distiller.adapters.store_sqlite.database import migrations
number, file = migrations()[0]
with sqlite3.connect(sys.argv[1]) as made:
    made.executescript(file.read_text())
    made.execute("CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT)")
    made.execute("INSERT INTO migrations (number, name) VALUES (1, ?)", (file.stem,))
"""


def test_where_nothing_is_stored_nothing_is_made(tmp_path: Path) -> None:
    """Asked about a database that is not there, `db` says so and makes none."""
    program = Program(tmp_path)

    told = [program.run("db", act) for act in ("check", "backup", "migrate")]

    assert {done.returncode for done in told} == {1}
    assert all("There is no database" in done.stderr for done in told)
    assert not program.home.exists()


def test_a_database_that_is_only_busy_is_not_called_damaged(program: Program) -> None:
    """While another process writes for long, `db check` says that it is in use and leaves its health open."""
    with closing(sqlite3.connect(program.home / "data/distiller.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        done = program.run("db", "check")

    assert (done.returncode, "in use by another process" in done.stderr, done.stdout) == (1, True, "")
