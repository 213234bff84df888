"""Nothing in, what benchmarks share out: a line for each number, made-up histories, what Linux says of a process.

One number is one JSON line with `name, value, unit, reach, ok`; `ok` is null where nothing is asked for, and `why`
stands there where a number could not be taken. A benchmark ends with 0 whatever its numbers say.
"""

from __future__ import annotations

import json
import math
import os
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from distiller import timestamps
from tests.fakes.sessions import ClaudeSession

MB = 1_000_000
TICKS = os.sysconf("SC_CLK_TCK")
POLL_SECONDS = 0.02
OLD = "2026-10-01T09:00:00.000Z"
ASKED = (
    "Why does the export of {noun}s time out when a {noun} is empty?",
    "Please rename the {noun} helper and update its callers.",
    "Show me where the {noun} cache is filled, and what happens when it is full.",
    "yes",
    "The {noun} test fails on the second run only, find out why before changing anything.",
    "From now on write {noun} migrations by hand in this repo.",
)
NOUNS = ("invoice", "ledger", "parser", "socket", "tenant", "widget", "queue", "basket", "mailer", "report", "worker")


def show(
    name: str,
    value: float | None,
    unit: str,
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    **more: Any,
) -> None:
    """Print one number; `more` goes along for people."""
    reach = at_most if at_most is not None else at_least
    ok = None
    if reach is not None and value is not None:
        ok = value <= reach if at_most is not None else value >= reach
    shown = None if value is None else round(value, 4)
    print(json.dumps({"name": name, "value": shown, "unit": unit, "reach": reach, "ok": ok, **more}), flush=True)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of `values` do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


# --- made-up histories ------------------------------------------------------------------------------------------


class LongSession(ClaudeSession):
    """A session that does not remember its lines, so that it may be larger than memory."""

    def raw(self, whole: dict[str, Any]) -> bytes:
        """Any line at all."""
        data = super().raw(whole)
        self._lines.clear()
        return data


class History:
    """Sessions as a developer's disk holds them: most bytes are tool results; the same seed gives the same bytes."""

    def __init__(self, seed: int = 1) -> None:
        self._dice = random.Random(seed)
        self._results = [self._result() for _ in range(400)]
        self._sessions = 0

    def write(self, folder: Path, size: int) -> int:
        """Fill `folder` with sessions of 30 kB to 6 MB, `size` bytes together; how many turns they hold."""
        turns = 0
        while size > 0:
            wanted = min(size, int(min(6 * MB, 30_000 * self._dice.paretovariate(0.6))))
            data, more = self.session(wanted)
            turns += more
            size -= len(data)
            place = folder / f"-work-p{self._sessions % 40}"
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{self._sessions}.jsonl").write_bytes(data)
        return turns

    def session(self, size: int) -> tuple[bytes, int]:
        """One session of at least `size` bytes and one turn, and how many turns it holds."""
        self._sessions += 1
        made = LongSession(f"{self._sessions:08x}-0000-4000-8000-000000000001",
                             cwd=f"/work/p{self._sessions % 40}", at=OLD)  # fmt: skip
        parts: list[bytes] = []
        written = turns = 0
        while not turns or written < size:
            parts.append(self.turn(made))
            written += len(parts[-1])
            turns += 1
        return b"".join(parts), turns

    def turn(self, session: ClaudeSession) -> bytes:
        """A prompt, some tool calls with their results, an answer, an end mark: about 50 kB."""
        asked = self._dice.choice(ASKED).format(noun=self._dice.choice(NOUNS))
        data = session.prompt(asked)
        for _ in range(self._dice.randint(1, 12)):
            data += self.step(session)
        session.later(20)
        return data + session.say("Done: the callers are updated and the tests pass.") + session.end()

    def step(self, session: ClaudeSession) -> bytes:
        """One tool call and its result."""
        session.later(2)
        call = f"toolu_{self._dice.getrandbits(80):020x}"
        command = f"rg -n {self._dice.choice(NOUNS)} src"
        return session.call(call, "Bash", {"command": command}) + session.result(call, self._dice.choice(self._results))

    def _result(self) -> str:
        """Lines as of a listing or a source file, 200 characters to 60 kB."""
        lines, size = [], min(60_000, int(200 * self._dice.paretovariate(0.45)))
        while size > 0:
            one, other = self._dice.choice(NOUNS), self._dice.choice(NOUNS)
            number = self._dice.randint(1, 900)
            lines.append(
                f'src/{one}/{other}.py:{number}:    {one}_{number} = load("{other}", limit={number})  # "{one}"'
            )
            size -= len(lines[-1])
        return "\n".join(lines)


def age(folder: Path) -> None:
    """Let all files below `folder` have been written last when their sessions ended: they are at rest."""
    at = timestamps.from_text(OLD).timestamp() + 3600
    for path in folder.rglob("*.jsonl"):
        os.utime(path, (at, at))


# --- what Linux says of a process -------------------------------------------------------------------------------


def memory_mb(pid: int, field: str) -> float | None:
    """`VmRSS` (now) or `VmHWM` (most ever) of a process in MB; None once it has ended."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    found = [line.split()[1] for line in text.splitlines() if line.startswith(f"{field}:")]
    return int(found[0]) * 1024 / MB if found else None


def cpu_seconds(pid: int) -> float:
    """Processor time, user and system, that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def bytes_read(pid: int) -> int:
    """Bytes that a process got from `read` and its kin, from whatever file, pipe or event queue."""
    return int(Path(f"/proc/{pid}/io").read_text().split("rchar:")[1].split()[0])


def peak_mb(process: subprocess.Popen[bytes]) -> float:
    """Wait for a process to end; the most memory it ever held in MB, looked at every 20 ms."""
    peak = 0.0
    while process.poll() is None:
        peak = memory_mb(process.pid, "VmHWM") or peak
        time.sleep(POLL_SECONDS)
    return peak
