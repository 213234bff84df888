"""Fixtures that all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parts import SHARED


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real transcripts, benches and tools beside the checkout; skips where it is not."""
    if not SHARED.is_dir():
        pytest.skip(f"no {SHARED}: the real transcripts and tools are not part of the project")
    return SHARED
