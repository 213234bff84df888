"""An App in, what `doctor` looks at out: settings and places as the checks ask for them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from distiller.errors import SettingError
from distiller.service.examined import Key, Settled, Subject

if TYPE_CHECKING:
    from distiller.bootstrap import App
    from distiller.ports import Store
    from distiller.service.installation import ServiceStatus


def subject(app: App, *, online: bool, settings_error: str | None) -> Subject:
    """What is looked at; nothing is made, opened or asked yet."""
    from distiller.adapters.machine_linux import LinuxMachine

    home = app.config.home
    return Subject(
        machine=LinuxMachine(os.environ, program_home=str(home.state / "agent")),
        clock=app.clock,
        transcripts=app.transcripts,
        version=app.version,
        folders={name: str(getattr(home, name)) for name in ("config", "data", "state", "logs")},
        database=app.database,
        copies=app.copies(),
        live=app.live_state(),
        settings=settled(app, settings_error),
        key=partial(key, app),
        open_store=partial(reading_store, app) if app.store_exists else None,
        stored_path=app.stored_path,
        online=online,
        service=service(app),
    )


def service(app: App) -> Callable[[], ServiceStatus] | None:
    """Asks the service manager, once; None where nothing could be installed from here (a throw-away environment)."""
    try:
        installation = app.installation(started_as=sys.argv[0])
    except SettingError:
        return None
    return cache(installation.status)


def settled(app: App, error: str | None) -> Settled:
    """What the settings say."""
    settings = app.config.settings
    name = settings.backend
    return Settled(
        file=str(app.config.file),
        error=error,
        backend=name,
        model=app.backends.model(name),
        base_url=settings.anthropic.base_url,
        program=settings.claude_cli.program,
        budget=app.backends.budget(name),
        priced=app.backends.price(name) is not None,
        roots=app.config.agent_roots,
        own_roots=frozenset(agent for agent, own in settings.agents.items() if own.roots),
    )


def key(app: App) -> Key | None:
    """The key of the chosen backend."""
    found = app.backends.key(app.config.settings.backend)
    return Key(found.value, found.where) if found is not None else None


def reading_store(app: App) -> Store:
    """The store, opened only to read: a doctor migrates nothing."""
    from distiller.adapters.store_sqlite import open_store

    return open_store(str(app.config.home.data), read_only=True, busy_seconds=5)
