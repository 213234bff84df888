"""How fast real sessions become finished turns, beside `json.loads` of the same lines (DESIGN §9).

Run as a script; rounds alternate, so that other load on the machine falls on both sides. Prints one JSON object.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from distiller.transcript.session import SessionReader

NAME = "bytes to finished turns, times json.loads of the same lines"
REACH = 2.0
ROUNDS = 9
SHARED = Path(os.environ.get("DISTILLER_SHARED", Path(__file__).parents[3] / "shared"))


def read_turns(files: list[tuple[str, bytes]]) -> int:
    """The whole path: split, decode, repair, decide; how many turns came out."""
    turns = 0
    for path, data in files:
        reader = SessionReader("claude_code", path)
        turns += len(reader.feed(data))
        turns += len(reader.finish(now="2030-01-01T00:00:00.000Z", grown_at=None))
    return turns


def load_lines(files: list[tuple[str, bytes]]) -> int:
    """`json.loads` of each line; the two glued ones of the corpus do not parse."""
    loaded = 0
    for _, data in files:
        for line in data.split(b"\n"):
            try:
                loaded += json.loads(line) is not None
            except ValueError:
                continue
    return loaded


def split_lines(files: list[tuple[str, bytes]]) -> int:
    """Splitting alone, for comparison."""
    return sum(len(data.split(b"\n")) for _, data in files)


def seconds(work: Callable[[list[tuple[str, bytes]]], int], files: list[tuple[str, bytes]]) -> float:
    """How long `work` takes once, the collector settled before."""
    gc.collect()
    start = time.perf_counter()
    work(files)
    return time.perf_counter() - start


def main() -> None:
    """Measure, print both figures and their ratio."""
    paths = [Path(root) / name for root, _, names in os.walk(SHARED / "transcripts" / "claude_code") for name in names]
    files = [(str(path), path.read_bytes()) for path in sorted(paths) if path.suffix == ".jsonl"]
    if not files:
        print(json.dumps({"name": NAME, "value": None, "why": f"not run: needs {SHARED}"}))
        return
    rounds = [[seconds(work, files) for work in (read_turns, load_lines, split_lines)] for _ in range(ROUNDS)]
    megabytes = sum(len(data) for _, data in files) / 1e6
    turns, loads, split = (statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = statistics.median(loaded / turned for turned, loaded, _ in rounds)
    result = {
        "name": NAME,
        "unit": "x",
        "files": len(files),
        "megabytes": round(megabytes, 1),
        "turns_mb_per_second": round(megabytes / turns, 1),
        "json_loads_mb_per_second": round(megabytes / loads, 1),
        "split_mb_per_second": round(megabytes / split, 1),
        "value": round(ratio, 2),
        "reach": REACH,
        "ok": ratio >= REACH,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
