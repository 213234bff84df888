"""A machine that is well until a test breaks one thing of it."""

from __future__ import annotations

from collections.abc import Sequence


class FakeMachine:
    """Everything that is asked of it is an attribute; `there` maps a path to its rights."""

    def __init__(self) -> None:
        self.there: dict[str, int] = {}
        self.foreign: set[str] = set()
        self.unwritable: dict[str, OSError] = {}
        self.sealed_for: dict[int, set[str]] = {}
        self.free = 10**12
        self.limits: tuple[int, int] | None = (100_000, 128)
        self.folders = 10
        self.open: tuple[int | None, int] = (20, 1024)
        self.zone_name: str | None = "Europe/Berlin"
        self.programs: dict[str, tuple[str, str] | OSError] = {}
        self.answer: tuple[int, frozenset[str] | None] | OSError = (200, frozenset())
        self.keys_shown: list[str | None] = []

    def mode(self, path: str) -> int | None:
        return self.there.get(path)

    def is_ours(self, path: str) -> bool:
        return path not in self.foreign

    def files(self, folder: str) -> list[tuple[str, int]]:
        return sorted((path, mode) for path, mode in self.there.items() if path.rpartition("/")[0] == folder)

    def try_writing(self, folder: str) -> None:
        if folder in self.unwritable:
            raise self.unwritable[folder]

    def sealed(self, pid: int, folder: str) -> bool:
        return folder in self.sealed_for.get(pid, ())

    def free_bytes(self, path: str) -> int:
        assert path
        return self.free

    def inotify_limits(self) -> tuple[int, int] | None:
        return self.limits

    def folder_count(self, roots: Sequence[str]) -> int:
        return self.folders if roots else 0

    def open_files(self, pid: int | None) -> tuple[int | None, int]:
        return (None, self.open[1]) if pid is None else self.open

    def zone(self) -> str | None:
        return self.zone_name

    def program(self, name: str) -> tuple[str, str] | None:
        found = self.programs.get(name)
        if isinstance(found, OSError):
            raise found
        return found

    def models(self, base_url: str, key: str | None) -> tuple[int, frozenset[str] | None]:
        assert base_url.startswith("http")
        self.keys_shown.append(key)
        if isinstance(self.answer, OSError):
            raise self.answer
        return self.answer
