"""`purge` and `scrub`: remove what came from a project, a session, a time; remove a text wherever it stands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from distiller.errors import PartlyDoneError
from distiller.surfaces.cli import output
from distiller.surfaces.cli.here import named_session
from distiller.surfaces.cli.since import since as since_time
from distiller.vocabulary import Purge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from distiller.bootstrap import App
    from distiller.service.removal import Done, Found
    from distiller.surfaces.cli import Door
    from distiller.vocabulary import Project

WORDS = {  # what people read for what the store counts
    "turns": "turns lose text and prompt; they stay in the ledger as skipped (purged)",
    "waiting_texts": "of them still wait, with their text",
    "facts": "facts that rest on them alone, with their history",
    "quotes": "quotes",
    "candidates": "candidates",
    "proposals": "proposals",
    "notes": "session notes",
    "answers": "questions to a model and its answers",
    "recalls": "recalls",
    "runs": "run records",
}
TABLES = {
    "evidence": "quotes",
    "fact_history": "history",
    "passes": "questions and answers",
    "cursors": "files read",
    "runs": "run records",
    "settings": "settings kept in the store",
}


@click.command()
@click.option("--project", metavar="GLOB", help="What came from projects, by name, key or pattern.")
@click.option("--session", metavar="ID", help="What came from one session (the start of its id).")
@click.option("--before", metavar="DATE", help="Turns that ended before then; a date, a time, or a span such as 90d.")
@click.option("--since", metavar="DATE", help="Turns that ended since then.")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def purge(
    door: Door, project: str | None, session: str | None, before: str | None, since: str | None, dry_run: bool,
    yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Remove what came from a project, a session, a time: together they narrow. Backups too; there is no undo.

    Facts that also rest on other turns stay, without the quotes. The turns stay in the ledger without text, so that
    backfill does not bring them back. The agents' own session files are never changed.
    """
    from distiller.service import removal

    app = door.app
    if all(one is None for one in (project, session, before, since)):
        raise click.UsageError("Say what: --project, --session, --before or --since.")
    projects = removal.projects_named(app.store, project) if project else []
    what = wanted(app, projects, session=session, before=before, since=since)
    counts = app.store.purgeable(what)
    if dry_run or not any(counts.values()):
        show_counts(counts, dry_run=dry_run, as_json=as_json)
        return
    if not yes:
        show_counts(counts, dry_run=True, as_json=False, err=as_json)
        if projects:
            output.say(f"It comes from {', '.join(project.key for project in projects)}.", err=as_json)
        ask("Remove this for good, from all backups too?")
    removed, left = removal.purge(app.store, what, at=app.now())
    if any(left.values()):
        raise PartlyDoneError("Some of it came back while it was removed (a turn ended); run the same command again.")
    show_counts(removed, dry_run=False, as_json=as_json)
    if not as_json:
        say_what_stays(projects)
    for path in removal.set_aside(app.home_files):
        output.say(f"{path} is a damaged database that was set aside; it cannot be rewritten: remove it.", err=True)


def wanted(
    app: App, projects: Sequence[Project], *, session: str | None, before: str | None, since: str | None
) -> Purge:
    """The options as one value."""
    from distiller.service.removal import keys_of

    one = named_session(app, session).session if session else None
    return Purge(
        project_keys=keys_of(app.store, projects) if projects else (),
        session=(one.agent, one.id) if one else None,
        since=since_time(since, now=app.now()),
        before=since_time(before, now=app.now()),
    )


def show_counts(counts: dict[str, int], *, dry_run: bool, as_json: bool, err: bool = False) -> None:
    """What is, or was, removed."""
    if as_json:
        output.print_json({"dry_run": dry_run, "removed": counts})
        return
    if not any(counts.values()):
        output.say("Nothing to remove: no turn, fact or recall goes by that.")
        return
    output.say("Would be removed:" if dry_run else "Removed, from backups too:", err=err)
    for kind, count in counts.items():
        if count:
            output.say(f"  {count:>7,}  {WORDS[kind]}", err=err)


