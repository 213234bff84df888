"""`facts`: list, search, show, add, edit, move, pin, forget, history, undo."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import click

from distiller.errors import UnknownNameError
from distiller.service import curate, report
from distiller.surfaces.cli import output
from distiller.surfaces.cli.here import named_project, named_session, project_here, scopes_here
from distiller.surfaces.cli.since import since as since_time
from distiller.vocabulary import Applied, Fact, FactKind, FactQuery, FactStatus, Op, Redacted

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from distiller.bootstrap import App
    from distiller.surfaces.cli import Door

KINDS = click.Choice([kind.value for kind in FactKind])
STATUSES = click.Choice([*(status.value for status in FactStatus), "all"])
CHANGING = (Op.SUPERSEDE, Op.UPDATE, Op.EDIT, Op.UNDO, Op.RESTORE)
ASK_ABOVE = 1


@click.group()
def facts() -> None:
    """List, search, show and correct the facts."""


def query_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Which facts are meant."""
    for option in (
        click.option("--limit", type=click.IntRange(1, 1_000_000), help="At most N."),
        click.option("--since", metavar="T", help="Changed at or after a time, or within a span such as 7d."),
        click.option("--kind", type=KINDS),
        click.option(
            "--scope", type=click.Choice(["user", "project"]), help="Those that hold everywhere, or in projects."
        ),
        click.option("--project", metavar="NAME", help="One project's, by name, key or pattern."),
        click.option("--status", type=STATUSES, default="active", show_default=True),
    ):
        command = option(command)
    return command


def query(app: App, options: dict[str, Any]) -> FactQuery:
    """The query of `query_options`."""
    status = options["status"]
    scopes: tuple[str, ...] = ()
    if options["project"]:
        scopes = (f"project:{named_project(app, options['project']).key}",)
    elif options["scope"] == "user":
        scopes = ("user",)
    return FactQuery(
        scopes=scopes,
        statuses=tuple(FactStatus) if status == "all" else (FactStatus(status),),
        kinds=(FactKind(options["kind"]),) if options["kind"] else (),
        since=since_time(options["since"], now=app.now()),
        limit=options["limit"],
    )


def chosen(app: App, options: dict[str, Any]) -> list[Fact]:
    """The facts that `query_options` mean."""
    found = app.store.facts(query(app, options))
    return [fact for fact in found if options["scope"] != "project" or fact.scope != "user"]


def as_json(app: App, found: Sequence[Fact]) -> list[dict[str, Any]]:
    """Facts with quote, uses and project."""
    ids = [fact.id for fact in found]
    evidence, uses = app.store.evidence(ids), app.store.recall_counts(ids)
    projects = {project.key: project for project in app.store.projects()}
    return [
        report.fact_json(fact, evidence=evidence.get(fact.id, []), uses=uses.get(fact.id), projects=projects)
        for fact in found
    ]


def show_rows(rows: Sequence[dict[str, Any]]) -> None:
    """Facts as a table."""
    if not rows:
        output.say("No facts.")
        return
    output.table(
        [
            (
                ("* " if row["pinned"] else "") + row["name"],
                row["project"] or ("everywhere" if row["scope"] == "user" else output.one_line(row["project_key"], 24)),
                row["kind"] if row["status"] == "active" else f"{row['kind']} ({row['status']})",
                output.local(row["last_confirmed_at"])[:10],
                row["summary"],
            )
            for row in rows
        ],
        ("name", "where", "kind", "said", "fact"),
    )


