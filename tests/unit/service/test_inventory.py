"""One page of what is kept, sent and served: counts and places, never what a fact says."""

from __future__ import annotations

import msgspec

from distiller.service.inventory import inventory, trace
from distiller.vocabulary import Lease, Plan, Project, RecallRecord, Redacted, Retention, TurnState, Usage
from tests.fakes.home import FakeHome
from tests.fakes.store import FakeStore
from tests.fakes.store_values import AT, add, enrolment, settled


def recall(number: int, channel: str, agent: str | None, *facts: str) -> RecallRecord:
    """One recall that handed over some facts."""
    at = f"2026-12-01T12:00:0{number}.000Z"
    asked = Redacted("which tool")
    return RecallRecord(f"r{number}", at, channel, agent, "s1", "p1", asked, (), "here", 5, facts, len(facts), 1)


def test_the_page_says_what_went_where_and_no_fact() -> None:
    """Calls by model, recalls by channel and agent, rights of files; a fact's words and a query are not on it."""
    store = FakeStore()
    store.apply(Plan((add("f1", body="Use the zanzibar host."),)), actor="person", at=AT)
    store.enrol([enrolment("k1")], None, at=AT)
    lease = store.claim("k1", owner="me", at=AT)
    assert isinstance(lease, Lease)
    used = Usage(calls=2, input_tokens=900, output_tokens=100, cost_usd=0.5)
    store.commit(settled(TurnState.EMPTY, "no-cue", usage=used, backend="anthropic", model="haiku"), lease, at=AT)
    for one in (recall(1, "mcp", "codex", "f1"), recall(2, "mcp", "codex", "f1", "f2"), recall(3, "cli", None)):
        store.record_recall(one)

    page = inventory(
        store, FakeHome({"/home/logs/a": "x"}), keep=Retention(), roots={"codex": ("/c",)}, now=AT, database="/d"
    )

    (model,) = page["sent"]
    assert (model.backend, model.calls, model.tokens, model.cost_usd) == ("anthropic", 2, 1000, 0.5)
    assert [(one.channel, one.agent, one.recalls, one.facts) for one in page["served"]] == [
        ("cli", None, 1, 0), ("mcp", "codex", 2, 3),
    ]  # fmt: skip
    assert page["lies"]["files"] == [{"path": "/home/logs/a", "bytes": 1, "mode": "0600"}]
    text = msgspec.json.encode(page).decode()
    assert "zanzibar" not in text
    assert "which tool" not in text


def test_a_trace_names_who_was_told() -> None:
    """Time, channel, agent, session, project's name and question, as the contract lists them."""
    rows = trace([recall(1, "mcp", "codex", "f1")], {"p1": Project("p1", "shop")})

    assert rows == [
        {
            "recall": "r1", "at": "2026-12-01T12:00:01.000Z", "channel": "mcp", "agent": "codex", "session": "s1",
            "project": "shop", "query": "which tool",
        }
    ]  # fmt: skip
