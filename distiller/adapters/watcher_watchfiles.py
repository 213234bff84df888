"""Folders in, "these files changed" out: watchfiles, kept alive.

Three things were measured that a plain `awatch` gets wrong: one missing root fails the whole watch, a root that is
deleted goes silent for ever, and a file written at once inside a new folder raises no event of its own. So the roots
are compared with what was armed every few seconds, and a folder that appears is listed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from watchfiles import Change, awatch

REARM_SECONDS = 2.0
STEP_MS = 75  # the watching thread wakes this often, work or not: 20 ms would cost 0.25 % of a core for ever
DEBOUNCE_MS = 50  # less than a step, so what never falls silent is told at the second wake
LIMIT_WAIT_MS = 60_000
POLL_MS = 2000

Tell = Callable[..., Any]


class FileWatcher:
    """Watches `roots` for session files and `single_files` (not sessions) for anything; `tell` gets our events."""

    def __init__(self, roots: Sequence[str], *, single_files: Sequence[str] = (), tell: Tell) -> None:
        self._roots = tuple(roots)
        self._single = tuple(single_files)
        self._tell = tell
        self._polling = False

    async def changes(self) -> AsyncIterator[frozenset[str]]:
        """Paths that changed, batch by batch, for ever.

        Whenever a root comes (back), all that stands below it is in the first batch.
        """
        armed: dict[str, tuple[int, int]] = {}
        first = True
        while True:
            present = self._present()
            back = [place for place in present if armed.get(place) != present[place]]
            armed = present
            if not first and back:
                self._tell("watch.rearmed", roots=len(back))
                yield frozenset(path for place in back for path in below(place))
            first = False
            async for batch in self._until_roots_change(armed):
                yield batch

    def _present(self) -> dict[str, tuple[int, int]]:
        """Device and inode of each place that is there."""
        found = {}
        for place in (*self._roots, *self._single):
            with contextlib.suppress(OSError):
                status = os.stat(place)
                found[place] = (status.st_dev, status.st_ino)
        return found

    async def _until_roots_change(self, armed: dict[str, tuple[int, int]]) -> AsyncIterator[frozenset[str]]:
        stop = asyncio.Event()
        guard = asyncio.create_task(self._stop_when_roots_change(armed, stop))
        try:
            if not armed:
                await stop.wait()
                return
            async for changes in awatch(
                *armed,
                watch_filter=None,
                step=STEP_MS,
                debounce=DEBOUNCE_MS,
                rust_timeout=LIMIT_WAIT_MS,
                stop_event=stop,
                force_polling=self._polling,
                poll_delay_ms=POLL_MS,
            ):
                paths = frozenset(self._paths(changes))
                if paths:
                    yield paths
                if gone := [path for change, path in changes if change is Change.deleted and path in armed]:
                    for place in gone:  # its inode may be reused at once, so only the event tells
                        del armed[place]
                    return
        except FileNotFoundError:
            return  # a root went away between the look and the watch: look again
        except OSError as error:
            if self._polling:
                raise
            self._polling = True
            self._tell("watch.polling", level="warning", reason=error.strerror or str(error))
        finally:
            guard.cancel()
            await asyncio.gather(guard, return_exceptions=True)  # a cancellation of ours must not be taken for its

    async def _stop_when_roots_change(self, armed: dict[str, tuple[int, int]], stop: asyncio.Event) -> None:
        while self._present() == armed:  # noqa: ASYNC110 -- nothing announces that a missing folder appears
            await asyncio.sleep(REARM_SECONDS)
        stop.set()

    def _paths(self, changes: set[tuple[Change, str]]) -> set[str]:
        paths: set[str] = set()
        for change, path in changes:
            if path.endswith(".jsonl") or path in self._single:
                paths.add(path)
            elif change is Change.added and os.path.isdir(path):
                paths.update(below(path))
        return paths


def below(place: str) -> set[str]:
    """Session files below a folder, or the file itself; what cannot be read is left to the sweep."""
    if os.path.isfile(place):
        return {place}
    return {
        os.path.join(folder, name) for folder, _, names in os.walk(place) for name in names if name.endswith(".jsonl")
    }
