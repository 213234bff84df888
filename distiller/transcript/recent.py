"""Ids in, what is known of the lately seen ones out; bounded, so that a 1 GB session does not grow the reader."""

from __future__ import annotations


class Recent:
    """A dictionary that forgets its oldest entries: it remembers at least the last `keep`, at most twice as many."""

    def __init__(self, keep: int = 8192) -> None:
        self._keep = keep
        self._young: dict[str, int] = {}
        self._old: dict[str, int] = {}

    def note(self, key: str, value: int) -> bool:
        """Remember `value` under `key` unless that is known; whether it was unknown. Runs once for each line."""
        young = self._young
        if key in young or key in self._old:
            return False
        young[key] = value
        if len(young) >= self._keep:
            self._old, self._young = young, {}
        return True

    def get(self, key: str) -> int | None:
        """What is remembered under `key`, or None if that is unknown or forgotten."""
        value = self._young.get(key)
        return self._old.get(key) if value is None else value

    def change(self, key: str, value: int) -> None:
        """Remember another value under a known `key`."""
        if key in self._young:
            self._young[key] = value
        else:
            self._old[key] = value