@facts.command(name="list")
@query_options
@click.option("--json", "wants_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def list_(door: Door, /, wants_json: bool, **options: Any) -> None:
    """List facts, most lately changed first."""
    rows = as_json(door.app, chosen(door.app, options))
    if wants_json:
        output.print_json(rows)
    else:
        show_rows(rows)


@facts.command()
@click.argument("words", nargs=-1, required=True)
@query_options
@click.option("--json", "wants_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def search(door: Door, /, words: tuple[str, ...], wants_json: bool, **options: Any) -> None:
    """Search facts by words, best first, in all projects."""
    import msgspec

    from distiller.memory import rank

    app = door.app
    wanted = msgspec.structs.replace(query(app, options), limit=options["limit"] or 20)
    terms = rank.terms(" ".join(words))
    hits = app.store.search(terms, query=wanted) if terms else []
    rows = as_json(app, [hit.fact for hit in hits])
    scored = [{**row, "score": round(hit.score, 4)} for row, hit in zip(rows, hits, strict=True)]
    if wants_json:
        output.print_json(scored)
    else:
        show_rows(scored)


@facts.command()
@click.argument("name")
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def show(door: Door, name: str, wants_json: bool) -> None:
    """Show one fact: body, quotes with their source, what it replaced."""
    app = door.app
    fact = curate.find(app.store, name, scopes=scopes_here(app))
    evidence = app.store.evidence([fact.id]).get(fact.id, [])
    history = app.store.history(fact_id=fact.id)
    row = as_json(app, [fact])[0] | {
        "evidence": [report.evidence_json(one) for one in evidence],
        "history": [report.history_json(entry) for entry in history],
        "redirects": [],
        "proposals": [one for one in app.store.proposals() if one.fact_id == fact.id],
    }
    if wants_json:
        output.print_json(row)
        return
    where = row["project"] or ("everywhere" if row["scope"] == "user" else row["project_key"])
    flags = ", ".join([fact.kind.value, where, fact.strength.value, *(["pinned"] if fact.pinned else [])])
    output.say(output.style(fact.name, bold=True), f" ({flags}) {fact.id[:8]}")
    if fact.status is not FactStatus.ACTIVE:
        output.say("  ", output.style(fact.status.value, fg="yellow"), f" since {output.local(fact.updated_at)}")
    output.say(f"  {fact.body}")
    if fact.valid_until:
        output.say(f"  valid until {fact.valid_until[:10]}")
    for one in evidence:
        source = f"{one.agent} session {one.session_id[:8]}" if one.turn_key else "typed on the command line"
        who = "you" if one.role == "person" else one.role
        output.say(f'  {who}: "{output.one_line(one.quote, 300)}"')
        output.say(output.style(f"       {output.local(one.said_at)}, {source}, {one.part}", dim=True))
    for entry in history:
        if entry.op in CHANGING and entry.before and entry.after and entry.before.body != entry.after.body:
            before = output.one_line(entry.before.body, 200)
            output.say(f"  {output.local(entry.at)} {entry.op.value} by {entry.actor}; before: {before}")
    for proposal in row["proposals"]:
        said = output.one_line(proposal.change.get("body") or proposal.change.get("op", ""), 200)
        how = f"to take it: `distiller facts edit {fact.name}`"
        output.say("  ", output.style("proposed", fg="yellow"), f": {said} ({how})")
    if fact.related:
        output.say(f"  related: {', '.join(fact.related)}")
    if row["recalls"]:
        output.say(f"  recalled {output.plural(row['recalls'], 'time')}, last {output.local(row['last_recalled_at'])}")


@facts.command()
@click.argument("text", nargs=-1, required=True)
@click.option("--name", metavar="SLUG", help="Its name; else made from the text.")
@click.option("--kind", type=KINDS, default="project", show_default=True)
@click.option("--everywhere", is_flag=True, help="It holds in all projects; else in this folder's project.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def add(door: Door, text: tuple[str, ...], name: str | None, kind: str, everywhere: bool, wants_json: bool) -> None:
    """Add a fact in your own words; under a taken name it replaces the old text."""
    applied = add_fact(door.app, " ".join(text), name=name, kind=kind, everywhere=everywhere)
    tell_applied(applied, wants_json=wants_json)


def add_fact(app: App, text: str, *, name: str | None, kind: str, everywhere: bool) -> Applied:
    """Store what the person typed; secrets are redacted first."""
    now = app.now()
    project = project_here(app)
    if not everywhere:
        project = app.store.save_project(project, at=now)
    clean = without_secret(app, text)
    if name is not None:
        without_secret(app, name)
    evidence = curate.said(
        clean, at=now, local_date=app.clock.local_date(now), project_key=project.key, message_id=f"typed:{uuid4()}"
    )
    return curate.add(
        app.store,
        clean,
        name=name,
        kind=FactKind(kind),
        scope="user" if everywhere else f"project:{project.key}",
        evidence=evidence,
        new_id=lambda: str(uuid4()),
        at=now,
    )


def without_secret(app: App, text: str) -> Redacted:
    """What the person typed, redacted; they are told if something was left out."""
    clean = app.redact(text)
    if clean != text:
        output.say("distiller: something that looks like a secret was left out.", err=True)
    return clean


@facts.command()
@click.argument("name")
@click.option("--summary", metavar="TEXT", help="The line that is listed, at most 120 characters.")
@click.option("--body", metavar="TEXT", help="The whole fact.")
@click.option("--kind", type=KINDS)
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def edit(door: Door, name: str, summary: str | None, body: str | None, kind: str | None, wants_json: bool) -> None:
    """Change a fact; without options in your editor ($EDITOR)."""
    app = door.app
    fact = curate.find(app.store, name, scopes=scopes_here(app))
    if summary is None and body is None and kind is None:
        summary, body = edited(fact)
    applied = curate.edit(
        app.store,
        fact,
        at=app.now(),
        summary=None if summary is None else without_secret(app, summary),
        body=None if body is None else without_secret(app, body),
        kind=FactKind(kind) if kind else None,
    )
    tell_applied(applied, wants_json=wants_json)


def edited(fact: Fact) -> tuple[str, str]:
    """Summary and body from the person's editor: first line, then the rest."""
    if not sys.stdin.isatty():
        raise click.UsageError("Give --summary, --body or --kind (there is no terminal for an editor).")
    text = click.edit(f"{fact.summary}\n\n{fact.body}\n", extension=".md")
    if text is None:
        raise click.UsageError("Nothing was changed.")
    summary, _, body = text.strip().partition("\n")
    return summary.strip(), body.strip() or summary.strip()


@facts.command()
@click.argument("name")
@click.option("--to", "to", metavar="PROJECT", help="Another project, by name or key; `user` for all projects.")
@click.option("--name", "new_name", metavar="SLUG", help="Another name.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def move(door: Door, name: str, to: str | None, new_name: str | None, wants_json: bool) -> None:
    """Move a fact to another project, or rename it; the old name leads to it."""
    app = door.app
    if to is None and new_name is None:
        raise click.UsageError("Give --to or --name.")
    fact = curate.find(app.store, name, scopes=scopes_here(app))
    scope = fact.scope if to is None else "user" if to == "user" else f"project:{named_project(app, to).key}"
    tell_applied(curate.move(app.store, fact, scope=scope, name=new_name, at=app.now()), wants_json=wants_json)


@facts.command()
@click.argument("names", nargs=-1, required=True)
@click.option("--off", is_flag=True, help="Unpin.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def pin(door: Door, names: tuple[str, ...], off: bool, wants_json: bool) -> None:
    """Pin facts: listed first, changed only by you."""
    app = door.app
    found = [curate.find(app.store, name, scopes=scopes_here(app)) for name in names]
    tell_applied(curate.pin(app.store, found, pinned=not off, at=app.now()), wants_json=wants_json)


@facts.command()
@click.argument("names", nargs=-1)
@click.option("--project", metavar="NAME", help="All facts of one project.")
@click.option("--session", metavar="ID", help="All facts that one session gave (the start of its id).")
@click.option("--since", metavar="T", help="All facts changed since then.")
@click.option("--erase", is_flag=True, help="Remove the text from store, indexes and backups, for good.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def forget(
    door: Door, names: tuple[str, ...], project: str | None, session: str | None, since: str | None, erase: bool,
    yes: bool, wants_json: bool,
) -> None:  # fmt: skip
    """Forget facts: hidden at once, back with `facts undo` for 30 days; with --erase gone for good."""
    app = door.app
    found = named_or_all(app, names, project=project, session=session, since=since, erase=erase)
    if not found:
        tell_applied(Applied("", ()), wants_json=wants_json)
        return
    if not yes and (erase or len(found) > ASK_ABOVE):
        confirm(found, erase=erase)
    if not erase:
        applied = curate.forget(app.store, found, at=app.now())
        tell_applied(applied, wants_json=wants_json, hint=f"`distiller facts undo {applied.group[:8]}` brings it back.")
        return
    erase_facts(app, found, wants_json=wants_json)


def erase_facts(app: App, found: Sequence[Fact], *, wants_json: bool) -> None:
    """Erase facts and name the session files in which the words still stand."""
    evidence = app.store.evidence([fact.id for fact in found])
    files = sorted({one.file for quotes in evidence.values() for one in quotes if one.file})
    count = app.store.erase([fact.id for fact in found], at=app.now())
    if wants_json:
        operations = [{"op": "erase", "name": fact.name, "scope": fact.scope, "fact": fact.id} for fact in found]
        copies = [{"file": file, "where": "session file of the agent"} for file in files]
        output.print_json({"group": None, "operations": operations, "copies": copies})
        return
    output.say(f"Erased {output.plural(count, 'fact')} from store, indexes, write-ahead log and backups.")
    for file in files:
        output.say(f"  still said in {file}: the agent's own file, which distiller never changes")


def named_or_all(
    app: App, names: Sequence[str], *, project: str | None, session: str | None, since: str | None, erase: bool
) -> list[Fact]:
    """The named facts, or all that the filters mean (together, they narrow).

    Raises:
        click.UsageError: neither was given, or both.
    """
    filters = (project, session, since)
    if bool(names) == any(one is not None for one in filters):
        raise click.UsageError("Name facts, or give --project, --session or --since.")
    if names:
        return [curate.find(app.store, name, scopes=scopes_here(app)) for name in names]
    statuses = tuple(FactStatus) if erase else (FactStatus.ACTIVE, FactStatus.QUARANTINED)
    found = app.store.facts(
        FactQuery(
            scopes=(f"project:{named_project(app, project).key}",) if project else (),
            statuses=statuses,
            since=since_time(since, now=app.now()),
            session=named_session(app, session).session.id if session else None,
        )
    )
    return [fact for fact in found if erase or fact.status is not FactStatus.BINNED]


def confirm(found: Sequence[Fact], *, erase: bool) -> None:
    """Ask before many facts, or any for good; without a terminal --yes is needed."""
    what = f"{'Erase for good' if erase else 'Forget'} {output.plural(len(found), 'fact')}"
    if not sys.stdin.isatty():
        raise click.UsageError(f"{what}? Say --yes; nothing was changed.")
    for fact in found[:20]:
        output.say(f"  {fact.name}: {output.one_line(fact.summary, 90)}")
    if len(found) > 20:  # noqa: PLR2004 -- a screen
        output.say(f"  and {len(found) - 20} more")
    click.confirm(f"{what}?", abort=True)


@facts.command()
@click.argument("name")
@click.option("--json", "wants_json", is_flag=True, help="A JSON array.")
@click.pass_obj
def history(door: Door, name: str, wants_json: bool) -> None:
    """Show all that happened to a fact, newest first."""
    app = door.app
    fact = curate.find(app.store, name, scopes=scopes_here(app))
    entries = app.store.history(fact_id=fact.id)
    if wants_json:
        output.print_json([report.history_json(entry) for entry in entries])
        return
    output.table(
        [
            (output.local(one.at), one.op.value, one.actor, one.group_id[:8], one.after.summary if one.after else "")
            for one in entries
        ],
        ("when", "what", "by", "group", "fact then"),
    )


@facts.command()
@click.argument("group", required=False)
@click.option("--json", "wants_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def undo(door: Door, group: str | None, wants_json: bool) -> None:
    """Take back a change (a group from `facts history`), or your last one."""
    app = door.app
    if group is not None:
        whole = {entry.group_id for entry in app.store.history(limit=10000) if entry.group_id.startswith(group)}
        if len(whole) != 1:
            raise UnknownNameError(
                f"{group}: {'several changes begin' if whole else 'no change begins'} so; nothing was changed."
            )
        group = whole.pop()
    tell_applied(curate.undo(app.store, group=group, at=app.now()), wants_json=wants_json)


def tell_applied(applied: Applied, *, wants_json: bool, hint: str = "") -> None:
    """Say what was changed."""
    if wants_json:
        operations = [
            {"op": one.op.value, "name": one.after.name, "scope": one.after.scope, "fact": one.after.id}
            for one in applied.operations
        ]
        output.print_json({"group": applied.group or None, "operations": operations})
        return
    if not applied.operations:
        output.say("Nothing to change.")
        return
    for one in applied.operations:
        where = "everywhere" if one.after.scope == "user" else one.after.scope.removeprefix("project:")
        output.say(f"{one.op.value}: {one.after.name} ({where}): {output.one_line(one.after.summary, 120)}")
    output.say(hint or f"Take it back with `distiller facts undo {applied.group[:8]}`.")
