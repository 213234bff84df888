"""Our own folders as a dict of one-line files."""

from __future__ import annotations

import re
from collections.abc import Collection

from distiller.vocabulary import HomeFile


class FakeHome:
    """`ports.Home` over lines in a dict; a `stubborn` path cannot be rewritten."""

    def __init__(self, lines: dict[str, str], *, stubborn: str = "") -> None:
        self.lines = lines
        self.stubborn = stubborn

    def listing(self) -> list[HomeFile]:
        return [HomeFile(path, len(line), 0o600) for path, line in self.lines.items()]

    def find_text(self, pattern: re.Pattern[str]) -> dict[str, int]:
        return {path: 1 for path, line in self.lines.items() if pattern.search(line)}

    def scrub(self, pattern: re.Pattern[str]) -> dict[str, int]:
        found = self.find_text(pattern)
        for path in found:
            if path != self.stubborn:
                self.lines[path] = pattern.sub("*", self.lines[path])
        return found

    def holding(self, texts: Collection[str]) -> list[str]:
        return [path for path, line in self.lines.items() if any(text in line for text in texts)]
