"""What happened in, one JSON line each out: the log file, and stderr where a person or the journal reads it.

Ids, codes and counts only. Lines are ASCII and at most 16 KiB (journald cuts longer ones, and escape sequences of a
transcript must not reach a terminal).
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

import msgspec
import structlog

from distiller.vocabulary import PassRecord, TurnState

FILE_BYTES = 3_000_000
FILES = 5
LINE_BYTES = 16 * 1024
LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

Tell = Callable[[Mapping[str, Any], bytes], None]


class RotatingFile:
    """Appends whole lines to a file that is rotated by size; safe with several processes on one file.

    A plain rotating handler loses lines when two processes share it (681 of 10,000 when measured): each renames under
    the other. Here every line is one `O_APPEND` write to the file that bears the name now, and only the holder
    of a lock on the folder renames.
    """

    def __init__(self, path: str, *, file_bytes: int = FILE_BYTES, files: int = FILES) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._files = files
        self._fd = -1
        self._inode = -1

    def write(self, line: bytes) -> None:
        """Append one line. Trouble with the log is no trouble of the work: it is passed over."""
        try:
            if self._size() + len(line) > self._file_bytes:
                self._rotate(len(line))
            os.write(self._current(), line)
        except OSError:
            self.close()

    def close(self) -> None:
        """Let go of the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._inode = -1

    def _current(self) -> int:
        try:
            named = os.stat(self._path).st_ino
        except FileNotFoundError:
            named = -1
        if self._fd < 0 or named != self._inode:
            self.close()
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            self._inode = os.fstat(self._fd).st_ino
        return self._fd

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size
        except FileNotFoundError:
            return 0

    def _rotate(self, more: int) -> None:
        folder = os.open(os.path.dirname(self._path), os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if self._size() + more <= self._file_bytes:
                return  # another process was first
            names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._files))]
            for older, newer in zip(names[:0:-1], names[-2::-1], strict=True):
                if os.path.exists(newer):
                    os.replace(newer, older)
        finally:
            os.close(folder)


class Sink:
    """Where finished lines go: to the file, and to `tell` as fields and as the line that was written."""

    def __init__(self, file: RotatingFile, tell: Tell | None) -> None:
        self._file = file
        self._tell = tell

    def write(self, fields: dict[str, Any]) -> None:
        """Write one line."""
        line = encode(fields)
        self._file.write(line)
        if self._tell is not None:
            self._tell(fields, line)

    debug = info = warning = error = write


class LogNotifier:
    """Turns what happened into log lines; `tell` as in `Sink`."""

    def __init__(self, path: str, *, version: str, level: str = "info", tell: Tell | None = None) -> None:
        self._file = RotatingFile(path)
        self._sink = Sink(self._file, tell)
        self._stamp = stamp(version)
        self.set_level(level)

    def set_level(self, level: str) -> None:
        """Set the least level that is written from now on."""
        self._log: Any = structlog.wrap_logger(
            self._sink,
            processors=[structlog.processors.add_log_level, self._stamp],
            wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        )

    def settled(self, record: PassRecord) -> None:
        """The canonical line of one attempt at one turn (CONTRACTS §9)."""
        waiting = record.outcome is TurnState.WAITING
        self.event(
            "turn.waiting" if waiting else "turn.settled",
            level="error" if record.outcome is TurnState.DEAD else "info",
            turn=record.turn_id,
            revision=record.revision,
            agent=record.agent,
            session=record.session_id,
            project=record.project_key,
            outcome=record.outcome.value,
            reason=record.reason,
            end_sign=record.end_sign.value,
            backend=record.backend,
            model=record.model,
            operations=record.operations,
            refused=record.refused,
            calls=record.usage.calls,
            input_tokens=record.usage.input_tokens,
            output_tokens=record.usage.output_tokens,
            cost_usd=record.usage.cost_usd,
            took_ms=record.usage.took_ms,
            wait_ms=record.wait_ms,
        )

    def event(self, name: str, *, level: str = "info", **fields: Any) -> None:
        """Write one line; fields that are None stay, so that every line of an event has the same keys."""
        getattr(self._log, level)(name, **fields)

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def stamp(version: str) -> Callable[[Any, str, MutableMapping[str, Any]], tuple[tuple[dict[str, Any]], dict[str, Any]]]:
    """Puts time, level and event first, in the order in which people read, then version and pid, then the rest."""
    timer = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
    first = {"version": version, "pid": os.getpid()}

    def order(
        logger: Any, method: str, fields: MutableMapping[str, Any]
    ) -> tuple[tuple[dict[str, Any]], dict[str, Any]]:
        at = timer(logger, method, {})["time"]
        head = {"time": f"{at[:23]}Z", "level": fields.pop("level"), "event": fields.pop("event")}
        return ({**head, **first, **fields},), {}

    return order


def encode(line: Mapping[str, Any]) -> bytes:
    """One JSON line, ASCII, cut to a line that says so where it is too long."""
    data = ascii_json(line)
    if len(data) > LINE_BYTES:
        kept = {key: line[key] for key in ("time", "level", "event", "version", "pid", "turn") if key in line}
        data = ascii_json({**kept, "cut_bytes": len(data)})
    return data + b"\n"


def ascii_json(line: Mapping[str, Any]) -> bytes:
    """JSON without a byte above 0x7e, so that no log reader has to guess."""
    text = msgspec.json.encode(line).decode("utf-8")
    if text.isascii():
        return text.encode("ascii")
    return "".join(one if one.isascii() else escaped(one) for one in text).encode("ascii")


def escaped(character: str) -> str:
    """A JSON escape of one character, as surrogates where it takes two."""
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def forward_library_logs(notifier: LogNotifier) -> None:
    """Send what libraries log (warnings and worse) through `notifier`, without their texts' line breaks."""

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            level = "error" if record.levelno >= logging.ERROR else "warning"
            detail = record.exc_info[0].__name__ if record.exc_info and record.exc_info[0] else None
            notifier.event("library", level=level, library=record.name, text=record.getMessage()[:500], error=detail)

    logging.basicConfig(handlers=[Forward()], level=logging.WARNING, force=True)
