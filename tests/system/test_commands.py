"""The command line as people and programs meet it: keys, exit codes, one line for each error, no traceback."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip."
ESCAPES = "\x1b[31mred\x1b[0m \u202egnp.exe \x07"

KEYS = {  # CONTRACTS: what programs may rely on
    "fact": "id name scope project project_key kind status strength pinned summary body related quote evidence_count "
    "created_at updated_at first_said_at last_confirmed_at valid_until last_recalled_at recalls",
    "session": "agent id title project cwd model role parent started_at last_at state turns kept empty skipped waiting "
    "dead facts bytes file paused off_record",
    "status": "version healthy problems state reason since until daemon backend turns waiting skipped dead "
    "oldest_waiting_at backlog today facts candidates proposals last_settled_at last_error agents lines store",
    "why": "turn revision key agent session project file start_byte end_byte prompt_at ended_at end_sign state reason "
    "explanation until attempts passes operations refusals",
    "recall": "recall state query project matched facts changed unread_turns elsewhere took_ms",
    "project": "key name remote folders aliases reading paused sessions turns facts",
    "backfill": "files sessions turns known open kept empty skipped waiting dead facts_added facts_updated candidates "
    "calls input_tokens output_tokens cost_usd bytes malformed_lines seconds preview stopped errors",
    "setting": "key value default unit source",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Program:
    """A program with a backfilled session in which everything is foreign text."""
    program = Program(tmp_path_factory.mktemp("commands"))
    session = ClaudeSession(at=OLD, cwd=str(program.folder / f"shop {ESCAPES}"))
    session.raw({"type": "ai-title", "aiTitle": f"Title {ESCAPES}", "sessionId": session.session_id})
    session.turn(RULE)
    session.later(5)
    session.turn(f"Explain {ESCAPES} the walker module.")
    (program.projects / "s.jsonl").write_bytes(bytes(session))
    plain = ClaudeSession("22222222-0000-4000-8000-000000000002", at=OLD, cwd="/work/depot")
    (program.projects / "plain.jsonl").write_bytes(plain.turn("In this repo we always squash commits."))
    program.json("backfill")
    return program


def test_json_has_the_keys_that_programs_rely_on(program: Program) -> None:
    """Every documented key is there, unknown ones are null and never missing."""
    fact = program.json("facts", "list")[0]
    session = next(one for one in program.json("sessions", "list") if one["title"])
    shown = program.json("sessions", "show", session["id"][:8])
    objects = {
        "fact": fact,
        "session": session,
        "status": program.json("status"),
        "why": program.json("why", shown["items"][0]["turn"]),
        "recall": program.json("recall", "uv", "--all-projects"),
        "project": program.json("projects")[0],
        "backfill": program.json("backfill"),
        "setting": program.json("config", "show")[0],
    }

    missing = {name: set(KEYS[name].split()) - set(value) for name, value in objects.items()}
    assert {name: keys for name, keys in missing.items() if keys} == {}
    assert set(shown["items"][0]) == {
        "turn",
        "revision",
        "prompt_at",
        "ended_at",
        "end_sign",
        "state",
        "reason",
        "prompt",
    }
    assert {"evidence", "history", "redirects", "proposals"} <= set(program.json("facts", "show", fact["id"]))


@pytest.mark.parametrize(
    "words",
    [
        ("status",), ("facts", "list"), ("facts", "show", "python-package-tool"),
        ("facts", "history", "python-package-tool"),
        ("facts", "search", "uv"), ("recall", "uv", "--all-projects"), ("sessions", "list"), ("projects",), ("logs",),
        ("sessions", "show", "11111111"), ("why", "python-package-tool"), ("config", "show"), ("backfill", "--preview"),
        ("why", "python-package-tool", "--prompt"), ("cost",), ("backfill", "--preview", "--backend", "anthropic"),
    ],
)  # fmt: skip
def test_foreign_text_cannot_move_the_terminal(program: Program, words: tuple[str, ...]) -> None:
    """Escape sequences and direction marks of transcripts are shown, never sent."""
    done = program.run(*words)

    assert done.stderr == ""
    assert re.findall("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", done.stdout) == []
    assert done.returncode == (1 if words == ("status",) else 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("facts", "show", "no-such-fact"), 1, "no fact goes by that name"),
        (("why", "tffffffffffff"), 1, "no turn and no fact"),
        (("sessions", "show", "ffffffff"), 1, "no session's id starts so"),
        (("retry", "tffffffffffff"), 1, "no turn's id starts so"),
        (("facts", "forget"), 2, "Name facts, or give"),
        (("facts", "forget", "python-package-tool", "--erase"), 2, "Say --yes"),
        (("facts", "move", "python-package-tool"), 2, "Give --to or --name"),
        (("facts", "undo", "ffffffff"), 1, "no change begins so"),
        (("recall", "uv", "--project", "nowhere"), 1, "no project goes by that name"),
        (("pause", "--session", "ffffffff"), 1, "no session's id starts so"),
        (("pause", "--for", "soon"), 2, "no span"),
        (("backfill", "--since", "yesterday-ish"), 2, "no time"),
        (("backfill", "--settled-by", "embedded"), 2, "goes with --again"),
        (("logs", "--grep", "("), 2, "--grep"),
        (("config", "get", "turn.settle_seconds"), 2, "Near: turns.settle_seconds"),
        (("config", "set", "turns.settle_seconds", "soon"), 78, "expected `float`"),
        (("nonsense",), 2, "No such command"),
        (("facts", "list", "--since", "99999999999d"), 2, "no time"),
        (("pause", "--for", "99999999999d"), 2, "no span"),
        (("facts", "list", "--limit", "99999999999999999999"), 2, "not in the range"),
        (("why", "t"), 1, "turns' ids start so"),
        (("facts", "add", "x y", "--name", "a"), 2, "a: a name is two to five words"),
        (("--config", "/no/such/file", "status"), 78, "no such file"),
        (("config", "set", "backend", "gpt"), 78, "one of: embedded, anthropic, claude-cli"),
        (("config", "set", "budget.calls_per_minute", "-1"), 78, "budget.calls_per_minute"),
        (("config", "set-key", "anthropic"), 2, "No key was given"),
        (("config", "set-key", "openai"), 2, "is not one of"),
        (("backfill", "--backend", "claude-cli", "--max-cost", "1"), 2, "price of haiku is not known"),
        (("cost", "--since", "yesterday-ish"), 2, "no time"),
    ],
)
def test_an_error_is_one_line_with_a_remedy(program: Program, words: tuple[str, ...], code: int, said: str) -> None:
    """What happened and what to do, the right exit code, nothing on stdout, never a traceback."""
    done = program.run(*words)

    assert done.returncode == code
    assert said in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def test_f66_a_project_that_is_not_found_names_its_neighbours(program: Program) -> None:
    """F66: a near name that holds facts is named with their number."""
    done = program.run("recall", "uv", "--project", "Depot-web")

    assert done.returncode == 1
    assert "depot (1 fact)" in done.stderr


def test_a_preview_leaves_no_trace(tmp_path: Path) -> None:
    """It shows the facts it would find; no store, no log line, no ledger row comes of it."""
    program = Program(tmp_path)
    (program.projects / "s.jsonl").write_bytes(ClaudeSession(at=OLD).turn(RULE))

    done = program.run("backfill", "--preview")
    report = program.json("backfill", "--preview")

    assert RULE in done.stdout
    assert (report["preview"], report["kept"], report["facts_added"]) == (True, 1, 1)
    assert [path for path in program.home.rglob("*") if path.is_file()] == []


def test_status_tells_what_waits_for_the_person(tmp_path: Path) -> None:
    """A paused project and a change proposed to a pinned fact do not go unseen."""
    program = Program(tmp_path)
    first = ClaudeSession("33333333-0000-4000-8000-000000000003", at=OLD, cwd="/work/depot")
    (program.projects / "first.jsonl").write_bytes(first.turn("From now on always use pnpm, never npm."))
    program.json("backfill")
    (fact,) = program.json("facts", "list")
    assert program.run("facts", "pin", fact["name"]).returncode == 0
    second = ClaudeSession("44444444-0000-4000-8000-000000000004", at="2026-11-02T09:00:00.000Z", cwd="/work/depot")
    (program.projects / "second.jsonl").write_bytes(second.turn("From now on always use npm, not pnpm."))
    program.json("backfill")
    assert program.run("pause", "--project", fact["project"]).returncode == 0

    status = program.run("status").stdout
    shown = program.run("facts", "show", fact["name"]).stdout

    assert re.search(r"paused +project .*depot", status)
    assert "1 change proposed" in status
    assert "proposed: From now on always use npm, not pnpm." in shown


def test_facts_of_a_session_are_forgotten_by_the_start_of_its_id(tmp_path: Path) -> None:
    """An id that fits no session is an error: nobody should believe that something is gone."""
    program = Program(tmp_path)
    session = ClaudeSession("33333333-0000-4000-8000-000000000003", at=OLD, cwd="/work/depot")
    (program.projects / "s.jsonl").write_bytes(session.turn(RULE))
    program.json("backfill")

    unknown = program.run("facts", "forget", "--session", "nope", "--yes")
    known = program.run("facts", "forget", "--session", "3333", "--yes")

    assert (unknown.returncode, known.returncode) == (1, 0)
    assert program.json("facts", "list") == []


def test_settings_are_written_with_comments_kept_and_checked_first(tmp_path: Path) -> None:
    """`config set` changes one key; what cannot be used is refused and the file stays as it was."""
    program = Program(tmp_path)
    (program.home / "config").mkdir(parents=True)
    file = program.home / "config/config.toml"
    file.write_text('# mine\nheadless = "skip"  # no robots\n')

    program.run("config", "set", "turns.settle_seconds", "5")
    written = file.read_text()
    refused = program.run("config", "set", "headless", "sometimes")

    assert "# mine" in written
    assert "# no robots" in written
    assert program.run("config", "get", "turns.settle_seconds").stdout == "5.0\n"
    assert refused.returncode == 78
    assert file.read_text() == written


def test_a_key_is_kept_for_its_owner_alone_and_shown_nowhere(tmp_path: Path) -> None:
    """`config set-key` reads stdin, writes 0600, and no command prints the key."""
    program = Program(tmp_path)

    done = program.run("config", "set-key", "anthropic", given="sk-ant-made-up-key\n")
    again = program.run("config", "set-key", "anthropic", given="two words\n")

    file = program.home / "config/keys/anthropic"
    assert (file.read_text().strip(), file.stat().st_mode & 0o777) == ("sk-ant-made-up-key", 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    assert again.returncode == 2
    said = done.stdout + done.stderr + program.run("config", "show").stdout + program.run("status").stdout
    assert "sk-ant" not in said


def test_demo_shows_facts_with_quotes_and_why_the_rest_is_empty(tmp_path: Path) -> None:
    """Two facts of eight turns; the pasted order is in none of them; every empty turn says why."""
    done = Program(tmp_path).run("demo")

    assert done.returncode == 0, done.stderr
    facts = done.stdout.split("What is worth keeping")[1].split("Why the other turns")[0]
    assert facts.count("you, ") == 2
    assert "uv" in facts
    assert "GraphQL" in facts
    assert "collect.example" not in done.stdout
    assert done.stdout.count("empty (") + done.stdout.count("skipped (") >= 6
    assert "backfill --preview" in done.stdout


def test_logs_piped_are_the_lines_as_written(program: Program) -> None:
    """A program gets JSON, byte for byte."""
    lines = program.run("logs").stdout.splitlines()

    assert lines == (program.home / "logs/distiller.jsonl").read_text().splitlines()
    assert all(json.loads(line)["event"] for line in lines)
