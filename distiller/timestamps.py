"""Times in, the one spelling of them out: UTC text with milliseconds, `2026-12-01T12:34:56.789Z`.

Text of this form sorts as it reads, so rows, JSON and comparisons need no parsing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def to_text(at: datetime) -> str:
    """Write an aware `at` in UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def from_text(text: str) -> datetime:
    """Read ISO 8601 with zone (`Z` too); a time without zone is taken as UTC.

    Raises:
        ValueError: `text` is no time.
    """
    at = datetime.fromisoformat(text)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def after(text: str, *, seconds: float) -> str:
    """The time `seconds` after `text` (before it, when negative)."""
    return to_text(from_text(text) + timedelta(seconds=seconds))


def seconds_between(earlier: str, later: str) -> float:
    """Seconds from `earlier` to `later`; negative when they stand the other way round."""
    return (from_text(later) - from_text(earlier)).total_seconds()
