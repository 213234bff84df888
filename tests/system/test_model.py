"""The real daemon and commands against a model on loopback: paid once, bounded, told in words, and never leaking."""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from distiller import timestamps
from distiller.distill import prompt
from tests.fakes.model_server import Body, ModelServer, Response, answer, fact, prompt_of
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

RULE = "From now on use uv in this repo, never pip."
MAIN = "We never push to main here without a review, ever."
KEYED = {RULE: "python-package-tool", MAIN: "main-branch-policy"}
TOKEN = "ghp_" + "Q7x" * 12
SECOND = 1.0


def knows(body: Body) -> str:
    """A model that finds the rules it knows among the person's own words."""
    said = prompt_of(body)
    turn = said[said.index("=== turn of") :]
    found = [fact(body, slug=slug, quote=words) for words, slug in KEYED.items() if f"user: {words}" in turn_now(turn)]
    return answer(*found) if found else answer(empty_reason="nothing-durable")


def turn_now(turn: str) -> str:
    """The turn without the rows of earlier ones."""
    return "\n".join(line for line in turn.splitlines() if "] earlier " not in line)


@contextmanager
def served(folder: Path, reply: Any = knows, **settings: str) -> Iterator[tuple[Program, ModelServer]]:
    """A program whose backend is a model on loopback."""
    with ModelServer(reply) as server:
        yield program_for(folder, server, **settings), server


def program_for(folder: Path, server: ModelServer, **settings: str) -> Program:
    """A program that asks `server`."""
    more = {"backend": "anthropic", "anthropic__base_url": server.url, "budget__calls_per_minute": "none"}
    return Program(folder, **(more | settings))


def put(
    program: Program, *said: str, name: str = "s", cwd: str = "/work/app", at: str = "2026-12-01T09:00:00.000Z"
) -> None:
    """An old session with a turn for each of `said`."""
    session = ClaudeSession(f"{name:0<8}"[:8] + "-0000-4000-8000-000000000001", cwd=cwd, at=at)
    for words in said:
        session.later(5)
        session.turn(words)
    (program.projects / f"{name}.jsonl").write_bytes(bytes(session))


def backfill(program: Program, *words: str) -> dict[str, Any]:
    """Read old sessions and give the sums."""
    report: dict[str, Any] = program.json("backfill", *words)
    assert report["errors"] == []
    return report


# --- the wire ---------------------------------------------------------------------------------------------------


def test_f17_what_goes_over_the_wire(tmp_path: Path) -> None:
    """F17: no tools, no secret, the fixed part byte for byte the same, one call a turn within the window's size."""
    with served(tmp_path) as (program, server):
        put(program, RULE, f"The token is {TOKEN}, use it to look at the registry.", MAIN)

        report = backfill(program)

        bodies = [seen.body for seen in server.requests]
        assert (report["kept"], report["calls"], len(bodies)) == (2, 3, 3)
        assert {key for body in bodies for key in body} <= {
            "model", "max_tokens", "system", "messages", "output_config", "thinking",
        }  # fmt: skip
        assert {json.dumps(body["system"]) for body in bodies} == {json.dumps(bodies[0]["system"])}
        assert bodies[0]["system"][0]["text"] == prompt.SYSTEM
        assert all(TOKEN.encode() not in seen.raw for seen in server.requests)
        assert max(len(prompt_of(body).encode()) for body in bodies) < 3 * (2500 + 20 * prompt.NEAR_FACT_TOKENS)
        assert program.holds(TOKEN) == []
        quotes = {one["quote"] for one in program.json("facts", "list")}
        assert quotes == {RULE, MAIN}
        assert not list(program.folder.glob("**/.claude*"))  # our calls leave no session of an agent


def test_the_answer_and_the_question_can_be_read_again(tmp_path: Path) -> None:
    """`why --prompt` shows word for word what was sent and what came back; `cost` what it used."""
    with served(tmp_path, prices='{"claude-haiku-5-5" = {input = 1.0, output = 5.0}}') as (program, server):
        put(program, RULE)
        backfill(program)
        (turn,) = program.rows("select id from turns")

        (exchange,) = program.json("why", turn["id"], "--prompt")
        shown = program.run("why", turn["id"], "--prompt").stdout
        (day,) = program.json("cost", "--since", "3650d")

    (seen,) = server.requests
    assert exchange["prompt"] == prompt_of(seen.body)
    assert exchange["fixed"] == seen.body["system"][0]["text"]
    assert json.loads(exchange["answer"])["facts"][0]["slug"] == "python-package-tool"
    assert f"[1] user: {RULE}" in shown
    assert (day["turns"], day["calls"], day["model"]) == (1, 1, "claude-haiku-5-5")
    assert day["cost_usd"] == pytest.approx((day["input_tokens"] + 5 * day["output_tokens"]) / 1e6)


