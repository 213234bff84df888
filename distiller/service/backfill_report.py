"""What became of each turn in, the sums of a backfill out.

Sums are over turns, not over what happened: a turn that is met again in another file, finished later in the same one,
or taken back, counts once, as what it is in the end. So the parts always add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from distiller.vocabulary import Enrolled, EnrolledAs, PassRecord, TurnState

ADDING = ("add", "restore")
UPDATING = ("update", "supersede", "retire", "evidence", "merge")
Outcome = tuple[str, str | None]
KNOWN: Outcome = ("known", None)


class FileError(msgspec.Struct, frozen=True):
    """A file that could not be read to its end, and why."""

    file: str
    reason: str


class Report(msgspec.Struct):
    """What a backfill did so far; `turns` = known + open + kept + empty + skipped + waiting + dead."""

    files: int = 0
    sessions: int = 0
    turns: int = 0
    known: int = 0
    open: int = 0
    kept: int = 0
    empty: int = 0
    skipped: dict[str, int] = msgspec.field(default_factory=dict)
    waiting: int = 0
    dead: int = 0
    facts_added: int = 0
    facts_updated: int = 0
    candidates: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    bytes: int = 0
    malformed_lines: int = 0
    seconds: float = 0.0
    preview: bool = False
    stopped: str | None = None  # max-cost | limit | interrupted, or why the backend could not be asked any more
    explanation: str | None = None  # of that, for eyes
    errors: list[FileError] = msgspec.field(default_factory=list)

    @property
    def distilled(self) -> int:
        """Turns that were shown to the backend."""
        return self.kept + self.empty + self.dead


class Tally:
    """Fills a report; `distilled` counts turns that were shown to the backend."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.distilled = 0
        self._outcomes: dict[str, Outcome] = {}
        self._sessions: set[str] = set()

    def known(self, keys: Iterable[str]) -> None:
        """Turns that the ledger had before; what this run did to a turn stays."""
        for key in keys:
            self._outcomes.setdefault(key, KNOWN)

    def entered(self, one: Enrolled) -> bool:
        """One enrolment; whether its turn has to be distilled now."""
        if one.how is EnrolledAs.KNOWN:
            self.known([one.key])
            return False
        self._outcomes[one.key] = (one.state.value, one.reason)
        return one.state is TurnState.WAITING

    def open(self, place: str) -> None:
        """A turn that is not finished yet."""
        self._outcomes[place] = ("open", None)

    def withdrawn(self, keys: Iterable[str]) -> None:
        """Turns that the person took back."""
        for key in keys:
            if self._outcomes.get(key, KNOWN) != KNOWN:
                self._outcomes[key] = ("skipped", "withdrawn")

    def waits(self, keys: Iterable[str]) -> None:
        """Turns that could not be distilled now (leased elsewhere, or to be tried later)."""
        for key in keys:
            self._outcomes[key] = ("waiting", None)

    def settled(self, record: PassRecord) -> None:
        """One attempt at one turn."""
        self._outcomes[record.turn_key] = (record.outcome.value, record.reason)
        self.distilled += record.outcome is not TurnState.WAITING
        report, counts = self.report, record.operations
        report.facts_added += sum(counts.get(op, 0) for op in ADDING)
        report.facts_updated += sum(counts.get(op, 0) for op in UPDATING)
        report.candidates += counts.get("candidate", 0)
        report.calls += record.usage.calls
        report.input_tokens += record.usage.input_tokens
        report.output_tokens += record.usage.output_tokens
        report.cost_usd += record.usage.cost_usd or 0.0

    def session(self, name: str) -> None:
        """A session that was read."""
        self._sessions.add(name)

    def add_up(self) -> None:
        """Write the sums into the report."""
        states = Counter(state for state, _ in self._outcomes.values())
        report = self.report
        report.turns = len(self._outcomes)
        report.known, report.open = states["known"], states["open"]
        report.kept, report.empty = states["kept"], states["empty"]
        report.waiting, report.dead = states["waiting"], states["dead"]
        report.skipped = dict(Counter(reason or "" for state, reason in self._outcomes.values() if state == "skipped"))
        report.sessions = len(self._sessions)
