"""A data folder in, a store out: facts and ledger in one SQLite file, so that they commit together or not at all.

`open_store` is all that others need. The class is put together from one part for each kind of question; each part
builds on `database.Database`, which alone opens, locks, commits and translates errors.
"""

from distiller.adapters.store_sqlite.store import SqliteStore, open_store

__all__ = ["SqliteStore", "open_store"]
