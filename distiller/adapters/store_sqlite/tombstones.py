"""What was erased in, keyed hashes that recognise it out: no text is kept, yet it cannot come back by itself.

A slug is barred for evidence said before the erasure. A quote is barred in its message for good: every run of four
words of it is hashed, so that another backend that quotes the same words a little longer or shorter is barred too.
Hashes stand in the table and again in `forgotten.jsonl`, so that a rebuilt or restored database still honours them.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from distiller.vocabulary import Claim, Evidence

SPAN_WORDS = 4
ANYWHERE = ""  # in place of a message id: for titles, which tell words without saying whose message they are
MOST_SPANS = 2000  # of one text; what a person types is shorter
PUT = """
  INSERT INTO tombstones (key_id, hash, what, at) VALUES (:key_id, :hash, :what, :at)
  ON CONFLICT (key_id, hash) DO UPDATE SET at = max(at, excluded.at)
"""
PUT_SIZE = """
  INSERT INTO settings (key, value, at) VALUES ('forgotten_bytes', ?, '')
  ON CONFLICT (key) DO UPDATE SET value = excluded.value
"""


class Tombstone(msgspec.Struct, frozen=True):
    """One line of `forgotten.jsonl`; `what` slug | quote."""

    hash: str
    what: str
    at: str
    key_id: str


class Tombstones:
    """The keys and the plain copy of what a data folder has forgotten."""

    def __init__(self, data_dir: Path) -> None:
        self.list_file = data_dir / "forgotten.jsonl"
        self.key_file = data_dir / "forgotten.key"

    def keys(self) -> list[tuple[str, bytes]]:
        """(key id, key), our own first; empty if nothing was ever erased."""
        if not self.key_file.exists():
            return []
        lines = self.key_file.read_text(encoding="ascii").split()
        return [(hashlib.sha256(bytes.fromhex(line)).hexdigest()[:8], bytes.fromhex(line)) for line in lines]

    def make(self, names: Iterable[tuple[str, str]], quotes: Iterable[Evidence], at: str) -> list[Tombstone]:
        """Tombstones for facts' (scope, name) and for quotes, under our own key, which is made at the first need."""
        if not self.keys():
            append_private(self.key_file, secrets.token_hex(32) + "\n")
        key_id, key = self.keys()[0]
        slugs = {("slug", digest(key, scope, name)) for scope, name in names}
        spans = {
            ("quote", digest(key, where, span))
            for quote in quotes
            for span in spans_of(quote.quote)
            for where in (quote.message_id, ANYWHERE)
        }
        return [Tombstone(hash_, what, at, key_id) for what, hash_ in sorted(slugs | spans)]

    def write(self, connection: sqlite3.Connection, tombstones: Sequence[Tombstone]) -> None:
        """Enter tombstones into the plain copy and the table, before the transaction can commit."""
        append_private(self.list_file, "".join(msgspec.json.encode(line).decode() + "\n" for line in tombstones))
        self.enter(connection, tombstones)

    def enter(self, connection: sqlite3.Connection, tombstones: Sequence[Tombstone]) -> None:
        """Enter tombstones into the table, and up to where the plain copy is in it."""
        connection.executemany(PUT, [msgspec.structs.asdict(tombstone) for tombstone in tombstones])
        connection.execute(PUT_SIZE, (str(self.size()),))

    def missing(self, connection: sqlite3.Connection) -> list[Tombstone]:
        """What the plain copy holds and the table does not; cheap when nothing changed since the last look."""
        size = self.size()
        row = connection.execute("SELECT value FROM settings WHERE key = 'forgotten_bytes'").fetchone()
        if size == (int(row["value"]) if row else 0):
            return []
        has = {tuple(row) for row in connection.execute("SELECT key_id, hash FROM tombstones")}
        return [line for line in self.listed() if (line.key_id, line.hash) not in has]

    def listed(self) -> list[Tombstone]:
        """The plain copy; a line that a crash tore is left out."""
        if not self.list_file.exists():
            return []
        found = []
        for line in self.list_file.read_bytes().splitlines():
            with contextlib.suppress(msgspec.MsgspecError):
                found.append(msgspec.json.decode(line, type=Tombstone))
        return found

    def size(self) -> int:
        """Bytes of the plain copy."""
        return self.list_file.stat().st_size if self.list_file.exists() else 0

    def barred(
        self, connection: sqlite3.Connection, claims: Iterable[Claim], project_key: str
    ) -> frozenset[tuple[str, str]]:
        """(slug, message id) of each piece of evidence that may not count; (slug, "") if none of a claim's may."""
        keys = self.keys()
        if not keys:
            return frozenset()
        pairs: set[tuple[str, str]] = set()
        for claim in claims:
            scope = "user" if claim.scope == "user" else f"project:{project_key}"
            until = self.slug_barred_until(connection, keys, scope, claim.slug)
            barred = [
                quote for quote in claim.evidence if quote.said_at <= until or quote_barred(connection, keys, quote)
            ]
            pairs.update((claim.slug, quote.message_id) for quote in barred)
            if barred and len(barred) == len(claim.evidence):
                pairs.add((claim.slug, ""))
        return frozenset(pairs)

    def holds(self, connection: sqlite3.Connection, said: Iterable[tuple[str, str]]) -> bool:
        """Whether any of the (message id, text) holds words that were erased in that message."""
        keys = self.keys()
        return bool(keys) and any(
            erased_at(connection, key_id, digest(key, message_id, span))
            for message_id, text in said
            for span in spans_of(text)[:MOST_SPANS]
            for key_id, key in keys
        )

    def slug_barred_until(
        self, connection: sqlite3.Connection, keys: Sequence[tuple[str, bytes]], scope: str, name: str
    ) -> str:
        """When a fact of that name was last erased; "" if never."""
        return max((erased_at(connection, key_id, digest(key, scope, name)) for key_id, key in keys), default="")


def quote_barred(connection: sqlite3.Connection, keys: Sequence[tuple[str, bytes]], quote: Evidence) -> bool:
    """Whether words of this quote were erased in its message."""
    return any(
        erased_at(connection, key_id, digest(key, quote.message_id, span))
        for key_id, key in keys
        for span in spans_of(quote.quote)
    )


def erased_at(connection: sqlite3.Connection, key_id: str, hash_: str) -> str:
    """When this hash was last laid down; "" if never."""
    row = connection.execute("SELECT at FROM tombstones WHERE key_id = ? AND hash = ?", (key_id, hash_)).fetchone()
    return str(row["at"]) if row else ""


def digest(key: bytes, where: str, what: str) -> str:
    """HMAC-SHA256 of a place and a text, as hex."""
    return hmac.new(key, f"{where}\0{what}".encode(), hashlib.sha256).hexdigest()


def spans_of(quote: str) -> list[str]:
    """Every run of four words, white space and case folded; a shorter quote is one run."""
    words = quote.casefold().split()
    starts = range(max(1, len(words) - SPAN_WORDS + 1))
    return [" ".join(words[start : start + SPAN_WORDS]) for start in starts]


def append_private(file: Path, text: str) -> None:
    """Add text to a file that only its owner may read, and see it on the disk."""
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
        os.write(descriptor, text.encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
