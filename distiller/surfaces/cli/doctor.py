"""`doctor`: check everything, and say how to mend what is broken."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from distiller.surfaces.cli import output

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distiller.bootstrap import App
    from distiller.service.diagnose import Finding
    from distiller.surfaces.cli import Door

COLOURS = {"ok": "green", "warn": "yellow", "broken": "red"}


@click.command()
@click.option("--online", is_flag=True, help="Ask the backend's server whether it takes the key and knows the model.")
@click.option("-v", "--verbose", is_flag=True, help="Show what is well, too.")
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_obj
@click.pass_context
def doctor(ctx: click.Context, door: Door, online: bool, verbose: bool, as_json: bool) -> int:
    """Check everything, and say how to mend what is broken; exit code 1 if something is. Changes nothing."""
    from distiller.service.diagnose import diagnose

    app, settings_error = usable_app(ctx, door)
    findings = diagnose(app.diagnosis(online=online, settings_error=settings_error))
    if as_json:
        output.print_json(findings)
    else:
        show(findings, verbose=verbose)
    return 1 if any(finding.result == "broken" for finding in findings) else 0


def usable_app(ctx: click.Context, door: Door) -> tuple[App, str | None]:
    """The program; with the default settings, and why, where those of the person cannot be used."""
    from distiller import config
    from distiller.bootstrap import App
    from distiller.errors import SettingError

    try:
        return door.app, None
    except SettingError as error:
        given = ctx.parent.params if ctx.parent is not None else {}
        home = config.home_at(given.get("home"), os.environ)
        file = given.get("config") or os.environ.get("DISTILLER_CONFIG") or home.config / "config.toml"
        settings = config.Settings()
        roots = config.agent_roots(settings, os.environ)
        return App(config.Config(home, home.config / file, settings, {}, roots)), str(error)


def show(findings: Sequence[Finding], *, verbose: bool) -> None:
    """What is broken first, then what to look at, then how many are well."""
    well = [finding for finding in findings if finding.result == "ok"]
    for result in ("broken", "warn"):
        for finding in findings:
            if finding.result == result:
                show_one(finding)
    if verbose:
        for finding in well:
            show_one(finding)
    output.say(f"{output.plural(len(well), 'check')} ok")


def show_one(finding: Finding) -> None:
    """One finding: what is the case, and below it what to do."""
    mark = output.style(f"{finding.result:<7}", fg=COLOURS[finding.result])
    output.say(mark, output.style(f" {finding.check:<11}", bold=True), f" {' '.join(finding.evidence.split())}")
    if finding.fix:
        output.say(" " * 20, "-> ", finding.fix)
