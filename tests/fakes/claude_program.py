"""A stand-in for the `claude` program that fails as it is told to; no model, no network.

`stand_in(folder, ...)` writes a script that can be given as `program`. Each run leaves `run.json` beside it: arguments,
environment and stdin.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SUCCESS: dict[str, Any] = {
    "type": "result", "subtype": "success", "is_error": False, "api_error_status": None, "stop_reason": "end_turn",
    "total_cost_usd": 0.0012, "modelUsage": {"claude-haiku-5-5": {}},
    "usage": {
        "input_tokens": 40, "output_tokens": 20, "cache_read_input_tokens": 1900, "cache_creation_input_tokens": 7,
    },
}  # fmt: skip


def stand_in(folder: Path, *, do: str = "say", **more: Any) -> str:
    """A program that does one thing: say, exit, hang or deaf (ends without reading); `more` as below."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "told.json").write_text(json.dumps({"do": do, **more}))
    script = folder / "claude"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" "{folder}" "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def saying(folder: Path, text: str, **changes: Any) -> str:
    """A program that gives a result with `text`."""
    return stand_in(folder, out=json.dumps(SUCCESS | {"result": text} | changes))


def last_run(folder: Path) -> dict[str, Any]:
    """What the program was given the last time."""
    run: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return run


def main(folder: Path, arguments: list[str]) -> int:
    """Do what `told.json` says."""
    told = json.loads((folder / "told.json").read_text())
    run = {"pid": os.getpid(), "arguments": arguments, "environment": dict(os.environ), "cwd": str(Path.cwd())}
    if told["do"] == "deaf":
        return 0
    run["stdin"] = sys.stdin.read()
    if told["do"] == "hang":
        run["child"] = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]).pid
    (folder / "run.json.new").write_text(json.dumps(run))
    (folder / "run.json.new").rename(folder / "run.json")
    if told["do"] == "hang":
        time.sleep(600)
    sys.stderr.write(told.get("err", ""))
    sys.stdout.write(told.get("out", "") + told.get("filler", "") * told.get("times", 1))
    return int(told.get("code", 0))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
