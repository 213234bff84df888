"""A window in, the orders that stand in its foreign text out, as items for quarantine.

Whatever the backend: a model may overlook what a web page or a log tells agents to do, and people shall see it.
"""

from __future__ import annotations

import msgspec

from distiller.distill import topics
from distiller.distill.orders import planted_orders
from distiller.distill.recalls import is_recall
from distiller.distill.redact import holds_secret
from distiller.distill.reply import Answer, Item, Quote
from distiller.distill.verify import SUMMARY_CHARACTERS
from distiller.vocabulary import FactKind, Row, Window

MOST = 3  # in one turn


def items(window: Window) -> list[Item]:
    """At most three sentences of this turn's foreign text that order agents to do something, in order."""
    rows = [row for row in window.rows if _is_foreign(row)]
    found = [(row, sentence) for row in rows for sentence in planted_orders(row.text)]
    return [_item(row, sentence) for row, sentence in found if not holds_secret(sentence)][:MOST]


def beside(answer: Answer, window: Window) -> Answer:
    """The answer with what it overlooked; words that it quotes itself, as suspicious or as a fact, are judged there."""
    quotes = [quote for item in (*answer.suspicious, *answer.facts) for quote in item.evidence]
    missed = tuple(item for item in items(window) if not any(_overlap(item.evidence[0], quote) for quote in quotes))
    return msgspec.structs.replace(answer, suspicious=(*answer.suspicious, *missed))


def _overlap(one: Quote, other: Quote) -> bool:
    return one.row == other.row and (one.quote in other.quote or other.quote in one.quote)


def _is_foreign(row: Row) -> bool:
    return not row.previous and row.part in ("result", "pasted", "injected") and not is_recall(row)


def _item(row: Row, sentence: str) -> Item:
    summary = " ".join(sentence.split())
    return Item(
        op="add",
        slug=topics.name(sentence),
        kind=FactKind.FEEDBACK,
        scope="project",
        summary=summary if len(summary) <= SUMMARY_CHARACTERS else f"{summary[: SUMMARY_CHARACTERS - 1]}…",
        body=sentence,
        strength="stated",
        evidence=(Quote(row.number, "tool" if row.part == "result" else "user", sentence),),
    )
