"""A data folder in, the whole `ports.Store` out."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from distiller.adapters.store_sqlite.database import Database
from distiller.adapters.store_sqlite.enrolling import Enrolling
from distiller.adapters.store_sqlite.facts import Facts
from distiller.adapters.store_sqlite.forgetting import Forgetting
from distiller.adapters.store_sqlite.inventory import Inventory
from distiller.adapters.store_sqlite.passes import Passes
from distiller.adapters.store_sqlite.records import Records
from distiller.adapters.store_sqlite.removal import Removal
from distiller.adapters.store_sqlite.settling import Settling
from distiller.adapters.store_sqlite.upkeep import Upkeep


class SqliteStore(Enrolling, Settling, Passes, Facts, Forgetting, Removal, Inventory, Records, Upkeep):
    """`ports.Store` in one SQLite file."""


def new_uuid() -> str:
    """A random id."""
    return str(uuid.uuid4())


def open_store(
    data_dir: str,
    *,
    wake: Callable[[], None] | None = None,
    read_only: bool = False,
    busy_seconds: float = 30,
    new_id: Callable[[], str] = new_uuid,
) -> SqliteStore:
    """Open `<data_dir>/distiller.db`, made or brought up to date if need be; `wake` is called after each write.

    Raises:
        StoreUnusableError: it cannot be opened, is damaged, or was written by a newer program; nothing was touched.
        StoreBusyError: another process held it for longer than `busy_seconds`.
    """
    store = SqliteStore(Database(data_dir, wake=wake, read_only=read_only, busy_seconds=busy_seconds), new_id)
    if not read_only:
        store.honour_tombstones()
    return store
