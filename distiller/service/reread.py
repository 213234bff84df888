"""Turns that were passed over in, the same turns waiting out, read from their files once more.

For `retry --paused`: the ledger keeps no text of a turn that it skips.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from distiller.ports import Store, Transcripts, Worker
from distiller.service.reading import Context, Reading
from distiller.transcript.session import SessionReader
from distiller.transcript.turns import Settle
from distiller.vocabulary import Turn, TurnQuery, TurnRow, TurnState, Withdrawn

CHUNK_BYTES = 1 << 20


async def reread(
    *,
    reading: Reading,
    store: Store,
    worker: Worker,
    transcripts: Transcripts,
    settle: Settle,
    reason: str,
    keys: Collection[str] | None = None,
) -> tuple[list[str], list[TurnRow]]:
    """Let turns skipped for `reason` wait to be distilled: (keys that wait now, turns whose file is gone)."""
    rows = await worker(store.turns, TurnQuery(states=(TurnState.SKIPPED,), reasons=(reason,)))
    wanted = [row for row in rows if keys is None or row.key in keys]
    done: list[str] = []
    lost: list[TurnRow] = []
    for row in wanted:
        turn = find(row, transcripts, settle, reading.now())
        if turn is None:
            lost.append(row)
            continue
        prepared = await reading.prepare(turn, file=row.file, context=Context(), ended_at=row.ended_at)
        again = msgspec.structs.replace(prepared, again=True, despite_pause=True)
        done += [one.key for one in await worker(store.enrol, [again], None, at=reading.now())]
    return done, lost


def find(row: TurnRow, transcripts: Transcripts, settle: Settle, now: str) -> Turn | None:
    """The turn as its file tells it, read from the start (roles and titles stand there); None if it is gone."""
    reader = SessionReader(row.agent, row.file, side=transcripts.side_file(row.file), settle=settle)
    found: Turn | None = None
    try:
        while found is None and (data := transcripts.read(row.file, reader.position, CHUNK_BYTES)):
            found = chosen(reader.feed(data), row.key)
    except OSError:
        return None
    return found or chosen(reader.finish(now=now, grown_at=row.ended_at), row.key)


def chosen(events: Sequence[Turn | Withdrawn], key: str) -> Turn | None:
    """The turn of that key, if it is among `events`."""
    return next((event for event in events if isinstance(event, Turn) and event.key == key), None)
