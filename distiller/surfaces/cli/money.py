"""`cost`: what the model calls cost, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from distiller.surfaces.cli import output
from distiller.surfaces.cli.since import since as since_time

if TYPE_CHECKING:
    from distiller.service.spending import DayCost
    from distiller.surfaces.cli import Door


@click.command()
@click.option("--since", metavar="T", default="30d", show_default=True, help="From a time, or a span such as 7d.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def cost(door: Door, since: str, as_json: bool) -> None:
    """Show what the model calls cost, by day and model. The embedded backend makes none."""
    from distiller.service import spending

    app = door.app
    since_at = since_time(since, now=app.now()) or ""
    days = spending.by_day(app.store.spending(since=since_at), app.clock.local_date)
    if as_json:
        output.print_json(days)
        return
    if not days:
        output.say("No model was called in that time, and nothing was spent.")
        return
    head = ("day", "backend", "model", "turns", "calls", "tokens in", "out", "from cache", "cost")
    output.table([row(day) for day in days], head)
    known = [day for day in days if day.cost_usd is not None]
    turns, usd = sum(day.turns for day in known), sum(day.cost_usd or 0 for day in known)
    if not turns:
        output.say('No price is known for these; set prices."MODEL".input and .output (USD per million tokens).')
        return
    as_of = app.backends.catalog.as_of
    output.say(f"In all {output.usd(usd)}, {output.usd(usd / turns)} a turn; prices of {as_of} or your own.")


def row(day: DayCost) -> tuple[str, ...]:
    """One day of a model, for eyes."""
    read = day.input_tokens + day.cache_write_tokens
    cost_usd = "?" if day.cost_usd is None else output.usd(day.cost_usd)
    counts = (day.turns, day.calls, read, day.output_tokens, day.cache_read_tokens)
    return (day.day, day.backend or "?", day.model or "?", *(f"{count:,}" for count in counts), cost_usd)
