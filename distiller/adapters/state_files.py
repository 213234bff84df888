"""Small files in `state/`: who runs (a lock), that something changed (a touch), how the daemon fares (a JSON file)."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from distiller.errors import LockHeldError


class DaemonLock:
    """One daemon for each home, by `flock`: the system frees it with the process, however that ends.

    The file is never unlinked: a second daemon would lock another file of the same name.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd = -1

    def __enter__(self) -> Self:
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(self._fd, 32, 0).decode("ascii", "replace").strip()
            os.close(self._fd)
            raise LockHeldError(
                f"distiller already runs for this home (pid {holder or 'unknown'}); nothing was changed. "
                "See `distiller status`."
            ) from None
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def is_locked(path: str) -> bool:
    """Whether a daemon holds the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def touch(path: str) -> None:
    """Tell whoever watches `path` that the store changed; a failure only costs them the hint."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.utime(fd)
        os.close(fd)
    except OSError:
        return


def write_state(path: str, state: Mapping[str, Any]) -> None:
    """Replace a JSON file whole, so that no reader sees half of it."""
    temporary = f"{path}.{os.getpid()}"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, msgspec.json.encode(state))
    finally:
        os.close(fd)
    os.replace(temporary, path)


def read_state(path: str) -> dict[str, Any]:
    """What `write_state` wrote last; empty if nothing is there."""
    try:
        with open(path, "rb") as file:
            state = msgspec.json.decode(file.read())
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def process_name() -> str:
    """This process for leases: pid and start time, so that a reused pid is another name."""
    return f"{os.getpid()}:{started(os.getpid())}"


def is_alive(name: str) -> bool:
    """Whether the process of that name (`process_name`, perhaps after a prefix) still runs on this machine."""
    pid, _, start = name.rsplit("/", maxsplit=1)[-1].partition(":")
    return pid.isdigit() and started(int(pid)) == start != ""


def started(pid: int) -> str:
    """The start time of a process in ticks since boot (where /proc tells); empty if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[19].decode()
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        return "running"
    return "running" if not os.path.isdir("/proc/self") else ""
