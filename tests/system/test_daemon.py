"""The real program: real files, real events, a real database, real signals."""

from __future__ import annotations

import json
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

RULE = "From now on use uv in this repo, never pip."


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program that has never run."""
    return Program(tmp_path)


def repository(folder: Path, remote: str) -> Path:
    """A folder with a git remote."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return folder


def test_a_turn_becomes_a_fact_while_the_daemon_watches(program: Program) -> None:
    """From the last byte of a turn to a fact with its quote, with nothing but file events."""
    shop = repository(program.folder / "shop", "git@example.com:acme/shop.git")
    with program.daemon():
        session = ClaudeSession(cwd=str(shop), at=program.json("status")["daemon"]["started_at"])
        session.later(60)
        folder = program.projects / "-shop"
        folder.mkdir()
        (folder / "s.jsonl").write_bytes(session.turn(RULE))
        program.until(program.facts)

        (fact,) = program.json("facts", "list")
        answer = program.json("recall", "which", "package", "tool", cwd=shop)
        elsewhere = program.json("recall", "which", "package", "tool")

    assert (fact["project"], fact["quote"]) == ("shop", RULE)
    assert [one["name"] for one in answer["facts"]] == [fact["name"]]
    assert elsewhere["facts"] == []
    assert elsewhere["elsewhere"] == 1


def test_a_second_daemon_leaves_with_one_line(program: Program) -> None:
    """Two daemons: one works, the other exits 75 and says who has the lock."""
    with program.daemon() as first:
        second = program.run("run")

    assert second.returncode == 75
    assert second.stderr.count("\n") == 1
    assert str(first.pid) in second.stderr


def test_sigterm_ends_the_daemon_cleanly(program: Program) -> None:
    """A stop takes less than a second of waiting and is no failure."""
    with program.daemon() as process:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0

    status = program.json("status")
    assert (status["state"], status["healthy"]) == ("stopped", False)
    assert [json.loads(line)["event"] for line in (program.home / "logs/distiller.jsonl").read_text().splitlines()] == [
        "daemon.started", "daemon.stopping", "daemon.stopped",
    ]  # fmt: skip


def test_everything_of_ours_is_private(program: Program) -> None:
    """Promise 11: folders 0700, files 0600."""
    with program.daemon():
        (program.projects / "s.jsonl").write_bytes(ClaudeSession().turn(RULE))
        time.sleep(0.5)

    modes = {path: path.stat().st_mode & 0o777 for path in program.home.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_backfill_beside_the_daemon_doubles_nothing(program: Program) -> None:
    """Both read the same files at the same time; each turn is settled once."""
    with program.daemon():
        at = program.json("status")["daemon"]["started_at"]
        for number in range(20):
            session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", cwd=f"/work/p{number}", at=at)
            session.later(60)
            text = b"".join(
                session.turn(f"In this repo we always name module {number} after its {word}.")
                for word in ("owner", "topic")
            )
            (program.projects / f"{number}.jsonl").write_bytes(text)
        reports = [program.json("backfill", str(program.projects)) for _ in range(2)]
        program.until(lambda: len(program.turns()) == 40)
        program.until(lambda: not program.rows("select 1 from turns where state = 'waiting'"))

    passes = program.rows("select turn_key, count(*) as n from passes where outcome != 'interrupted' group by turn_key")
    assert {row["n"] for row in passes} == {1}
    assert all(report["turns"] == 40 for report in reports)
    assert set(program.turns().values()) == {"kept"}


def test_agents_files_are_left_as_they_were(program: Program) -> None:
    """Promise 3 and F09: reading changes neither content nor times of any session file, and runs no hook."""
    at = "2026-11-01T09:00:00.000Z"
    (program.folder / "agent/settings.json").write_text('{"hooks": {"Stop": [{"command": "touch hook-ran"}]}}')
    for number in range(30):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=at)
        (program.projects / f"{number}.jsonl").write_bytes(session.turn(RULE))
    before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in program.projects.iterdir()}

    with program.daemon():
        program.json("backfill")
    after = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in program.projects.iterdir()}

    assert before == after
    assert not list(program.folder.rglob("hook-ran"))


