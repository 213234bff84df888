"""The machine's clocks in, times out: the one module that asks what time it is."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from datetime import time as midnight

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

    def local_day(self, at: str) -> tuple[str, str]:
        """Midnight before `at` and after it in this machine's zone; the day of a clock change has 23 or 25 hours."""
        today = timestamps.from_text(at).astimezone().date()
        return timestamps.to_text(_begin(today)), timestamps.to_text(_begin(today + timedelta(days=1)))

    async def sleep(self, seconds: float) -> None:
        """Come back after that long."""
        import asyncio  # noqa: PLC0415 -- 20 ms that `recall` need not pay

        await asyncio.sleep(seconds)


def _begin(day: date) -> datetime:
    """The first moment of a local day; where clocks skip midnight it begins later than at 00:00."""
    moment = datetime.combine(day, midnight()).astimezone()
    while moment.astimezone(UTC).astimezone().date() < day:
        moment = (moment.astimezone(UTC) + timedelta(minutes=30)).astimezone()
    return moment
