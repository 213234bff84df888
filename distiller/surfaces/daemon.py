"""File changes and ticks in, calls of the use cases out: the daemon, the only loop of the program.

Three tasks share it: watching (events), settling (silence), distilling (waiting turns); a timer does what is not
urgent. Reading is serialised by one lock, store calls by one thread. A fault in one file or turn is told and left to
the next sweep; only what makes the store unusable ends the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from distiller import timestamps
from distiller.errors import (
    DistillerError,
    OutdatedProgramError,
    SettingError,
    StoreBusyError,
    StoreUnusableError,
)
from distiller.service.gate import DUE_REASONS, Closed
from distiller.surfaces import telling
from distiller.vocabulary import Enrolled, TurnQuery, TurnState

if TYPE_CHECKING:
    from distiller.bootstrap import App

HEARTBEAT_SECONDS = 15
SLEEP_SECONDS = 120  # between two heartbeats: nobody is that late awake
RESTART = 4  # exit code
SHOWN_FILES = 20
BATCH = 50
TROUBLE_SECONDS = 60
LEAST_WAIT_SECONDS = 0.05
ARMING_SECONDS = 0.1
ARMING_TRIES = 100
WRITING_SECONDS = 0.3
FIRST_START = "first_start_at"
HALT = "halt"


class Daemon:
    """One run of the service with one set of settings; `next_app` has the next ones when they were changed."""

    def __init__(self, app: App) -> None:
        self.next_app: App | None = None
        self._app = app
        self._link = app.service_link
        self._program = app.program_identity()
        self._beat_at = app.now()
        self._store = app.store
        self._worker = app.worker()
        self._notifier = app.notifier(tell=telling.on_stderr())
        app.forward_library_logs(self._notifier)
        self._database = app.database_identity()
        self._started_at = app.now()
        first_start = self._store.set_setting(FIRST_START, self._started_at, at=self._started_at, only_if_absent=True)
        self._follower = app.follower(self._store, self._worker, self._notifier, first_start)
        self._gate = app.gate(self._store, self._worker, self._notifier)
        self._distilling = app.distilling(
            self._store, self._worker, self._notifier, app.owner("daemon"), gate=self._gate
        )
        self._shut: Closed | None = None  # what keeps turns from being distilled
        self._reading = asyncio.Lock()
        self._stop = asyncio.Event()
        self._work = asyncio.Event()
        self._growth = asyncio.Event()
        self._awake = asyncio.Event()
        self._resweep: asyncio.Task[None] | None = None
        self._trouble: dict[str, str] = {}  # by task, as long as it lasts
        self._code = 0

    async def serve(self, *, once: bool) -> int:
        """Run until told to stop; the exit code."""
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self._reload)
        freed = await self._worker(self._app.free_dead_leases, self._store)
        self._notifier.event("daemon.started", roots=len(self._app.roots), freed_leases=freed)
        await self._gate.begin()
        try:
            if once:
                return await self._once()
            await self._serve()
        finally:
            if self.next_app is None:
                self._notifier.event("daemon.stopped")
            self._worker.close()
            self._store.close()
            self._notifier.close()
        return self._code

    def _end(self, code: int) -> None:
        self._code = code
        self._stop.set()

    def _reload(self) -> None:
        """Go on with the settings as they are now; ones that cannot be used are told, and the old ones stay."""
        if self._stop.is_set():
            return
        try:
            changed = self._app.with_settings_as_they_are()
        except SettingError as error:
            if self._trouble.get("settings") != str(error):
                self._notifier.event("config.rejected", level="error", text=str(error))
            self._trouble["settings"] = f"{error} The service goes on with the settings that it had."
            return
        self._trouble.pop("settings", None)
        if changed is not None:
            self.next_app = changed
            self._notifier.event("config.reloaded")
            self._stop.set()

    async def _once(self) -> int:
        """Do what can be done now; a signal ends a running call too."""
        work = asyncio.create_task(self._all_due())
        stop = asyncio.create_task(self._stop.wait())
        await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, stop):
            task.cancel()
        await asyncio.gather(work, stop, return_exceptions=True)
        if work.done() and not work.cancelled():
            work.result()
        left = await self._worker(self._store.turns, TurnQuery(states=(TurnState.WAITING, TurnState.DEAD), limit=1))
        return 3 if left else 0

    async def _all_due(self) -> None:
        await self._sweep()
        while await self._distil_due():
            pass

    async def _serve(self) -> None:
        self._app.touch_wake()
        timer = self._app.timer()
        settings = self._app.config.settings
        timer.every(HEARTBEAT_SECONDS, "heartbeat", self._heartbeat)
        timer.every(settings.turns.sweep_seconds, "sweep", self._sweep)
        timer.daily("04:10", "backup", self._backup)
        timer.daily("04:20", "retention", self._retention)
        timer.start()
        self._app.write_live_state(self._state("running"))
        self._link.ready(f"reading {len(self._app.roots)} folders")
        steps = (
            ("watch", self._watch), ("settle", self._settle), ("distil", self._distil), ("watchdog", self._show_alive),
        )  # fmt: skip
        tasks = [asyncio.create_task(self._forever(name, step), name=name) for name, step in steps]
        self._resweep = asyncio.create_task(self._sweep_when_armed())
        await self._stop.wait()
        if self.next_app is None:
            self._notifier.event("daemon.stopping")
            self._link.stopping()
        timer.stop()
        for task in (*tasks, self._resweep):
            task.cancel()
        await asyncio.gather(*tasks, self._resweep, return_exceptions=True)
        if self.next_app is None:
            self._app.write_live_state(self._state("stopped"))

    # -- tasks --------------------------------------------------------------------------------------------------
    async def _forever(self, name: str, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat a step; trouble is told once and waited out."""
        while True:
            try:
                await step()
                self._trouble.pop(name, None)
            except (StoreUnusableError, OutdatedProgramError) as error:
                self._tell_trouble(name, error)
                self._end(error.exit_code)
                return
            except Exception as error:  # noqa: BLE001 -- a task that ends in silence would be a service that lies
                self._tell_trouble(name, error)
                await asyncio.sleep(TROUBLE_SECONDS)

    async def _watch(self) -> None:
        async for paths in self._app.watcher(self._watch_told).changes():
            if self._app.wake_file in paths:
                self._work.set()
                self._awake.set()
            if self._app.settings_file in paths:  # an editor may be in the middle of writing it
                self._loop.call_later(WRITING_SECONDS, self._reload)
            async with self._reading:
                for path in sorted(paths - {self._app.wake_file, self._app.settings_file}):
                    await self._enrolled(await self._follower.follow(path))
            self._growth.set()

    async def _show_alive(self) -> None:
        """Tell the service manager that this very loop turns; a thread would vouch for a loop that hangs."""
        self._link.alive()
        await asyncio.sleep(self._link.ping_seconds or HEARTBEAT_SECONDS)

    def _watch_told(self, name: str, *, level: str = "info", **fields: Any) -> None:
        """Pass on what the watcher says; when it has begun anew, what came meanwhile is swept up."""
        self._notifier.event(name, level=level, **fields)
        self._sweep_anew()

    def _sweep_anew(self) -> None:
        """Look at all files beside what goes on; the task is kept, since the loop alone would let it go."""
        self._resweep = asyncio.create_task(self._sweep_when_armed())

    async def _sweep_when_armed(self) -> None:
        """Sweep once the watch is known to work, so that no file falls between the look and the watch.

        Nothing says when a watch is armed; an event of our own wake file proves it for all places at once.
        """
        self._awake.clear()
        for _ in range(ARMING_TRIES):
            self._app.touch_wake()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._awake.wait(), ARMING_SECONDS)
                break
        self._reload()  # what changed before the watch was armed raised no event
        await self._sweep()

    async def _settle(self) -> None:
        """Sleep until silence may end a turn, or a file grows."""
        self._growth.clear()
        due = self._follower.next_due()
        wait = None if due is None else max(LEAST_WAIT_SECONDS, timestamps.seconds_between(self._app.now(), due))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._growth.wait(), wait)
            return
        async with self._reading:
            await self._enrolled(await self._follower.tick())

    async def _distil(self) -> None:
        self._work.clear()
        if await self._distil_due():
            return
        wait = None
        if self._shut is not None and self._shut.until is not None:
            wait = max(LEAST_WAIT_SECONDS, timestamps.seconds_between(self._app.now(), self._shut.until))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._work.wait(), wait)

    async def _distil_due(self) -> bool:
        """Settle what is due; whether there was anything."""
        self._shut = None
        if await self._halted():
            return False
        if (closed := await self._gate.enter()) is not None:
            self._shut = closed
            return False
        keys = await self._worker(
            self._store.due,
            at=self._app.now(),
            limit=BATCH,
            newest_first=self._gate.after_budget,
        )
        self._gate.after_budget = self._gate.after_budget and bool(keys)
        settled = 0
        for key in keys:
            if self._stop.is_set():
                break
            record = await self._distilling.distill_turn(key)
            if isinstance(record, Closed):
                self._shut = record
                await self._gate.shut(record)
                return False
            settled += record is not None and record.outcome is not TurnState.WAITING
        return settled > 0

    async def _sweep(self) -> None:
        """Look at every file; trouble is told and left to the next sweep."""
        try:
            async with self._reading:
                await self._enrolled(await self._follower.sweep())
            self._trouble.pop("sweep", None)
        except Exception as error:  # noqa: BLE001 -- as in `_forever`
            self._tell_trouble("sweep", error)
        self._work.set()
        self._growth.set()

    async def _enrolled(self, turns: Sequence[Enrolled]) -> None:
        if self._follower.alarm is not None:
            alarm, self._follower.alarm = self._follower.alarm, None
            await self._halt("suspicious-rate", f"{alarm.sessions} new sessions without a typed prompt in one folder")
        if any(turn.state is TurnState.WAITING for turn in turns):
            self._work.set()

    # -- states -------------------------------------------------------------------------------------------------
    async def _halt(self, reason: str, text: str) -> None:
        now = self._app.now()
        if await self._worker(self._store.setting, HALT):
            return
        await self._worker(self._store.set_setting, HALT, {"reason": reason, "text": text, "at": now}, at=now)
        self._notifier.event("daemon.halted", level="error", reason=reason)

    async def _halted(self) -> bool:
        halt = await self._worker(self._store.setting, HALT)
        if halt:
            await self._worker(self._store.hold, "halted", from_reasons=DUE_REASONS, at=self._app.now())
        return bool(halt)

    def _heartbeat(self) -> None:
        """Look at what may change under a running service, and say that it runs."""
        self._notice_sleep()
        if self._app.program_identity() != self._program:
            self._notifier.event("daemon.outdated", text="the program was replaced (an upgrade); it starts anew")
            self._end_soon(RESTART)
        if self._app.database_identity() != self._database:
            text = "the database was removed or replaced under the running service; it starts anew with what is there"
            self._notifier.event("store.replaced", level="error", text=text)
            self._end_soon(RESTART)
        with contextlib.suppress(OSError):
            self._app.write_live_state(self._state("running"))

    def _notice_sleep(self) -> None:
        """Say when the machine slept, and look at all files at once: what was written before it slept was not told."""
        now = self._app.now()
        gap = timestamps.seconds_between(self._beat_at, now)
        self._beat_at = now
        if gap > SLEEP_SECONDS:
            self._notifier.event("daemon.woke", asleep_seconds=round(gap))
            self._loop.call_soon_threadsafe(self._sweep_anew)

    def _end_soon(self, code: int) -> None:
        """End the service; the heartbeat runs in a thread of the timer's."""
        self._loop.call_soon_threadsafe(self._end, code)

    def _state(self, state: str) -> dict[str, Any]:
        return {
            "pid": os.getpid(),
            "version": self._app.version,
            "state": state,
            "started_at": self._started_at,
            "heartbeat_at": self._app.now(),
            "trouble": "; ".join(sorted(set(self._trouble.values()))) or None,
            "unreadable": dict(list(self._follower.unreadable.items())[:SHOWN_FILES]),
        }

    def _tell_trouble(self, where: str, error: Exception) -> None:
        """Log trouble once for as long as it stays the same, and let `status` show it."""
        known = isinstance(error, (DistillerError, OSError))
        text = str(error) if known else f"a fault of distiller ({type(error).__name__}) in {where}; it is tried again"
        if text != self._trouble.get(where):
            name = "store.busy" if isinstance(error, StoreBusyError) else "daemon.trouble"
            self._notifier.event(name, level="error", where=where, text=text)
        self._trouble[where] = text

    # -- upkeep -------------------------------------------------------------------------------------------------
    async def _backup(self) -> None:
        await self._worker(self._store.backup, "nightly", at=self._app.now())
        self._notifier.event("store.backed_up")

    async def _retention(self) -> None:
        done = await self._worker(self._store.expire, self._app.retention, at=self._app.now())
        await self._worker(self._store.checkpoint)
        self._notifier.event("store.retention", done=done)
