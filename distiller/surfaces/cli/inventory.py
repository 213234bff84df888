"""`inventory` and `trace`: what is kept, sent and served, on one page; who was told a fact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distiller.surfaces.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distiller.service.inventory import Sent, Served, Stored
    from distiller.surfaces.cli import Door

MOST_FILES = 12


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def inventory(door: Door, as_json: bool) -> None:
    """Show on one page what is stored, sent and served, where it lies and for how long; no fact's text."""
    from distiller.service import inventory as service

    app = door.app
    page = service.inventory(
        app.store,
        app.home_files,
        keep=app.retention,
        roots=app.config.agent_roots,
        now=app.now(),
        database=app.database,
    )
    if as_json:
        output.print_json(page)
        return
    show_stored(page["stored"])
    show_sent(page["sent"])
    show_served(page["served"])
    show_places(page["lies"]["files"])
    show_read(page["read"], page["off"])


def heading(text: str) -> None:
    """A line that opens a part of the page."""
    output.say(output.style(text, bold=True))


def show_stored(kinds: Sequence[Stored]) -> None:
    """What is stored; kinds of which there is nothing are named together."""
    heading("Stored")
    for one in kinds:
        if one.rows:
            days = f"{day(one.oldest_at)} to {day(one.newest_at)}"
            output.say(f"  {one.kind:<14}{one.rows:>8,}  {output.size(one.bytes):>9}  {days:<24}  {one.kept}")
    if none := [one.kind for one in kinds if not one.rows]:
        output.say(f"  none: {', '.join(none)}")


def show_sent(models: Sequence[Sent]) -> None:
    """What left the machine."""
    heading("Sent")
    if not models:
        output.say("  nothing: no model was ever called")
    for one in models:
        cost = "price unknown" if one.cost_usd is None else output.usd(one.cost_usd)
        calls = f"{output.plural(one.calls, 'call')}, {one.tokens:,} tokens, {cost}"
        output.say(f"  {one.backend or '?'} {one.model or '?'}: {calls}, last {output.local(one.last_at)}")


def show_served(ways: Sequence[Served]) -> None:
    """Who was answered."""
    heading("Served")
    if not ways:
        output.say("  nothing: nobody asked (or it is longer ago than recalls are kept)")
    for one in ways:
        told = f"{output.plural(one.recalls, 'recall')}, {output.plural(one.facts, 'fact')} handed over"
        output.say(f"  {one.channel}, {one.agent or 'you'}: {told}, last {output.local(one.last_at)}")


def show_places(files: Sequence[dict[str, Any]]) -> None:
    """Where it lies."""
    heading("Lies in")
    for one in files[:MOST_FILES]:
        output.say(f"  {one['mode']}  {output.size(one['bytes']):>9}  {one['path']}")
    if len(files) > MOST_FILES:
        output.say(f"  and {output.plural(len(files) - MOST_FILES, 'more file')}: --json names all")


def show_read(agents: Sequence[dict[str, Any]], off: dict[str, Any]) -> None:
    """What is read, and what is switched off."""
    heading("Read")
    for one in agents:
        last = f", last {output.local(one['last_at'])}" if one["last_at"] else ""
        sessions = output.plural(one["sessions"], "session")
        output.say(f"  {one['agent']}: {sessions} so far{last}, from {', '.join(one['roots']) or '-'}")
    heading("Switched off")
    for pause in off["pauses"]:
        until = f" until {output.local(pause.until_at)}" if pause.until_at else ""
        output.say(f"  {pause.level} {pause.target} since {output.local(pause.from_at)}{until}")
    for key in off["projects"]:
        output.say(f"  reading of project {key}")
    if not off["pauses"] and not off["projects"]:
        output.say("  nothing")


def day(at: str | None) -> str:
    """A day for eyes."""
    return output.local(at)[:10]


@click.command()
@click.argument("fact")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def trace(door: Door, fact: str, as_json: bool) -> None:
    """Show who was told FACT (its name or the start of its id), and when."""
    from distiller.service import curate
    from distiller.service.inventory import trace as told
    from distiller.surfaces.cli.here import scopes_here

    app = door.app
    one = curate.find(app.store, fact, scopes=scopes_here(app))
    projects = {project.key: project for project in app.store.projects()}
    rows = told(app.store.recalls(fact_id=one.id), projects)
    if as_json:
        output.print_json(rows)
        return
    if not rows:
        days = app.retention.recall_days
        output.say(f"Nobody was told {one.name} in the {days} days for which recalls are kept.")
        return
    output.table(
        [
            (
                output.local(row["at"]), row["channel"], row["agent"] or "you", (row["session"] or "-")[:8],
                row["project"] or "-", row["query"] or "",
            )
            for row in rows
        ],
        ("when", "by", "told to", "session", "in project", "asked"),
    )  # fmt: skip
