"""The machine's clocks in, times out: the one module that asks what time it is."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from distiller import timestamps


class SystemClock:
    """The real time, in UTC, and the zone of this machine for calendar days."""

    def now(self) -> datetime:
        """The time, aware, in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds that never go back."""
        return time.monotonic()

    def local_date(self, at: str) -> str:
        """The calendar day of `at` in this machine's zone."""
        return timestamps.from_text(at).astimezone().date().isoformat()
