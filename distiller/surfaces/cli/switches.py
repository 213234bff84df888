"""`pause` and `resume`: the person's switch, for all, a project, or a session."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import click

from distiller.errors import AmbiguousNameError, UnknownNameError
from distiller.surfaces.cli import output, since
from distiller.surfaces.cli.here import named_project, project_here
from distiller.vocabulary import Pause

if TYPE_CHECKING:
    from collections.abc import Callable

    from distiller.surfaces.cli import Door


def target_options(command: Callable[..., None]) -> Callable[..., None]:
    """What is switched; all, without one of these."""
    for option in (
        click.option("--session", metavar="ID", help="One session, by the start of its id."),
        click.option("--project", metavar="GLOB", help="One project, by name, key or pattern."),
        click.option("--here", is_flag=True, help="The project of this folder."),
    ):
        command = option(command)
    return command


def target(door: Door, here: bool, project: str | None, session: str | None) -> tuple[str, str, str]:
    """(level, target, words for the person)."""
    if sum((here, project is not None, session is not None)) > 1:
        raise click.UsageError("Give one of --here, --project and --session.")
    if session is not None:
        found = door.app.store.session(session)
        if not found:
            raise UnknownNameError(f"{session}: no session's id starts so. `distiller sessions list` shows them.")
        if len(found) > 1:
            raise AmbiguousNameError(f"{session}: {len(found)} sessions' ids start so; write more of it.")
        one = found[0].session
        return "session", f"{one.agent}:{one.id}", f"session {one.id[:8]}"
    if here or project is not None:
        chosen = project_here(door.app) if here else named_project(door.app, project or "")
        return "project", chosen.key, chosen.name
    return "all", "", "everything"


@click.command()
@target_options
@click.option("--for", "span", metavar="SPAN", help="Switch on again by itself, for example after 2h.")
@click.pass_obj
def pause(door: Door, here: bool, project: str | None, session: str | None, span: str | None) -> None:
    """Switch memory off. Turns that end meanwhile are not read, unless you ask `retry --paused`."""
    level, aim, words = target(door, here, project, session)
    now = door.app.now()
    end = since.until(span, now=now)
    if here:
        door.app.store.save_project(project_here(door.app), at=now)
    door.app.store.pause(Pause(str(uuid4()), level, aim, now, end))
    until = f" until {output.local(end)}" if end else ""
    again = {"all": "", "project": f" --project {aim}", "session": f" --session {aim.rpartition(':')[2]}"}[level]
    output.say(f"Memory is off for {words}{until}. `distiller resume{again}` switches it on again.")


def end_halts(door: Door, now: str) -> list[str]:
    """Let the service try again, whatever halted it; what was ended, in words. A spent budget is not ended so."""
    from distiller.service.gate import halt_key, rest_key, resting

    store, backend = door.app.store, door.app.config.settings.backend
    halts = {key: halt for key in ("halt", halt_key(backend)) if (halt := store.setting(key))}
    ended = [f"the halt ({halt['reason']})" for halt in halts.values() if halt["reason"] != "budget"]
    if resting(store.setting(rest_key(backend)), now) is not None:
        ended.append("the backend's rest")
    for key in [*(key for key, halt in halts.items() if halt["reason"] != "budget"), rest_key(backend)]:
        if store.setting(key):
            store.set_setting(key, None, at=now)
    if ended:
        store.hold(None, from_reasons=("halted", "resting"), at=now)
    for halt in halts.values():
        if halt["reason"] == "budget":
            output.say(
                f"The day's budget stays spent until {output.local(halt['until'])}; to go on before: {halt['fix']}."
            )
    return ended


@click.command()
@target_options
@click.pass_obj
def resume(door: Door, here: bool, project: str | None, session: str | None) -> None:
    """Switch memory on again, and end a halt or a rest."""
    level, aim, words = target(door, here, project, session)
    store, now = door.app.store, door.app.now()
    ended = store.resume(level=level, target=aim, at=now)
    halts = end_halts(door, now) if level == "all" else []
    if ended or halts:
        over = f" Over is {' and '.join(halts)}; turns that waited for it are tried again now." if halts else ""
        output.say(f"Memory is on for {words}.{over}")
        return
    others = [one for one in store.pauses(at=now) if (one.level, one.target) != (level, aim)]
    hint = f" Still off: {', '.join(f'{one.level} {one.target}'.strip() for one in others)}." if others else ""
    output.say(f"Nothing was off for {words}.{hint}")
