"""`why` and `retry`: how a turn ended, where a fact comes from, and another try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from distiller.distill import exchange
from distiller.errors import AmbiguousNameError, UnknownNameError
from distiller.service import curate, report
from distiller.surfaces.cli import output
from distiller.surfaces.cli.here import scopes_here
from distiller.vocabulary import PassRecord, Request, TurnQuery, TurnRow, TurnState

if TYPE_CHECKING:
    from distiller.bootstrap import App
    from distiller.surfaces.cli import Door


@click.command()
@click.argument("name")
@click.option("--prompt", "asked", is_flag=True, help="What the backend was sent and what it answered, word for word.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def why(door: Door, name: str, asked: bool, as_json: bool) -> None:
    """Explain how a turn ended (t… as in the log), or where a fact comes from."""
    app = door.app
    rows = app.store.turn(name)
    if len(shown := {row.id for row in rows}) > 1:
        raise AmbiguousNameError(f"{name}: {len(shown)} turns' ids start so: {', '.join(sorted(shown)[:8])}.")
    if not rows:
        rows = turns_of_fact(app, name)
    projects = {project.key: project.name for project in app.store.projects()}
    objects = [(row, app.store.passes(row.key)) for row in rows]
    if asked:
        show_exchanges(app, [one for _, passes in objects for one in passes], as_json=as_json)
        return
    if as_json:
        found = [
            report.turn_json(
                row, [one for one in passes if one.revision == row.revision], projects.get(row.project_key)
            )
            for row, passes in objects
        ]
        output.print_json(found[0] if len(found) == 1 else found)
        return
    for row, passes in objects:
        show_turn(row, [one for one in passes if one.revision == row.revision], projects.get(row.project_key))


def turns_of_fact(app: App, name: str) -> list[TurnRow]:
    """The turns a fact rests on, newest first.

    Raises:
        UnknownNameError: neither a turn nor a fact goes by that name.
    """
    try:
        fact = curate.find(app.store, name, scopes=scopes_here(app))
    except UnknownNameError:
        raise UnknownNameError(f"{name}: no turn and no fact goes by that name.") from None
    keys = {one.turn_key: None for one in app.store.evidence([fact.id]).get(fact.id, []) if one.turn_key}
    rows = [row for key in keys for row in app.store.turn(key)[:1]]
    if not rows:
        raise UnknownNameError(f"{name}: it was typed on the command line, no turn stands behind it.")
    return rows


def show_exchanges(app: App, passes: list[PassRecord], *, as_json: bool) -> None:
    """What was sent to the backend and what came back, newest pass first, as long as both are kept."""
    found = [(one, *app.store.exchange(one.id)) for one in passes]
    if as_json:
        output.print_json([exchange_json(*each) for each in found])
        return
    for one, request, answer in found:
        model = f" ({one.model})" if one.model else ""
        output.say(
            output.style(
                f"pass {one.attempt} by {one.backend or '?'}{model}, {output.local(one.started_at)}", bold=True
            )
        )
        if request is None:
            output.say("  Nothing was sent, or it is not kept any more (`retention.answer_days`).")
            continue
        if request.prompt is None:
            output.say("  No model was asked; the rules read the turn's own words on this machine.")
        else:
            output.say(output.style("--- fixed part ---", dim=True))
            output.say(fixed_part(request.prompt_version))
            output.say(output.style("--- and after it ---", dim=True))
            output.say(exchange.user_text(request))
        output.say(output.style("--- answer ---", dim=True))
        output.say(answer or "none came")


def fixed_part(version: str | None) -> str:
    """The part of a prompt that never changes within a version."""
    from distiller.distill import prompt

    return prompt.SYSTEM if version == prompt.VERSION else f"(version {version} of an older distiller, not kept)"


def exchange_json(one: PassRecord, request: Request | None, answer: str | None) -> dict[str, Any]:
    """A pass with what was sent and answered."""
    sent = request is not None and request.prompt is not None
    return {
        "pass": one.id, "attempt": one.attempt, "backend": one.backend, "model": one.model,
        "prompt_version": request.prompt_version if request else None,
        "fixed": fixed_part(request.prompt_version) if sent and request else None,
        "prompt": exchange.user_text(request) if sent and request else None,
        "answer": answer,
    }  # fmt: skip


def show_turn(row: TurnRow, passes: list[PassRecord], project: str | None) -> None:
    """One turn for eyes."""
    state = f"{row.state.value} ({row.reason})" if row.reason else row.state.value
    output.say(output.style(row.id, bold=True), f" {state}: {report.explain(row)}")
    if row.prompt:
        output.say(f'  "{output.one_line(row.prompt, 90)}"')
    revision = f", revision {row.revision}" if row.revision > 1 else ""
    output.say(
        f"  {output.local(row.prompt_at)} to {output.local(row.ended_at)}, ended by {row.end_sign.value}{revision}"
    )
    output.say(f"  {row.agent} session {row.session_id[:8]}, project {project or row.project_key}")
    output.say(f"  {row.file}, bytes {row.start_byte}-{row.end_byte}")
    if row.retry_at:
        output.say(f"  tried again at {output.local(row.retry_at)}")
    for one in passes:
        counts = ", ".join(f"{count} {op}" for op, count in one.operations.items()) or "no change"
        names = f" ({', '.join(one.fact_names)})" if one.fact_names else ""
        if one.outcome in (TurnState.WAITING, TurnState.DEAD):
            counts = one.error or one.reason or one.outcome.value
        cost = f", {output.usd(one.usage.cost_usd)}" if one.usage.cost_usd else ""
        model = f" ({one.model})" if one.model else ""
        output.say(
            f"  pass {one.attempt} by {one.backend or '?'}{model}, {one.usage.took_ms} ms{cost}: {counts}{names}"
        )
        for refusal in one.refusals:
            output.say(
                f"    refused {refusal.slug or 'a claim'}: {refusal.code} {output.one_line(refusal.detail, 100)}"
            )


@click.command()
@click.argument("turn", required=False)
@click.option("--paused", is_flag=True, help="Turns that ended while memory was paused; read from their files again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@click.pass_obj
def retry(door: Door, turn: str | None, paused: bool, as_json: bool) -> None:
    """Let a dead turn be distilled again (all dead ones, without TURN)."""
    app = door.app
    keys = None
    if turn is not None:
        rows = app.store.turn(turn)
        if not rows:
            raise UnknownNameError(f"{turn}: no turn's id starts so.")
        if len({row.key for row in rows}) > 1:
            raise AmbiguousNameError(f"{turn}: several turns' ids start so; write more of it.")
        keys = {rows[0].key}
    if paused:
        done = read_paused(app, keys)
    else:
        states = (TurnState.DEAD, TurnState.WAITING) if keys else (TurnState.DEAD,)
        done = app.store.requeue(TurnQuery(states=states), keys=keys, at=app.now())
    if as_json:
        output.print_json({"group": None, "operations": [{"op": "retry", "turn": key} for key in done]})
        return
    output.say(f"{output.plural(len(done), 'turn')} will be distilled again." if done else "Nothing to try again.")


def read_paused(app: App, keys: set[str] | None) -> list[str]:
    """Enrol turns that were passed over while memory was paused, from their files; the keys that wait now."""
    import asyncio

    from distiller.service.reread import reread

    worker = app.inline_worker()
    done, lost = asyncio.run(
        reread(
            reading=app.reading(app.store, worker),
            store=app.store,
            worker=worker,
            transcripts=app.transcripts,
            settle=app.settle,
            reason="paused",
            keys=keys,
        )
    )
    for row in lost:
        output.say(f"distiller: {row.id}: its session file is gone, so it cannot be read any more.", err=True)
    return done
