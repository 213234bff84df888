r"""Appended bytes in, whole lines with their byte offsets out; a line without its newline waits.

Lines are split on the byte `\n` alone: JSON strings hold U+2028 and U+0085 unescaped, at which `str.splitlines` would
cut. Two positions are kept apart: the bytes taken in, and the byte after the last newline; only the second may be
stored, because a record can arrive in pieces that end inside a character.

Lines come out in blocks, not one by one: decoding many at once takes two thirds of the time.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from distiller.transcript import tolerant
from distiller.vocabulary import TranscriptLine

MAX_LINE_BYTES = 32 * 1024 * 1024


class Block(msgspec.Struct, frozen=True, gc=False):
    """Whole lines that follow one another; `raw` ends with a newline, save for a taken tail."""

    start: int
    raw: bytes

    def line_ends(self) -> list[int]:
        """Offsets into `raw` of the byte after each line."""
        ends: list[int] = []
        find, end = self.raw.find, 0
        while end := find(b"\n", end) + 1:  # several times faster than counting or splitting
            ends.append(end)
        if not self.raw.endswith(b"\n"):
            ends.append(len(self.raw))
        return ends

    def lines(self) -> Iterator[TranscriptLine]:
        """Its lines, one by one."""
        start = 0
        for end in self.line_ends():
            yield TranscriptLine(self.start + start, self.start + end, self.raw[start:end])
            start = end


class LineReader:
    """Finds the whole lines in one file's bytes, in whatever pieces they come.

    A line longer than `max_line_bytes` is counted in `too_long` and passed over without being held in memory.
    """

    def __init__(self, start_byte: int = 0, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.position = start_byte  # byte after all that was taken in
        self.complete_byte = start_byte  # byte after the last newline
        self.too_long = 0
        self._max = max_line_bytes
        self._start = start_byte  # where the unfinished line begins
        self._size = 0  # its bytes so far, held or not
        self._held: list[bytes] = []

    def feed(self, data: bytes) -> list[Block]:
        """Take in the bytes that follow; the lines they complete, in order."""
        self.position += len(data)
        cut = data.rfind(b"\n") + 1
        if not cut:
            self._hold(data)
            return []
        blocks: list[Block] = []
        first = 0
        if self._size:
            first = data.find(b"\n") + 1
            self._hold(data[:first])
            blocks += self._release()
        start = self._start
        self._start = self.complete_byte = start + cut - first
        blocks += self._fitting(Block(start, data[first:cut]))
        self._hold(data[cut:])
        return blocks

    def take_tail(self) -> Block | None:
        """The unfinished last line, if it is one whole JSON object already; it is not given again.

        `complete_byte` stays before it, so that a restart reads it again.
        """
        if not self._held or not self._held[-1].rstrip().endswith(b"}"):
            return None
        self._held = [b"".join(self._held)]
        if not tolerant.objects(self._held[0]):
            return None
        complete = self.complete_byte
        (tail,) = self._release()
        self.complete_byte = complete
        return tail

    def _hold(self, data: bytes) -> None:
        if not data:
            return
        self._size += len(data)
        if self._size > self._max:
            self._held.clear()
        else:
            self._held.append(data)

    def _release(self) -> list[Block]:
        """The line held so far, unless it was too long; the next one begins behind it."""
        block = Block(self._start, b"".join(self._held))
        fits = self._size <= self._max
        self._start += self._size
        self.complete_byte, self._size = self._start, 0
        self._held.clear()
        self.too_long += not fits
        return [block] if fits else []

    def _fitting(self, block: Block) -> list[Block]:
        """`block` without lines that are too long."""
        if len(block.raw) <= self._max:
            return [block] if block.raw else []
        lines = list(block.lines())
        fitting = [Block(line.start, line.raw) for line in lines if len(line.raw) <= self._max]
        self.too_long += len(lines) - len(fitting)
        return fitting
