"""Words of a command line in, one use case and its result out.

The table below is the command line: name, where it lives, one line of help. A command is imported when it is run, so
that `--help` and completion cost no more than click itself.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from distiller.bootstrap import App

COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:demo", "See it work: a made-up session is played and distilled before your eyes."),
    "run": ("serving:run", "Run the service in the foreground."),
    "service": ("service:service", "Install, start and stop it as a service of yours; uninstall leaves nothing."),
    "status": ("serving:status", "Show how things are now; exit code 1 if something is wrong."),
    "week": ("week:week", "Show what came in, changed, was recalled and waits for you, over seven days."),
    "doctor": ("doctor:doctor", "Check everything, and say how to mend what is broken."),
    "logs": ("serving:logs", "Show what the service did; -f follows."),
    "backfill": ("backfill:backfill", "Read old sessions, newest first; --preview stores and sends nothing."),
    "pause": ("switches:pause", "Switch memory off: for all, a project, a session."),
    "resume": ("switches:resume", "Switch memory on again."),
    "facts": ("facts:facts", "List, search, show and correct the facts."),
    "recall": ("recall:recall", "Ask as an agent would."),
    "remember": ("recall:remember", "Store a fact in your own words."),
    "why": ("turns:why", "Explain how a turn ended, or where a fact comes from."),
    "retry": ("turns:retry", "Let dead or skipped turns be distilled again."),
    "cost": ("money:cost", "Show what the model calls cost, by day."),
    "sessions": ("sessions:sessions", "List the agents' sessions and what came of them."),
    "projects": ("sessions:projects", "Show which folders are one project."),
    "trace": ("inventory:trace", "Show who was told a fact, and when."),
    "inventory": ("inventory:inventory", "Show what is stored, sent and served; no fact's text."),
    "purge": ("removal:purge", "Remove what came from a project, a session, a time."),
    "scrub": ("removal:scrub", "Remove a text everywhere, copies and logs included."),
    "db": ("database:db", "Check, copy, restore and migrate the database."),
    "config": ("settings:config", "Show and change settings."),
}


class LazyGroup(click.Group):
    """A group that knows its commands' names and help before it imports them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002, D102 -- click's signature and promise
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002, D102
        if cmd_name not in COMMANDS:
            return None
        from importlib import import_module

        module, _, name = COMMANDS[cmd_name][0].partition(":")
        found: click.Command = getattr(import_module(f"{__name__}.{module}"), name)
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002, D102
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:  # noqa: D102
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]


class Door:
    """What a command is handed: the global options, and the program they lead to when it is first asked for."""

    def __init__(self, home: str | None, config: str | None) -> None:
        self._home = home
        self._config = config
        self._app: App | None = None

    @property
    def app(self) -> App:
        """The program for these options."""
        if self._app is None:
            from functools import partial

            from distiller.bootstrap import App
            from distiller.config import load

            read = partial(load, os.environ, home=self._home, file=self._config)
            self._app = App(read(), read_again=read)
        return self._app


def show_version(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
    """Print the version and end."""
    if wanted and not ctx.resilient_parsing:
        from importlib.metadata import version

        click.echo(f"distiller {version('distiller')}")
        ctx.exit()


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--home", metavar="DIR", help="Keep config, data, state and logs under DIR (also DISTILLER_HOME).")
@click.option("--config", metavar="FILE", help="Another settings file (also DISTILLER_CONFIG).")
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=show_version, help="Print the version."
)
@click.pass_context
def cli(ctx: click.Context, home: str | None, config: str | None) -> None:
    """Coding agents forget what you taught them. distiller reads their sessions and keeps the few durable facts."""
    ctx.obj = Door(home, config)


def main() -> None:
    """Run a command; our own errors become one line on stderr, never a traceback."""
    from distiller.errors import DistillerError

    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2 if isinstance(error, click.UsageError) else error.exit_code)
    except DistillerError as error:
        tell(str(error))
        sys.exit(error.exit_code)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # `distiller logs | head` is no fault
        sys.exit(0)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        tell(f"{where}{error.strerror or error}. Nothing that was committed is lost; mend that and try again.")
        sys.exit(1)
    except Exception as error:  # noqa: BLE001 -- people get one line; where it was is enough to report it
        trace = error.__traceback__
        while trace and trace.tb_next:
            trace = trace.tb_next
        where = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else "?"
        tell(f"a fault of distiller ({type(error).__name__} at {where}). What was committed is safe; please report it.")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def tell(text: str) -> None:
    """One line on stderr."""
    from distiller.surfaces.cli import output

    output.say(f"distiller: {' '.join(text.split())}", err=True)
