"""Our own folders in, what lies there out; and a text taken out of logs and state files while others have them open.

A match is overwritten where it stands, by as many bytes: the daemon's log file keeps its inode, its length and its
place, so that no line is lost and `logs -f` notices nothing. A new file under the old name would lose what the daemon
writes to the old one meanwhile.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from distiller.vocabulary import HomeFile

MARK = b"[REDACTED:scrub]"
KEPT = ("changes.json", "daemon.lock", "wake")  # needed byte for byte by `setup --undo`; empty; a pid
LEAST_BYTES = 6  # shorter texts stand by chance in compressed bytes
BLOCK_BYTES = 1 << 20


class HomeFiles:
    """`folders` are ours; text is taken out of the files below `texts`, which are among them."""

    def __init__(self, folders: Sequence[str], texts: Sequence[str]) -> None:
        self._folders = tuple(dict.fromkeys(folders))
        self._texts = tuple(dict.fromkeys(texts))

    def listing(self) -> list[HomeFile]:
        """Our folders and files with sizes and rights, by path; the size of a folder is that of its files."""
        found: dict[str, HomeFile] = {}
        for folder in self._folders:
            if os.path.isdir(folder):
                files = [described(path) for path in below(folder)]
                found.update({file.path: file for file in files if file is not None})
                size = sum(file.bytes for file in files if file is not None)
                found[folder] = HomeFile(folder, size, os.stat(folder).st_mode & 0o777)
        return [found[path] for path in sorted(found)]

    def find_text(self, pattern: re.Pattern[str]) -> dict[str, int]:
        """Lines that match, by path of the log or state file."""
        return self._each(lambda path: len(changed_lines(path, pattern, write=False)))

    def scrub(self, pattern: re.Pattern[str]) -> dict[str, int]:
        """Overwrite the matches where they stand; lines changed, by path."""
        return self._each(lambda path: len(changed_lines(path, pattern, write=True)))

    def holding(self, texts: Collection[str]) -> list[str]:
        """Paths of our files, of any kind, in whose bytes one of `texts` stands; very short ones are not looked for."""
        wanted = [text.encode("utf-8", "surrogateescape") for text in texts]
        wanted = [text for text in wanted if len(text) >= LEAST_BYTES]
        if not wanted:
            return []
        needle = re.compile(b"|".join(re.escape(text) for text in sorted(wanted, key=len, reverse=True)))
        overlap = max(len(text) for text in wanted)
        paths = (path for folder in self._folders for path in below(folder))
        return sorted({path for path in paths if holds(path, needle, overlap)})

    def _each(self, act: Callable[[str], int]) -> dict[str, int]:
        paths = (path for folder in self._texts for path in below(folder) if os.path.basename(path) not in KEPT)
        counts = {path: act(path) for path in sorted(set(paths))}
        return {path: count for path, count in counts.items() if count}


def below(folder: str) -> Iterator[str]:
    """All regular files in a folder, however deep; links are not followed."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(parent, name)
            if os.path.isfile(path) and not os.path.islink(path):
                yield path


def described(path: str) -> HomeFile | None:
    """A file's size and rights; None if it is gone."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return HomeFile(path, status.st_size, status.st_mode & 0o777)


def changed_lines(path: str, pattern: re.Pattern[str], *, write: bool) -> set[int]:
    """Where lines begin that match; with `write`, the matches are overwritten, also in what is appended meanwhile."""
    changed: set[int] = set()
    try:
        fd = os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC)
    except FileNotFoundError:
        return changed
    try:
        with os.fdopen(os.dup(fd), "rb") as file:
            at = 0
            for line in file:
                for start, end in spans(line, pattern):
                    changed.add(at)
                    if write:
                        os.pwrite(fd, covered(end - start), at + start)
                at += len(line)
        if write and changed:
            os.fsync(fd)
    finally:
        os.close(fd)
    return changed


def spans(line: bytes, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Where in a line's bytes the pattern matches; what we covered before is not looked at."""
    text = line.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
    found = [match for match in pattern.finditer(text) if match[0] and not match[0].startswith(MARK.decode())]

    def place(characters: int) -> int:
        return len(text[:characters].encode("utf-8", "surrogateescape"))

    return [(place(match.start()), place(match.end())) for match in found if set(match[0]) != {"*"}]


def covered(length: int) -> bytes:
    """As many bytes as a match had, that say what happened where they have the room to."""
    return MARK.ljust(length, b"*") if length >= len(MARK) else b"*" * length


def holds(path: str, needle: re.Pattern[bytes], overlap: int) -> bool:
    """Whether a file's bytes match, read in blocks; a file that goes meanwhile holds nothing."""
    rest = b""
    try:
        with open(path, "rb") as file:
            while block := file.read(BLOCK_BYTES):
                if needle.search(rest + block):
                    return True
                rest = block[-overlap:]
    except FileNotFoundError:
        pass
    return False
