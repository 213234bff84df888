"""A program in, a running service out: the lock, the settings as they change, the way it leaves.

A reload is a restart inside the process: what the daemon has in memory is safe to lose, and so nothing of the old
settings is left anywhere. Settings that cannot be used change nothing.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from distiller.errors import LockHeldError
from distiller.surfaces.daemon import Daemon

if TYPE_CHECKING:
    from distiller.bootstrap import App

LOCK_LOOK_SECONDS = 1.0
LEAVES_AS_DONE = (75, 78)  # launchd would start us again and again


def run(app: App, *, once: bool = False) -> int:
    """Serve until SIGTERM or SIGINT (or, with `once`, until nothing is left to do now); the exit code.

    Raises:
        LockHeldError: another daemon serves this home, and nobody but a person started this one.
    """
    lock = app.lock()
    while True:
        try:
            with lock:
                return asyncio.run(served(app, once=once))
        except LockHeldError as error:
            if not app.service_link.present or once:
                raise
            app.service_link.ready(f"waiting: {error}")
            app.service_link.alive()
            time.sleep(LOCK_LOOK_SECONDS)


async def served(app: App, *, once: bool) -> int:
    """Serve with these settings, then with the next ones, until there are none; the exit code."""
    while True:
        daemon = Daemon(app)
        code = await daemon.serve(once=once)
        if daemon.next_app is None:
            return code
        app = daemon.next_app


def leaving(app: App, code: int) -> int:
    """The exit code as the one who started us understands it: launchd knows no "do not start again"."""
    return 0 if app.under_launchd and code in LEAVES_AS_DONE else code
