"""`config`: show and change settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distiller.surfaces.cli import output

KEYED = ("anthropic", "claude-cli")
LONGEST_KEY = 10_000  # characters

if TYPE_CHECKING:
    from distiller.surfaces.cli import Door


@click.group()
def config() -> None:
    """Show and change settings."""


@config.command()
@click.option("--json", "as_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def show(door: Door, as_json: bool) -> None:
    """Every setting: value, unit, where it was set."""
    from distiller.config import describe

    rows = describe(door.app.config)
    if as_json:
        keys = ("key", "value", "default", "unit", "source")
        output.print_json([{key: getattr(row, key) for key in keys} for row in rows])
        return
    output.say(f"# {door.app.config.file}")
    output.table(
        [
            (row.key, written(row.value) + (f" {row.unit}" if row.unit else ""), row.source, row.description)
            for row in rows
        ],
        ("setting", "value", "source", "meaning"),
    )


@config.command()
@click.argument("key")
@click.pass_obj
def get(door: Door, key: str) -> None:
    """Print one setting's value."""
    output.say(written(known(door, key).value))


@config.command(name="set-key")
@click.argument("backend", type=click.Choice(KEYED))
@click.pass_obj
def set_key(door: Door, backend: str) -> None:
    """Keep the secret of a backend, read from stdin (or asked for, unseen): an API key, a `claude setup-token`."""
    from distiller.errors import UsageError

    value = read_key()
    if not value.strip():
        raise UsageError("No key was given on stdin; nothing was changed.")
    if len(value.split()) != 1 or not value.strip().isprintable() or len(value) > LONGEST_KEY:
        raise UsageError("A key is one short word of plain characters; something else came. Nothing was changed.")
    door.app.make_home()
    where = door.app.backends.write_key(backend, value.strip())
    output.say(f"Kept in {where}, for you alone. `distiller config set backend {backend}` uses it.")


def read_key() -> str:
    """What a person types unseen, or what stands on stdin; nothing if stdin is closed or no text."""
    import sys

    if sys.stdin is None or sys.stdin.closed:
        return ""
    if sys.stdin.isatty():
        return str(click.prompt("Key (not shown)", hide_input=True))
    return sys.stdin.buffer.read(LONGEST_KEY + 1).decode("ascii", "replace")


@config.command(name="set", context_settings={"ignore_unknown_options": True})
@click.argument("key")
@click.argument("value")
@click.pass_obj
def set_(door: Door, key: str, value: str) -> None:
    """Change one setting in the settings file; comments in it stay."""
    import tomlkit

    from distiller import config as settings

    if not key.startswith(tuple(f"{table}." for table in settings.NAMED)):
        known(door, key)
    path = door.app.config.file
    document = tomlkit.parse(path.read_text("utf-8")) if path.exists() else tomlkit.document()
    *tables, last = settings.segments(key)
    place: Any = document
    for name in tables:
        place = place.setdefault(name, tomlkit.table())
    place[last] = settings.read_value(value)
    text = tomlkit.dumps(document)
    settings.check(text, path)
    door.app.make_home()
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text, "utf-8")
    temporary.chmod(0o600)
    temporary.replace(path)
    output.say(f"{key} = {written(settings.read_value(value))} (in {path}). A running service takes it at once.")


def known(door: Door, key: str) -> Any:
    """The setting called `key`.

    Raises:
        click.UsageError: there is none; near names are given.
    """
    from difflib import get_close_matches

    from distiller.config import describe

    rows = {row.key: row for row in describe(door.app.config)}
    if key not in rows:
        near = get_close_matches(key, rows, n=3)
        raise click.UsageError(f"{key}: no such setting.{' Near: ' + ', '.join(near) + '.' if near else ''}")
    return rows[key]


def written(value: Any) -> str:
    """A value as TOML writes it."""
    import msgspec

    return value if isinstance(value, str) and value else msgspec.json.encode(value).decode()


@config.command(hidden=True)
def reference() -> None:
    """Print docs/settings.md, which is made from the settings themselves."""
    from distiller.config import describe

    output.say(REFERENCE_HEAD)
    output.say("| key | default | unit | meaning |\n| --- | --- | --- | --- |")
    for row in describe():
        output.say(f"| `{row.key}` | `{written(row.default)}` | {row.unit or ''} | {row.description} |")


REFERENCE_HEAD = """# Settings

`distiller config show` lists them with their values, `config get KEY` prints one, `config set KEY VALUE` changes one.
They stand in `config.toml` (`distiller config show` names the file). A flag wins over an environment variable, that
over the file, that over the default. The variable of `turns.settle_seconds` is `DISTILLER_TURNS__SETTLE_SECONDS`.
A file that cannot be used is refused with the key and the reason; nothing is changed then.

`<agent>` is `claude_code`, `codex` or `neutral`; `<model>` is a model's name, in quotes where it holds a dot
(`prices."qwen2.5".input`). Keys are no settings: `distiller config set-key BACKEND` reads one from stdin.
This page is made by `distiller config reference`.
"""
