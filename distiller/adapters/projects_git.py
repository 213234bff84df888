"""A folder in, the project it belongs to out, from `.git` files alone.

Key: the normalised remote, else the repository's common folder, else the folder itself (the latter two with this
machine's id, for `/home/me/app` on another machine is another project). No git process is run: a session's folder may
be hostile, and a process for each session is dear.
"""

from __future__ import annotations

import configparser
import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from distiller.vocabulary import Project

WORKTREE = re.compile(r"^(.*)/\.claude/worktrees/[^/]+")
SCP_LIKE = re.compile(r"^(?:[^@/:]+@)?([^/:]+):(?!//)(.+)$")
URL = re.compile(r"^[a-z+]+://(?:[^@/]*@)?([^/:]+)(?::\d+)?/(.+)$", re.IGNORECASE)
CONFIG_LIMIT_BYTES = 1 << 20


class GitProjects:
    """Resolves folders, each once a process; `known` finds projects of folders resolved before (in the store)."""

    def __init__(self, known: Callable[[str], Project | None] = lambda _: None) -> None:
        self._known = known
        self._machine = machine_id()
        self._seen: dict[str, Project] = {}

    def resolve(self, folder: str) -> Project:
        """The project of `folder`; one that is gone takes its nearest known ancestor's."""
        if folder not in self._seen:
            self._seen[folder] = self._resolve(folder)
        return self._seen[folder]

    def _resolve(self, folder: str) -> Project:
        place = folder.replace("\\", "/").rstrip("/") or "/"
        if cut := WORKTREE.match(place):
            place = cut[1]
        if not os.path.isdir(place):
            return self._gone(folder, place)
        common = common_folder(Path(place))
        if common is None:
            return self._unversioned(folder, place)
        remote = remote_of(common)
        root = common.parent if common.name == ".git" else common
        if remote:
            return Project(remote, remote.rsplit("/", 1)[-1], remote=remote, folders=(folder,))
        return Project(f"git:{common}@{self._machine}", root.name, folders=(folder,))

    def _gone(self, folder: str, place: str) -> Project:
        for ancestor in ancestors(place):
            known = self._known(ancestor)
            if known is not None and not known.key.startswith("dir:"):
                return Project(known.key, known.name, remote=known.remote, folders=(folder,))
            if known is None and os.path.isdir(ancestor) and (found := common_folder(Path(ancestor))) is not None:
                return self.resolve(ancestor) if found.parent != Path.home() else self._unversioned(folder, place)
        if (known := self._known(folder)) is not None:
            return known
        return self._unversioned(folder, place)

    def _unversioned(self, folder: str, place: str) -> Project:
        return Project(f"dir:{place}@{self._machine}", place.rsplit("/", 1)[-1] or "/", folders=(folder,))


def ancestors(place: str) -> list[str]:
    """The folders above `place`, nearest first, without the root."""
    parts = place.split("/")
    return ["/".join(parts[:end]) for end in range(len(parts) - 1, 1, -1)]


def common_folder(folder: Path) -> Path | None:
    """The `.git` folder that all worktrees of `folder`'s repository share, or None where there is none."""
    for place in (folder, *folder.parents):
        marker = place / ".git"
        try:
            if marker.is_dir():
                return marker.resolve()
            if marker.is_file():
                return linked_folder(marker)
        except OSError:
            return None
    return None


def linked_folder(marker: Path) -> Path | None:
    """Follow a `.git` file (worktree or submodule) to the common folder."""
    pointer = read_short(marker).removeprefix("gitdir:").strip()
    if not pointer:
        return None
    own = (marker.parent / pointer).resolve()
    shared = read_short(own / "commondir").strip()
    return (own / shared).resolve() if shared else own


def remote_of(common: Path) -> str | None:
    """The normalised address of `origin`, else of the first remote by name; None without a remote."""
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(read_short(common / "config"))
    except configparser.Error:
        return None
    remotes = {
        section[8:-1]: parser.get(section, "url")
        for section in parser.sections()
        if section.startswith('remote "') and parser.has_option(section, "url")
    }
    names = sorted(remotes, key=lambda name: (name != "origin", name))
    return next((address for name in names if (address := normalise(remotes[name] or ""))), None)


def normalise(address: str) -> str | None:
    """`git@GitHub.com:acme/app.git` and `https://u:p@github.com/acme/app` are both `github.com/acme/app`.

    None for a path: another folder's path says nothing across machines.
    """
    found = URL.match(address) or SCP_LIKE.match(address)
    if not found:
        return None
    path = found[2].strip("/").removesuffix(".git")
    return f"{found[1].lower()}/{path}" if path else None


def read_short(path: Path) -> str:
    """The text of a small file; empty if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(CONFIG_LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def machine_id() -> str:
    """A short stable name for this machine, which says nothing about it."""
    seed = read_short(Path("/etc/machine-id")).strip() or os.uname().nodename
    return hashlib.sha256(f"distiller {seed}".encode()).hexdigest()[:8]
