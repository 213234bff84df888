"""The store and our folders in, one page about them out: what is kept, sent, served, read; and who was told a fact."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from distiller.ports import Home, Store
from distiller.service.spending import tokens
from distiller.vocabulary import HomeFile, Project, RecallRecord, Retention

FOREVER = "for good"


class Stored(msgspec.Struct, frozen=True):
    """One kind of row and how long it is kept."""

    kind: str
    rows: int
    bytes: int
    oldest_at: str | None
    newest_at: str | None
    kept: str


class Sent(msgspec.Struct, frozen=True):
    """What went to one model."""

    backend: str | None
    model: str | None
    calls: int
    tokens: int
    cost_usd: float | None
    last_at: str


class Served(msgspec.Struct, frozen=True):
    """What was answered on one way to one agent; facts are counted each time they were handed over."""

    channel: str
    agent: str | None
    recalls: int
    facts: int
    last_at: str


def inventory(
    store: Store, home: Home, *, keep: Retention, roots: Mapping[str, Sequence[str]], now: str, database: str
) -> dict[str, Any]:
    """All that `inventory --json` prints; no fact's text."""
    return {
        "stored": stored(store, keep),
        "sent": sent(store),
        "served": served(store.recalls()),
        "lies": {"database": database, "files": [shown(file) for file in home.listing()]},
        "read": [read(store, agent, places) for agent, places in roots.items()],
        "off": {
            "pauses": store.pauses(at=now),
            "projects": [project.key for project in store.projects() if project.reading == "off"],
        },
    }


def stored(store: Store, keep: Retention) -> list[Stored]:
    """Each kind with its retention."""
    kept = retention(keep)
    return [
        Stored(one.kind, one.rows, one.bytes, one.oldest_at, one.newest_at, kept.get(one.kind, FOREVER))
        for one in store.inventory()
    ]


def retention(keep: Retention) -> dict[str, str]:
    """How long each kind is kept, in words."""
    return {
        "facts": f"until you forget or purge them; in the bin {keep.bin_days} days",
        "history": "as long as its fact",
        "quotes": "as long as what rests on them",
        "candidates": f"{keep.candidate_days} days after they were last said",
        "waiting texts": f"until the turn is settled; of dead ones {keep.dead_text_days} days",
        "answers": f"{keep.answer_days} days",
        "passes": f"{keep.pass_days} days",
        "runs": f"{keep.run_days} days",
        "recalls": f"{keep.recall_days} days",
        "proposals": "as long as their fact",
        "sessions": "for good; title and note until you purge them",
        "turns": "for good, so that none is read twice; without text",
        "tombstones": "for good; hashes, no text",
    }


def sent(store: Store) -> list[Sent]:
    """What went to whom, by backend and model; what made no call is left out."""
    groups: dict[tuple[str, str], Sent] = {}
    for row in store.spending(since=""):
        if not row.usage.calls:
            continue
        place = (row.backend or "", row.model or "")
        before = groups.get(place, Sent(row.backend, row.model, 0, 0, None, row.minute))
        costs = [cost for cost in (before.cost_usd, row.usage.cost_usd) if cost is not None]
        groups[place] = Sent(
            row.backend,
            row.model,
            before.calls + row.usage.calls,
            before.tokens + tokens(row.usage),
            sum(costs) if costs else None,
            f"{max(before.last_at[:16], row.minute)}:00.000Z",
        )
    return [groups[place] for place in sorted(groups)]


def served(recalls: Sequence[RecallRecord]) -> list[Served]:
    """What was served to whom; `recalls` newest first."""
    groups: dict[tuple[str, str], list[RecallRecord]] = {}
    for one in recalls:
        groups.setdefault((one.channel, one.agent or ""), []).append(one)
    return [
        Served(channel, agent or None, len(found), sum(len(one.fact_ids) for one in found), found[0].at)
        for (channel, agent), found in sorted(groups.items())
    ]


def shown(file: HomeFile) -> dict[str, Any]:
    """A file with its rights as people read them."""
    return {"path": file.path, "bytes": file.bytes, "mode": f"{file.mode:04o}"}


def read(store: Store, agent: str, places: Sequence[str]) -> dict[str, Any]:
    """One agent, its folders, and how many of its sessions were read."""
    known = store.sessions(agent=agent)
    last = known[0].session.last_at if known else None
    return {"agent": agent, "roots": list(places), "sessions": len(known), "last_at": last}


def trace(recalls: Sequence[RecallRecord], projects: Mapping[str, Project]) -> list[dict[str, Any]]:
    """Who was told a fact, as `trace --json` prints it (CONTRACTS §7)."""
    return [
        {
            "recall": one.id,
            "at": one.at,
            "channel": one.channel,
            "agent": one.agent,
            "session": one.session_id,
            "project": project_name(one.project_key, projects),
            "query": one.query,
        }
        for one in recalls
    ]


def project_name(key: str | None, projects: Mapping[str, Project]) -> str | None:
    """What people call a project; its key where it is not known."""
    return None if key is None else projects[key].name if key in projects else key
