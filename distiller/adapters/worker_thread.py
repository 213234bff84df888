"""Synchronous calls in, their results out, from one thread of their own, so that the loop never waits for a disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadWorker:
    """One thread, so calls run in the order in which they were made."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="store")

    async def __call__(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` in the thread; a cancelled caller leaves the call to finish there."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, partial(call, *args, **kwargs))

    def close(self) -> None:
        """Wait for the running call and end the thread."""
        self._pool.shutdown(wait=True)


class InlineWorker:
    """Runs calls where they stand: for commands that have no loop to hold up.

    The loop gets its turn before each, else Ctrl-C would be heard only at the end.
    """

    async def __call__(self, call: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `call` now."""
        await asyncio.sleep(0)
        return call(*args, **kwargs)

    def close(self) -> None:
        """Nothing to let go of."""
