"""A person's acts on facts: each can be taken back, none overwrites what another did, none is done by half."""

from __future__ import annotations

import itertools

import pytest

from distiller.errors import AmbiguousNameError, ConflictError, UnknownNameError, UsageError
from distiller.service import curate
from distiller.service.recall import quote_of
from distiller.vocabulary import Applied, Fact, FactKind, FactQuery, FactStatus, Project, Redacted
from tests.fakes.clock import FakeClock
from tests.fakes.store import FakeStore

IDS = (f"{number:08d}-0000-4000-8000-000000000000" for number in itertools.count(1))
HERE = "project:example.com/acme/app"


class Desk:
    """A person at work on a store."""

    def __init__(self) -> None:
        self.store = FakeStore()
        self.clock = FakeClock()

    def add(self, text: str, *, name: str | None = None, scope: str = HERE) -> Applied:
        """Add a fact."""
        self.clock.move(seconds=1)
        evidence = curate.said(
            Redacted(text), at=self.now, local_date="2026-12-01", project_key="p", message_id=f"typed:{self.now}"
        )
        return curate.add(
            self.store, Redacted(text), name=name, kind=FactKind.PROJECT, scope=scope, evidence=evidence,
            new_id=lambda: next(IDS), at=self.now,
        )  # fmt: skip

    @property
    def now(self) -> str:
        """The time, a second later at each question."""
        self.clock.move(seconds=1)
        return self.clock.text()

    def fact(self, name: str) -> Fact:
        """The fact of that name."""
        return curate.find(self.store, name, scopes=(HERE, "user"))

    def bodies(self) -> list[str]:
        """What the active facts say."""
        return sorted(fact.body for fact in self.store.facts(FactQuery()))


@pytest.fixture
def desk() -> Desk:
    """An empty store."""
    return Desk()


def test_an_added_fact_is_the_persons_own_words(desk: Desk) -> None:
    """It is active, stated, named after its words, and has a source."""
    applied = desk.add("use uv, never pip", name="package-tool")

    (fact,) = [one.after for one in applied.operations]
    assert (fact.name, fact.status, fact.edited_by_person) == ("package-tool", FactStatus.ACTIVE, True)
    assert [one.quote for one in desk.store.evidence([fact.id])[fact.id]] == ["use uv, never pip"]


def test_adding_under_a_taken_name_replaces_the_text_and_can_be_undone(desk: Desk) -> None:
    """One name is one fact; the old words come back by undo."""
    desk.add("use pip", name="package-tool")
    desk.add("use uv", name="package-tool")
    replaced = desk.bodies()

    curate.undo(desk.store, group=None, at=desk.now)

    assert (replaced, desk.bodies()) == (["use uv"], ["use pip"])


@pytest.mark.parametrize("text", ["", "  ", "x" * 2001])
def test_what_cannot_be_a_fact_is_refused(desk: Desk, text: str) -> None:
    """Nothing is stored then."""
    with pytest.raises(UsageError):
        desk.add(text, name="some-name")

    assert desk.bodies() == []


def test_an_edit_of_a_fact_that_changed_meanwhile_is_refused(desk: Desk) -> None:
    """Two editors: the second is told, nothing is overwritten in silence."""
    desk.add("use pip", name="package-tool")
    seen = desk.fact("package-tool")
    curate.edit(desk.store, seen, at=desk.now, summary=None, body="use uv", kind=None)

    with pytest.raises(ConflictError):
        curate.edit(desk.store, seen, at=desk.now, summary=None, body="use poetry", kind=None)

    assert desk.bodies() == ["use uv"]


def test_forget_hides_at_once_and_undo_brings_back(desk: Desk) -> None:
    """The bin is one step away from both sides."""
    desk.add("use uv", name="package-tool")
    curate.forget(desk.store, [desk.fact("package-tool")], at=desk.now)
    hidden = desk.bodies()

    curate.undo(desk.store, group=None, at=desk.now)

    assert (hidden, desk.bodies()) == ([], ["use uv"])


