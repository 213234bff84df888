"""Parts and results as they come in, counts of split messages, pairs and orphans out; per file.

An id is counted once however often it is repeated, and a result may stand before its call: both happen.
"""

from __future__ import annotations

from distiller.transcript.recent import Recent
from distiller.vocabulary import ReadCounts

_CALLED, _ANSWERED, _PAIRED = 1, 2, 3


class Tally:
    """Keeps `counts` of one file; a call that has no result yet counts as without result."""

    def __init__(self, counts: ReadCounts) -> None:
        self.counts = counts
        self._tools = Recent()
        self._message, self._parts = "", 0  # the newest message and how many parts it has

    def part(self, message_id: str) -> None:
        """A line brought a part of this assistant message."""
        if message_id != self._message:
            self._message, self._parts = message_id, 0
        self._parts += 1
        if self._parts == 2:  # noqa: PLR2004 - the second part makes it a split one
            self.counts.split_messages += 1

    def call(self, call_id: str) -> None:
        """A tool was called."""
        if self._tools.note(call_id, _CALLED):
            self.counts.calls_without_result += 1
        elif self._tools.get(call_id) == _ANSWERED:
            self._tools.change(call_id, _PAIRED)
            self.counts.results_without_call -= 1
            self.counts.pairs += 1

    def result(self, call_id: str) -> None:
        """A result came."""
        if self._tools.note(call_id, _ANSWERED):
            self.counts.results_without_call += 1
        elif self._tools.get(call_id) == _CALLED:
            self._tools.change(call_id, _PAIRED)
            self.counts.calls_without_result -= 1
            self.counts.pairs += 1
