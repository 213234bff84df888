"""Labelled turns and real transcripts in, one JSON line per number out: what the cue grammar finds, and its noise.

Run: `python tests/benchmarks/bench_quality.py [--show]`; with `--show` every fact and candidate found is printed.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from distiller.distill import cues, reply, verify, window
from distiller.distill.redact import redact, redact_json
from distiller.service import enrol
from distiller.transcript import formats, words
from distiller.transcript.session import SessionReader
from distiller.vocabulary import NearFact, Request, Role, Row, SessionRole, Turn, Verdict, WaitingText

HERE = Path(__file__)
SHARED = Path(os.environ.get("DISTILLER_SHARED", HERE.parents[2] / "../shared"))
CASES = HERE.parents[2] / "distiller" / "data" / "cases.jsonl"
TURNS = SHARED / "bench" / "turns60.jsonl"
TRANSCRIPTS = SHARED / "transcripts"
RULES = enrol.Rules(redact=redact, redact_json=redact_json)
LATER = "2030-01-01T00:00:00.000Z"


def rows_of(case: dict[str, Any]) -> tuple[Row, ...]:
    """A labelled turn as the ledger would keep it."""
    rows: list[Row] = []
    for part, text in case.get("previous", []):
        role = Role.USER if part == "own" else Role.ASSISTANT
        rows.append(Row(0, f"p{len(rows)}", role, part, redact(text), previous=True))
    for part, text in words.split(case["user"]):
        rows.append(Row(0, f"m{len(rows)}", Role.USER, part, redact(text)))
    for number, tool in enumerate(case["tools"]):
        call = redact_json(json.dumps(tool["input"]).encode())
        output = redact_json(json.dumps(tool["output"]).encode())
        rows.append(Row(0, "a", Role.ASSISTANT, "call", call, name=tool["name"], call_id=f"c{number}"))
        rows.append(Row(0, f"r{number}", Role.USER, "result", output, call_id=f"c{number}"))
    if case["assistant"]:
        rows.append(Row(0, "a2", Role.ASSISTANT, "assistant", redact(case["assistant"])))
    return tuple(rows)


def distil(rows: tuple[Row, ...], *, near: tuple[NearFact, ...] = (), local_date: str = "2026-11-30") -> Verdict:
    """What the grammar finds in a turn, judged like any answer."""
    cut = window.cut(WaitingText(rows, local_date), note=None, tokens=2500)
    answer = reply.read(cues.answer(Request(cut, near, "github.com/acme/api")))
    assert isinstance(answer, reply.Answer)
    return verify.verify(
        answer, cut, agent="claude_code", session_id="s", root_session_id="s", turn_key="t",
        project_key="github.com/acme/api", file="f", said_at=f"{local_date}T09:00:00.000Z", near_facts=near,
    )  # fmt: skip


def distil_case(case: dict[str, Any]) -> Verdict:
    """What the grammar finds in a labelled turn."""
    near = tuple(
        NearFact(number, fact["name"], fact["summary"], "project:github.com/acme/api", f"f{number}")
        for number, fact in enumerate(case.get("near", []), 1)
    )
    return distil(rows_of(case), near=near, local_date=case.get("local_date", "2026-11-30"))


def cases(path: Path) -> list[dict[str, Any]]:
    """The labelled turns of a file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def found(case: dict[str, Any], verdict: Verdict) -> int:
    """How many of the expected facts are among those kept."""
    texts = [f"{claim.summary}\n{claim.body}".casefold() for claim in verdict.kept if claim.op != "retire"]
    return sum(
        any(all(any(key.casefold() in text for key in group) for group in expected["keys"]) for text in texts)
        for expected in case["expected"]
    )


def real_turns() -> Iterator[Turn]:
    """Finished turns of people's sessions in the real transcripts, each once."""
    seen: set[str] = set()
    for path in sorted(TRANSCRIPTS.rglob("*.jsonl")):
        data = path.read_bytes()
        agent = formats.sniff(str(path), data[:65536])
        if agent is None:
            continue
        reader = SessionReader(agent, str(path))
        for turn in (*reader.feed(data), *reader.finish(now=LATER, grown_at=None)):
            people = isinstance(turn, Turn) and turn.session.role in (SessionRole.PERSON, SessionRole.PROGRAM)
            if isinstance(turn, Turn) and people and turn.key not in seen:
                seen.add(turn.key)
                yield turn


def line(name: str, value: float | None, reach: float | None, *, ok: bool | None) -> None:
    """Print one number."""
    print(json.dumps({"name": name, "value": value, "reach": reach, "ok": ok}))


def labelled(name: str, path: Path, *, show: bool) -> None:
    """Recall of explicit statements and what traps let through."""
    if not path.exists():
        line(f"{name}_explicit_recall", None, 0.8, ok=None)
        return
    hits = wanted = noise = 0
    for case in cases(path):
        verdict = distil_case(case)
        wanted += len(case["expected"])
        hit = found(case, verdict)
        hits += hit
        wrong = [claim.body for claim in verdict.kept if claim.op != "retire"] if not case["expected"] else []
        noise += len(wrong)
        if show and (hit < len(case["expected"]) or wrong):
            print(json.dumps({"case": case["id"], "user": case["user"][:160], "wrong": wrong}, ensure_ascii=False))
    line(f"{name}_explicit_recall", round(hits / wanted, 3), 0.8, ok=hits >= 0.8 * wanted)
    line(f"{name}_facts_from_traps", noise, 0, ok=noise == 0)


def real(*, show: bool) -> None:
    """Facts per 100 real turns."""
    turns = facts = candidates = suspicious = 0
    for turn in real_turns():
        turns += 1
        rows = enrol.number(tuple(enrol.turn_rows(turn, RULES)))
        verdict = distil(rows, local_date=turn.local_date or "2026-11-30")
        facts += len(verdict.kept)
        candidates += len(verdict.candidates)
        suspicious += len(verdict.suspicious)
        for kind in ("kept", "candidates", "suspicious") if show else ("kept",):
            for claim in getattr(verdict, kind):
                print(
                    json.dumps({kind: claim.slug, **msgspec.to_builtins(claim, str_keys=True)}, ensure_ascii=False)[
                        :600
                    ]
                )
    line("real_turns", turns, None, ok=None)
    per_hundred = 100 * facts / turns if turns else None
    line("real_facts_per_100_turns", per_hundred, 1.0, ok=None if per_hundred is None else per_hundred <= 1)
    line("real_candidates_per_100_turns", 100 * candidates / turns if turns else None, None, ok=None)
    line("real_suspicious", suspicious, None, ok=None)


def main() -> None:
    """Print the numbers."""
    show = "--show" in sys.argv
    labelled("cases", CASES, show=show)
    labelled("turns60", TURNS, show=show)
    real(show=show)


if __name__ == "__main__":
    main()
