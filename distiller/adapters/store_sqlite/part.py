"""A database in, the ground on which each part of the store stands out."""

from __future__ import annotations

from collections.abc import Callable

from distiller.adapters.store_sqlite.database import Database
from distiller.adapters.store_sqlite.tombstones import Tombstones


class Part:
    """What every part of the store has: the database, new ids, and the memory of what was forgotten."""

    def __init__(self, database: Database, new_id: Callable[[], str]) -> None:
        self.database = database
        self.new_id = new_id
        self.tombstones = Tombstones(database.data_dir)
