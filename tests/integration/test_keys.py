"""Keys in files: where they are looked for, and who may read them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from distiller.adapters.keys_files import Key, read_key, write_key
from distiller.errors import SettingError

KEY = "sk-ant-made-up-0001"


def put(path: Path, text: str) -> Path:
    """A file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_written_key_is_read_again(tmp_path: Path) -> None:
    """What set-key was given comes back without the space around it."""
    path = write_key("anthropic", f"  {KEY}\n", str(tmp_path))

    assert read_key("anthropic", str(tmp_path), {}) == Key(KEY, path)


def test_only_the_owner_may_read_a_key(tmp_path: Path) -> None:
    """Folder 0700 and file 0600 whatever the umask, also where the folder stood open before."""
    (tmp_path / "keys").mkdir(mode=0o755)
    before = os.umask(0)
    try:
        path = Path(write_key("anthropic", KEY, str(tmp_path)))
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_new_key_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    """A rename: a hard link made by somebody before keeps the old text, and no half-written file stays."""
    old = Path(write_key("anthropic", "old", str(tmp_path)))
    os.link(old, tmp_path / "link")

    write_key("anthropic", KEY, str(tmp_path))

    assert old.read_text() == f"{KEY}\n"
    assert (tmp_path / "link").read_text() == "old\n"
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["anthropic"]


def test_a_key_that_cannot_be_written_is_one_line_and_changes_nothing(tmp_path: Path) -> None:
    """A folder stands where the file should: the error names the path and no other file is left."""
    (tmp_path / "keys/anthropic").mkdir(parents=True)

    with pytest.raises(SettingError) as caught:
        write_key("anthropic", KEY, str(tmp_path))

    assert "\n" not in str(caught.value)
    assert KEY not in str(caught.value)
    assert [path.name for path in (tmp_path / "keys").iterdir()] == ["anthropic"]


def test_systemds_credential_wins_then_the_file_then_the_variable(tmp_path: Path) -> None:
    """Each source counts only where those before it hold nothing, and the answer says which it was."""
    credential = put(tmp_path / "credentials/anthropic", "from-systemd\n")
    file = put(tmp_path / "config/keys/anthropic", "from-file\n")
    environment = {"CREDENTIALS_DIRECTORY": str(credential.parent), "ANTHROPIC_API_KEY": "from-variable"}
    config = str(tmp_path / "config")

    first = read_key("anthropic", config, environment, variable="ANTHROPIC_API_KEY")
    put(credential, " \n")
    second = read_key("anthropic", config, environment, variable="ANTHROPIC_API_KEY")
    file.unlink()
    third = read_key("anthropic", config, environment, variable="ANTHROPIC_API_KEY")

    assert (first, second, third) == (
        Key("from-systemd", str(credential)),
        Key("from-file", str(file)),
        Key("from-variable", "$ANTHROPIC_API_KEY"),
    )


def test_a_variable_counts_only_when_it_is_named(tmp_path: Path) -> None:
    """A key lying around in the environment is not ours to use."""
    environment = {"ANTHROPIC_API_KEY": KEY}

    assert read_key("anthropic", str(tmp_path), environment) is None
    assert read_key("anthropic", str(tmp_path), {"ANTHROPIC_API_KEY": " "}, variable="ANTHROPIC_API_KEY") is None


@pytest.mark.parametrize("content", [None, b"\xff\xfe\x00"], ids=["folder", "no-text"])
def test_a_key_that_cannot_be_read_is_said_in_one_line(tmp_path: Path, content: bytes | None) -> None:
    """An unreadable file is told, not passed over for the next source."""
    path = tmp_path / "keys/anthropic"
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)

    with pytest.raises(SettingError, match=str(path)) as caught:
        read_key("anthropic", str(tmp_path), {"ANTHROPIC_API_KEY": KEY}, variable="ANTHROPIC_API_KEY")

    assert "\n" not in str(caught.value)


def test_a_key_does_not_show_its_value() -> None:
    """A key in a log or a traceback stays unreadable."""
    assert KEY not in f"{Key(KEY, '/keys/anthropic')!r} {Key(KEY, '/keys/anthropic')}"
