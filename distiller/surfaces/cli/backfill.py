"""`backfill`: read old sessions, with a progress bar, and say what came of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
import msgspec

from distiller.config import BACKENDS
from distiller.errors import UsageError
from distiller.service.backfill import Options, Progress
from distiller.service.backfill_report import Report
from distiller.surfaces.cli import output
from distiller.surfaces.cli.since import since as since_time
from distiller.vocabulary import FactQuery

if TYPE_CHECKING:
    from collections.abc import Callable

    from distiller.bootstrap import App
    from distiller.ports import Store
    from distiller.surfaces.cli import Door


@click.command()
@click.argument("paths", nargs=-1, type=click.Path())
@click.option("--since", metavar="T", help="Turns since a time, or within a span such as 30d.")
@click.option("--project", metavar="GLOB", help="Projects whose name or key fits.")
@click.option("--agent", metavar="NAME", help="One agent's sessions.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), help="Distil at most N turns.")
@click.option(
    "--max-cost",
    type=click.FloatRange(0, 1_000_000),
    metavar="$",
    help="Money for these calls, in place of the day's budget; stop when it is spent.",
)
@click.option("--backend", type=click.Choice(BACKENDS), help="Instead of the backend of the settings.")
@click.option("--preview", is_flag=True, help="Show what would come of it; nothing is stored or sent.")
@click.option("--again", is_flag=True, help="Also turns that are settled: each gets a new pass; your edits stay.")
@click.option("--settled-by", metavar="BACKEND", help="With --again: only turns which that backend settled.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON object.")
@click.pass_obj
def backfill(door: Door, /, paths: tuple[str, ...], preview: bool, as_json: bool, yes: bool, **chosen: Any) -> int:
    """Read old sessions (all agents', or files and folders PATHS), newest first.

    Safe to stop with Ctrl-C and to run again: what is settled is known.
    """
    app = door.app
    backend = chosen["backend"] or app.config.settings.backend
    check_max_cost(app, backend, chosen["max_cost"])
    if chosen["settled_by"] and not chosen["again"]:
        raise UsageError("--settled-by goes with --again; nothing was read.")
    options = Options(
        paths=paths,
        since=since_time(chosen["since"], now=app.now()),
        project=chosen["project"],
        agent=chosen["agent"],
        limit=chosen["limit"],
        again=chosen["again"],
        settled_by=chosen["settled_by"],
    )
    asking = app.backends.model(backend) is not None
    if not preview and (asking or chosen["again"]):
        tell_price(app, options, backend, again=chosen["again"], yes=yes)
    report = Report(preview=preview)
    with ExitStack() as stack:
        store = stack.enter_context(app.scratch_store()) if preview else app.store
        if not preview:
            app.free_dead_leases(store)
        interrupted = run(app, store, options, report, backend, chosen["max_cost"])
        if as_json:
            output.print_json(msgspec.to_builtins(report) | {"errors": msgspec.to_builtins(report.errors)})
        elif preview and asking:
            output.say(price_line(app, report, backend))
            output.say("Nothing was stored or sent. Without --preview it is.")
        else:
            show(report, store)
    if interrupted:
        output.say("Stopped; what was settled stays, the same command goes on.", err=True)
    return 3 if report.errors or report.stopped else 0


def check_max_cost(app: App, backend: str, max_cost: float | None) -> None:
    """A limit in dollars needs a number and a price.

    Raises:
        UsageError: one of them is missing.
    """
    if max_cost is None:
        return
    if not max_cost >= 0:
        raise UsageError("--max-cost is a number of dollars; nothing was read.")
    model = app.backends.model(backend)
    if model is not None and app.backends.price(backend) is None:
        raise UsageError(
            f"The price of {model} is not known, so --max-cost cannot be held. Say it (USD per million tokens): "
            f"`distiller config set 'prices.\"{model}\".input' 0.10`, the same for .output; or use --limit. "
            "Nothing was read."
        )


def tell_price(app: App, options: Options, backend: str, *, again: bool, yes: bool) -> None:
    """Say what it will cost, and ask before it does where a person can answer; `--again` needs a yes in any case."""
    if app.backends.model(backend) is not None:
        report = Report(preview=True)
        with app.scratch_store() as store:
            if run(app, store, options, report, backend, None):
                raise click.Abort
        output.say(price_line(app, report, backend), err=True)
        if not report.calls:
            return
    if yes:
        return
    if sys.stdin.isatty():
        click.confirm("Distil settled turns again?" if again else "Go on?", abort=True, err=True)
    elif again:
        raise UsageError("New passes over settled turns? Say --yes; nothing was read.")


def price_line(app: App, report: Report, backend: str) -> str:
    """What the calls would cost, for eyes."""
    model = app.backends.model(backend)
    asked = f"{output.plural(report.calls, 'turn')} would be read by {model}"
    amount = f"about {report.input_tokens + report.output_tokens:,} tokens"
    if not report.calls:
        return f"No turn is left for {model} to read; this costs nothing."
    if app.backends.price(backend) is None:
        return f"{asked}: {amount}; its price is not known here."
    return f"{asked}: {amount}, about {output.usd(report.cost_usd)} ({app.backends.whose_price(backend)})."


def run(app: App, store: Store, options: Options, report: Report, backend: str, max_cost_usd: float | None) -> bool:
    """Do it, with a progress bar on a terminal; whether Ctrl-C ended it."""
    notifier = app.notifier() if not report.preview else app.silent_notifier()
    with progress_bar(
        "pricing" if report.preview and app.backends.model(backend) else "reading", report
    ) as show_progress:
        work = app.backfill(
            store, notifier, options=options, report=report, progress=show_progress, backend=backend,
            max_cost_usd=max_cost_usd,
        )  # fmt: skip
        try:
            asyncio.run(work.run())
        except KeyboardInterrupt:
            report.stopped = "interrupted"
            return True
        finally:
            notifier.close()
    return False


def spent(report: Report) -> str:
    """What the calls cost: money, or tokens where no price is known."""
    if report.calls and not report.cost_usd:
        return f"{report.input_tokens + report.output_tokens:,} tokens"
    return output.usd(report.cost_usd)


class progress_bar:  # noqa: N801 -- used as a context manager
    """A bar over bytes on stderr of a terminal; silent elsewhere."""

    def __init__(self, name: str, report: Report) -> None:
        self._name = name
        self._report = report

    def __enter__(self) -> Callable[[Progress], None]:
        if not sys.stderr.isatty():
            self._bar = None
            return lambda _: None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task(self._name, total=None)
        bar = self._bar
        return lambda at: bar.update(task, completed=at.done_bytes, total=at.all_bytes, description=self._words())

    def _words(self) -> str:
        """What is being done, and what it has cost so far."""
        report = self._report
        return f"{self._name}, {output.plural(report.calls, 'call')}, {spent(report)}" if report.calls else self._name

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def show(report: Report, store: Store) -> None:
    """What came of it, for eyes."""
    would = "would be " if report.preview else ""
    output.say(
        f"{output.plural(report.files, 'file')}, {output.plural(report.sessions, 'session')}, "
        f"{output.plural(report.turns, 'turn')} ({output.size(report.bytes)} in {report.seconds:.1f} s)"
    )
    skipped = sum(report.skipped.values())
    for count, words in (
        (report.kept, f"{would}kept"),
        (report.empty, "empty: nothing kept (`distiller why TURN` says why)"),
        (skipped, "skipped: " + ", ".join(f"{count} {reason}" for reason, count in sorted(report.skipped.items()))),
        (report.known, "known already"),
        (report.open, "not finished yet"),
        (report.waiting, "waiting"),
        (report.dead, "dead: `distiller retry` tries them again"),
    ):
        if count:
            output.say(f"  {count:>6,} {words}")
    output.say(
        f"{output.plural(report.facts_added, 'fact')} {would}added, {report.facts_updated} {would}updated, "
        f"{output.plural(report.candidates, 'candidate')}, {output.plural(report.calls, 'model call')}, "
        f"{spent(report)}"
    )
    if report.preview:
        for fact in store.facts(FactQuery(limit=50)):
            output.say(f"  {fact.name}: {output.one_line(fact.summary, output.width() - len(fact.name) - 5)}")
        output.say("Nothing was stored or sent. Without --preview it is.")
    for error in report.errors[:20]:
        output.say(f"  ! {error.file}: {error.reason}")
    if report.stopped:
        why = f": {report.explanation}" if report.explanation else "."
        output.say(f"Stopped ({report.stopped}){why} What was settled stays; the rest waits.")
