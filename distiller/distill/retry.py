"""How often something has failed in, how long to wait next out; None gives a turn up."""

from __future__ import annotations

from collections.abc import Sequence

FAILURES_IN_A_ROW = 3  # of different turns; after them it is the backend, not the turn
FIRST_REST_SECONDS = 30
LONGEST_REST_SECONDS = 900
LONGEST_ASKED_SECONDS = 30 * 86400


def retry_in_seconds(failures: int, waits_minutes: Sequence[float]) -> float | None:
    """Seconds to wait after the `failures`-th failure that counts (from 1); None after as many as there are waits."""
    return waits_minutes[failures - 1] * 60 if failures < len(waits_minutes) else None


def rest_seconds(failures: int, *, told: bool) -> float:
    """How long all turns wait after so many failures in a row: none at first, unless the backend said that it is busy.

    Each further failure doubles it, up to a quarter of an hour: an outage of a night costs a handful of calls.
    """
    doubled = failures - (1 if told else FAILURES_IN_A_ROW)
    return min(FIRST_REST_SECONDS * 2.0 ** min(doubled, 10), LONGEST_REST_SECONDS) if doubled >= 0 else 0


def rest_as_asked(asked_seconds: float | None, failures: int, *, told: bool) -> float:
    """How long all turns wait if the backend asked for a time: in full, but not for ever, and never too short."""
    own = rest_seconds(failures, told=told)
    if asked_seconds is None:
        return own
    return min(asked_seconds, LONGEST_ASKED_SECONDS) if asked_seconds >= FIRST_REST_SECONDS else max(asked_seconds, own)
