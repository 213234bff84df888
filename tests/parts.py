"""Where the real transcripts and tools lie, and what a missing system part means for a test.

Without a part a test skips and names it; under DISTILLER_NOTHING_SKIPPED (CI, which installs the parts first) it fails.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("DISTILLER_SHARED") or Path(__file__).parents[2] / "shared")


def needs(*programs: str) -> None:
    """Skip (in CI: fail) unless all `programs` are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        lacking(f"missing system part: {', '.join(missing)}")


def lacking(reason: str) -> None:
    """Skip for want of a system part; fail where nothing may be skipped."""
    if os.environ.get("DISTILLER_NOTHING_SKIPPED"):
        pytest.fail(reason)
    pytest.skip(reason)
