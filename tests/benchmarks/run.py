"""Benchmarks in, one table and `.bench/results.json` out: what `make bench` runs.

Each runs in a process of its own, one after the other, so that none warms or loads another. A number that misses its
reach is a measurement, not a failure: the exit code is 1 only when a benchmark broke. Names given as arguments choose
among them: `python tests/benchmarks/run.py latency idle`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RESULTS = ROOT / ".bench" / "results.json"
SHARED = Path(os.environ.get("DISTILLER_SHARED") or ROOT.parent / "shared")
ALL = ("reading", "quality", "model", "dedupe", "store", "start", "install", "latency", "tail", "idle", "memory")
NEED_SHARED = ("reading", "dedupe")


def main(chosen: list[str]) -> int:
    """Run the chosen benchmarks (all, if none is named) and show what they measured; the exit code."""
    if unknown := set(chosen) - set(ALL):
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    numbers: list[dict[str, Any]] = []
    broken: list[str] = []
    for name in chosen or ALL:
        if name in NEED_SHARED and not SHARED.is_dir():
            numbers.append({"name": name, "value": None, "why": f"not run: needs {SHARED}"})
            continue
        print(f"bench_{name} …", file=sys.stderr, flush=True)
        found, sound = run(name)
        numbers += [{**number, "benchmark": name} for number in found]
        broken += [] if sound else [name]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"numbers": numbers, "broken": broken}, indent=1) + "\n")
    print("\n".join(table(numbers)))
    for name in broken:
        print(f"bench_{name} broke: see above", file=sys.stderr)
    return 1 if broken else 0


def run(name: str) -> tuple[list[dict[str, Any]], bool]:
    """The numbers of one benchmark, and whether it came to its end."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, str(HERE / f"bench_{name}.py")]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment, check=False)
    lines = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return [line for line in lines if "name" in line], done.returncode == 0


def table(numbers: list[dict[str, Any]]) -> list[str]:
    """The numbers for eyes."""
    rows = [("", "value", "reach", ""), *map(row, numbers)]
    wide = [max(len(cells[place]) for cells in rows) for place in range(4)]
    return [f"{name:<{wide[0]}}  {value:>{wide[1]}}  {reach:>{wide[2]}}  {verdict}".rstrip()
            for name, value, reach, verdict in rows]  # fmt: skip


def row(number: dict[str, Any]) -> tuple[str, str, str, str]:
    """Name, value with unit, what was to be reached, and whether it was."""
    value = number.get("value")
    shown = "-" if value is None else f"{value:,.4g} {number.get('unit', '')}".strip()
    reach = number.get("reach")
    ok = number.get("ok")
    verdict = "" if ok is None else "ok" if ok else "NOT REACHED"
    return number["name"], shown, "" if reach is None else f"{reach:g}", number.get("why", verdict)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
