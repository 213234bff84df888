"""A key's name in, the key and where it was found out: keys are files that only their owner reads, never settings.

systemd's `LoadCredential` wins, then `config/keys/NAME`; a variable of the environment counts only where a setting
names it, since a key that happens to lie around was not given to us.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress

import msgspec

from distiller.errors import SettingError


class Key(msgspec.Struct, frozen=True):
    """A key and the file or variable that it comes from; its value is not shown."""

    value: str
    where: str

    def __repr__(self) -> str:
        return f"Key(where={self.where!r})"


def read_key(
    name: str, config_folder: str, environment: Mapping[str, str], *, variable: str | None = None
) -> Key | None:
    """The first key of that name: credential, file, `variable`; None if there is none or only empty ones.

    Raises:
        SettingError: a file is there and cannot be read.
    """
    credentials = environment.get("CREDENTIALS_DIRECTORY")
    folders = [credentials] if credentials else []
    for path in [os.path.join(folder, name) for folder in [*folders, os.path.join(config_folder, "keys")]]:
        if value := _read(path):
            return Key(value, path)
    value = environment.get(variable, "").strip() if variable else ""
    return Key(value, f"${variable}") if value else None


def write_key(name: str, value: str, config_folder: str) -> str:
    """Keep a key in `config_folder/keys`, replacing an older one whole; the file's path.

    The file is made with its final rights (mkstemp: 0600), so there is no moment in which others may read it.

    Raises:
        SettingError: it cannot be written; an older key stands as it was.
    """
    folder = os.path.join(config_folder, "keys")
    path = os.path.join(folder, name)
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        os.chmod(folder, 0o700)
        _replace(path, value.strip() + "\n")
    except OSError as error:
        raise SettingError(f"The key could not be written to {path}: {error.strerror}; nothing was changed.") from error
    return path


def _replace(path: str, text: str) -> None:
    fd, temporary = tempfile.mkstemp(prefix=".", dir=os.path.dirname(path))
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _read(path: str) -> str:
    """The text of a key file without space around it; empty if there is no such file."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise SettingError(f"The key in {path} is no text; write it again with `distiller config set-key`.") from None
    except OSError as error:
        raise SettingError(f"The key in {path} cannot be read: {error.strerror}.") from error
