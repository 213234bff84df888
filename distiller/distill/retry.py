"""How often a turn has failed in, how long it waits next out; None gives it up."""

from __future__ import annotations

from collections.abc import Sequence


def retry_in_seconds(failures: int, waits_minutes: Sequence[float]) -> float | None:
    """Seconds to wait after the `failures`-th failure that counts (from 1); None after as many as there are waits."""
    return waits_minutes[failures - 1] * 60 if failures < len(waits_minutes) else None
