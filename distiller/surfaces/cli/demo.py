"""`demo`: a made-up session is played line by line into a throw-away folder; the real daemon distils it meanwhile.

Nothing of the person's is read or written: home, session folder and project are temporary and removed at the end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import TYPE_CHECKING

import click

from distiller.errors import DistillerError
from distiller.service import report
from distiller.surfaces.cli import output
from distiller.vocabulary import FactQuery, TurnQuery, TurnRow, TurnState

if TYPE_CHECKING:
    from distiller.bootstrap import App

QUESTION = "which package manager do we use"
LINE_SECONDS = 0.03
START_SECONDS = 20
SETTLE_SECONDS = 30


@click.command()
def demo() -> None:
    """See it work: a made-up session is played and distilled before your eyes."""
    folder = tempfile.mkdtemp(prefix="distiller-demo-")
    try:
        play_all(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def play_all(folder: str) -> None:
    """The whole demonstration inside `folder`."""
    app, environment = stage(folder)
    lines = (files("distiller") / "data" / "demo" / "session.jsonl").read_text("utf-8").splitlines()
    output.say(
        f"A made-up session of {sum('promptSource' in line for line in lines)} turns is played as an agent writes it;"
    )
    output.say(f"the real daemon watches the folder.   ({folder}, removed at the end)\n")
    with daemon(app, environment):
        session = os.path.join(folder, "agent", "projects", "-shop", "5e551011-0000-4000-8000-000000000001.jsonl")
        shown: set[str] = set()
        with open(session, "w", encoding="utf-8") as file:
            for line in lines:
                file.write(line.replace("{cwd}", os.path.join(folder, "shop")).replace("{now}", app.now()) + "\n")
                file.flush()
                time.sleep(LINE_SECONDS)
                show_settled(app, shown)
        turns = sum("promptSource" in line for line in lines)
        deadline = time.monotonic() + SETTLE_SECONDS
        while len(shown) < turns and time.monotonic() < deadline:
            time.sleep(LINE_SECONDS)
            show_settled(app, shown)
        if len(shown) < turns:
            raise DistillerError(f"only {len(shown)} of {turns} turns were settled in {SETTLE_SECONDS} s; see the log.")
        show_facts(app)
    output.say(
        "\nNext: `distiller backfill --preview` shows what your own last sessions hold; it stores and sends nothing."
    )


def stage(folder: str) -> tuple[App, dict[str, str]]:
    """A home, an agent's folder and a repository of nobody's, and the program for them."""
    from distiller.bootstrap import App
    from distiller.config import load

    projects = os.path.join(folder, "agent", "projects")
    os.makedirs(os.path.join(projects, "-shop"))
    git = os.path.join(folder, "shop", ".git")
    os.makedirs(git)
    with open(os.path.join(git, "config"), "w", encoding="utf-8") as file:
        file.write('[remote "origin"]\n\turl = git@example.com:acme/shop.git\n')
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DISTILLER_")}
    environment |= {
        "DISTILLER_HOME": os.path.join(folder, "home"),
        "DISTILLER_AGENTS__CLAUDE_CODE__ROOTS": f'["{projects}"]',
        "DISTILLER_AGENTS__CODEX__ENABLED": "false",
    }
    return App(load(environment)), environment


@contextmanager
def daemon(app: App, environment: dict[str, str]) -> Iterator[None]:
    """The real daemon as a process of its own, for a while."""
    app.make_home()
    process = subprocess.Popen(
        [sys.executable, "-m", "distiller", "run"], env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        deadline = time.monotonic() + START_SECONDS
        while not app.live_state().get("heartbeat_at"):
            if process.poll() is not None or time.monotonic() > deadline:
                said = (
                    process.stderr.read().decode(errors="replace")
                    if process.poll() is not None and process.stderr
                    else ""
                )
                raise DistillerError(f"the daemon did not start. {said}")
            time.sleep(LINE_SECONDS)
        yield
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        if process.stderr:
            process.stderr.close()


def show_settled(app: App, shown: set[str]) -> None:
    """Print turns that were settled since the last look."""
    rows = [row for row in app.store.turns(TurnQuery()) if row.id not in shown and row.state is not TurnState.WAITING]
    for row in sorted(rows, key=lambda row: row.start_byte):
        shown.add(row.id)
        output.say(f"  {output.one_line(row.prompt, 58):<58}  ", outcome(row))


def outcome(row: TurnRow) -> output.Styled:
    """How a turn ended, for eyes."""
    if row.state is TurnState.KEPT:
        return output.style("kept", fg="green", bold=True)
    return output.style(f"{row.state.value} ({row.reason})")


def show_facts(app: App) -> None:
    """The facts with their quotes, why the rest gave none, and a recall."""
    output.say("\nWhat is worth keeping, each with your words:\n")
    found = app.store.facts(FactQuery())
    evidence = app.store.evidence([fact.id for fact in found])
    for fact in found:
        output.say("  ", output.style(fact.name, bold=True), f": {fact.body}")
        for one in evidence.get(fact.id, [])[:1]:
            output.say(
                output.style(f'      you, {output.local(one.said_at)}: "{output.one_line(one.quote, 100)}"', dim=True)
            )
    output.say("\nWhy the other turns gave nothing:\n")
    reasons = {(row.state, row.reason): row for row in app.store.turns(TurnQuery()) if row.state is not TurnState.KEPT}
    for row in reasons.values():
        output.say(f"  {row.state.value} ({row.reason}): {report.explain(row)}")
    show_recall(app)


def show_recall(app: App) -> None:
    """What an agent in that project would be told."""
    from uuid import uuid4

    from distiller.service import recall

    asked = recall.Recall(store=app.store, clock=app.clock, redact=app.redact, new_id=lambda: str(uuid4()))
    project = next(project for project in app.store.projects() if project.name == "shop")
    output.say(f'\nWhat an agent is told tomorrow when it asks "{QUESTION}":\n')
    for line in recall.as_text(asked.answer(QUESTION, project=project)).splitlines():
        output.say(f"  {line}")
