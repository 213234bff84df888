"""From a finished turn to its ledger entry: what is skipped and why, what is redacted, how much text is kept."""

from __future__ import annotations

import msgspec
import pytest

from distiller.service.enrol import cap
from distiller.transcript.pieces import OWN_SESSION_MARK
from distiller.vocabulary import Project, Redacted, Role, Row
from tests.fakes.backend import FakeBackend
from tests.fakes.world import RULES, World

RULE = "From now on use uv in this repo, never pip."


def test_off_the_record_ends_reading_from_that_turn_on() -> None:
    """Said alone on a line, it marks the session: that turn and all later ones are read by no backend."""
    world = World(backend=(backend := FakeBackend()))
    session = world.session()
    session.turns(["We use tabs in this repo.", "Off the record.\nMy manager wants us to use npm.", RULE])
    world.distil()

    assert world.outcomes() == ["empty(nothing-durable)", "skipped(off-record)", "skipped(off-record)"]
    assert len(backend.requests) == 1
    assert [row.prompt for row in world.turns()][1:] == ["", ""]


def test_off_the_record_inside_a_sentence_is_an_ordinary_sentence() -> None:
    """Only the phrase alone on a line is the switch."""
    world = World()
    world.session().turn("Off the record was the name of the old module; we call it notes from now on, never record.")

    assert world.outcomes() == ["waiting(queued)"]


@pytest.mark.parametrize(
    ("headless", "outcome"), [("skip", "skipped(headless)"), ("read", "kept"), ("repeats", "kept")]
)
def test_a_programs_session_is_read_as_the_person_says(headless: str, outcome: str) -> None:
    """`headless = skip` reads none of them; the other two read them as the person's."""
    world = World(rules=msgspec.structs.replace(RULES, headless=headless))
    session = world.session(entrypoint="sdk-cli")
    session.add(session.session.prompt(RULE, promptSource="sdk") + session.session.say("ok") + session.session.end())
    world.distil()

    assert world.outcomes() == [outcome]


def test_f05_our_own_session_is_never_distilled() -> None:
    """A session whose first prompt is ours is skipped as a whole, whatever it says."""
    world = World(backend=(backend := FakeBackend()))
    world.session().turns([f"{OWN_SESSION_MARK}: read this turn", RULE])
    world.distil()

    assert world.outcomes() == ["skipped(own-session)", "skipped(own-session)"]
    assert backend.requests == []


def test_turns_of_an_unanswered_project_wait_for_the_answer() -> None:
    """`projects = ask`: nothing is read before the person says yes; a no skips what comes."""
    world = World(ask=True)
    session = world.session(cwd="/work/app")
    session.turn(RULE)
    asked = world.outcomes()
    world.store.save_project(Project("example.com/acme/app", "app", reading="on"), at=world.clock.text())
    world.store.hold(None, from_reasons=("project",), at=world.clock.text())
    world.distil()
    answered = world.outcomes()
    world.store.save_project(Project("example.com/acme/app", "app", reading="off"), at=world.clock.text())
    session.turn("We never push to main in this repo.")

    assert (asked, answered) == (["waiting(project)"], ["kept"])
    assert world.outcomes()[1] == "skipped(project-off)"


@pytest.mark.parametrize(
    "words",
    [
        "yes",
        "ok go on",
        "continue",
        "thanks!",
        "1",
        "weiter",
        "oui",
        "sí",
        "はい",
        "好的",
        "<command-name>/cost</command-name>",
    ],
)
def test_turns_without_own_words_cost_no_call(words: str) -> None:
    """An assent, a bare continuation or a command says nothing to keep."""
    world = World(backend=(backend := FakeBackend()))
    world.session().turn(words)
    world.distil()

    assert world.outcomes() == ["skipped(no-words)"]
    assert backend.requests == []


def test_a_waiting_turns_text_fits_and_the_own_words_stay() -> None:
    """Results are shortened first, own words never, however much a tool has printed."""
    rows = (
        Row(1, "m1", Role.USER, "own", Redacted("x" * 5000)),
        Row(2, "m2", Role.ASSISTANT, "call", Redacted("c" * 5000), call_id="c1"),
        Row(3, "m3", Role.USER, "result", Redacted("r" * 500_000), call_id="c1"),
        Row(4, "m4", Role.USER, "result", Redacted("s" * 300), call_id="c2"),
    )

    kept = cap(rows, 20_000)

    assert sum(len(row.text) for row in kept) <= 20_000
    assert [len(row.text) for row in kept] == [5000, 5000, 9700, 300]


def test_no_raw_text_of_a_turn_reaches_the_ledger() -> None:
    """Prompt, title, folder, calls and results are redacted before the store sees them."""
    secret = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    world = World()
    session = world.session(cwd=f"/work/{secret}")
    write = session.session
    write.raw({"type": "ai-title", "aiTitle": f"fix {secret}", "sessionId": write.session_id})
    session.add(write.prompt(f"Use {secret} and nothing else, always.") + write.call("c1", "Bash", {"command": secret}))
    session.add(write.result("c1", secret) + write.say(secret) + write.end())

    assert secret not in repr(vars(world.store))
    assert len(world.turns()) == 1
