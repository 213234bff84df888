"""`run`, `status`, `logs`: the service and how it fares."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from distiller.surfaces.cli import output
from distiller.surfaces.cli.since import since as since_time

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distiller.surfaces.cli import Door
    from distiller.vocabulary import Pause


@click.command()
@click.option("--once", is_flag=True, help="Read and distil what is there now, then end; 3 if a turn waits or died.")
@click.pass_obj
def run(door: Door, once: bool) -> int:
    """Run the service in the foreground until Ctrl-C or SIGTERM."""
    from distiller.errors import DistillerError
    from distiller.surfaces import running

    if not once and sys.stderr.isatty():
        output.say(
            f"distiller reads {', '.join(door.app.roots) or 'nothing'}; Ctrl-C ends it, nothing is lost.", err=True
        )
    try:
        return running.leaving(door.app, running.run(door.app, once=once))
    except DistillerError as error:
        if (code := running.leaving(door.app, error.exit_code)) == error.exit_code:
            raise
        output.say(f"distiller: {error}", err=True)
        return code


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def status(door: Door, as_json: bool) -> int:
    """Show how things are now; exit code 1 if something is wrong."""
    from distiller.service import report

    app = door.app
    backend = app.config.settings.backend
    state = report.status(
        app.store,
        files=report.listed(app.transcripts),
        live=app.live_state(),
        version=app.version,
        backend=backend,
        model=app.backends.model(backend),
        budget=app.backends.budget(backend),
        priced=app.backends.price(backend) is not None,
        clock=app.clock,
        roots=app.config.agent_roots,
        path=app.database,
        stored_path=app.stored_path,
        keep_days=app.transcripts.keep_days,
    )
    if as_json:
        output.print_json(state)
    else:
        show_status(state, app.store.pauses(at=app.now()))
    return 0 if state["healthy"] else 1


def show_status(state: dict[str, Any], pauses: Sequence[Pause]) -> None:
    """The state of things for someone who looks at 3 a.m.: what is wrong first, then numbers."""
    show_state(state, pauses)
    show_work(state)
    show_today(state)
    backlog = state["backlog"]
    if backlog.sessions:
        output.say(
            f"backlog  {output.plural(backlog.sessions, 'old session')}, {output.size(backlog.bytes)}, oldest "
            f"{output.local(backlog.oldest_at)}: `distiller backfill --preview`"
        )
    if backlog.expiring:
        output.say(f"  {output.plural(backlog.expiring, 'session')} will soon be deleted by their agent: backfill now")
    for agent in state["agents"]:
        output.say(
            f"reads    {agent.agent}: {output.plural(agent.sessions, 'session')} in {', '.join(agent.roots) or '-'}"
        )
    lines = state["lines"]
    odd = {key: lines[key] for key in ("malformed", "too_long") if lines[key]} | lines["unknown"]
    if odd:
        output.say(f"lines    passed over: {counted(odd)}")
    if state["last_error"]:
        output.say(f"error    {output.local(state['last_error']['at'])} {state['last_error']['text']}")


def show_today(state: dict[str, Any]) -> None:
    """What was spent today, against the budget, and why turns wait where that is no fault."""
    today, note = state["today"], state["note"]
    cost = "price unknown" if today["calls"] and today["cost_usd"] is None else output.usd(today["cost_usd"] or 0)
    spent = f"{output.plural(today['calls'], 'model call')}, {cost}"
    if state["backend"]["model"]:
        usd, tokens = today["budget_usd"], today["budget_tokens"]
        limits = [] if tokens is None else [f"{tokens:,} tokens"]
        limits += (
            [] if usd is None else [output.usd(usd) if state["priced"] else f"{output.usd(usd)}, not held: no price"]
        )
        spent += f", {today['tokens']:,} tokens (budget: {' and '.join(limits) or 'none'})"
    output.say(f"today    {spent}")
    if note:
        until = state["until"] or state["backend"]["resting_until"]
        output.say(f"  {note}" + (f" It goes on by itself {output.local(until)}." if until else ""))


def show_state(state: dict[str, Any], pauses: Sequence[Pause]) -> None:
    """Whether it runs, what is wrong, and what is switched off."""
    colour = "green" if state["healthy"] else "red"
    mark = output.style(state["state"], fg=colour, bold=True)
    since = f" since {output.local(state['since'])}" if state["since"] else ""
    until = f" until {output.local(state['until'])}" if state["until"] else ""
    pid = f", pid {state['daemon']['pid']}" if state["state"] != "stopped" and state["daemon"]["pid"] else ""
    reason = f" ({state['reason']})" if state["reason"] else ""
    asked = f", {state['backend']['model']}" if state["backend"]["model"] else ""
    how = f"{reason}{since}{until}{pid} (backend {state['backend']['name']}{asked})"
    output.say(f"distiller {state['version']}: ", mark, how)
    for problem in state["problems"]:
        output.say("  ", output.style("!", fg="red"), f" {problem.text} Fix: {problem.fix}")
    for pause in pauses:
        if pause.level != "all":
            ends = f" until {output.local(pause.until_at)}" if pause.until_at else ""
            output.say(f"paused   {pause.level} {pause.target} since {output.local(pause.from_at)}{ends}")


def show_work(state: dict[str, Any]) -> None:
    """What became of the turns, and the facts there are."""
    turns = state["turns"]
    output.say(f"turns    {counted(turns) or 'none yet'}")
    for name in ("waiting", "skipped", "dead"):
        if state[name]:
            output.say(f"  {name:<8} {counted(state[name])}")
    if state["turns"].get("dead"):
        output.say("  dead turns keep their text for a while: `distiller retry` tries them again")
    if state["oldest_waiting_at"]:
        output.say(f"  oldest waiting since {output.local(state['oldest_waiting_at'])}")
    output.say(f"facts    {counted(state['facts']) or 'none yet'}; {output.plural(state['candidates'], 'candidate')}")
    if state["proposals"]:
        changes = output.plural(state["proposals"], "change")
        output.say(f"  {changes} proposed to facts that are yours: `distiller facts show NAME`")


def counted(counts: dict[str, int]) -> str:
    """`3 kept, 40 empty`; zeros left out."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on as lines come, through rotation.")
