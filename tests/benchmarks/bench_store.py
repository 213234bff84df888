"""Nothing in, the store's numbers out: one JSON object a line with `name, value, unit, reach, ok`.

Run: `.venv/bin/python tests/benchmarks/bench_store.py`. Wall time of one process on a local disk.
"""

from __future__ import annotations

import itertools
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from distiller.adapters.store_sqlite import SqliteStore, open_store
from distiller.timestamps import after
from distiller.vocabulary import FactQuery, Lease, Op, Operation, Plan, Redacted, TurnState
from tests.benchmarks.measure import show
from tests.fakes.store_values import AT, claim, enrolment, fact, quote, session, settled

FACTS = 10_000
TURNS = 2_000
QUESTIONS = 400
SYLLABLES = [a + b for a in "bdfgklmnprst" for b in ("an", "el", "ix", "os", "at", "ud", "ern")]
WORDS = [first + second for first in SYLLABLES for second in SYLLABLES]  # 7,056
WEIGHTS = [1 / (rank + 20) for rank in range(len(WORDS))]  # as in a language: a few words stand in every tenth fact
CUMULATIVE = list(itertools.accumulate(WEIGHTS))


def main() -> None:
    """Measure on throw-away stores and print."""
    with tempfile.TemporaryDirectory() as folder:
        settle_turns(open_store(folder), FACTS // 10)
    with tempfile.TemporaryDirectory() as folder:
        search_facts(folder)


def settle_turns(store: SqliteStore, facts: int) -> None:
    """Enrol, claim and commit turns, one in ten of which holds a fact, beside facts that are there already."""
    fill(store, facts)
    turns = [enrolment(f"k{n}", of=session(f"s{n % 50}"), message_ids=(f"m{n}", f"n{n}")) for n in range(TURNS)]
    start = time.perf_counter()
    for turn in turns:
        store.enrol([turn], None, at=AT)
    show("enrolments, one a transaction", TURNS / (time.perf_counter() - start), "1/s")

    start = time.perf_counter()
    for number, turn in enumerate(turns):
        lease = store.claim(turn.key, owner="me", at=AT)
        assert isinstance(lease, Lease)
        said = quote(f"u{number}", turn.key, quote=Redacted(f"always use {text(8)} here"))
        name = f"tool-{number}"
        kept = (claim(name, summary=text(8), body=text(24), evidence=(said,)),) if number % 10 == 0 else ()
        ended = settled(TurnState.KEPT, kept=kept) if kept else settled(TurnState.EMPTY, "nothing-durable")
        store.commit(ended, lease, at=AT)
    show("claim + commit, a fact in every tenth", TURNS / (time.perf_counter() - start), "1/s", at_least=200)

    store.enrol([replace(turn, key=f"w{turn.key}", message_ids=()) for turn in turns], None, at=AT)
    percentiles("due turns, 2,000 waiting", lambda: store.due(at=AT, limit=20), None)
    percentiles("totals", lambda: store.totals(day_from=AT), None)
    store.close()


def search_facts(folder: str) -> None:
    """Ask eight-word questions over 10,000 facts of two scopes."""
    store = open_store(folder)
    fill(store, FACTS)
    query = FactQuery(scopes=("user", "project:p1"), limit=20)
    percentiles("search, 8 words of the facts' own", lambda: store.search(text(8).split(), query=query), 5)
    percentiles("search, the 8 most common words", lambda: store.search(WORDS[:8], query=query), 5)
    percentiles("facts of a project, 50 latest", lambda: store.facts(msgspec.structs.replace(query, limit=50)), None)
    store.close()
    percentiles("open an up-to-date store", lambda: open_store(folder).close(), None)
    print_size(folder)


def fill(store: SqliteStore, facts: int) -> None:
    """Facts of 34 words."""
    random.seed(7)
    operations = []
    for n in range(facts):
        at = after(AT, seconds=-n)
        scope = "user" if n % 10 == 0 else "project:p1"
        made = fact(
            f"f{n}", name=f"{random.choice(WORDS)}-{n}", scope=scope, summary=text(8), body=text(24), updated_at=at
        )
        operations.append(Operation(Op.ADD, None, made))
    start = time.perf_counter()
    store.apply(Plan(tuple(operations)), actor="import", at=AT)
    show(f"facts added, {facts:,} in one plan", facts / (time.perf_counter() - start), "1/s")


def text(words: int) -> str:
    """Made-up words."""
    return " ".join(random.choices(WORDS, cum_weights=CUMULATIVE, k=words))


def percentiles(name: str, call: Callable[[], object], reach_ms: float | None) -> None:
    """Time a call many times."""
    took = []
    for _ in range(QUESTIONS):
        start = time.perf_counter()
        call()
        took.append(1000 * (time.perf_counter() - start))
    show(f"{name}: p50", statistics.median(took), "ms")
    show(f"{name}: p99", statistics.quantiles(took, n=100)[98], "ms", at_most=reach_ms)


def print_size(folder: str) -> None:
    """How large the file is."""
    show("database, 10,000 facts", (Path(folder) / "distiller.db").stat().st_size / 2**20, "MB")


replace = msgspec.structs.replace

if __name__ == "__main__":
    main()
