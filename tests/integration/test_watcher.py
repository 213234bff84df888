"""What only a real kernel shows about watching."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from distiller.adapters.watcher_watchfiles import FileWatcher

LIMIT_SECONDS = 20


class Watching:
    """A watcher at work; `until` waits for paths."""

    def __init__(self, watcher: FileWatcher) -> None:
        self.seen: set[str] = set()
        self._watcher = watcher
        self._news = asyncio.Condition()

    async def run(self) -> None:
        """Collect what changes."""
        async for batch in self._watcher.changes():
            async with self._news:
                self.seen |= batch
                self._news.notify_all()

    async def until(self, *paths: Path) -> None:
        """Wait until all `paths` were reported."""
        wanted = {str(path) for path in paths}
        async with self._news:
            await asyncio.wait_for(self._news.wait_for(lambda: wanted <= self.seen), LIMIT_SECONDS)


@contextlib.asynccontextmanager
async def watching(*roots: Path, tell: Callable[..., Any] = lambda *_args, **_fields: None) -> AsyncIterator[Watching]:
    """A running watcher of `roots`."""
    at_work = Watching(FileWatcher([str(root) for root in roots], tell=tell))
    task = asyncio.create_task(at_work.run())
    await asyncio.sleep(0.5)
    try:
        yield at_work
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_files_written_at_once_in_new_folders_are_seen(tmp_path: Path) -> None:
    """Fifty nested folders with a file each: the kernel reports one of fifty files, the listing finds all."""
    async with watching(tmp_path) as at_work:
        files = []
        for number in range(50):
            folder = tmp_path / f"p{number}" / "deep"
            folder.mkdir(parents=True)
            files.append(folder / "s.jsonl")
            files[-1].write_text("{}\n")

        await at_work.until(*files)


async def test_a_root_that_appears_later_is_watched(tmp_path: Path) -> None:
    """One missing root neither fails the watch of the others nor stays unwatched."""
    there, later = tmp_path / "there", tmp_path / "later"
    there.mkdir()
    async with watching(there, later) as at_work:
        (there / "a.jsonl").write_text("{}\n")
        await at_work.until(there / "a.jsonl")
        later.mkdir()
        (later / "b.jsonl").write_text("{}\n")
        await at_work.until(later / "b.jsonl")


async def test_a_root_that_is_deleted_and_made_again_is_watched_again(tmp_path: Path) -> None:
    """A plain watch goes silent for ever; ours is armed again and lists what is there."""
    root = tmp_path / "root"
    root.mkdir()
    events: list[str] = []
    async with watching(root, tell=lambda name, **_fields: events.append(name)) as at_work:
        shutil.rmtree(root)
        root.mkdir()
        (root / "a.jsonl").write_text("{}\n")
        await at_work.until(root / "a.jsonl")
        await asyncio.sleep(2.5)
        (root / "b.jsonl").write_text("{}\n")
        await at_work.until(root / "b.jsonl")

    assert "watch.rearmed" in events
