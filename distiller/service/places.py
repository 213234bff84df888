"""Names of files and projects in, the same without secrets out: how store and log call them.

Apart from enrolling, because a command that only asks need not load what splits prompts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import msgspec

from distiller.vocabulary import Project, Redacted

Redact = Callable[[str], Redacted]


def stored_path(path: str, redact: Redact) -> str:
    """How a file is named in store and log: a path that holds a secret is told apart by a hash instead."""
    clean = redact(path)
    return path if clean == path else f"{clean}#{hashlib.sha256(path.encode('utf-8', 'replace')).hexdigest()[:8]}"


def redacted_project(project: Project, redact: Redact) -> Project:
    """A project whose key, name, address and folders hold no secret."""
    return msgspec.structs.replace(
        project,
        key=redact(project.key),
        name=redact(project.name),
        remote=None if project.remote is None else redact(project.remote),
        folders=tuple(map(redact, project.folders)),
    )


def project_name(key: str) -> str:
    """What people call the project of `key`: its repository's or folder's own name."""
    place = key.rsplit("@", 1)[0].removesuffix("/.git")
    return place.rstrip("/").rsplit("/", 1)[-1].removesuffix(".git")