def test_f70_forgetting_one_project_leaves_the_others(desk: Desk) -> None:
    """F70: a bulk act is one group over exactly its facts, and one undo takes it back."""
    for number in range(30):
        desk.add(f"rule {number} of app", name=f"rule-{number}-app")
    for number in range(5):
        desk.add(f"rule {number} of shop", name=f"rule-{number}-shop", scope="project:example.com/acme/shop")
    before = desk.bodies()
    found = desk.store.facts(FactQuery(scopes=("project:example.com/acme/shop",)))

    applied = curate.forget(desk.store, found, at=desk.now)
    after = desk.bodies()
    curate.undo(desk.store, group=applied.group, at=desk.now)

    assert after == [body for body in before if "app" in body]
    assert desk.bodies() == before


def test_a_moved_fact_is_found_under_its_old_name(desk: Desk) -> None:
    """The old name leads to it; a taken name is refused."""
    desk.add("use uv", name="package-tool")
    desk.add("never squash", name="squash-policy")
    curate.move(desk.store, desk.fact("package-tool"), scope="user", name="python-package-tool", at=desk.now)

    assert desk.fact("package-tool").name == "python-package-tool"
    with pytest.raises(ConflictError):
        curate.move(desk.store, desk.fact("python-package-tool"), scope=HERE, name="squash-policy", at=desk.now)


def test_undo_refuses_what_was_changed_since(desk: Desk) -> None:
    """A later change is never lost by an undo of an earlier one."""
    applied = desk.add("use pip", name="package-tool")
    curate.edit(desk.store, desk.fact("package-tool"), at=desk.now, summary=None, body="use uv", kind=None)

    with pytest.raises(ConflictError):
        curate.undo(desk.store, group=applied.group, at=desk.now)

    assert desk.bodies() == ["use uv"]


def test_undo_goes_back_step_by_step_and_takes_the_quote_along(desk: Desk) -> None:
    """Three versions: two undos lead to the first, whose words are the proof again."""
    desk.add("use pip", name="package-tool")
    desk.add("use poetry", name="package-tool")
    desk.add("use uv", name="package-tool")

    curate.undo(desk.store, group=None, at=desk.now)
    middle = desk.bodies()
    curate.undo(desk.store, group=None, at=desk.now)

    fact = desk.fact("package-tool")
    assert (middle, fact.body) == (["use poetry"], "use pip")
    assert quote_of(fact, desk.store.evidence([fact.id])[fact.id]) == "use pip"


def test_a_new_body_is_what_lists_show(desk: Desk) -> None:
    """The summary follows the body, unless the person gives one."""
    desk.add("use pip", name="package-tool")
    curate.edit(desk.store, desk.fact("package-tool"), at=desk.now, summary=None, body="use uv", kind=None)
    followed = desk.fact("package-tool").summary
    curate.edit(desk.store, desk.fact("package-tool"), at=desk.now, summary="uv only", body="use uv, only", kind=None)

    assert (followed, desk.fact("package-tool").summary) == ("use uv", "uv only")


@pytest.mark.parametrize("name", ["a", "Upper-Case", "a-b-c-d-e-f", "quarantined-12345678"])
def test_a_name_that_is_none_is_refused(desk: Desk, name: str) -> None:
    """Two to five words; names of quarantined text are not for facts."""
    with pytest.raises(UsageError, match="two to five words"):
        desk.add("use uv", name=name)


def test_a_pin_is_set_once_and_taken_off_again(desk: Desk) -> None:
    """Pinning twice changes nothing more."""
    desk.add("use uv", name="package-tool")
    first = curate.pin(desk.store, [desk.fact("package-tool")], pinned=True, at=desk.now)
    second = curate.pin(desk.store, [desk.fact("package-tool")], pinned=True, at=desk.now)
    curate.pin(desk.store, [desk.fact("package-tool")], pinned=False, at=desk.now)

    assert (len(first.operations), len(second.operations)) == (1, 0)
    assert desk.fact("package-tool").pinned is False


def test_a_name_in_two_projects_means_the_one_at_hand(desk: Desk) -> None:
    """Here wins; from elsewhere the person is asked which, or names `project/name` or an id."""
    other = "project:example.com/acme/shop"
    desk.store.save_project(Project("example.com/acme/shop", "shop"), at=desk.now)
    desk.add("use uv", name="package-tool")
    desk.add("use poetry", name="package-tool", scope=other)

    assert desk.fact("package-tool").body == "use uv"
    assert desk.fact("shop/package-tool").body == "use poetry"
    with pytest.raises(AmbiguousNameError):
        curate.find(desk.store, "package-tool")
    with pytest.raises(UnknownNameError):
        curate.find(desk.store, "no-such-name")
