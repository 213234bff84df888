"""This machine in, facts about it out; nothing is changed but a trial file that goes at once.

What the system tells in /proc is asked there and left out where there is no /proc (macOS): a check that cannot be made
is not made.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
import zoneinfo
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

PROGRAM_SECONDS = 20
ONLINE_SECONDS = 10
MOST_BYTES = 4 << 20
API_VERSION = "2023-06-01"
LOOPBACK = ("localhost", "127.0.0.1", "::1")
INOTIFY = ("/proc/sys/fs/inotify/max_user_{}", "/proc/sys/user/max_inotify_{}")  # of the system, of the namespace


class LinuxMachine:
    """Facts of this machine. `program_home` is the home that a program is given, so that it touches nobody's."""

    def __init__(self, environment: Mapping[str, str], *, program_home: str) -> None:
        self._environment = environment
        self._program_home = program_home

    def mode(self, path: str) -> int | None:
        """Kind and rights of what stands at `path`; None if nothing does."""
        try:
            return os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return None

    def is_ours(self, path: str) -> bool:
        """Whether it belongs to the account that runs this."""
        return os.stat(path).st_uid == os.geteuid()

    def files(self, folder: str) -> list[tuple[str, int]]:
        """(path, rights) of the files directly in `folder`, by path."""
        found = []
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    with suppress(FileNotFoundError):  # a temporary one may go while we look
                        if entry.is_file(follow_symlinks=False):
                            found.append((entry.path, entry.stat().st_mode))
        except FileNotFoundError:
            pass
        return sorted(found)

    def try_writing(self, folder: str) -> None:
        """Make a file in `folder` and remove it."""
        with tempfile.NamedTemporaryFile(prefix=".doctor-", dir=folder) as file:
            file.write(b"x")
            file.flush()

    def sealed(self, pid: int, folder: str) -> bool:
        """Whether the process `pid` sees `folder` as read-only: its view of the file system hangs below /proc."""
        try:
            return bool(os.statvfs(f"/proc/{pid}/root{folder}").f_flag & os.ST_RDONLY)
        except OSError:
            return False

    def free_bytes(self, path: str) -> int:
        """Room left for us where `path` is or will be."""
        while not os.path.exists(path):
            path = os.path.dirname(path)
        room = os.statvfs(path)
        return room.f_bavail * room.f_frsize

    def inotify_limits(self) -> tuple[int, int] | None:
        """How many watches and instances one person may have; None where there is no inotify."""
        limits = [
            [int(text) for place in INOTIFY if (text := read_text(place.format(what)))]
            for what in ("watches", "instances")
        ]
        return (min(limits[0]), min(limits[1])) if all(limits) else None

    def folder_count(self, roots: Sequence[str]) -> int:
        """Folders at and below `roots`."""
        return sum(1 for root in roots for _ in os.walk(root))

    def open_files(self, pid: int | None) -> tuple[int | None, int]:
        """(open now, most that may be open) of a process of ours, or of this one."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        for line in read_text(f"/proc/{pid}/limits").splitlines() if pid is not None else ():
            if line.startswith("Max open files"):
                soft = int(line.split()[3]) if line.split()[3].isdigit() else soft
        try:
            return len(os.listdir(f"/proc/{pid if pid is not None else 'self'}/fd")), soft
        except OSError:
            return None, soft

    def zone(self) -> str | None:
        """The name of the time zone: what TZ says, else where /etc/localtime leads; None if that is nowhere."""
        name = self._environment.get("TZ", "").removeprefix(":")
        if name:
            try:
                zoneinfo.ZoneInfo(name)
            except (zoneinfo.ZoneInfoNotFoundError, ValueError):
                return name if any(letter.isdigit() for letter in name) else None  # `CET-1CEST` needs no data
            return name
        place = os.path.realpath("/etc/localtime")
        return place.rpartition("zoneinfo/")[2] if os.path.exists(place) else None

    def program(self, name: str) -> tuple[str, str] | None:
        """Where a program is and the first line of its `--version`; None if there is none."""
        path = shutil.which(os.path.expanduser(name))
        if path is None:
            return None
        with tempfile.TemporaryDirectory() as folder:
            home = self._program_home if os.path.isdir(self._program_home) else folder
            environment = {"PATH": self._environment.get("PATH", os.defpath), "HOME": home, "CLAUDE_CONFIG_DIR": home}
            code, told = run([path, "--version"], environment, folder)
        if code != 0:
            raise OSError(code, f"{path} --version ended with {code}: {told[:200]}")
        return path, told

    def models(self, base_url: str, key: str | None) -> tuple[int, frozenset[str] | None]:
        """Status and models of a Messages API, within seconds however slowly it drips."""
        outcome: list[tuple[int, frozenset[str] | None] | OSError] = []

        def ask() -> None:
            try:
                outcome.append(asked(base_url, key))
            except OSError as error:
                outcome.append(error)
            except Exception as error:  # noqa: BLE001 -- what is no HTTP comes as many kinds of error
                outcome.append(OSError(f"no sensible answer ({type(error).__name__})"))

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(ONLINE_SECONDS)
        if not outcome:
            raise TimeoutError(f"no answer within {ONLINE_SECONDS} s")
        if isinstance(outcome[0], OSError):
            raise outcome[0]
        return outcome[0]


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would take the key to another server."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Follow none: the status is the answer."""


def asked(base_url: str, key: str | None) -> tuple[int, frozenset[str] | None]:
    """One GET of the list of models; OSError (URLError is one) if the server is not reached."""
    headers = {"anthropic-version": API_VERSION, "user-agent": "distiller-doctor"}
    if key is not None:
        headers["x-api-key"] = key
    request = urllib.request.Request(f"{base_url.rstrip('/')}/v1/models?limit=1000", headers=headers)  # noqa: S310 -- the setting takes http and https alone
    handlers: list[Any] = [_NoRedirect()]
    if urlsplit(base_url).hostname in LOOPBACK:
        handlers.append(urllib.request.ProxyHandler({}))
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=ONLINE_SECONDS) as answer:
            return int(answer.status), model_names(answer.read(MOST_BYTES))
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None
    except urllib.error.URLError as error:
        raise (error.reason if isinstance(error.reason, OSError) else OSError(str(error.reason))) from error


def model_names(data: bytes) -> frozenset[str] | None:
    """The ids of a list of models; None if it is none."""
    try:
        return frozenset(str(one["id"]) for one in json.loads(data)["data"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def run(words: list[str], environment: Mapping[str, str], folder: str) -> tuple[int, str]:
    """The exit code and the first line of what a program says; all that it started ends with it."""
    process = subprocess.Popen(  # noqa: S603 -- the program that the person chose
        words, env=dict(environment), cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        out, _ = process.communicate(timeout=PROGRAM_SECONDS)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{words[0]} did not answer within {PROGRAM_SECONDS} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    lines = out.decode("utf-8", "replace").strip().splitlines()
    return process.returncode, lines[0] if lines else ""


def read_text(path: str) -> str:
    """A small file of the system; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
