"""A clock that stands still until a test moves it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from distiller import timestamps

START = "2026-12-01T09:00:00.000Z"


class FakeClock:
    """Starts at `START`; the person's zone is `utc_offset_hours` from UTC."""

    def __init__(self, at: str = START, *, utc_offset_hours: float = 0) -> None:
        self._now = timestamps.from_text(at)
        self._zone = timezone(timedelta(hours=utc_offset_hours))
        self._elapsed = 0.0
        self.slept: list[float] = []

    def now(self) -> datetime:
        """The time, in UTC."""
        return self._now.astimezone(UTC)

    def monotonic(self) -> float:
        """Seconds moved so far."""
        return self._elapsed

    def local_date(self, at: str) -> str:
        """The calendar day in the person's zone."""
        return timestamps.from_text(at).astimezone(self._zone).date().isoformat()

    def local_day(self, at: str) -> tuple[str, str]:
        """When the person's day of `at` begins and ends."""
        day = timestamps.from_text(at).astimezone(self._zone).replace(hour=0, minute=0, second=0, microsecond=0)
        return timestamps.to_text(day), timestamps.to_text(day + timedelta(days=1))

    async def sleep(self, seconds: float) -> None:
        """Time passes at once."""
        self.slept.append(seconds)
        self.move(seconds=seconds)

    def move(self, *, seconds: float = 0, minutes: float = 0, hours: float = 0, days: float = 0) -> None:
        """Let time pass."""
        passed = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
        self._now += passed
        self._elapsed += passed.total_seconds()

    def text(self) -> str:
        """The time as text."""
        return timestamps.to_text(self._now)
