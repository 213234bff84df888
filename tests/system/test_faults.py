"""Faults that only the whole program can have: files by age, folders, exit codes, what the commands tell."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from distiller import timestamps
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

DAY = 86400
OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip."
RULES = (
    RULE,
    "We never push to main in this repo.",
    "In this repo we always squash commits.",
    "In this repo we always write docstrings in English.",
    "From now on run the linter before each commit in this repo.",
    "Our staging dashboard lives at https://grafana.example.com/d/shop.",
    "We use pytest in this repo, not unittest.",
    "We deploy on Tuesdays in this repo, never on Fridays.",
    "In this repo we always pin the versions of container images.",
    "We track bugs in Linear, not in Jira.",
    "In this repo log messages never contain addresses of customers.",
    "We use tabs in this repo, not spaces.",
)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """A program that has never run."""
    return Program(tmp_path)


def repository(folder: Path, remote: str) -> Path:
    """A folder with what git leaves there."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git/config").write_text(f'[remote "origin"]\n\turl = {remote}\n')
    return folder


def session(number: int = 1, *, at: str = OLD, cwd: Path | str = "/work/app") -> ClaudeSession:
    """One of many sessions."""
    return ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", at=at, cwd=str(cwd))


def put(program: Program, name: str, content: bytes, *, days: float = 0) -> Path:
    """A session file that was last written some days ago."""
    path = program.projects / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    if days:
        os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def aged(program: Program, number: int, days: float) -> Path:
    """A session file whose last line is as old as the file."""
    words = f"In this repo we always name module {number} after its owner."
    at = timestamps.after(OLD, seconds=number)
    return put(program, f"{number}.jsonl", session(number, at=at).turn(words), days=days)


def test_f07_a_fact_belongs_to_the_session_s_project_wherever_the_program_stands(program: Program) -> None:
    """F07: started inside repository B, it files what was said in A/sub under A; no file of ours mentions B."""
    first = repository(program.folder / "alpha", "git@example.com:acme/alpha.git")
    second = repository(program.folder / "bravo-7391", "git@example.com:acme/bravo-7391.git")
    (first / "sub").mkdir()
    (program.projects / "a.jsonl").write_bytes(session(cwd=first / "sub").turn(RULE))

    backfilled = program.run("backfill", cwd=second)
    ran = program.run("run", "--once", cwd=second)

    (fact,) = program.json("facts", "list")
    assert (backfilled.returncode, ran.returncode) == (0, 0)
    assert (fact["project"], fact["project_key"]) == ("alpha", "example.com/acme/alpha")
    assert [project["key"] for project in program.json("projects")] == ["example.com/acme/alpha"]
    assert program.holds("alpha") != []  # the search finds what is there
    assert program.holds("bravo-7391") == []


def test_f15_a_program_s_repeated_prompt_is_counted_as_skipped(program: Program) -> None:
    """F15: sixty headless sessions with one prompt of 2 kB: one is distilled, `status` counts 59."""
    prompt = "Check the nightly numbers of every shop and write them down in the report. " * 27
    for number in range(60):
        one = session(number)
        text = one.prompt(prompt, entrypoint="sdk-cli", promptSource="sdk") + one.say("Written.") + one.end()
        put(program, f"{number}.jsonl", text)

    report = program.json("backfill")
    status = program.json("status")

    assert (report["turns"], report["empty"], report["skipped"]) == (60, 1, {"repeat": 59})
    assert status["skipped"] == {"repeat": 59}


