"""kill -9 at any instant: nothing lost, nothing doubled, nothing corrupt."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

KILLS = 50
SESSIONS = 40
TURNS = 6
OLD = "2026-11-01T09:00:00.000Z"
SAID = (
    "From now on use uv in part {n} of this repo, never pip.",
    "Run the tests of part {n}.",
    "We never push part {n} to main without a review.",
    "What does the walker of part {n} do?",
    "No, in this repo we name part {n} after its owner, always.",
    "yes",
)


def write_sessions(*, at: str) -> dict[str, bytes]:
    """Forty sessions with six turns each, of which some hold facts."""
    files = {}
    for number in range(SESSIONS):
        session = ClaudeSession(f"{number:08d}-0000-4000-8000-000000000001", cwd=f"/work/p{number % 7}", at=at)
        session.later(100 * number)
        for words in SAID:
            session.later(1)
            session.turn(words.format(n=number))
        files[f"{number}.jsonl"] = bytes(session)
    return files


def put(program: Program, files: dict[str, bytes]) -> None:
    """Write session files."""
    for name, content in files.items():
        (program.projects / name).write_bytes(content)


def check(program: Program, quiet: Program) -> None:
    """The killed home holds what the quiet one holds, and is sound."""
    assert program.turns() == quiet.turns()
    assert program.facts() == quiet.facts()
    settled = program.rows(
        "select turn_key, count(*) as n from passes where outcome != 'interrupted' group by turn_key"
    )
    assert {row["n"] for row in settled} == {1}
    assert [row["integrity_check"] for row in program.rows("pragma integrity_check")] == ["ok"]
    assert len(quiet.facts()) >= 14


def test_backfill_killed_again_and_again_ends_like_a_quiet_one(tmp_path: Path) -> None:
    """Fifty kills at random instants of a backfill, then one that may finish: same turns, same facts."""
    (tmp_path / "quiet").mkdir()
    (tmp_path / "killed").mkdir()
    quiet, killed = Program(tmp_path / "quiet"), Program(tmp_path / "killed")
    files = write_sessions(at=OLD)
    put(quiet, files)
    put(killed, files)
    started = time.monotonic()
    quiet.json("backfill")
    whole = time.monotonic() - started
    dice = random.Random(20261201)

    for _ in range(KILLS):
        process = killed.start("backfill")
        time.sleep(dice.uniform(0.15, whole))
        process.kill()
        process.communicate()
    report = killed.json("backfill")

    assert report["waiting"] == 0
    check(killed, quiet)


def test_a_daemon_killed_again_and_again_ends_like_a_quiet_one(tmp_path: Path) -> None:
    """Fifty kills of the daemon while sessions grow, then one that may finish: same turns, same facts."""
    (tmp_path / "quiet").mkdir()
    (tmp_path / "killed").mkdir()
    quiet, killed = Program(tmp_path / "quiet"), Program(tmp_path / "killed")
    dice = random.Random(20261201)
    with quiet.daemon(), killed.daemon():
        at = quiet.json("status")["daemon"]["started_at"]
    files = write_sessions(at=max(at, killed.json("status")["since"]))

    with quiet.daemon():
        put(quiet, files)
        quiet.until(lambda: len(quiet.turns()) == SESSIONS * TURNS and not waiting(quiet))
    pieces = {name: cut(content, dice) for name, content in files.items()}
    for _ in range(KILLS):
        process = killed.start("run")
        for name, parts in pieces.items():
            if parts and dice.random() < 0.3:
                with (killed.projects / name).open("ab") as file:
                    file.write(parts.pop(0))
        time.sleep(dice.uniform(0.1, 0.9))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for name, parts in pieces.items():
        with (killed.projects / name).open("ab") as file:
            file.write(b"".join(parts))
    with killed.daemon():
        killed.until(lambda: len(killed.turns()) == SESSIONS * TURNS and not waiting(killed))

    check(killed, quiet)


def waiting(program: Program) -> bool:
    """Whether a turn waits."""
    return bool(program.rows("select 1 from turns where state = 'waiting'"))


def cut(content: bytes, dice: random.Random) -> list[bytes]:
    """A file in ten pieces, cut anywhere."""
    places = sorted(dice.randrange(len(content)) for _ in range(9))
    return [content[start:end] for start, end in zip([0, *places], [*places, len(content)], strict=True)]
