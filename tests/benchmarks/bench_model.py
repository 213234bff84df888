"""Real turns and a model on loopback in, what a model pass costs out: tokens and money a turn, memory, our own time.

Tokens are guessed from bytes, once on the high side (3 bytes a token, as the budget reserves) and once as English
mostly is (4). Answers are taken as 150 tokens. No model is behind the server: quality stands in the recorded answers,
which a person's helper gave to exactly these prompts; they say what verification makes of good answers, not what a
small model would answer.
Run: `python tests/benchmarks/bench_model.py`
"""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from distiller.adapters.backend_pricing import TYPICAL_OUTPUT_TOKENS
from distiller.distill import price, prompt, recalls, reply, verify, window
from distiller.distill.redact import redact
from distiller.service import enrol
from distiller.transcript import words
from distiller.vocabulary import Usage, Verdict, WaitingText, Window
from tests.benchmarks.bench_quality import CASES, RULES, TRANSCRIPTS, TURNS, cases, found, real_turns, rows_of
from tests.benchmarks.measure import memory_mb, percentile, show
from tests.fakes.model_server import ModelServer
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

MODEL = "claude-haiku-5-5"
CATALOG = CASES.parent / "models.json"
RECORDED = Path(__file__).parent / "recorded" / "turns60.jsonl"
SCHEMA_BYTES = len(json.dumps(reply.ANSWER_SCHEMA))
TURNS_LIVE = 60


def main() -> None:
    """Print every number."""
    cost_of_real_turns()
    a_daemon_that_asks()
    recorded()


def cost_of_real_turns() -> None:
    """Tokens and price of a call about each real turn that would be asked about."""
    if not TRANSCRIPTS.is_dir():
        show("model: tokens a real turn", None, "tokens", why=f"not run: needs {TRANSCRIPTS}")
        return
    sizes = []
    for turn in real_turns():
        if words.has_own_words(enrol.turn_parts(turn)):
            rows = enrol.number(tuple(enrol.turn_rows(turn, RULES)))
            text = WaitingText(recalls.left_out(rows), turn.local_date, redact(turn.cwd or ""))
            cut = window.cut(text, note=None, tokens=2500)
            sizes.append(len(prompt.SYSTEM) + SCHEMA_BYTES + len(prompt.write(cut, ()).encode()))
    catalog = price.parse(CATALOG.read_bytes())
    known = price.find(catalog, MODEL)
    assert known is not None
    for bytes_a_token in (3, 4):
        tokens = sum(sizes) / len(sizes) / bytes_a_token
        usage = Usage(1, round(tokens), TYPICAL_OUTPUT_TOKENS)
        cost = price.cost(usage, price.of(known))
        more: dict[str, Any] = {"turns": len(sizes), "model": MODEL, "as_of": catalog.as_of}
        show(f"model: input tokens a real turn, {bytes_a_token} bytes each", tokens, "tokens", **more)
        show(f"model: price of 1,000 real turns, {bytes_a_token} bytes a token", 1000 * cost, "USD", at_most=4, **more)
    show("model: largest request", max(sizes) / 3, "tokens", at_most=prompt.most_tokens(2500, 20))


def a_daemon_that_asks() -> None:
    """Memory after the first call, and our own time from a turn's last byte to its commit with a model at once."""
    with tempfile.TemporaryDirectory() as folder, ModelServer() as server:
        program = Program(
            Path(folder), backend="anthropic", anthropic__base_url=server.url, budget__calls_per_minute="none",
            turns__settle_seconds="0",
        )  # fmt: skip
        with program.daemon() as process:
            began = program.json("status")["daemon"]["started_at"]
            session = ClaudeSession(at=began)
            session.later(60)
            took = []
            for number in range(TURNS_LIVE):
                session.later(1)
                data = session.turn(f"Explain part {number} of the walker to me.")
                with (program.projects / "s.jsonl").open("ab") as file:
                    file.write(data)
                written = time.time()
                program.until(partial(has_settled, program, number + 1))
                took.append(1000 * (time.time() - written))
            memory = memory_mb(process.pid, "VmRSS")
        calls = len(server.requests)
    show("model: memory after model calls", memory, "MB", at_most=110, calls=calls)
    show("model: last byte to commit, answer at once, p50", percentile(took[1:], 0.5), "ms")
    show("model: the same, p99", percentile(took[1:], 0.99), "ms", at_most=250)
    show("model: calls a turn", calls / TURNS_LIVE, "calls", at_most=1)


def has_settled(program: Program, count: int) -> bool:
    """Whether as many turns are settled."""
    return bool(program.rows("select count(*) as n from turns where state <> 'waiting'")[0]["n"] >= count)


def recorded() -> None:
    """What verification makes of the recorded answers to the labelled turns."""
    if not (TURNS.exists() and RECORDED.exists()):
        show("model, recorded: recall", None, "", why="not run: needs the labelled turns and the recorded answers")
        return
    answers = {one["id"]: one for one in map(json.loads, RECORDED.read_text().splitlines())}
    wanted = hits = traps = refused = 0
    by = next(iter(answers.values()))["by"]
    for case in cases(TURNS):
        given = answers[case["id"]]
        if given["prompt_version"] != prompt.VERSION:
            show(
                "model, recorded: recall",
                None,
                "",
                why=f"recorded for prompt {given['prompt_version']}, now {prompt.VERSION}",
            )
            return
        verdict = judged(case, given["answer"])
        refused += len(verdict.refusals)
        wanted += len(case["expected"])
        hits += found(case, verdict)
        traps += sum(claim.op != "retire" for claim in verdict.kept) if not case["expected"] else 0
    show("model, recorded: recall of turns60", hits / wanted, "", at_least=0.8, by=by)
    show("model, recorded: facts from traps", traps, "facts", at_most=0)
    show("model, recorded: claims refused by the checks", refused, "claims")


def shown(case: dict[str, object]) -> Window:
    """The window of a labelled turn, as it was when the answers were recorded."""
    return window.cut(WaitingText(rows_of(case), "2026-11-30", redact("/work/api")), note=None, tokens=2500)


def judged(case: dict[str, object], text: str) -> Verdict:
    """A recorded answer, judged like any other."""
    answer = reply.read(text)
    assert isinstance(answer, reply.Answer), answer
    return verify.verify(
        answer, shown(case), agent="claude_code", session_id="s", root_session_id="s", turn_key="t",
        project_key="github.com/acme/api", file="f", said_at="2026-11-30T09:00:00.000Z",
    )  # fmt: skip


if __name__ == "__main__":
    main()
