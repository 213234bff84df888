"""Removing: nothing is taken for gone because an act said so, and no careless word empties the memory."""

from __future__ import annotations

import pytest

from distiller.errors import UnknownNameError, UsageError
from distiller.service import removal
from distiller.vocabulary import Plan, Project, Purge, Redacted
from tests.fakes.home import FakeHome
from tests.fakes.store import FakeStore
from tests.fakes.store_values import AT, add, quote


def store_with(*bodies: str) -> FakeStore:
    """A store with one fact for each body."""
    store = FakeStore()
    plan = Plan(tuple(add(f"f{n}", name=f"fact-{n}", body=body) for n, body in enumerate(bodies)))
    store.apply(plan, actor="person", at=AT)
    return store


@pytest.mark.parametrize("text", [".*", "x?", "", "a|", r"\b", "(?=a)"])
def test_an_expression_that_finds_the_empty_text_is_refused(text: str) -> None:
    """It stands everywhere, so it cannot be meant."""
    with pytest.raises(UsageError, match="nothing was changed"):
        removal.expression(text)


def test_what_is_no_expression_is_refused() -> None:
    """A slip of the fingers ends in one line."""
    with pytest.raises(UsageError, match="no regular expression"):
        removal.expression("[")


def test_plain_words_are_found_inside_json_and_over_line_breaks() -> None:
    """What a person types as words is found however it was written down."""
    wanted = removal.expression('Zoë said "hi')

    assert wanted.search('{"a": "Zo\\u00eb said \\"hi\\""}')
    assert wanted.search('Zoë  said\n"hi')


def test_a_word_of_most_facts_is_refused() -> None:
    """More than a fifth of all facts is no secret; a few may always be changed."""
    many = store_with(*["use uv"] * 6, *["other"] * 10)
    few = store_with(*["use uv"] * 5)
    wanted = removal.expression("use uv")

    with pytest.raises(UsageError, match="6 of 16 facts"):
        removal.refuse_most(removal.find(many, FakeHome({}), wanted))
    removal.refuse_most(removal.find(few, FakeHome({}), wanted))


def test_a_scrub_covers_store_and_files_and_looks_again() -> None:
    """Afterwards neither the store nor a file of ours holds the text."""
    store, home = store_with("the token is tok-1"), FakeHome({"/logs/a": "saw tok-1", "/logs/b": "fine"})

    done = removal.scrub(store, home, removal.expression("tok-1"), at=AT)

    assert (done.found.files, done.left) == ({"/logs/a": 1}, ())
    assert home.lines == {"/logs/a": "saw *", "/logs/b": "fine"}


def test_a_file_that_keeps_the_text_is_named() -> None:
    """Nobody is told that a text is gone while a file still holds it."""
    home = FakeHome({"/logs/a": "saw tok-1"}, stubborn="/logs/a")

    done = removal.scrub(store_with("the token is tok-1"), home, removal.expression("tok-1"), at=AT)

    assert done.left == ("/logs/a",)


def test_a_pattern_may_mean_several_projects_and_their_aliases() -> None:
    """A purge takes all that fit, under every key they ever had; none that fits is an error."""
    store = FakeStore()
    for key, name in (("h/acme/api", "api"), ("h/acme/web", "web"), ("/work/api@m", "api-folder")):
        store.save_project(Project(key, name), at=AT)
    store.alias_project("/work/api@m", "h/acme/api", at=AT)

    found = removal.projects_named(store, "h/acme/*")

    assert [one.name for one in found] == ["api", "web"]
    assert removal.keys_of(store, found) == ("/work/api@m", "h/acme/api", "h/acme/web")
    with pytest.raises(UnknownNameError, match="nothing was removed"):
        removal.projects_named(store, "other")


def test_a_purge_tells_what_is_still_there() -> None:
    """The second look is the store's own, not what the act said."""
    store = FakeStore()
    store.apply(Plan((add("f1", evidence=(quote("u1", "", quote=Redacted("use uv")),)),)), actor="person", at=AT)

    removed, left = removal.purge(store, Purge(project_keys=("p1",)), at=AT)

    assert removed["facts"] == 1
    assert not any(left.values())


def test_a_damaged_database_that_was_set_aside_is_named() -> None:
    """Nothing can be taken out of it, so the person is told to remove it."""
    home = FakeHome({"/data/distiller.db": "", "/data/distiller.db.damaged-20261201": "tok-1"})

    assert removal.set_aside(home) == ["/data/distiller.db.damaged-20261201"]
