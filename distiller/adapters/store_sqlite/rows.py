"""Rows in, values out, and back: the only place that knows how a value lies in its columns.

Lists and objects are JSON text; what may hold a person's words at length is zlib over JSON (`pack`, `unpack`).
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from distiller.memory import ledger
from distiller.vocabulary import (
    Candidate,
    Cursor,
    EndSign,
    Evidence,
    Fact,
    FileIdentity,
    HistoryEntry,
    Lease,
    PassRecord,
    Project,
    Proposal,
    Refusal,
    Reply,
    Request,
    Saved,
    Session,
    TurnRow,
    TurnState,
    Usage,
    WaitingText,
)

T = TypeVar("T")

FACT_COLUMNS = Fact.__struct_fields__
EVIDENCE_COLUMNS = tuple(name for name in Evidence.__struct_fields__ if name != "part")  # `part` is the link's
CANDIDATE_COLUMNS = Candidate.__struct_fields__
PROPOSAL_COLUMNS = Proposal.__struct_fields__
TURN_COLUMNS = tuple(name for name in TurnRow.__struct_fields__ if name != "has_text")
USAGE_COLUMNS = Usage.__struct_fields__
USAGE_SUMS = ", ".join(  # an unknown price is no price: money stays null if nothing is known of it
    f"sum({name}) AS {name}" if name == "cost_usd" else f"coalesce(sum({name}), 0) AS {name}" for name in USAGE_COLUMNS
)
JSON_COLUMNS = ("related", "sessions", "change", "lines_unknown")
BOOLEAN_COLUMNS = ("pinned", "edited_by_person", "by_hand", "has_text")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode


def to_json(value: Any) -> str:
    """A value as JSON text."""
    return encode(value).decode()


def pack(value: Any) -> bytes:
    """A value as zlib over UTF-8 JSON."""
    return zlib.compress(encode(value))


def unpack(blob: bytes, kind: type[T]) -> T:
    """What `pack` made, as a `kind`."""
    return msgspec.json.decode(zlib.decompress(blob), type=kind)


def unpack_if_any(blob: bytes | None, kind: type[T]) -> T | None:
    """What `pack` made; None if there is nothing, or if another program wrote something that is no `kind`."""
    try:
        return None if blob is None else unpack(blob, kind)
    except (zlib.error, ValueError, msgspec.MsgspecError):
        return None


def columns(names: tuple[str, ...], table: str) -> str:
    """Column names for a SELECT."""
    return ", ".join(f"{table}.{name}" for name in names)


def upsert(table: str, names: tuple[str, ...], key: tuple[str, ...]) -> str:
    """INSERT with named parameters that overwrites a row with the same key."""
    rest = [name for name in names if name not in key]
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(':' + name for name in names)})"
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in rest)}"
    )


def parameters(value: msgspec.Struct) -> dict[str, Any]:
    """A flat value's fields as they lie in columns."""
    fields: dict[str, Any] = msgspec.structs.asdict(value)
    return {name: to_json(field) if name in JSON_COLUMNS else field for name, field in fields.items()}


def value_of(row: Mapping[str, Any] | sqlite3.Row, kind: type[T]) -> T:
    """A flat value from a row that has its fields as columns (more columns are ignored)."""
    fields = {name: row[name] for name in row.keys()}  # noqa: SIM118 - a sqlite3.Row iterates over its values
    for name in JSON_COLUMNS:
        if name in fields:
            fields[name] = decode(fields[name])
    for name in BOOLEAN_COLUMNS:
        if name in fields:
            fields[name] = bool(fields[name])
    return msgspec.convert(fields, kind)


def history_entry(row: sqlite3.Row) -> HistoryEntry:
    """One row of fact_history."""
    fields = dict(row)
    for name in ("before", "after"):
        fields[name] = None if fields[name] is None else decode(fields[name])
    return msgspec.convert(fields, HistoryEntry)


