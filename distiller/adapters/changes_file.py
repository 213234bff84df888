"""Files of the person in, the same files changed out, and in `state/changes.json` how each change is taken back.

A change is recorded before it is made: a crash between the two leaves a record of something that is not there, which
undoing passes over; the other order would leave something that nobody knows of.
"""

from __future__ import annotations

import fnmatch
import os
import shutil
import tempfile
from contextlib import suppress
from typing import Any

import msgspec

from distiller.errors import SettingError

OURS = {  # CONTRACTS §1
    "config": ("config.toml", "config.tmp", "keys"),
    "data": ("distiller.db*", "backups", "forgotten.jsonl*", "forgotten.key*"),
    "state": ("daemon.*", "wake", "changes.json*", "agent"),
    "logs": ("distiller.jsonl*", "crash.log"),
}


class FileChanges:
    """Changes to files, recorded in the file at `record_file`."""

    def __init__(self, record_file: str) -> None:
        self._record_file = record_file

    def record(self, group: str) -> dict[str, Any] | None:
        """What was kept for `group`, or None.

        Raises:
            SettingError: the record is there and cannot be read.
        """
        found = self._records().get(group)
        return found if isinstance(found, dict) else None

    def keep(self, group: str, record: dict[str, Any] | None) -> None:
        """Keep that instead, or nothing; the file goes with its last record."""
        records = {name: kept for name, kept in self._records().items() if name != group}
        if record is not None:
            records[group] = record
        if not records:
            self.remove(self._record_file)
            return
        text = msgspec.json.format(msgspec.json.encode(records), indent=2).decode()
        _replace(self._record_file, f"{text}\n", 0o600)

    def _records(self) -> dict[str, Any]:
        text = self.text(self._record_file)
        if text is None:
            return {}
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except (ValueError, msgspec.ValidationError):
            raise SettingError(
                f"{self._record_file} cannot be read, so it is not known what was changed on this machine. Nothing was "
                "touched; move the file away to begin anew."
            ) from None

    def text(self, path: str) -> str | None:
        """What the file holds; None if there is none."""
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def missing_folders(self, path: str) -> list[str]:
        """The folders above `path` and itself that are not there, outermost first."""
        missing = []
        while not os.path.lexists(path) and path != os.path.dirname(path):
            missing.append(path)
            path = os.path.dirname(path)
        return missing[::-1]

    def make_folder(self, path: str) -> None:
        """Make it, with all above it."""
        os.makedirs(path, mode=0o700, exist_ok=True)

    def write(self, path: str, text: str) -> None:
        """Replace the file whole, readable for all: what stands in it is no secret."""
        _replace(path, text, 0o644)

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder if it is empty; whether it is gone."""
        with suppress(OSError):
            if os.path.isdir(path) and not os.path.islink(path):
                os.rmdir(path)
            else:
                os.unlink(path)
        return not os.path.lexists(path)

    def purge(self, kind: str, folder: str) -> list[str]:
        """Remove what we keep in a folder of that kind, and it if that was all; what is left."""
        if not os.path.isdir(folder):
            return []
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if not any(fnmatch.fnmatchcase(name, pattern) for pattern in OURS[kind]):
                continue
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)
        if self.remove(folder):
            return []
        return sorted(os.path.join(folder, name) for name in os.listdir(folder))


def _replace(path: str, text: str, mode: int) -> None:
    fd, temporary = tempfile.mkstemp(prefix=".distiller-", dir=os.path.dirname(path))
    try:
        with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
            file.write(text)
            os.fchmod(fd, mode)
            file.flush()
            os.fsync(fd)
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
