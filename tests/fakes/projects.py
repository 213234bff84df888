"""Projects by folder name: `/work/<name>/…` belongs to `example.com/acme/<name>`."""

from __future__ import annotations

from distiller.vocabulary import Project


class FakeProjects:
    """Resolves without a disk."""

    def resolve(self, folder: str) -> Project:
        """The project of `folder`."""
        parts = folder.strip("/").split("/")
        name = parts[1] if len(parts) > 1 else parts[0] or "root"
        return Project(f"example.com/acme/{name}", name, remote=f"example.com/acme/{name}", folders=(folder,))
