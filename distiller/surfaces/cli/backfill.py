"""`backfill`: read old sessions, with a progress bar, and say what came of it."""

from __future__ import annotations

import asyncio
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
import msgspec

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
    "--max-cost", type=click.FloatRange(0, 1_000_000), metavar="$", help="Stop when the calls have cost this much."
)
@click.option("--backend", type=click.Choice(["embedded"]), help="Instead of the backend of the settings.")
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
    if chosen["max_cost"] is not None and not chosen["max_cost"] >= 0:
        raise UsageError("--max-cost is a number of dollars; nothing was read.")
    if chosen["settled_by"] and not chosen["again"]:
        raise UsageError("--settled-by goes with --again; nothing was read.")
    options = Options(
        paths=paths,
        since=since_time(chosen["since"], now=app.now()),
        project=chosen["project"],
        agent=chosen["agent"],
        limit=chosen["limit"],
        max_cost_usd=chosen["max_cost"],
        again=chosen["again"],
        settled_by=chosen["settled_by"],
    )
    if chosen["again"] and not yes and not preview:
        ask_again()
    report = Report(preview=preview)
    with ExitStack() as stack:
        store = stack.enter_context(app.scratch_store()) if preview else app.store
        if not preview:
            app.free_dead_leases(store)
        interrupted = run(app, store, options, report)
        if as_json:
            output.print_json(msgspec.to_builtins(report) | {"errors": msgspec.to_builtins(report.errors)})
        else:
            show(report, store)
    if interrupted:
        output.say("Stopped; what was settled stays, the same command goes on.", err=True)
    return 3 if report.errors or report.stopped else 0


def ask_again() -> None:
    """New passes over settled turns are asked for once."""
    if not sys.stdin.isatty():
        raise UsageError("New passes over settled turns? Say --yes; nothing was read.")
    click.confirm("Distil settled turns again (with the embedded backend this costs nothing)?", abort=True)


def run(app: App, store: Store, options: Options, report: Report) -> bool:
    """Do it, with a progress bar on a terminal; whether Ctrl-C ended it."""
    notifier = app.notifier() if not report.preview else app.silent_notifier()
    with progress_bar() as show_progress:
        work = app.backfill(store, notifier, options=options, report=report, progress=show_progress)
        try:
            asyncio.run(work.run())
        except KeyboardInterrupt:
            report.stopped = "interrupted"
            return True
        finally:
            notifier.close()
    return False


class progress_bar:  # noqa: N801 -- used as a context manager
    """A bar over bytes on stderr of a terminal; silent elsewhere."""

    def __enter__(self) -> Callable[[Progress], None]:
        if not sys.stderr.isatty():
            self._bar = None
            return lambda _: None
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        columns = (TextColumn("reading"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
        self._bar = Bar(*columns, console=Console(stderr=True), transient=True)
        self._bar.start()
        task = self._bar.add_task("read", total=None)
        bar = self._bar
        return lambda at: bar.update(task, completed=at.done_bytes, total=at.all_bytes)

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
        (report.empty, "empty: nothing durable in them"),
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
        f"{output.plural(report.candidates, 'candidate')}, cost ${report.cost_usd:.2f}"
    )
    if report.preview:
        for fact in store.facts(FactQuery(limit=50)):
            output.say(f"  {fact.name}: {output.one_line(fact.summary, output.width() - len(fact.name) - 5)}")
        output.say("Nothing was stored or sent. Without --preview it is.")
    for error in report.errors[:20]:
        output.say(f"  ! {error.file}: {error.reason}")
    if report.stopped:
        output.say(f"Stopped: {report.stopped}.")