# --- failures, told in words ------------------------------------------------------------------------------------

PROSE = "You have hit your monthly spend limit."
HTML = b"<html><body>Please log in to the network</body></html>"
FAILURES: dict[str, tuple[Response | str, str, str]] = {
    # what comes: (answer, what the turn becomes, what `status` says)
    "400": (Response(400, "messages: too many"), "dead(request-invalid)", "400"),
    "401": (Response(401, "invalid x-api-key"), "waiting(halted)", "config set-key"),
    "403": (Response(403, "forbidden"), "waiting(halted)", "403"),
    "404": (Response(404, "model: claude-haiku-5-5"), "waiting(halted)", "anthropic.model"),
    "413": (Response(413, "too large"), "dead(too-long)", "413"),
    "429": (Response(429, "slow down"), "waiting(resting)", "rests"),
    "429-after": (Response(429, "slow down", {"retry-after": "3600"}), "waiting(resting)", "rests"),
    "500": (Response(500, "oops"), "waiting(retry)", "500"),
    "503": (Response(503, "away"), "waiting(retry)", "503"),
    "529": (Response(529, "overloaded"), "waiting(resting)", "rests"),
    "refusal": (Response(stop_reason="refusal", text=""), "dead(model-refused)", "refused"),
    "max_tokens": (
        Response(stop_reason="max_tokens", text='{"facts":[{"op":"add"'),
        "dead(answer-unusable)",
        "cut off",
    ),
    "html": (Response(body=HTML, headers={"content-type": "text/html"}), "waiting(retry)", "gateway"),
    "prose": ("A frog jumps into the pond.", "dead(answer-unusable)", "JSON"),
    "quota": (PROSE, "waiting(resting)", "used up"),
    "quota-429": (Response(429, "You exceeded your current quota"), "waiting(halted)", "raise the limit"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failing_model_loses_nothing_and_is_told_in_words(tmp_path: Path, kind: str) -> None:
    """Each way to fail: no fact from it, no busy loop, calls counted, the turn waits or is dead, `status` says why."""
    given, state, words = FAILURES[kind]
    with served(tmp_path, lambda _: given) as (program, server):
        with program.daemon():
            put(program, RULE, at=later(program, 60))
            program.until(lambda: program.turns() and program.rows("select 1 from passes where outcome is not null"))
            time.sleep(SECOND)
            status = program.run("status").stdout
            log = [json.loads(line) for line in (program.home / "logs/distiller.jsonl").read_text().splitlines()]

        calls = len(server.requests)
        assert list(program.turns().values()) == [state]
        assert calls == (2 if kind in ("refusal", "max_tokens", "prose") else 1)
        assert program.rows("select sum(calls) as n from passes") == [{"n": calls}]
        assert program.facts() == set()
        assert words in status, status
        assert PROSE not in json.dumps(log)
        (turn,) = program.rows("select id, text is not null as has_text from turns")
        assert turn["has_text"]
        assert program.run("why", turn["id"]).returncode == 0


def later(program: Program, seconds: int) -> str:
    """A time shortly after the daemon's first start: what is written with it is live."""
    return timestamps.after(program.json("status")["daemon"]["started_at"], seconds=seconds)


def test_sigterm_ends_a_stalled_call_within_a_second(tmp_path: Path) -> None:
    """A model that does not answer holds up nobody: the daemon ends, the turn waits, the next start asks again."""
    with served(tmp_path, lambda _: Response(delay=60)) as (program, server):
        with program.daemon() as process:
            put(program, RULE, at=later(program, 60))
            program.until(lambda: server.requests)
            started = time.monotonic()
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            took = time.monotonic() - started

        assert took < SECOND
        assert list(program.turns().values()) == ["waiting(queued)"]
        server.answer = knows
        with program.daemon():
            program.until(lambda: "kept" in program.turns().values())
        assert len(server.requests) == 2


def test_sigterm_ends_run_once_too(tmp_path: Path) -> None:
    """`run --once` with a stalled model ends at a signal like the daemon; 3 says that a turn waits."""
    with served(tmp_path, lambda _: Response(delay=60), read_from="all") as (program, server):
        put(program, RULE)
        process = program.start("run", "--once")
        program.until(lambda: server.requests)
        started = time.monotonic()
        process.send_signal(signal.SIGTERM)

        assert process.wait(10) == 3
        assert time.monotonic() - started < SECOND
        process.communicate()


def test_a_new_key_and_resume_end_a_halt(tmp_path: Path) -> None:
    """401 halts with what to do; after `config set-key` and `resume` the waiting turn is read, without a restart."""

    def guarded(body: Body) -> str | Response:
        return knows(body) if server.requests[-1].headers.get("authorization") == "Bearer good" else Response(401, "no")

    with served(tmp_path, guarded) as (program, server), program.daemon():
        put(program, RULE, at=later(program, 60))
        program.until(lambda: "waiting(halted)" in program.turns().values())
        state = program.json("status")
        program.run("config", "set-key", "anthropic", given="good\n")
        program.run("resume")
        program.until(lambda: "kept" in program.turns().values())

        assert (state["state"], state["reason"], state["healthy"]) == ("halted", "auth", False)
        assert "set-key" in state["problems"][0]["fix"]
        assert program.json("status")["state"] == "running"


# --- money ------------------------------------------------------------------------------------------------------


def test_f02_a_days_budget_holds_over_processes_and_restarts(tmp_path: Path) -> None:
    """F02: 100,000 tokens, 423 turns: backfill, a second backfill and the daemon together stay within it and say so."""
    with served(tmp_path, budget__daily_tokens="100000", read_from="all") as (program, _):
        for number in range(9):
            put(program, *(f"Explain part {number}-{n} of the walker." for n in range(47)), name=f"s{number}")

        first = program.json("backfill")
        second = program.json("backfill")
        with program.daemon():
            program.until(lambda: list(program.turns().values()).count("waiting(budget)") == 423 - first["empty"])
            state = program.json("status")
            text = program.run("status").stdout

        spent = program.rows("select sum(input_tokens + output_tokens) as n from passes")[0]["n"]
        assert (first["stopped"], second["stopped"], second["calls"]) == ("budget", "budget", 0)
        assert 80_000 < spent <= 100_000 + 4_000
        assert first["waiting"] == 1  # the turn that found the budget spent; what comes after is not even enrolled
        assert len(program.turns()) == 423
        assert (state["state"], state["reason"], state["healthy"]) == ("halted", "budget", True)
        assert "budget: 100,000 tokens and $1.00, not held: no price" in text
        assert "turns wait, nothing is lost" in text


def test_max_cost_is_a_purse_of_its_own(tmp_path: Path) -> None:
    """`--max-cost` stops before it is exceeded, leaves the day's budget alone, and the same command goes on."""
    prices = '{"claude-haiku-5-5" = {input = 10.0, output = 50.0}}'
    with served(tmp_path, prices=prices, budget__daily_usd="0.5") as (program, _):
        put(program, *(f"Explain part {n} of the walker." for n in range(40)))

        first = program.json("backfill", "--max-cost", "0.6")
        second = program.json("backfill", "--max-cost", "5")

        assert (first["stopped"], second["stopped"]) == ("max-cost", None)
        assert 0.3 < first["cost_usd"] <= 0.6
        assert first["empty"] + second["empty"] == 40
        assert second["known"] == first["empty"]
        assert program.json("status")["state"] == "stopped"  # and not halted by a budget it never touched


def test_the_price_is_shown_before_anything_is_sent(tmp_path: Path) -> None:
    """`--preview` prices the calls and sends nothing; a real run says the price first and comes close to it."""
    prices = '{"claude-haiku-5-5" = {input = 1.0, output = 5.0}}'
    with served(tmp_path, prices=prices) as (program, server):
        put(program, *(f"Explain part {n} of the walker, please." for n in range(20)))

        preview = program.json("backfill", "--preview")
        sent = len(server.requests)
        done = program.run("backfill")

        assert (preview["calls"], sent, preview["preview"]) == (20, 0, True)
        assert done.stderr.startswith("20 turns would be read by claude-haiku-5-5: about ")
        real = program.rows("select sum(cost_usd) as usd from passes")[0]["usd"]
        assert real < preview["cost_usd"] < 2.5 * real


# --- again and again --------------------------------------------------------------------------------------------


def test_ctrl_c_and_the_same_command_again(tmp_path: Path) -> None:
    """Stopped in the middle of a call, run again: every turn is settled once, only the running call was asked twice."""
    with served(tmp_path, lambda body: Response(text=knows(body), delay=0.05)) as (program, server):
        put(program, *(f"Explain part {n} of the walker." for n in range(20)), RULE)

        process = program.start("backfill", "--yes")
        program.until(lambda: len(server.requests) >= 5)
        process.send_signal(signal.SIGINT)
        code = process.wait(10)
        said = process.communicate()[1].decode()
        rest = backfill(program)

        assert (code, "the same command goes on" in said) == (3, True)
        assert rest["known"] + rest["empty"] + rest["kept"] == 21
        assert len(server.requests) <= 22
        assert list(program.turns().values()).count("kept") == 1


def test_again_reads_with_a_model_what_the_rules_had_settled(tmp_path: Path) -> None:
    """`--again --settled-by embedded`: only those turns, one call each, a revision each; the person's edits stay."""
    with served(tmp_path) as (program, server):
        put(program, RULE, MAIN, "Explain the walker.")
        program.environment["DISTILLER_BACKEND"] = "embedded"
        backfill(program)
        program.run("facts", "edit", "main-branch-policy", "--body", "Mine now.")
        before = program.json("facts", "list")
        program.environment["DISTILLER_BACKEND"] = "anthropic"

        again = backfill(program, "--again", "--settled-by", "embedded", "--yes")
        once_more = backfill(program, "--again", "--settled-by", "embedded", "--yes")

        assert (again["calls"], len(server.requests), once_more["calls"]) == (3, 3, 0)
        assert {row["revision"] for row in program.rows("select revision from turns where newest = 1")} == {2}
        assert {one["body"] for one in program.json("facts", "list")} == {one["body"] for one in before}


def test_turns_asked_of_another_backend_are_left_to_it(tmp_path: Path) -> None:
    """`backfill --backend anthropic` beside an embedded daemon: the daemon takes none of its turns."""
    with served(tmp_path, lambda body: Response(text=knows(body), delay=0.1)) as (program, server):
        program.environment["DISTILLER_BACKEND"] = "embedded"
        put(program, *(f"Explain part {n} of the walker." for n in range(15)))
        with program.daemon():
            report = backfill(program, "--backend", "anthropic", "--yes")

        assert (report["calls"], len(server.requests), report["empty"]) == (15, 15, 15)
        assert {row["backend"] for row in program.rows("select backend from turns")} == {"anthropic"}


def test_fifty_kills_with_a_slow_model(tmp_path: Path) -> None:
    """A kill -9 at random instants: the facts of a quiet run, none doubled, at most one call more a kill."""
    said = [
        words.format(n=n) for n in range(12) for words in (RULE.replace(".", " {n}."), "Explain part {n}.", "ok {n}")
    ]
    answers = {RULE.replace(".", f" {n}."): f"part-tool-{chr(97 + n)}" for n in range(12)}

    def slow(body: Body) -> Response:
        turn = turn_now(prompt_of(body))
        found = [fact(body, slug=slug, quote=words) for words, slug in answers.items() if f"user: {words}" in turn]
        return Response(text=answer(*found) if found else answer(empty_reason="nothing-durable"), delay=0.08)

    kills, dice = 50, random.Random(20261201)
    (tmp_path / "quiet").mkdir()
    (tmp_path / "killed").mkdir()
    with ModelServer(slow) as server:
        quiet, killed = (program_for(tmp_path / name, server, read_from="all") for name in ("quiet", "killed"))
        for program in (quiet, killed):
            for number in range(12):
                put(program, *said[3 * number : 3 * number + 3], name=f"s{number:02d}")
        backfill(quiet)
        asked_quietly = len(server.requests)
        server.requests.clear()

        done = 0
        for _ in range(kills):
            process = killed.start(*dice.choice((["backfill"], ["run", "--once"])))
            time.sleep(dice.uniform(0.2, 1.2))
            done += process.poll() is None
            process.kill()
            process.communicate()
        backfill(killed)

        assert killed.turns() == quiet.turns()
        assert killed.facts() == quiet.facts()
        assert len(quiet.facts()) >= 1
        assert len(server.requests) <= asked_quietly + done
        assert [row["integrity_check"] for row in killed.rows("pragma integrity_check")] == ["ok"]


def test_what_a_limit_left_is_priced_and_paid_by_nobody_else(tmp_path: Path) -> None:
    """`--limit 1` and `--max-cost` of twelve turns: a daemon beside pays for no other, the next run prices them."""
    prices = '{"claude-haiku-5-5" = {input = 1.0, output = 5.0}}'
    with served(tmp_path, prices=prices) as (program, server):
        put(program, *(f"Explain part {n} of the walker." for n in range(12)))
        with program.daemon():
            limited = program.json("backfill", "--limit", "1")
            bought = program.json("backfill", "--max-cost", "0.03")
            time.sleep(2 * SECOND)
            calls = len(server.requests)
            last = program.run("backfill")

        assert (limited["calls"], limited["stopped"], bought["stopped"]) == (1, "limit", "max-cost")
        assert calls == 1 + bought["calls"] < 12
        assert last.stderr.startswith(f"{12 - calls} turns would be read by claude-haiku-5-5: about ")
        assert len(server.requests) == 12
        assert set(program.turns().values()) == {"empty(nothing-durable)"}


def test_a_mended_key_is_all_that_the_next_backfill_needs(tmp_path: Path) -> None:
    """401 stops a backfill with what to do; with the right key the same command reads every turn, that one too."""

    def guarded(body: Body) -> str | Response:
        return knows(body) if server.requests[-1].headers.get("authorization") == "Bearer good" else Response(401, "no")

    with served(tmp_path, guarded) as (program, server):
        put(program, RULE, "Explain the walker.")
        first = program.json("backfill")
        said = program.run("backfill").stdout
        program.run("config", "set-key", "anthropic", given="good\n")
        second = program.json("backfill")

        assert (first["stopped"], first["waiting"]) == ("auth", 1)
        assert "config set-key anthropic" in said
        assert (second["stopped"], second["kept"], second["empty"], second["waiting"]) == (None, 1, 1, 0)


def test_the_key_is_shown_nowhere_though_the_provider_echoes_it(tmp_path: Path) -> None:
    """A gateway that repeats the key in its refusal: neither `status` nor `why`, log or store holds it."""
    key = "my-gateway-Passw0rd99"
    with served(tmp_path, lambda _: Response(401, f"Incorrect API key provided: {key}")) as (program, _):
        program.run("config", "set-key", "anthropic", given=f"{key}\n")
        with program.daemon():
            put(program, RULE, at=later(program, 60))
            program.until(lambda: "waiting(halted)" in program.turns().values())
            shown = program.run("status").stdout + program.run("logs").stdout

        assert "401" in shown
        assert key not in shown
        assert program.holds(key) == [str(program.home / "config/keys/anthropic")]


def test_resume_says_what_it_ended_and_what_it_cannot(tmp_path: Path) -> None:
    """After a 429 the turn is tried at once; a spent budget is not ended by it, and it says which settings would."""
    given: list[Response | str] = [Response(429, "slow down", {"retry-after": "3600"})]
    with served(tmp_path, lambda body: given.pop() if given else knows(body)) as (program, _):
        with program.daemon():
            put(program, RULE, at=later(program, 60))
            program.until(lambda: "waiting(resting)" in program.turns().values())
            rested = program.run("resume").stdout
            program.until(lambda: "kept" in program.turns().values())
        program.environment["DISTILLER_BUDGET__DAILY_TOKENS"] = "100"
        with program.daemon():
            put(program, "Explain the walker.", name="t", at=later(program, 90))
            program.until(lambda: "waiting(budget)" in program.turns().values())
            spent = program.run("resume").stdout

    assert "the backend's rest" in rested
    assert "budget.daily_tokens" in spent


def test_f23_lines_that_nobody_knows_are_counted_for_people(tmp_path: Path) -> None:
    """F23: a record type unknown to the reader hides nothing after it, and `status` counts it."""
    program = Program(tmp_path)
    with program.daemon():
        session = ClaudeSession(at=later(program, 60))
        session.raw({"type": "turn_v9", "uuid": "u"})
        session.turn(RULE)
        (program.projects / "s.jsonl").write_bytes(bytes(session))
        program.until(program.facts)
        status = program.json("status")

    assert status["lines"]["unknown"] == {"turn_v9": 1}


def test_paused_turns_cost_nothing_while_they_wait(tmp_path: Path) -> None:
    """Turns that wait under a pause are not claimed and given back minute after minute: no row is written for them."""
    with served(tmp_path, lambda _: Response(429, "slow down", {"retry-after": "1"}), turns__sweep_seconds="1") as (
        program, _,
    ):  # fmt: skip
        with program.daemon():
            put(program, RULE, at=later(program, 60))
            program.until(lambda: "waiting(resting)" in program.turns().values())
            program.run("pause")
            time.sleep(SECOND)
            before = program.rows("select count(*) as n from passes")
            time.sleep(4 * SECOND)

        assert program.rows("select count(*) as n from passes") == before
