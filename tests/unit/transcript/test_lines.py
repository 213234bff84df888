"""Bytes in any pieces give the same lines, and nothing too long or unfinished does harm."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from distiller.transcript.lines import LineReader


def split(data: bytes, cuts: list[int], max_line_bytes: int = 1000) -> tuple[list[tuple[int, int, bytes]], int]:
    """(start, end, bytes) of each line when `data` comes cut at `cuts`; and how many were too long."""
    reader = LineReader(max_line_bytes=max_line_bytes)
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    found = [
        (line.start, line.end, line.raw)
        for start, end in pairwise(edges)
        for block in reader.feed(data[start:end])
        for line in block.lines()
    ]
    return found, reader.too_long


@given(st.lists(st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b"")), max_size=12), st.lists(st.integers(0)))
def test_chunking_does_not_matter(lines: list[bytes], cuts: list[int]) -> None:
    """However bytes are cut, the same lines come out, at the same offsets, with the same ones left out (F46, F73)."""
    data = b"\n".join(lines)

    whole = split(data, [], max_line_bytes=8)

    assert split(data, cuts, max_line_bytes=8) == whole
    assert all(data[start:end] == raw for start, end, raw in whole[0])


def test_a_line_too_long_is_skipped_without_being_held() -> None:
    """F46, F73: a line over the cap is counted, takes no memory, and the next line is read."""
    reader = LineReader(max_line_bytes=10)

    for _ in range(1000):
        assert reader.feed(b"x" * 10) == []
    (block,) = reader.feed(b"\nshort\n")

    assert (block.raw, block.start, reader.too_long) == (b"short\n", 10_001, 1)
    assert not reader._held  # noqa: SLF001 - the promise is about memory


def test_other_line_separators_do_not_split() -> None:
    """U+2028 and U+0085 stand unescaped inside JSON strings."""
    data = '{"a":"x\u2028y\u0085z"}\n'.encode()

    (block,) = LineReader().feed(data)

    assert [line.raw for line in block.lines()] == [data]


def test_a_record_in_three_pieces_cut_inside_a_character() -> None:
    """F72, F75: only the byte after the last newline may be stored; the record comes out once."""
    record = '{"a":"ü 🙂"}\n'.encode()
    reader = LineReader()

    assert reader.feed(b"{}\n")[0].raw == b"{}\n"
    assert reader.feed(record[:7]) == []
    assert reader.feed(record[7:12]) == []
    assert (reader.complete_byte, reader.position) == (3, 15)
    assert [block.raw for block in reader.feed(record[12:])] == [record]
    assert reader.complete_byte == 3 + len(record)


def test_a_whole_last_line_is_taken_once_though_its_newline_is_missing() -> None:
    """The tail is given when it is one JSON object; its newline, when it comes, brings nothing."""
    reader = LineReader()
    reader.feed(b'{"a":1}\n{"b":')

    assert reader.take_tail() is None
    reader.feed(b"2}")
    tail = reader.take_tail()
    assert tail is not None
    assert (tail.start, tail.raw, reader.complete_byte) == (8, b'{"b":2}', 8)

    assert reader.take_tail() is None
    after = [line for block in reader.feed(b'\n{"c":3}\n') for line in block.lines() if not line.raw.isspace()]
    assert [line.raw for line in after] == [b'{"c":3}\n']
    assert reader.complete_byte == 24