def say_what_stays(projects: Sequence[Project]) -> None:
    """What a purge does not reach, and how to reach it."""
    output.say("The agents' own session files still hold the talk; turns that end from now on are read as before.")
    for project in projects[:3]:
        output.say(f"  To read no more of it: distiller pause --project {project.name}")


# --- scrub ------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("expression", metavar="RE")
@click.option("--dry-run", is_flag=True, help="Only count.")
@click.option("--force", is_flag=True, help="Even if it stands in very many facts.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def scrub(door: Door, expression: str, dry_run: bool, force: bool, yes: bool, as_json: bool) -> None:
    """Remove a text everywhere: facts, quotes, notes, titles, questions, answers, logs, backups. There is no undo.

    Plain words are taken as they are; all else is a Python regular expression. `-` as RE reads it from stdin, so that
    it stands in no shell history. Each match becomes [REDACTED:scrub].
    """
    from distiller.service import removal

    app = door.app
    if expression == "-":
        expression = sys.stdin.readline().rstrip("\n")
    pattern = removal.expression(expression)
    found = removal.find(app.store, app.home_files, pattern)
    if not force:
        removal.refuse_most(found)
    if dry_run or not found.anywhere:
        show_found(found, dry_run=dry_run, as_json=as_json)
        return
    if not yes:
        show_found(found, dry_run=True, as_json=False, err=as_json)
        ask("Take it out of all these for good?")
    done = removal.scrub(app.store, app.home_files, pattern, at=app.now())
    show_found(done.found, dry_run=False, as_json=as_json, left=done.left)
    tell_left(app, done, as_json=as_json)


def show_found(
    found: Found, *, dry_run: bool, as_json: bool, left: Sequence[str] = (), err: bool = False
) -> None:  # fmt: skip
    """Where the text stands, or stood; never the text."""
    if as_json:
        output.print_json({
            "dry_run": dry_run, "rows": found.rows, "backups": found.copies, "files": found.files, "ids": found.ids,
            "left": list(left),
        })  # fmt: skip
        return
    if not found.anywhere:
        output.say("Found nowhere: not in the database, its backups, the logs or the state files.", err=err)
    else:
        output.say("Found in:" if dry_run else "Taken out of:", err=err)
    for table, count in found.rows.items():
        output.say(f"  {count:>7,}  {TABLES.get(table, table)}", err=err)
    for path, count in found.copies.items():
        output.say(f"  {count:>7,}  rows of the backup {path}", err=err)
    for path, count in found.files.items():
        output.say(f"  {count:>7,}  lines of {path}", err=err)
    if found.ids:
        output.say(
            f"  {found.ids:>7,}  ids of sessions or messages match; ids stay, or turns would be read twice", err=err
        )


def tell_left(app: App, done: Done, *, as_json: bool) -> None:
    """What a second look found, and what is out of our reach.

    Raises:
        PartlyDoneError: it still stands in a file of ours.
    """
    from distiller.service.removal import set_aside

    config = str(app.config.home.config)
    own = [path for path in done.left if path.startswith(config)]
    aside = [path for path in set_aside(app.home_files) if path in done.left]
    rest = [path for path in done.left if path not in (*own, *aside)]
    for path in own:
        output.say(f"Still in {path}: that file is yours, distiller does not change it.", err=True)
    if aside:
        raise PartlyDoneError(
            f"The rest is done, but it still stands in {', '.join(aside)}, damaged and set aside: remove that file."
        )
    if rest:
        raise PartlyDoneError(
            f"The rest is done, but it still stands in {', '.join(rest)} (in use, or needed as it is); run it again."
        )
    if as_json:
        return
    output.say("Searched again, backups, write-ahead log and logs included: it is in no file of ours.")
    output.say("The agents' own session files are never changed. To redact its like from now on, add a pattern:")
    output.say("  distiller config set redact.patterns '[\"EXPRESSION\"]'")
    if done.found.files:
        output.say("The system's journal may hold the same log lines: journalctl --user --vacuum-time=1s")


def ask(question: str) -> None:
    """Go on only if a person says so; without a terminal --yes is needed."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"{question} Say --yes; nothing was changed.")
    click.confirm(question, abort=True, err=True)