def test_the_growth_alarm_halts_and_resume_goes_on(tmp_path: Path) -> None:
    """F06: sessions faster than a person halt the service; turns wait, status says how to resume, nothing is lost."""
    program = Program(tmp_path, guard__sessions="5")
    with program.daemon():
        at = program.json("status")["daemon"]["started_at"]
        for number in range(12):
            session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=at)
            session.later(60)
            text = (
                session.prompt(f"We use tool {number} in this repo.", promptSource="sdk")
                + session.say("ok")
                + session.end()
            )
            (program.projects / f"{number}.jsonl").write_bytes(text)
            program.until(partial(has_turns, program, number + 1))
        status = program.json("status")
        program.run("resume")
        program.until(lambda: not program.rows("select 1 from turns where state = 'waiting'"))

    assert (status["state"], status["reason"], status["healthy"]) == ("halted", "suspicious-rate", False)
    assert status["problems"][0]["fix"] == "distiller resume"
    assert status["waiting"]["halted"] > 0


def test_a_paused_service_reads_nothing_until_asked(program: Program) -> None:
    """F34: turns that end while memory is off are skipped for good; `retry --paused` reads them after all."""
    with program.daemon():
        program.run("pause")
        at = program.json("status")["since"]
        session = ClaudeSession(at=at)
        session.later(1)
        (program.projects / "s.jsonl").write_bytes(session.turn(RULE))
        program.until(program.turns)
        paused = list(program.turns().values())
        answer = program.run("recall", "uv")
        program.run("resume")
        program.run("retry", "--paused")
        program.until(program.facts)

    assert paused == ["skipped(paused)"]
    assert "Memory is off" in answer.stdout
    assert list(program.turns().values()) == ["kept"]


def test_what_is_done_survives_a_vanished_folder(program: Program) -> None:
    """The agent's whole folder goes and comes back: the daemon goes on with both."""
    with program.daemon():
        at = program.json("status")["daemon"]["started_at"]
        first = ClaudeSession(at=at)
        first.later(60)
        (program.projects / "a.jsonl").write_bytes(first.turn(RULE))
        program.until(lambda: len(program.turns()) == 1)
        shutil.rmtree(program.projects)
        time.sleep(0.3)
        program.projects.mkdir()
        second = ClaudeSession("22222222-0000-4000-8000-000000000002", at=at)
        second.later(90)
        (program.projects / "b.jsonl").write_bytes(second.turn("We never push to main in this repo."))
        program.until(lambda: len(program.turns()) == 2)


def test_a_closed_terminal_does_not_end_the_service(program: Program) -> None:
    """SIGHUP is no reason to die."""
    with program.daemon() as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)

        assert process.poll() is None


def test_a_damaged_waiting_turn_is_buried_and_the_others_go_on(program: Program) -> None:
    """One row that cannot be read is dead and counted; later turns are settled, and status does not lie."""
    with program.daemon():
        at = program.json("status")["daemon"]["started_at"]
        program.run("pause", "--for", "1h")
        program.run("resume")
    database = program.database()
    session = ClaudeSession(at=at)
    session.later(60)
    (program.projects / "a.jsonl").write_bytes(session.turn(RULE))
    stopped = Program(program.folder, projects="ask")
    stopped.run("run", "--once")
    database.execute("update turns set text = x'00010203' where state = 'waiting'")
    database.execute("update turns set reason = 'queued' where state = 'waiting'")
    database.conn.commit()
    database.close()

    with program.daemon():
        program.until(lambda: "dead(unreadable)" in program.turns().values())
        other = ClaudeSession("22222222-0000-4000-8000-000000000002", at=at)
        other.later(90)
        (program.projects / "b.jsonl").write_bytes(other.turn("We never push to main in this repo."))
        program.until(lambda: "kept" in program.turns().values())

    assert program.json("status")["dead"] == {"unreadable": 1}


def test_ctrl_c_ends_a_backfill_soon_and_the_next_goes_on(program: Program) -> None:
    """Stoppable at any time: the report says so, exit code 3, and nothing is lost or done twice."""
    for number in range(30):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at="2026-11-01T09:00:00.000Z")
        text = b"".join(session.turn(f"Please look at part {part} of {number}.") for part in range(60))
        (program.projects / f"{number}.jsonl").write_bytes(text)
    process = program.start("backfill", "--json")
    program.until(lambda: has_turns(program, 20))

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    report = json.loads(out)
    rest = program.json("backfill")

    assert (process.returncode, report["stopped"]) == (3, "interrupted")
    assert b"Traceback" not in err
    assert report["turns"] < 1800
    assert (rest["turns"], rest["waiting"], rest["stopped"]) == (1800, 0, None)
    settled = "select turn_key, count(*) as n from passes where outcome in ('kept', 'empty') group by turn_key"
    assert [row["n"] for row in program.rows(settled)] == [1] * 1800


def has_turns(program: Program, count: int) -> bool:
    """Whether the ledger holds `count` turns."""
    return len(program.turns()) >= count