def test_f16_worktree_and_package_are_one_project_and_a_namesake_is_another(program: Program) -> None:
    """F16: four folders, three of them of one repository: two projects, each with its own rule."""
    app = repository(program.folder / "w/acme/app", "git@example.com:acme/app.git")
    other = repository(program.folder / "w/other/app", "https://example.com/other/app")
    folders = (app, other, app / ".claude/worktrees/calm-otter", app / "packages/web")
    for number, folder in enumerate(folders):
        folder.mkdir(parents=True, exist_ok=True)
        put(program, f"{number}.jsonl", session(number, cwd=folder).turn(RULES[number]))

    program.json("backfill")

    found = {project["key"]: (project["sessions"], project["facts"]) for project in program.json("projects")}
    assert found == {"example.com/acme/app": (3, 3), "example.com/other/app": (1, 1)}
    here = program.json("recall", "uv", "pip", "squash", "docstrings", "main", cwd=app / "packages/web")
    assert {fact["body"] for fact in here["facts"]} == {RULES[0], RULES[2], RULES[3]}


def test_f24_sessions_that_are_about_to_be_deleted_are_counted_and_read_first(program: Program) -> None:
    """F24: of six old files those of 27 to 29 days are told of as expiring, and a short backfill takes just them."""
    with program.daemon():
        pass
    ages = {1: 5, 2: 27.5, 3: 12, 4: 29, 5: 20, 6: 28}
    paths = {number: aged(program, number, days) for number, days in ages.items()}

    before = program.json("status")["backlog"]
    told = program.run("status").stdout
    report = program.json("backfill", "--limit", "3")
    after = program.json("status")["backlog"]

    settled = {row["file"] for row in program.rows("select file from turns where state = 'kept'")}
    assert (before["sessions"], before["expiring"]) == (6, 3)
    assert "3 sessions will soon be deleted by their agent" in told
    assert (report["kept"], report["stopped"]) == (3, "limit")
    assert settled == {str(paths[number]) for number in (2, 4, 6)}
    assert after["expiring"] == 0


def test_f27_old_sessions_are_shown_as_backlog_until_a_backfill_has_read_them(program: Program) -> None:
    """F27: ten old files, one of them touched: `status` shows ten, the ledger none; then ten are read, none is left."""
    for number in range(10):
        aged(program, number, days=10)
    with program.daemon():
        os.utime(program.projects / "3.jsonl")
        program.until(lambda: program.json("status")["backlog"]["sessions"] == 10)
        pending, enrolled = program.json("status")["backlog"], program.turns()
    with program.daemon():
        again = program.json("status")["backlog"]["sessions"]

    report = program.json("backfill")

    assert (pending["sessions"], enrolled, again) == (10, {}, 10)
    assert pending["bytes"] == sum(path.stat().st_size for path in program.projects.iterdir())
    assert (report["turns"], report["kept"]) == (10, 10)
    assert program.json("status")["backlog"]["sessions"] == 0


def test_f46_a_giant_line_is_counted_and_the_turns_around_it_are_read(tmp_path: Path) -> None:
    """F46: forty turns, a line far over `turns.max_line_bytes` in one of them: forty are settled, one line is told."""
    program = Program(tmp_path, turns__max_line_bytes="65536")
    one = session()
    for number in range(40):
        one.prompt(f"In this repo we always check part {number} by hand.")
        one.call(f"c{number}", "Read", {"file_path": "big.log"})
        one.result(f"c{number}", "x" * (3_000_000 if number == 20 else 50_000))
        one.say("Read.")
        one.end()
    put(program, "s.jsonl", bytes(one))

    first, second = program.json("backfill"), program.json("backfill")

    assert (first["turns"], first["kept"], first["bytes"], first["errors"]) == (40, 40, len(bytes(one)), [])
    assert (second["turns"], second["known"]) == (40, 40)
    assert program.json("status")["lines"]["too_long"] == 1


def test_f47_a_file_that_cannot_be_read_is_named_and_the_exit_code_says_partly(program: Program) -> None:
    """F47: the others are read, the bad one is listed with its reason in every run, and the exit code is 3."""
    aged(program, 1, days=1)
    loop = program.projects / "loop.jsonl"
    loop.symlink_to(loop)

    first, shown = program.run("backfill", "--json"), program.run("backfill")
    loop.unlink()
    mended = program.run("backfill")

    report = json.loads(first.stdout)
    assert (first.returncode, shown.returncode, mended.returncode) == (3, 3, 0)
    assert (report["turns"], report["kept"]) == (1, 1)
    assert report["errors"] == [{"file": str(loop), "reason": "Too many levels of symbolic links"}]
    assert f"{loop}: Too many levels of symbolic links" in shown.stdout


