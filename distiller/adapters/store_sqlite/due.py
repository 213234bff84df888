"""The moment `at` in, SQL for the turns that may be claimed then out: for the service, or for a command of the person.

All that decides lies in two indexes (0002): the daemon looks each minute, and reading past texts is dear (measured
with 2,000 waiting turns of 18 kB: 70 ms instead of 0.3). Values of the question: `at`, `soon` (`BEHIND_SECONDS` later),
`only` (keys as JSON, or null) and `limit`.
"""

from __future__ import annotations

BEHIND_SECONDS = 600  # how long a later turn of a session waits for an earlier one's retry
HELD = "('project', 'halted', 'budget')"  # what keeps the service from a turn until somebody lets it go


def for_service(turn: str, by: str) -> str:
    """SQL: the service may settle `turn` at the moment `by`."""
    return f"""(
      {turn}.by_hand = 0 AND {turn}.reason NOT IN {HELD} AND ({turn}.retry_at IS NULL OR {turn}.retry_at <= {by})
    )"""


def for_command(turn: str, by: str) -> str:
    """SQL: a command that was given the keys `only` may settle `turn` at the moment `by`."""
    return f"""(
      {turn}.reason <> 'project' AND ({turn}.retry_at IS NULL OR {turn}.retry_at <= {by})
      AND (:only IS NULL OR {turn}.key IN (SELECT value FROM json_each(:only)))
    )"""


def paused(turn: str, at: str) -> str:
    """SQL: `turn` is under a pause that is open at the moment `at`; each list is read once, not once a turn."""
    targets = f"SELECT target FROM pauses WHERE from_at <= {at} AND (until_at IS NULL OR until_at > {at}) AND level ="
    return f"""(
      EXISTS ({targets} 'all') OR {turn}.project_key IN ({targets} 'project')
      OR {turn}.agent || ':' || {turn}.session_id IN ({targets} 'session')
    )"""


def due_for(turn: str, earlier: str) -> str:
    """The question for turns `t` that satisfy `turn` and behind no `e` of their session that satisfies `earlier`."""
    return f"""
      SELECT t.key FROM turns t
      WHERE t.state = 'waiting' AND (t.lease_until IS NULL OR t.lease_until <= :at)
        AND (:only IS NULL OR t.key IN (SELECT value FROM json_each(:only)))
        AND {turn} AND NOT {paused("t", ":at")}
        AND NOT EXISTS (
          SELECT 1 FROM turns e
          WHERE e.state = 'waiting' AND e.agent = t.agent AND e.session_id = t.session_id AND e.ended_at <= t.ended_at
            AND (e.ended_at, e.start_byte, e.key) < (t.ended_at, t.start_byte, t.key)
            AND {earlier} AND NOT {paused("e", ":soon")}
        )
    """


DUE = due_for(for_service("t", ":at"), earlier=for_service("e", ":soon"))
# A command's own turns come in order; one that neither it nor the service will settle soon holds nothing back.
DUE_BY_HAND = due_for(for_command("t", ":at"), earlier=f"({for_command('e', ':soon')} OR {for_service('e', ':soon')})")


def question(*, by_hand: bool, newest_first: bool) -> str:
    """The whole question, in the order in which sessions are served; within one the earlier turn is always first."""
    order = "DESC" if newest_first else "ASC"
    chosen = DUE_BY_HAND if by_hand else DUE
    return f"{chosen} ORDER BY t.ended_at {order}, t.start_byte {order}, t.key {order} LIMIT :limit"
