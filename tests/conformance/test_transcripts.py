"""What every source of session files promises, held against the disk and the fake."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import pytest

from distiller.adapters.transcripts_files import FileTranscripts
from distiller.ports import Transcripts
from tests.fakes.transcripts import FakeTranscripts

AT = "2026-12-01T09:00:00.000Z"


class Machine(Protocol):
    """A place with session files, and the port that reads them."""

    transcripts: Transcripts

    def path(self, name: str) -> str: ...
    def write(self, name: str, content: bytes) -> None: ...
    def remove(self, name: str) -> None: ...


class Disk:
    """Real files."""

    def __init__(self, root: Path) -> None:
        self._root = root / "claude_code"
        self._root.mkdir()
        self.transcripts: Transcripts = FileTranscripts({"claude_code": [str(self._root)]}, lambda _path, _head: None)

    def path(self, name: str) -> str:
        return str(self._root / name)

    def write(self, name: str, content: bytes) -> None:
        (self._root / name).parent.mkdir(parents=True, exist_ok=True)
        temporary = self._root / "new"
        temporary.write_bytes(content)
        temporary.replace(self._root / name)

    def remove(self, name: str) -> None:
        (self._root / name).unlink()


class Memory:
    """The fake's files."""

    def __init__(self) -> None:
        self._fake = FakeTranscripts()
        self.transcripts: Transcripts = self._fake

    def path(self, name: str) -> str:
        return f"/claude_code/{name}"

    def write(self, name: str, content: bytes) -> None:
        self._fake.write(self.path(name), content, at=AT)

    def remove(self, name: str) -> None:
        self._fake.remove(self.path(name))


@pytest.fixture(params=["disk", "memory"])
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> Machine:
    """Both kinds of machine."""
    return Disk(tmp_path) if request.param == "disk" else Memory()


def test_all_session_files_are_listed_once(machine: Machine) -> None:
    """Files in nested folders are found, each once, with agent and size."""
    machine.write("a.jsonl", b"{}\n")
    machine.write("deep/er/b.jsonl", b"{}\n{}\n")

    found = {file.path: (file.agent, file.size_bytes) for file in machine.transcripts.sessions()}

    assert found == {machine.path("a.jsonl"): ("claude_code", 3), machine.path("deep/er/b.jsonl"): ("claude_code", 6)}


def test_a_listing_can_be_narrowed(machine: Machine) -> None:
    """Given paths, only what is below them is listed; a file by itself counts too."""
    machine.write("a.jsonl", b"{}\n")
    machine.write("deep/b.jsonl", b"{}\n")

    below = [file.path for file in machine.transcripts.sessions([machine.path("deep")])]
    alone = [file.path for file in machine.transcripts.sessions([machine.path("a.jsonl")])]

    assert below == [machine.path("deep/b.jsonl")]
    assert alone == [machine.path("a.jsonl")]


def test_bytes_are_read_from_any_place(machine: Machine) -> None:
    """Reading gives what stands there, at most the limit, and nothing behind the end."""
    machine.write("a.jsonl", b"0123456789")
    path = machine.path("a.jsonl")

    assert machine.transcripts.read(path, 2, 3) == b"234"
    assert machine.transcripts.read(path, 8, 100) == b"89"
    assert machine.transcripts.read(path, 10, 100) == b""


def test_a_gone_file_is_none_and_reading_it_is_an_error(machine: Machine) -> None:
    """Nobody mistakes a gone file for an empty one."""
    machine.write("a.jsonl", b"{}\n")
    machine.remove("a.jsonl")

    assert machine.transcripts.look(machine.path("a.jsonl")) is None
    assert machine.transcripts.identify(machine.path("a.jsonl"), head_bytes=10, cursor_byte=0) is None
    with pytest.raises(FileNotFoundError):
        machine.transcripts.read(machine.path("a.jsonl"), 0, 10)


def test_a_replacement_has_another_identity(machine: Machine) -> None:
    """A file that took another's place is told by inode, head or what stands before the cursor."""
    path = machine.path("a.jsonl")
    machine.write("a.jsonl", b"first\nsecond\n")
    before = machine.transcripts.identify(path, head_bytes=6, cursor_byte=6)
    same = machine.transcripts.identify(path, head_bytes=6, cursor_byte=6)
    machine.write("a.jsonl", b"first\nanother\n")
    after = machine.transcripts.identify(path, head_bytes=6, cursor_byte=6)

    assert before == same
    assert before != after


def test_what_stands_before_the_cursor_is_part_of_the_identity(machine: Machine) -> None:
    """The same head with other bytes before the cursor is another file."""
    path = machine.path("a.jsonl")
    machine.write("a.jsonl", b"first\nsecond\n")
    before = machine.transcripts.identify(path, head_bytes=6, cursor_byte=13)
    machine.write("a.jsonl", b"first\nanotherone\n")
    after = machine.transcripts.identify(path, head_bytes=6, cursor_byte=13)

    assert before is not None
    assert after is not None
    assert before.tail_hash != after.tail_hash
