"""Jobs and times in, calls at those times out: APScheduler on the daemon's loop.

Missed runs (a laptop that slept) become one, and a job never overlaps itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler

JOB = {"coalesce": True, "misfire_grace_time": None, "max_instances": 1}


class ApschedulerTimer:
    """Intervals and daily times; its `stop` does not wait for running jobs (APScheduler's cannot)."""

    def __init__(self) -> None:
        self._scheduler = AsyncIOScheduler(job_defaults=JOB)

    def every(self, seconds: float, name: str, job: Callable[[], Any]) -> None:
        """Run `job` every `seconds`."""
        self._scheduler.add_job(job, "interval", seconds=seconds, id=name)

    def daily(self, at: str, name: str, job: Callable[[], Any]) -> None:
        """Run `job` each day at the local time `at`."""
        hour, minute = at.split(":")
        self._scheduler.add_job(job, "cron", hour=int(hour), minute=int(minute), id=name)

    def start(self) -> None:
        """Begin; needs a running loop."""
        self._scheduler.start()

    def stop(self) -> None:
        """Start nothing any more."""
        if self._scheduler.running:
            self._scheduler.shutdown(wait=False)
