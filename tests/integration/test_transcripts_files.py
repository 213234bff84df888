"""What only a real disk shows about listing session files."""

from __future__ import annotations

import os
from pathlib import Path

from distiller.adapters.transcripts_files import FileTranscripts
from distiller.transcript import formats


def transcripts(tmp_path: Path, **roots: Path) -> FileTranscripts:
    """Files below `roots`, with our own folder left out."""
    return FileTranscripts(
        {agent: [str(root)] for agent, root in roots.items()}, formats.sniff, ours=[str(tmp_path / "home")]
    )


def test_our_own_folders_are_never_listed(tmp_path: Path) -> None:
    """A home inside a watched folder is no source of sessions."""
    (tmp_path / "home/logs").mkdir(parents=True)
    (tmp_path / "home/logs/distiller.jsonl").write_bytes(b'{"role":"user","content":"hi"}\n')
    (tmp_path / "a.jsonl").write_bytes(b'{"role":"user","content":"hi"}\n')

    found = [file.path for file in transcripts(tmp_path, neutral=tmp_path).sessions()]

    assert found == [str(tmp_path / "a.jsonl")]


def test_a_folder_given_by_hand_is_sniffed(tmp_path: Path) -> None:
    """Of files in a strange folder only transcripts are taken, each by its own format."""
    (tmp_path / "neutral.jsonl").write_bytes(b'{"role":"user","content":"hi"}\n')
    (tmp_path / "data.jsonl").write_bytes(b'{"x":1}\n')
    (tmp_path / "history.jsonl").write_bytes(b'{"display":"hi"}\n')

    found = [(Path(file.path).name, file.agent) for file in transcripts(tmp_path).sessions([str(tmp_path)])]

    assert found == [("neutral.jsonl", "neutral")]


def test_a_missing_path_given_by_hand_is_reported(tmp_path: Path) -> None:
    """A mistyped folder is not an empty one."""
    source = transcripts(tmp_path)

    found = list(source.sessions([str(tmp_path / "nowhere")]))

    assert found == []
    assert source.unreadable() == ((str(tmp_path / "nowhere"), "no such file or folder"),)


def test_listing_and_reading_leave_no_trace(tmp_path: Path) -> None:
    """Promise 3: size, mode and modification time stay as the agent left them."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"role":"user","content":"hi"}\n')
    path.chmod(0o444)
    os.utime(path, ns=(1, 1))
    before = path.stat()
    source = transcripts(tmp_path, neutral=tmp_path)

    list(source.sessions())
    source.read(str(path), 0, 100)
    source.identify(str(path), head_bytes=10, cursor_byte=5)
    source.side_file(str(path))
    after = path.stat()

    assert (before.st_mtime_ns, before.st_mode, before.st_size) == (after.st_mtime_ns, after.st_mode, after.st_size)


def test_a_side_file_that_is_no_object_is_no_side_file(tmp_path: Path) -> None:
    """Torn or foreign side files are passed over."""
    source = transcripts(tmp_path)
    for number, content in enumerate((b'{"title": "x"}', b"[1]", b"{", b"\xff")):
        (tmp_path / f"{number}.meta.json").write_bytes(content)

    found = [source.side_file(str(tmp_path / f"{number}.jsonl")) for number in range(5)]

    assert found == [{"title": "x"}, None, None, None, None]