def cursor(row: sqlite3.Row) -> Cursor:
    """One row of cursors."""
    fields = dict(row)
    identity = FileIdentity(
        device=int(row["device"]),
        inode=int(row["inode"]),
        head_hash=row["head_hash"],
        head_bytes=row["head_bytes"],
        tail_hash=row["tail_hash"],
    )
    kept = {name: fields[name] for name in Cursor.__struct_fields__ if name != "identity"}
    return Cursor(**{**kept, "identity": identity, "lines_unknown": decode(row["lines_unknown"])})


def cursor_parameters(value: Cursor) -> dict[str, Any]:
    """A cursor as its row."""
    fields = parameters(value)
    identity = parameters(fields.pop("identity"))
    return {**fields, **identity, "device": str(value.identity.device), "inode": str(value.identity.inode)}


def session(row: sqlite3.Row) -> Session:
    """One row of sessions, without what the store adds."""
    return msgspec.convert(
        {**dict(row), "root_id": row["root_session_id"], "parent_id": row["parent_session_id"]}, Session
    )


def lease(row: sqlite3.Row, **taken: Any) -> Lease:
    """A claimed row of turns (joined with its session) and what the claim added."""
    return Lease(
        key=row["key"],
        revision=row["revision"],
        text=unpack(row["text"], WaitingText),
        session_id=row["session_id"],
        agent=row["agent"],
        project_key=row["project_key"],
        ended_at=row["ended_at"],
        end_sign=EndSign(row["end_sign"]),
        file=row["file"],
        enrolled_at=row["enrolled_at"],
        root_session_id=row["root_session_id"] or row["session_id"],
        prompt_at=row["prompt_at"],
        note=row["note"],
        **taken,
    )


def usage(row: sqlite3.Row) -> Usage:
    """What a row of passes used."""
    return Usage(**{name: row[name] for name in USAGE_COLUMNS})


def usage_parameters(value: Usage) -> dict[str, Any]:
    """What a pass used as it lies in columns, however a backend counted."""
    return parameters(ledger.countable(value))


def exchange(row: sqlite3.Row) -> tuple[Request | None, str | None]:
    """Question and answer of a row of passes, as far as they are kept."""
    return unpack_if_any(row["prompt"], Request), unpack_if_any(row["answer"], str)


def saved(row: sqlite3.Row) -> Saved | None:
    """The answered question of a row of passes, with what that pass used; None if either is missing."""
    request, answer = exchange(row)
    if request is None or answer is None:
        return None
    how = {name: row[name] for name in ("model", "prompt_version", "fault")}
    return Saved(request, Reply(answer, usage(row), row["backend"] or "", **how))


def pass_record(row: sqlite3.Row, fact_names: tuple[str, ...]) -> PassRecord:
    """One row of passes, joined with its turn; an unfinished pass counts as waiting, with a reason of its own."""
    ended = row["outcome"] in tuple(TurnState)
    refusals = msgspec.json.decode(row["refusals"], type=tuple[Refusal, ...])
    codes = [refusal.code for refusal in refusals]
    return PassRecord(
        id=row["id"],
        turn_key=row["turn_key"],
        turn_id=row["turn_id"],
        revision=row["revision"],
        attempt=row["attempt"],
        agent=row["agent"],
        session_id=row["session_id"],
        project_key=row["project_key"],
        outcome=TurnState(row["outcome"]) if ended else TurnState.WAITING,
        reason=row["reason"] if ended else row["outcome"] or "running",
        end_sign=EndSign(row["end_sign"]),
        backend=row["backend"] or "",
        model=row["model"],
        usage=usage(row),
        started_at=row["started_at"],
        wait_ms=row["wait_ms"],
        operations=decode(row["operations"]),
        refused={code: codes.count(code) for code in codes},
        refusals=refusals,
        fact_names=fact_names,
        prompt_version=row["prompt_version"],
        error=row["error"],
    )


def project(row: sqlite3.Row, folders: tuple[str, ...]) -> Project:
    """One row of projects with its folders."""
    return msgspec.convert({**dict(row), "folders": folders}, Project)
