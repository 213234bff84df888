"""Appended bytes in, whole lines with their byte offsets out; a line without its newline waits.

Lines are split on the byte `\\n` alone: JSON strings hold U+2028 and U+0085 unescaped, at which `str.splitlines` would
cut. Two positions are kept apart: the bytes taken in, and the byte after the last newline; only the second may be
stored, because a record can arrive in pieces that end inside a character.
"""

from __future__ import annotations

from distiller.transcript import tolerant
from distiller.vocabulary import TranscriptLine

MAX_LINE_BYTES = 32 * 1024 * 1024


class LineReader:
    """Splits one file's bytes, in whatever pieces they come, into lines.

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

    def feed(self, data: bytes) -> list[TranscriptLine]:
        """Take in the bytes that follow; the lines they complete, blank ones left out."""
        self.position += len(data)
        *ends, rest = data.split(b"\n")
        lines: list[TranscriptLine] = []
        start = self._start
        for piece in ends:
            size = self._size + len(piece)
            end = start + size + 1
            if size > self._max:
                self.too_long += 1
                self._held.clear()
            elif size:
                lines.append(TranscriptLine(start, end, self._whole(piece)))
            self._size, start = 0, end
        if ends:
            self._start = self.complete_byte = start
        self._hold(rest)
        return lines

    def take_tail(self) -> TranscriptLine | None:
        """The unfinished last line, if it is one whole JSON object already; it is not given again.

        Its `end` is its last byte; `complete_byte` stays before it, so that a restart reads it again.
        """
        if not self._held or not self._held[-1].rstrip().endswith(b"}"):
            return None
        raw = self._whole(b"")
        if not tolerant.objects(raw):
            self._held.append(raw)
            return None
        line = TranscriptLine(self._start, self._start + self._size, raw)
        self._start, self._size = line.end, 0
        return line

    def _whole(self, piece: bytes) -> bytes:
        if not self._held:
            return piece
        raw = b"".join((*self._held, piece))
        self._held.clear()
        return raw

    def _hold(self, rest: bytes) -> None:
        if not rest:
            return
        self._size += len(rest)
        if self._size > self._max:
            self._held.clear()
        else:
            self._held.append(rest)
