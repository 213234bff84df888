"""`sessions` and `projects`: whose talk was read, what came of it, and which folders are one project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distiller.service import report
from distiller.surfaces.cli import output
from distiller.surfaces.cli.here import named_project, named_session
from distiller.vocabulary import FactQuery, SessionRow, TurnQuery

if TYPE_CHECKING:
    from distiller.bootstrap import App
    from distiller.surfaces.cli import Door


@click.group()
def sessions() -> None:
    """List the agents' sessions and what came of them."""


@sessions.command(name="list")
@click.option("--agent", metavar="NAME", help="One agent's.")
@click.option("--project", metavar="NAME", help="One project's.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=30, show_default=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def list_(door: Door, agent: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List sessions, latest first."""
    app = door.app
    key = named_project(app, project).key if project else None
    rows = objects(app, app.store.sessions(agent=agent, project_key=key, limit=limit))
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        output.say("No sessions were read yet.")
        return
    output.table(
        [
            (
                row["id"][:8], row["agent"], output.local(row["last_at"]), row["role"],
                f"{row['turns']}", f"{row['kept']}", f"{row['waiting']}", row["project"] or "-", row["title"] or "",
            )
            for row in rows
        ],
        ("id", "agent", "last", "whose", "turns", "kept", "waiting", "project", "title"),
    )  # fmt: skip


@sessions.command()
@click.argument("session")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def show(door: Door, session: str, as_json: bool) -> None:
    """Show one session (by the start of its id): each turn and how it ended."""
    app = door.app
    row = objects(app, [named_session(app, session)])[0]
    turns = app.store.turns(TurnQuery(agent=row["agent"], session_id=row["id"]))
    row["items"] = [
        {
            "turn": one.id, "revision": one.revision, "prompt_at": one.prompt_at, "ended_at": one.ended_at,
            "end_sign": one.end_sign.value, "state": one.state.value, "reason": one.reason, "prompt": one.prompt,
        }
        for one in reversed(turns)
    ]  # fmt: skip
    if as_json:
        output.print_json(row)
        return
    title = f" {row['title']}" if row["title"] else ""
    output.say(output.style(row["id"], bold=True), f" ({row['agent']}, {row['role']}){title}")
    output.say(f"  {row['cwd'] or '-'}, {output.local(row['started_at'])} to {output.local(row['last_at'])}")
    if row["file"]:
        output.say(f"  {row['file']}")
    if row["items"]:
        output.table(
            [
                (
                    one["turn"],
                    output.local(one["prompt_at"]),
                    one["state"] + (f" ({one['reason']})" if one["reason"] else ""),
                    one["prompt"],
                )
                for one in row["items"]
            ],
            ("turn", "when", "how it ended", "prompt"),
        )


def objects(app: App, rows: list[SessionRow]) -> list[dict[str, Any]]:
    """Sessions as `--json` prints them."""
    files = {file.path: file for file in app.transcripts.sessions()}
    names = {project.key: project.name for project in app.store.projects()}
    first_start = app.store.setting("first_start_at") or app.now()
    pauses = app.store.pauses(at=app.now())
    return [one_object(row, files, names, first_start, {(one.level, one.target) for one in pauses}) for row in rows]


def one_object(
    row: SessionRow, files: dict[str, Any], names: dict[str, str], first_start: str, paused: set[tuple[str, str]]
) -> dict[str, Any]:
    """One session as `--json` prints it."""
    session = row.session
    file = files.get(row.file or "")
    off = {("all", ""), ("project", row.project_key or ""), ("session", f"{session.agent}:{session.id}")}
    return {
        "agent": session.agent,
        "id": session.id,
        "title": session.title,
        "project": names.get(row.project_key or ""),
        "cwd": session.cwd,
        "model": session.model,
        "role": session.role.value,
        "parent": session.parent_id,
        "started_at": session.started_at,
        "last_at": session.last_at,
        "state": report.session_state(row, files, first_start),
        "turns": sum(row.turns.values()),
        **{state.value: row.turns.get(state.value, 0) for state in report.ORDER},
        "facts": row.facts,
        "bytes": file.size_bytes if file else None,
        "file": row.file,
        "paused": bool(off & paused),
        "off_record": row.off_record_at is not None,
    }


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_context
def projects(ctx: click.Context, as_json: bool) -> None:
    """Show which folders are one project; `alias` mends it."""
    if ctx.invoked_subcommand is not None:
        return
    app = ctx.obj.app
    rows = [project_object(app, project) for project in app.store.projects() if project.alias_of is None]
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        output.say("No projects yet.")
        return
    output.table(
        [
            (row["name"], f"{row['facts']}", f"{row['turns']}", "off" if row["reading"] == "off" else "on", row["key"])
            for row in rows
        ],
        ("project", "facts", "turns", "reading", "key"),
    )


def project_object(app: App, project: Any) -> dict[str, Any]:
    """One project as `--json` prints it."""
    store = app.store
    paused = any(pause.target in ("", project.key) and pause.level != "session" for pause in store.pauses(at=app.now()))
    return {
        "key": project.key,
        "name": project.name,
        "remote": project.remote,
        "folders": list(project.folders),
        "aliases": [one.key for one in store.projects() if one.alias_of == project.key],
        "reading": project.reading,
        "paused": paused,
        "sessions": len(store.sessions(project_key=project.key)),
        "turns": len(store.turns(TurnQuery(project_key=project.key))),
        "facts": len(store.facts(FactQuery(scopes=(f"project:{project.key}",)))),
    }


@projects.command()
@click.argument("name")
@click.argument("of")
@click.pass_obj
def alias(door: Door, name: str, of: str) -> None:
    """Make NAME another name of the project OF; its facts move along."""
    app = door.app
    one, other = named_project(app, name), named_project(app, of)
    if one.key == other.key:
        raise click.UsageError("That is one project already.")
    moved = app.store.alias_project(one.key, other.key, at=app.now())
    output.say(f"{one.name} is {other.name} from now on; {output.plural(moved, 'fact')} moved.")


@projects.command()
@click.argument("name")
@click.argument("reading", type=click.Choice(["on", "off"]))
@click.pass_obj
def read(door: Door, name: str, reading: str) -> None:
    """Answer whether a project may be read, where the setting `projects` is `ask` or `listed`."""
    import msgspec

    app = door.app
    project = named_project(app, name)
    app.store.save_project(msgspec.structs.replace(project, reading=reading), at=app.now())
    if reading == "on":
        app.store.hold(None, from_reasons=("project",), at=app.now())
    output.say(f"Reading is {reading} for {project.name}.")
