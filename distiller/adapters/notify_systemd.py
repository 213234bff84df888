"""What the service manager should know in, datagrams to systemd out; nothing where no manager asked for them.

sd_notify is one datagram of `KEY=value` lines to the socket named by $NOTIFY_SOCKET (sd_notify(3), systemd 252). The
variable is taken away, so that a program that we start does not speak in our name.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

WATCHDOG_SHARE = 2  # pings in the time after which the manager would kill us


class SystemdLink:
    """The way to the manager that started this process."""

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        self._address = environment.pop("NOTIFY_SOCKET", "")
        watched = environment.pop("WATCHDOG_USEC", "")
        watched_pid = environment.pop("WATCHDOG_PID", str(os.getpid()))
        ours = watched.isdigit() and watched_pid == str(os.getpid())
        self.ping_seconds: float | None = int(watched) / 1e6 / WATCHDOG_SHARE if ours and self._address else None

    @property
    def present(self) -> bool:
        """Whether a manager waits for our word."""
        return bool(self._address)

    def ready(self, status: str) -> None:
        """We serve."""
        self._send("READY=1")
        self.status(status)

    def status(self, text: str) -> None:
        """What we do, in one line for `systemctl status`."""
        self._send(f"STATUS={' '.join(text.split())}")

    def alive(self) -> None:
        """The loop turns."""
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """We are about to end."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        """A manager that cannot be reached must not end the service."""
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as way:
            way.connect(address)
            way.sendall(text.encode("utf-8", "replace"))
