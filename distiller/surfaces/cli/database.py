"""`db`: check, copy, restore and migrate the database."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from distiller.errors import UnknownNameError, UsageError
from distiller.surfaces.cli import output

if TYPE_CHECKING:
    from distiller.bootstrap import App
    from distiller.surfaces.cli import Door

SHOWN_COPIES = 5


@click.group()
def db() -> None:
    """Check, copy, restore and migrate the database."""


@db.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def check(door: Door, as_json: bool) -> int:
    """Check the database whole; exit code 1 if it is not sound. Changes nothing."""
    app = door.app
    need_database(app)
    health = app.database_health()
    newest = next(iter(app.copies()), None)
    if as_json:
        output.print_json(
            {
                "path": app.database, "sound": not health.problems, "problems": health.problems,
                "schema": health.schema, "known_schema": health.known, "newest_copy": newest,
            }
        )  # fmt: skip
        return 1 if health.problems else 0
    if not health.problems:
        old = "" if health.schema == health.known else f" (this program knows {health.known}: `distiller db migrate`)"
        output.say(f"{app.database} is sound; schema {health.schema}{old}.")
        return 0
    output.say(f"{app.database} is damaged: {output.plural(len(health.problems), 'fault')}.")
    for problem in health.problems[:SHOWN_COPIES]:
        output.say(f"  {output.one_line(problem, output.width() - 2)}")
    output.say(cure(newest))
    return 1


def cure(newest_copy: str | None) -> str:
    """What to do about a damaged database."""
    if newest_copy is not None:
        return (
            f"Stop the service (`distiller service stop`), then `distiller db restore {newest_copy}`. What stands "
            "there now is kept."
        )
    return (
        "There is no copy. Stop the service, move the file and its -wal away, start it again: it makes a new one, and "
        "`distiller backfill` reads what the agents still keep."
    )


@db.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def backup(door: Door, as_json: bool) -> None:
    """Make a copy now, also while the service runs; print where."""
    need_database(door.app)
    path = door.app.store.backup("manual", at=door.app.now())
    if as_json:
        output.print_json({"path": path, "bytes": os.path.getsize(path)})
    else:
        output.say(path)


@db.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def migrate(door: Door, as_json: bool) -> None:
    """Bring the database to the schema of this program, after a copy; other commands do that by themselves."""
    app = door.app
    need_database(app)
    before = app.database_health()
    copy = None
    if before.schema is None or before.schema >= before.known:
        app.store.setting("first_start_at")  # a damaged or newer database tells so itself
    else:
        with app.without_daemon():
            app.store.setting("first_start_at")
        copy = next(iter(app.copies()), None)
    if as_json:
        output.print_json({"from": before.schema, "to": before.known, "copy": copy})
    elif copy is None:
        output.say(f"Nothing to do: {app.database} has schema {before.schema}, the newest that this program knows.")
    else:
        output.say(f"From schema {before.schema} to {before.known}; the database as it was is kept as {copy}.")


@db.command()
@click.argument("file", required=False, type=click.Path())
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def restore(door: Door, file: str | None, yes: bool, as_json: bool) -> None:
    """Put the copy FILE (a path, or its name in the folder of copies) in the place of the database.

    What stands there now is kept. What was erased since stays erased.
    """
    app = door.app
    path = chosen(app, file)
    with app.restoration(path) as restoration:
        since = restoration.since() if app.store_exists else None
        output.say(lost(since) if app.store_exists else "There is no database now.", err=True)
        if not yes:
            agree()
        kept = restoration.finish(at=app.now())
    app.touch_wake()
    if as_json:
        turns = since._asdict() if since else None
        output.print_json({"restored": path, "kept": kept, "settled_since": turns})
        return
    output.say(f"Restored. {f'What stood there before is kept as {kept}. ' if kept else ''}Start the service again.")


def chosen(app: App, file: str | None) -> str:
    """The copy that is meant.

    Raises:
        UsageError: none is named, or the database itself.
        UnknownNameError: there is no such file.
    """
    copies = app.copies()
    listed = "Copies, newest first: " + (", ".join(copies[:SHOWN_COPIES]) or "none") + "."
    if file is None:
        raise UsageError(f"Name the copy to restore; nothing was changed. {listed}")
    by_name = {os.path.basename(path): path for path in copies}
    path = file if os.path.isfile(file) else by_name.get(file)
    if path is None:
        raise UnknownNameError(f"{file}: there is no such copy; nothing was changed. {listed}")
    if os.path.realpath(path) == os.path.realpath(app.database):
        raise UsageError(f"{path} is the database itself; nothing was changed. {listed}")
    return os.path.abspath(path)


def lost(since: tuple[int, int, float] | None) -> str:
    """What a copy does not know, in words: turns settled since, those that calls were paid for, how much that was."""
    if since is None:
        return "The present database cannot tell what was settled since that copy; such turns are read and paid again."
    turns, paid, usd = since
    if not turns:
        return "No turn was settled since that copy was made."
    calls = f", {paid} of them with model calls ({output.usd(usd)}), which would be paid again" if paid else ""
    return (
        f"{output.plural(turns, 'turn')} settled since that copy would be read again, as far as their files are there"
        f"{calls}. What you edited since is only in the database as it is now, which is kept."
    )


def agree() -> None:
    """Ask a person.

    Raises:
        UsageError: there is nobody to ask.
    """
    if not sys.stdin.isatty():
        raise UsageError("This replaces the database: add --yes. Nothing was changed.")
    click.confirm("Restore it?", abort=True, err=True)


def need_database(app: App) -> None:
    """Refuse where nothing was ever stored, rather than make a database to look at.

    Raises:
        UnknownNameError: there is none.
    """
    if not app.store_exists:
        raise UnknownNameError(f"There is no database at {app.database} yet; the service makes it at its first start.")
