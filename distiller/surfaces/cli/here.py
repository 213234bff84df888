"""The folder in which a command was typed, and what people call projects, in; the project they mean out."""

from __future__ import annotations

import os
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from distiller.errors import AmbiguousNameError, UnknownNameError
from distiller.vocabulary import FactQuery, Project, SessionRow

if TYPE_CHECKING:
    from distiller.bootstrap import App


def project_here(app: App) -> Project:
    """The project of the working folder, aliases followed."""
    from distiller.service.places import redacted_project

    folder = os.getcwd()
    known = app.store.project_of(app.redact(folder))
    return known or redacted_project(app.projects(app.store).resolve(folder), app.redact)


def named_session(app: App, start: str) -> SessionRow:
    """The session whose id starts with `start`.

    Raises:
        UnknownNameError: none; AmbiguousNameError: several.
    """
    found = app.store.session(start)
    if not found:
        raise UnknownNameError(f"{start}: no session's id starts so. `distiller sessions list` shows them.")
    exact = [row for row in found if row.session.id == start] or found
    if len(exact) > 1:
        listed = ", ".join(f"{one.session.agent} {one.session.id}" for one in exact[:8])
        raise AmbiguousNameError(f"{start}: {len(exact)} sessions' ids start so: {listed}.")
    return exact[0]


def named_project(app: App, name: str) -> Project:
    """The project called `name` (its name, key, or a pattern that fits one).

    Raises:
        UnknownNameError: none; the message names near ones that hold facts. AmbiguousNameError: several.
    """
    projects = app.store.projects()
    exact = [project for project in projects if name in (project.name, project.key)]
    found = exact or [project for project in projects if fnmatch(project.key, name) or fnmatch(project.name, name)]
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(project.key for project in found[:8])
        raise AmbiguousNameError(f"{name}: {len(found)} projects go by that name: {listed}. Name one by its key.")
    raise UnknownNameError(f"{name}: no project goes by that name. {near(app, name, projects)}")


def near(app: App, name: str, projects: list[Project]) -> str:
    """Projects whose names are close and that hold facts, with how many; else where to look."""
    close = [project for project in projects if alike(name.lower(), project.name.lower())]
    counts = [(project, len(app.store.facts(FactQuery(scopes=(f"project:{project.key}",))))) for project in close]
    named = [f"{one.name} ({count} fact{'s' * (count != 1)})" for one, count in counts if count]
    return f"Near: {', '.join(named)}." if named else "`distiller projects` lists them."


def alike(one: str, other: str) -> bool:
    """Whether two names share most of their letters, or one holds the other."""
    from difflib import SequenceMatcher

    return one in other or other in one or SequenceMatcher(None, one, other).ratio() > 0.5  # noqa: PLR2004 -- half


def scopes_here(app: App) -> tuple[str, str]:
    """The scopes that hold in the working folder."""
    return ("user", f"project:{project_here(app).key}")
