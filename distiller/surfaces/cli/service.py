"""`service`: install, start, stop and remove distiller as a service of this account."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from distiller.surfaces.cli import output

if TYPE_CHECKING:
    from distiller.service.installation import Installation, Plan, ServiceStatus
    from distiller.surfaces.cli import Door

yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show everything, do nothing.")
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object.")


@click.group()
def service() -> None:
    """Run distiller as a service of yours: a systemd user unit, or a LaunchAgent on a Mac."""


def installation(door: Door) -> Installation:
    """The use case for this program as it was started."""
    return door.app.installation(started_as=sys.argv[0])


@service.command()
@click.option("--linger", is_flag=True, help="Let it run from boot on and after your logout.")
@click.option("--sandbox/--no-sandbox", default=None, help="Fence it in (it is, at first), or not where it cannot be.")
@yes_option
@dry_run_option
@click.pass_obj
def install(door: Door, linger: bool, sandbox: bool | None, yes: bool, dry_run: bool) -> int:
    """Install and start the service, or bring an installed one up to date. Shows first what is changed."""
    use = installation(door)
    plan = use.plan_install(linger=linger, sandbox=sandbox)
    show(plan, in_full=dry_run)
    if dry_run:
        output.say("Nothing was changed.")
        return 0
    if not agreed(yes):
        return 1
    door.app.make_home()
    carry_out(use, plan)
    status = use.status()
    say_status(status)
    if status.healthy:
        output.say("`distiller status` says how it fares; `distiller service uninstall` takes all this back.")
    return 0 if status.healthy else 1


@service.command()
@click.option("--purge", is_flag=True, help="Remove settings, keys, facts, backups and logs too. There is no undo.")
@yes_option
@dry_run_option
@click.pass_obj
def uninstall(door: Door, purge: bool, yes: bool, dry_run: bool) -> int:
    """Stop the service and take back what `install` changed. Your facts stay, unless you say --purge."""
    use = installation(door)
    plan = use.plan_uninstall(purge=purge)
    if not plan.steps:
        output.say("Nothing is installed; nothing was changed.")
        return 0
    show(plan, in_full=False)
    if dry_run:
        output.say("Nothing was changed.")
        return 0
    if not agreed(yes, question="Remove all facts for good?" if purge else "Go on?"):
        return 1
    carry_out(use, plan)
    output.say("Removed." if purge else "Uninstalled. Settings, facts and logs are where they were (--purge).")
    return 0


@service.command()
@click.pass_obj
def start(door: Door) -> int:
    """Start it."""
    return control(door, "start")


@service.command()
@click.pass_obj
def stop(door: Door) -> int:
    """Stop it until the next login. Nothing is lost: what ends meanwhile is read later."""
    return control(door, "stop")


@service.command()
@click.pass_obj
def restart(door: Door) -> int:
    """Stop and start it."""
    return control(door, "restart")


@service.command()
@json_option
@click.pass_obj
def status(door: Door, as_json: bool) -> int:
    """Show how it is installed and whether it runs; exit code 1 if not, or not as this version would have it."""
    found = installation(door).status()
    if as_json:
        output.print_json(found)
    else:
        say_status(found)
    return 0 if found.healthy else 1


# -- showing -----------------------------------------------------------------------------------------------------
def show(plan: Plan, *, in_full: bool) -> None:
    """What will be done, a line each."""
    output.say(output.style("This will be done:", bold=True))
    wide = max((len(step.target) for step in plan.steps), default=0)
    for step in plan.steps:
        output.say(f"  {step.act:<7} {step.target:<{min(wide, 70)}}  ", output.style(step.why, dim=True))
        if in_full and step.text is not None:
            output.say("".join(f"  | {line}\n" for line in step.text.splitlines()).rstrip("\n"))
    for note in plan.notes:
        output.say(f"  {note}")


def agreed(yes: bool, *, question: str = "Go on?") -> bool:
    """Whether the person wants it; without a terminal --yes must be said."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise click.UsageError("There is no terminal to ask on; say --yes. Nothing was changed.")
    if click.confirm(question):
        return True
    output.say("Nothing was changed.")
    return False


def carry_out(use: Installation, plan: Plan) -> None:
    """Do it; only what went otherwise than planned is worth a line."""
    for step, said in use.carry_out(plan):
        if said:
            output.say(f"  {step.target}: {said}")


def control(door: Door, act: str) -> int:
    """Do it and show how things are then."""
    found = installation(door).control(act)
    say_status(found)
    return 0 if (found.state == "inactive") == (act == "stop") else 1


def say_status(status: ServiceStatus) -> None:
    """One line on how it is, one for each thing that is wrong, one on what to do."""
    from distiller.service.installation import STALE

    colour = "green" if status.healthy else "yellow" if status.state == "active" else "red"
    said = [status.text] if status.text and status.pid else []
    said += [f"pid {status.pid}"] if status.pid else []
    said += [f"restarted {output.plural(status.restarts, 'time')}"] if status.restarts else []
    said += [f"{status.result}, exit code {status.exit_code}"] if status.exit_code and not status.pid else []
    output.say("The service is ", output.style(status.state, fg=colour), *(f", {part}" for part in said), ".")
    if status.state in {"not-installed", "no-manager"}:
        output.say(f"{'' if status.state == 'no-manager' else 'Do: '}{status.fix}")
        return
    output.say(f"  starts  {' '.join(status.command)}{'' if status.enabled else '  (not with the next login)'}")
    output.say(f"  by      {status.file}")
    for code in status.stale:
        output.say("  stale   ", output.style(STALE[code], fg="yellow"))
    if status.linger is False:
        output.say("  ends with your last logout (`distiller service install --linger` changes that)")
    if status.fix:
        output.say(f"Do: {status.fix}")
