"""`week`: the last seven days for a person, on a screen of 80 columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distiller.surfaces.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distiller.service.week import Line
    from distiller.surfaces.cli import Door

WIDTH = 80
MOST_LINES = 8
PARTS = (  # key, heading, most lines
    ("new", "New facts", MOST_LINES),
    ("changed", "Changed", MOST_LINES),
    ("ended", "Retired or expired", MOST_LINES),
    ("forgotten", "Forgotten (back with `distiller facts undo`)", MOST_LINES),
    ("candidates", "Said once; said in another session it becomes a fact", 5),
    ("proposals", "Changes proposed to facts of yours", MOST_LINES),
    ("quarantined", "Quarantined: gives orders or hides itself; served to nobody", MOST_LINES),
)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def week(door: Door, as_json: bool) -> None:
    """Show what came in, changed, was recalled and waits for you, over seven days."""
    from distiller.service import week as service

    app = door.app
    page = service.week(
        app.store, clock=app.clock, live=app.live_state(), backend=app.config.settings.backend
    )  # fmt: skip
    if as_json:
        output.print_json(page)
        return
    say(f"{output.local(page['since'])[:10]} to {output.local(page['until'])[:10]}")
    for key, heading, most in PARTS:
        show_lines(page[key], heading, most)
    show_numbers(page)
    for trouble in page["stuck"]:
        output.say(output.style("! ", fg="red"), fitted(trouble.text, 2))
    say(f"Next: {page['next']}")


def say(text: str) -> None:
    """One line that fits."""
    output.say(fitted(text))


def fitted(text: str, taken: int = 0) -> str:
    """Text cut to what is left of a line."""
    return output.one_line(text, WIDTH - taken)


def show_lines(lines: Sequence[Line], heading: str, most: int) -> None:
    """One part of the page; nothing where there is nothing."""
    if not lines:
        return
    output.say(output.style(fitted(f"{heading}: {len(lines)}"), bold=True))
    for one in lines[:most]:
        output.say("  ", fitted(f"{one.name} — {one.summary}", 2))
    if len(lines) > most:
        say(f"  and {len(lines) - most} more")


def show_numbers(page: dict[str, Any]) -> None:
    """Recalls, turns by day, money."""
    recalled = page["recalled"]
    say(
        f"Recalled {output.plural(recalled['recalls'], 'time')}, {output.plural(recalled['facts'], 'fact')} told, "
        f"{recalled['empty']:,} without an answer"
    )
    if not page["turns"]:
        say("Turns: none settled")
    for row in page["turns"]:
        counts = [f"{row[name]:,} {name}" for name in ("kept", "empty", "skipped", "dead") if row[name]]
        say(f"Turns on {row['day']}: {', '.join(counts)}")
    calls = sum(one.calls for one in page["cost"])
    known = [one.cost_usd for one in page["cost"] if one.cost_usd is not None]
    cost = output.usd(sum(known)) if known or not calls else "price unknown"
    say(f"Cost: {output.plural(calls, 'model call')}, {cost}")