def unresolvable(folder: Path, kind: str) -> str:
    """A root that raises when it is looked at."""
    if kind == "loop":
        (folder / "loop").symlink_to(folder / "loop")
        return str(folder / "loop")
    return str(folder / ("x" * 300))


@pytest.mark.parametrize("kind", ["loop", "name-too-long"])
def test_f48_a_root_that_raises_does_not_stop_the_other(tmp_path: Path, kind: str) -> None:
    """F48: of two watched roots one cannot be resolved; turns of the other are followed, live and in a backfill."""
    roots = [unresolvable(tmp_path, kind), str(tmp_path / "agent/projects")]
    program = Program(tmp_path, agents__claude_code__roots=json.dumps(roots))
    with program.daemon():
        at = timestamps.after(program.json("status")["daemon"]["started_at"], seconds=60)
        put(program, "live.jsonl", session(1, at=at).turn(RULE))
        program.until(program.facts)
    put(program, "old.jsonl", session(2).turn("We never push to main in this repo."))

    report = program.json("backfill")

    assert (report["known"], report["kept"]) == (1, 1)
    assert [error["file"] for error in report["errors"]] in ([], [roots[0]])


def test_f66_a_project_that_is_not_known_is_answered_with_the_near_one(program: Program) -> None:
    """F66: twelve facts of `shop`, a question about `Shop-web`: nothing, and a hint that says where they are."""
    shop = repository(program.folder / "shop", "git@example.com:acme/shop.git")
    for number, words in enumerate(RULES):
        put(program, f"{number}.jsonl", session(number, cwd=shop).turn(words))
    held = program.json("backfill")["facts_added"]

    asked = program.run("recall", "--project", "Shop-web", "which", "package", "tool")
    right = program.json("recall", "--project", "shop", "which", "package", "tool")

    assert held == 12
    assert (asked.returncode, asked.stdout) == (1, "")
    assert "Shop-web" in asked.stderr
    assert "shop (12 facts)" in asked.stderr
    assert right["facts"][0]["body"] == RULE


def test_f73_lines_of_3_and_80_mb_do_not_wedge_a_live_session(program: Program) -> None:
    """F73: with the settings as they come the first is read, the second noted, and the turn ends as usual."""
    with program.daemon():
        at = timestamps.after(program.json("status")["daemon"]["started_at"], seconds=60)
        one = session(at=at)
        path = put(program, "s.jsonl", one.prompt(RULE))
        for number, size in enumerate((3_000_000, 80_000_000)):
            with path.open("ab") as file:
                file.write(one.call(f"c{number}", "Read", {"file_path": "a"}) + one.result(f"c{number}", "x" * size))
        with path.open("ab") as file:
            file.write(one.say("Read.") + one.end())
        program.until(program.facts)
        program.until(lambda: program.json("status")["lines"]["too_long"] == 1)

    assert list(program.turns().values()) == ["kept"]
    (cursor,) = program.rows("select offset_byte, lines_malformed from cursors")
    assert cursor == {"offset_byte": path.stat().st_size, "lines_malformed": 0}


def test_f66_a_known_project_without_facts_is_answered_with_the_near_one(program: Program) -> None:
    """F66: `Shop-web` is a project of its own that holds nothing; the answer still says where near facts are."""
    shop = repository(program.folder / "shop", "git@example.com:acme/shop.git")
    web = repository(program.folder / "web", "git@example.com:acme/Shop-web.git")
    put(program, "a.jsonl", session(1, cwd=shop).turn(RULE))
    put(program, "b.jsonl", session(2, cwd=web).turn("What does the walker do?"))
    program.json("backfill")

    asked = program.run("recall", "--project", "Shop-web", "which", "package", "tool")

    assert "shop (1 fact)" in asked.stdout + asked.stderr
