"""The commands of someone who wants a text gone, or wants to know who has it: the real program, a running service."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip; the word is xylophone."
OTHER = "Please always run make check before you push."
TOKEN = "zanzibar-4711-token"


def filled(folder: Path) -> Program:
    """A home with two facts of two sessions, read by backfill."""
    program = Program(folder)
    for number, words in enumerate((RULE, OTHER), start=1):
        session = ClaudeSession(f"{number * 11111111}-0000-4000-8000-00000000000{number}", at=OLD)
        session.turn(words)
        (program.projects / f"s{number}.jsonl").write_bytes(bytes(session).replace(b"-aaaa-", b"-aaa%d-" % number))
    program.json("backfill")
    return program


def test_a_token_that_redaction_missed_is_gone_from_everything(tmp_path: Path) -> None:
    """Issue 4: after `scrub` grep finds it in no fact, quote, note, title, run, log, backup or write-ahead log."""
    program = Program(tmp_path)
    with program.daemon() as daemon:
        session = ClaudeSession(at=program.json("status")["daemon"]["started_at"], cwd=f"/work/{TOKEN}")
        session.later(60)
        session.raw({"type": "ai-title", "aiTitle": f"about {TOKEN}", "sessionId": session.session_id})
        session.turn(f"From now on log in to the test box as {TOKEN}, never as root.")
        (program.projects / "s.jsonl").write_bytes(bytes(session))
        program.until(program.facts)
        program.run("db", "backup")
        told = program.holds(TOKEN)
        counted = program.json("scrub", TOKEN, "--dry-run")
        untouched = program.holds(TOKEN)

        done = program.run("scrub", TOKEN, "--yes")

        assert any("logs/" in place for place in told), "the log must first tell it, else this test cannot fail"
        assert any("backups/" in place for place in told)
        assert untouched == told
        assert counted["rows"]["facts"] == 1
        assert (done.returncode, done.stderr) == (0, "")
        assert program.holds(TOKEN) == []
        assert TOKEN not in done.stdout
        assert daemon.poll() is None
        program.run("pause")  # the service still writes its log, and every line of it can be read
        lines = (program.home / "logs/distiller.jsonl").read_text().splitlines()
        assert all(json.loads(line)["event"] for line in lines)
    assert program.holds(TOKEN) == []


def test_scrub_asks_before_it_acts_and_refuses_what_cannot_be_meant(tmp_path: Path) -> None:
    """Without a terminal it needs --yes; an expression that finds everything is refused; nothing is changed."""
    program = filled(tmp_path)
    before = program.facts()

    done = [program.run("scrub", *words) for words in (["xylophone"], [".*", "--yes"], ["(", "--yes"])]

    assert [one.returncode for one in done] == [2, 2, 2]
    assert all("nothing was changed" in one.stderr and "Traceback" not in one.stderr for one in done)
    assert program.facts() == before


def test_a_database_that_was_set_aside_is_named_not_passed_over(tmp_path: Path) -> None:
    """A damaged copy still holds the text: the command says so and ends with 3, though all else is done."""
    program = filled(tmp_path)
    aside = program.home / "data/distiller.db.damaged-20261201"
    aside.write_bytes(b"torn xylophone")

    done = program.run("scrub", "xylophone", "--yes")

    assert done.returncode == 3
    assert str(aside) in done.stderr
    assert program.holds("xylophone") == [str(aside)]


def test_scrub_reads_the_text_from_stdin(tmp_path: Path) -> None:
    """So that a secret stands in no shell history and no process list."""
    program = filled(tmp_path)

    done = program.run("scrub", "-", "--yes", given="xylophone\n")

    assert done.returncode == 0
    assert program.holds("xylophone") == []


def test_a_purged_session_stays_gone(tmp_path: Path) -> None:
    """Counts first; then fact, quote and prompt are gone from every byte, and a backfill brings nothing back."""
    program = filled(tmp_path)
    program.run("db", "backup")
    before = program.facts()
    weighed = program.json("purge", "--session", "11111111", "--dry-run")
    still = program.facts()
    unasked = program.run("purge", "--session", "11111111")

    removed = program.json("purge", "--session", "11111111", "--yes")
    program.json("backfill")
    program.json("backfill", "--again", "--yes")

    assert (still, unasked.returncode) == (before, 2)
    assert removed["removed"] == weighed["removed"]
    assert (removed["removed"]["turns"], removed["removed"]["facts"]) == (1, 1)
    assert program.holds("xylophone") == []
    assert len(program.facts()) == 1
    assert sorted(program.turns().values()) == ["kept", "skipped(purged)"]


def test_a_trace_and_an_inventory_tell_no_fact(tmp_path: Path) -> None:
    """`trace` names the recall that handed a fact over; `inventory` counts everything and says no word of it."""
    program = filled(tmp_path)
    program.run("facts", "add", "--everywhere", "Deploys go out on Tuesdays only.")
    (fact,) = [one for one in program.json("facts", "list") if one["scope"] == "user"]
    recalled = program.json("recall", "when do deploys go out")

    (told,) = program.json("trace", fact["name"])
    page = program.json("inventory")
    shown = program.run("inventory").stdout

    assert told.keys() == {"recall", "at", "channel", "agent", "session", "project", "query"}
    assert (told["recall"], told["channel"]) == (recalled["recall"], "cli")
    assert page.keys() == {"stored", "sent", "served", "lies", "read", "off"}
    assert {one["kind"]: one["rows"] for one in page["stored"]}["facts"] == 3
    assert "Tuesdays" not in json.dumps(page) + shown
    assert all(one["mode"] in ("0600", "0700") for one in page["lies"]["files"])


def test_a_week_fits_a_terminal_and_ends_with_one_step(tmp_path: Path) -> None:
    """New facts by name and summary, turns by day, what is stuck; 80 columns; the last line says what to do."""
    program = filled(tmp_path)

    shown = program.run("week")
    page = program.json("week")

    lines = shown.stdout.splitlines()
    assert shown.returncode == 0
    assert max(len(line) for line in lines) <= 80
    assert lines[-1].startswith("Next: ")
    assert {one["name"] for one in page["new"]} == {one["name"] for one in program.json("facts", "list")}
    assert all(any(one["name"] in line for line in lines) for one in page["new"])
    assert [row["kept"] for row in page["turns"]] == [2]