@click.option(
    "-n", "count", type=click.IntRange(0, 1_000_000), default=None, help="Last N lines (20 with -f, else 200)."
)
@click.option("--level", type=click.Choice(["debug", "info", "warning", "error"]), help="This level and worse.")
@click.option("--since", metavar="T", help="From a time, or a span such as 10m.")
@click.option("--turn", metavar="ID", help="One turn's lines.")
@click.option("--grep", metavar="RE", help="Lines in which this expression is found.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines as they stand in the file (also when piped).")
@click.pass_obj
def logs(
    door: Door, follow: bool, count: int | None, level: str | None, since: str | None, turn: str | None,
    grep: str | None, as_json: bool,
) -> int:  # fmt: skip
    """Show what the service did, readable on a terminal, JSON when piped."""
    from distiller.surfaces.cli import logview

    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    app = door.app
    try:
        pattern = re.compile(grep) if grep else None
    except re.error as error:
        raise click.BadParameter(f"--grep: {error}") from None
    wanted = logview.Filter(level, since_time(since, now=app.now()), turn, pattern)
    raw = as_json or not sys.stdout.isatty()
    show = logview.shower(raw=raw)
    if not os.path.exists(app.log_file):
        output.say(f"No log yet; it will be at {app.log_file}", err=True)
    last = count if count is not None else 20 if follow else 200
    with logview.Log(app.log_file) as log:
        for line in log.last(last, wanted):
            show(line)
        if not follow:
            return 0
        try:
            while True:
                lines = log.fresh()
                for line in lines:
                    if wanted.fits(line):
                        show(line)
                sys.stdout.flush()
                if not lines:
                    time.sleep(logview.POLL_SECONDS)
        except KeyboardInterrupt:
            return 0
