"""A notifier that remembers what it was told."""

from __future__ import annotations

from typing import Any

from distiller.vocabulary import PassRecord


class FakeNotifier:
    """Keeps records and events in order."""

    def __init__(self) -> None:
        self.records: list[PassRecord] = []
        self.events: list[tuple[str, dict[str, Any]]] = []

    def settled(self, record: PassRecord) -> None:
        """Keep a record."""
        self.records.append(record)

    def event(self, name: str, *, level: str = "info", **fields: Any) -> None:
        """Keep an event."""
        self.events.append((name, {"level": level, **fields}))

    def names(self) -> list[str]:
        """The events' names in order."""
        return [name for name, _ in self.events]
