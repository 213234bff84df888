"""`recall` and `remember`: what an agent would get, and what the person wants kept."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

import click

from distiller.surfaces.cli import output
from distiller.surfaces.cli.here import named_project, near, project_here

if TYPE_CHECKING:
    from distiller.surfaces.cli import Door
    from distiller.vocabulary import Project


@click.command()
@click.argument("query", nargs=-1, required=True)
@click.option("-k", type=click.IntRange(1, 20), default=5, show_default=True, help="At most K facts.")
@click.option("--project", metavar="NAME", help="As if asked inside that project; else this folder's.")
@click.option("--all-projects", is_flag=True, help="Search everywhere (agents cannot).")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def recall(door: Door, query: tuple[str, ...], k: int, project: str | None, all_projects: bool, as_json: bool) -> None:
    """Print the facts that answer QUERY, as an agent would get them."""
    from distiller.service import recall as use_case

    app = door.app
    asked = use_case.Recall(store=app.store, clock=app.clock, redact=app.redact, new_id=lambda: str(uuid4()))
    here = named_project(app, project) if project else project_here(app)
    answer = asked.answer(" ".join(query), project=here, k=k, everywhere=all_projects)
    if as_json:
        output.print_json(use_case.as_json(answer))
        return
    output.say(use_case.as_text(answer))
    if answer.state == "on" and not answer.facts and not all_projects:
        hint(door, here, answer.elsewhere)


def hint(door: Door, here: Project, elsewhere: int) -> None:
    """What the person may have meant, where nothing matched; an agent is told nothing of other projects."""
    from distiller.vocabulary import FactQuery

    store = door.app.store
    if not store.facts(FactQuery(scopes=(f"project:{here.key}",), limit=1)):
        others = [project for project in store.projects() if project.key != here.key]
        output.say(f"{here.name} holds no facts. {near(door.app, here.name, others)}", err=True)
    if elsewhere:
        output.say(f"{output.plural(elsewhere, 'fact')} of other projects match: --all-projects shows them.", err=True)


@click.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--name", metavar="SLUG", help="Its name; else made from the text.")
@click.option("--everywhere", is_flag=True, help="It holds in all projects; else in this folder's project.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def remember(door: Door, text: tuple[str, ...], name: str | None, everywhere: bool, as_json: bool) -> None:
    """Store TEXT as a fact in your own words; the name and kind are made from it."""
    from distiller.surfaces.cli.facts import add_fact, tell_applied

    kind = "user" if everywhere else "project"
    applied = add_fact(door.app, " ".join(text), name=name, kind=kind, everywhere=everywhere)
    tell_applied(applied, wants_json=as_json)
