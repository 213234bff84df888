"""The log file and its rotated brothers in, lines out: the last N that fit, then all that come, each once.

A follower that only reopens by name loses what was written between its last read and the rotation; one that only keeps
its descriptor never sees the new file. This one drains the old file first, then every file that is newer than it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from re import Pattern
from typing import Any, BinaryIO, Self

import click
import msgspec

from distiller.surfaces import telling
from distiller.surfaces.cli import output

POLL_SECONDS = 0.02
BLOCK_BYTES = 1 << 16
ORDER = ("debug", "info", "warning", "error")
COLOURS = {"warning": "yellow", "error": "red", "debug": "bright_black"}


class Filter:
    """Which lines are wanted; a line that is not JSON is never dropped."""

    def __init__(self, level: str | None, since: str | None, turn: str | None, pattern: Pattern[str] | None) -> None:
        self._levels = ORDER[ORDER.index(level) :] if level else ORDER
        self._since = since
        self._turn = turn
        self._pattern = pattern

    def fits(self, line: bytes) -> bool:
        """Whether to show `line`."""
        if self._pattern and not self._pattern.search(line.decode("utf-8", "replace")):
            return False
        fields = decode(line)
        if fields is None:
            return True
        if fields.get("level", "info") not in self._levels:
            return False
        if self._since and str(fields.get("time", "")) < self._since:
            return False
        return self._turn is None or str(fields.get("turn", "")).startswith(self._turn)


class Log:
    """One log by its newest file's path; `last` first, then `fresh` again and again."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._inode = -1
        self._partial = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file:
            self._file.close()

    def last(self, count: int, wanted: Filter) -> list[bytes]:
        """The last `count` lines that fit, oldest first; `fresh` goes on right behind them."""
        found: list[bytes] = []
        for place, path in enumerate(self._files()):
            if place == 0:
                self._open(path)
            for line in backwards(self._file if place == 0 and self._file else path):
                if len(found) >= count:
                    return found[::-1]
                if wanted.fits(line):
                    found.append(line)
        return found[::-1]

    def fresh(self) -> list[bytes]:
        """Whole lines that were written since the last call, in order, through any number of rotations."""
        lines = self._drain()
        while (newer := self._next()) is not None:
            lines += self._drain()
            self._open(newer, at_end=False)
            lines += self._drain()
        return lines

    def _drain(self) -> list[bytes]:
        if self._file is None:
            return []
        size = os.fstat(self._file.fileno()).st_size
        if size < self._file.tell():
            click.echo("distiller: the log was cut short; showing it from its start.", err=True)
            self._file.seek(0)
            self._partial = b""
        data = self._partial + self._file.read()
        *lines, self._partial = data.split(b"\n")
        return lines

    def _next(self) -> str | None:
        """The file that came after the one we hold; None while that is the newest."""
        files = self._files()
        inodes = [inode_of(path) for path in files]
        if self._inode not in inodes:  # rotated away while nobody looked: all that is left is newer
            return files[-1] if files else None
        place = inodes.index(self._inode)
        return files[place - 1] if place > 0 else None

    def _open(self, path: str, *, at_end: bool = True) -> None:
        try:
            file = open(path, "rb")  # noqa: SIM115 -- kept open while its name moves on
        except FileNotFoundError:
            return
        if self._file:
            self._file.close()
        self._file, self._inode, self._partial = file, os.fstat(file.fileno()).st_ino, b""
        if at_end:
            file.seek(0, os.SEEK_END)
            last = last_break(file)
            file.seek(last)

    def _files(self) -> list[str]:
        """The files there are, newest first."""
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, 10))]
        return [name for name in names if os.path.exists(name)]


def last_break(file: BinaryIO) -> int:
    """The place behind the last newline: a half-written line is left for later."""
    size = file.seek(0, os.SEEK_END)
    start = max(0, size - BLOCK_BYTES)
    file.seek(start)
    at = file.read(size - start).rfind(b"\n")
    return start + at + 1 if at >= 0 else start


def backwards(source: BinaryIO | str) -> Iterator[bytes]:
    """The whole lines of a file from its end; a reader that holds a file keeps its place."""
    if isinstance(source, str):
        with open(source, "rb") as file:
            yield from backwards(file)
        return
    place = source.tell()
    end, rest = last_break(source), b""
    try:
        while end > 0:
            start = max(0, end - BLOCK_BYTES)
            source.seek(start)
            block = source.read(end - start) + rest
            *earlier, first = block.split(b"\n")[::-1]
            yield from (line for line in earlier if line)
            rest, end = first, start
        if rest:
            yield rest
    finally:
        source.seek(place)


def inode_of(path: str) -> int:
    """The inode of the file at `path`; -1 if it is gone."""
    try:
        return os.stat(path).st_ino
    except OSError:
        return -1


def shower(*, raw: bool) -> Callable[[bytes], None]:
    """What prints a line: byte for byte, or readable."""
    return click.echo if raw else (lambda line: output.say(*readable(line)))


def decode(line: bytes) -> dict[str, Any] | None:
    """The fields of a line, or None if it is no JSON object."""
    try:
        fields = msgspec.json.decode(line)
    except ValueError:
        return None
    return fields if isinstance(fields, dict) else None


def readable(line: bytes) -> tuple[output.Styled, str]:
    """A line for eyes; one that is not JSON is marked, never dropped."""
    fields = decode(line)
    if fields is None:
        return output.style("? ", fg="yellow"), line.decode("utf-8", "replace")
    head, rest = telling.readable(fields)
    return output.style(head, fg=COLOURS.get(str(fields.get("level")))), f" {rest}"
