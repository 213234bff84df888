"""The log file: whole lines, bounded size, nothing lost by rotation, whoever writes and whoever reads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from distiller.adapters.notifier_structlog import LINE_BYTES, LogNotifier, RotatingFile
from distiller.surfaces.cli import output
from distiller.surfaces.cli.logview import Filter, Log, readable

EVERYTHING = Filter(None, None, None, None)


def numbers(lines: list[bytes]) -> list[int]:
    """The numbers that the tests' lines carry."""
    return [json.loads(line)["n"] for line in lines]


def write(file: RotatingFile, start: int, count: int) -> None:
    """Write `count` numbered lines."""
    for number in range(start, start + count):
        file.write(json.dumps({"n": number, "level": "info", "event": "x"}).encode() + b"\n")


def test_a_line_has_the_same_first_keys_and_is_ascii(tmp_path: Path) -> None:
    """Time, level, event, version and pid stand first; nothing in a line can move a terminal."""
    notifier = LogNotifier(str(tmp_path / "l.jsonl"), version="1.2")
    notifier.event("daemon.started", roots=2, note="\x1b[31m café 😀")

    raw = (tmp_path / "l.jsonl").read_bytes()
    line = json.loads(raw)

    assert list(line)[:5] == ["time", "level", "event", "version", "pid"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert all(0x20 <= byte < 0x7F or byte == 0x0A for byte in raw)
    assert line["note"] == "\x1b[31m café 😀"
    assert (tmp_path / "l.jsonl").stat().st_mode & 0o777 == 0o600


def test_an_overlong_line_is_cut_and_stays_json(tmp_path: Path) -> None:
    """The journal would break it into pieces of which none parses."""
    LogNotifier(str(tmp_path / "l.jsonl"), version="1").event("big", text="x" * 100_000)

    (raw,) = (tmp_path / "l.jsonl").read_bytes().splitlines()

    assert len(raw) <= LINE_BYTES
    assert json.loads(raw)["event"] == "big"


def test_levels_below_the_least_are_not_written(tmp_path: Path) -> None:
    """`logs.level` decides, also when it changes while running."""
    notifier = LogNotifier(str(tmp_path / "l.jsonl"), version="1", level="warning")
    notifier.event("quiet")
    notifier.event("loud", level="error")
    notifier.set_level("debug")
    notifier.event("whisper", level="debug")

    events = [json.loads(line)["event"] for line in (tmp_path / "l.jsonl").read_bytes().splitlines()]
    assert events == ["loud", "whisper"]


def test_the_log_never_grows_beyond_its_files(tmp_path: Path) -> None:
    """Five files of the size given, whatever is written; the newest lines are kept."""
    write(RotatingFile(str(tmp_path / "l.jsonl"), file_bytes=1000, files=5), 0, 1000)

    sizes = [path.stat().st_size for path in tmp_path.iterdir()]

    assert len(sizes) == 5
    assert max(sizes) <= 1000
    assert json.loads((tmp_path / "l.jsonl").read_bytes().splitlines()[-1])["n"] == 999


def test_two_processes_on_one_log_lose_no_line(tmp_path: Path) -> None:
    """A backfill beside the daemon: every line of both is there once."""
    program = (
        "import sys; from tests.integration.test_log import *;"
        "write(RotatingFile(sys.argv[1], file_bytes=20_000, files=100), int(sys.argv[2]), 3000)"
    )
    path = str(tmp_path / "l.jsonl")
    writers = [
        subprocess.Popen([sys.executable, "-c", program, path, str(start)], cwd=Path(__file__).parents[2])
        for start in (0, 3000)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]

    lines = [line for file in tmp_path.iterdir() for line in file.read_bytes().splitlines()]
    assert sorted(numbers(lines)) == list(range(6000))


def test_the_last_lines_reach_back_through_rotated_files(tmp_path: Path) -> None:
    """`logs -n` counts lines that fit, not files."""
    write(RotatingFile(str(tmp_path / "l.jsonl"), file_bytes=1000, files=5), 0, 60)

    with Log(str(tmp_path / "l.jsonl")) as log:
        assert numbers(log.last(40, EVERYTHING)) == list(range(20, 60))


def test_following_shows_every_line_once_through_rotations(tmp_path: Path) -> None:
    """Fifty rotations at speed: nothing lost, nothing twice, in order."""
    file = RotatingFile(str(tmp_path / "l.jsonl"), file_bytes=2000, files=9)
    write(file, 0, 10)
    seen: list[int] = []
    with Log(str(tmp_path / "l.jsonl")) as log:
        seen += numbers(log.last(100, EVERYTHING))
        for burst in range(100):
            write(file, 10 + burst * 25, 25)
            seen += numbers(log.fresh())

    assert seen == list(range(10 + 100 * 25))


def test_a_half_written_line_is_shown_when_it_is_whole(tmp_path: Path) -> None:
    """The first partial line is never printed."""
    path = tmp_path / "l.jsonl"
    path.write_bytes(b'{"n":1}\n{"n":')
    with Log(str(path)) as log:
        first = log.last(10, EVERYTHING)
        with path.open("ab") as file:
            file.write(b"2}\n")
        second = log.fresh()

    assert (numbers(first), numbers(second)) == ([1], [2])


def test_a_log_that_comes_later_is_followed(tmp_path: Path) -> None:
    """`logs -f` may be started before the service."""
    with Log(str(tmp_path / "l.jsonl")) as log:
        assert log.last(10, EVERYTHING) == []
        assert log.fresh() == []
        write(RotatingFile(str(tmp_path / "l.jsonl")), 0, 3)
        assert numbers(log.fresh()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("wanted", "shown"),
    [
        (Filter("warning", None, None, None), ["b", "c"]),
        (Filter(None, "2026-12-01T10:00:00.000Z", None, None), ["b", "c"]),
        (Filter(None, None, "t1", None), ["a"]),
        (Filter(None, None, None, re.compile("need.e")), ["c"]),
    ],
)
def test_filters_choose_lines(tmp_path: Path, wanted: Filter, shown: list[str]) -> None:
    """By level and worse, by time, by turn, by expression."""
    lines = [
        {"time": "2026-12-01T09:00:00.000Z", "level": "info", "event": "a", "turn": "t12"},
        {"time": "2026-12-01T10:00:00.000Z", "level": "warning", "event": "b", "turn": "t2"},
        {"time": "2026-12-01T11:00:00.000Z", "level": "error", "event": "c", "word": "needle"},
    ]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    with Log(str(tmp_path / "l.jsonl")) as log:
        found = [json.loads(line)["event"] for line in log.last(10, wanted)]

    assert found == shown


def test_a_line_that_is_not_json_is_shown_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Foreign lines are marked, never dropped; escape sequences do not reach the terminal."""
    output.say(*readable(b"\x1b[2Jboom"))

    assert capsys.readouterr().out == "? \\x1b[2Jboom\n"
