"""Pairs of facts in, one JSON line per number out: duplicates found without a model, and pairs wrongly merged.

Run: `python tests/benchmarks/bench_dedupe.py`
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from distiller.memory.likeness import says_the_same

SHARED = Path(os.environ.get("DISTILLER_SHARED", Path(__file__).parents[2] / "../shared"))
PAIRS = SHARED / "bench" / "dedupe60.jsonl"


def measure(path: Path) -> tuple[float, list[dict[str, Any]], list[dict[str, Any]]]:
    """Recall among the pairs that are the same, the pairs wrongly merged, and the pairs missed."""
    pairs = [json.loads(line) for line in path.read_text().splitlines()]
    same = [pair for pair in pairs if pair["same"]]
    merged = [pair for pair in pairs if says_the_same(pair["a"]["summary"], pair["b"]["summary"])]
    wrong = [pair for pair in merged if not pair["same"]]
    missed = [pair for pair in same if pair not in merged]
    return 1 - len(missed) / len(same), wrong, missed


def main() -> None:
    """Print the numbers."""
    if not PAIRS.exists():
        print(json.dumps({"name": "dedupe_recall", "value": None, "reach": 0.33, "ok": None, "why": f"no {PAIRS}"}))
        return
    recall, wrong, missed = measure(PAIRS)
    print(json.dumps({"name": "dedupe_recall", "value": round(recall, 3), "reach": 0.33, "ok": recall >= 0.33}))
    print(json.dumps({"name": "dedupe_wrong_merges", "value": len(wrong), "reach": 0, "ok": not wrong}))
    for kind, pairs in (("wrong", wrong), ("missed", missed)):
        for pair in pairs:
            print(json.dumps({kind: pair["id"], "a": pair["a"]["summary"], "b": pair["b"]["summary"]}))


if __name__ == "__main__":
    main()
