"""Which fact a new statement is about: what replaces a value, and what only sounds like it."""

from __future__ import annotations

import pytest

from distiller.distill import topics
from distiller.vocabulary import NearFact

ONE_THING = [
    ("Staging runs on port 7171 now.", "Staging runs on port 7070."),
    ("The staging server is on port 7171.", "Staging runs on port 7070."),
    ("From now on always use npm.", "We use pnpm, never npm."),
    ("Never push to main without a review.", "Do not push to main."),
    ("No emojis in commit messages.", "No emojis in answers or commits."),
    ("Use 4 spaces in python files.", "Python files get 2 spaces."),
    ("Tests time out after 60 seconds.", "Tests time out after 30 seconds."),
    ("We never edit schema_a.py by hand, it is generated.", "Never edit schema_a.py by hand."),
]
TWO_THINGS = [
    ("The worker runs on port 9090.", "The api runs on port 8080."),
    ("The billing worker runs on port 9091.", "The mail worker runs on port 9090."),
    ("Never edit schema_b.py by hand.", "Never edit schema_a.py by hand."),
    ("Never edit the config by hand.", "Never edit the schema by hand."),
    ("Use 4 spaces in python files.", "Use 2 spaces in yaml files."),
    ("Indent python with 4 spaces.", "Indent yaml with 2 spaces."),
    ("In docs we use British spelling.", "In the ui we use American spelling."),
    ("Run vitest with 4 workers.", "Run pytest with 2 workers."),
    ("Production deploys need two approvals.", "Staging deploys need one approval."),
    ("We never deploy on Thursday.", "We never deploy on Friday."),
    ("No emojis in commit messages.", "We use conventional commits."),
]


@pytest.mark.parametrize(("new", "old"), ONE_THING)
def test_a_new_value_meets_the_fact_that_it_replaces(new: str, old: str) -> None:
    """One fact with a history, and not two of which one is stale."""
    known = _fact(old)

    assert topics.nearest(new, (known,)) == known


@pytest.mark.parametrize(("new", "old"), TWO_THINGS)
@pytest.mark.parametrize("moved", [False, True])
def test_statements_that_only_sound_alike_keep_apart(new: str, old: str, *, moved: bool) -> None:
    """Neither replaces the other, whichever came first, and each gets a name of its own."""
    for said, there in ((new, old), (old, new)):
        known = _fact(there)

        assert topics.nearest(said, (known,), moved=moved) is None
        assert topics.name(said, (known,)) != known.name


def test_a_move_meets_what_it_moves_away_from() -> None:
    """A fact is found by what it is about, though the new words share little with it."""
    known = _fact("The nightly export job writes to bucket A on Mondays.")

    assert topics.nearest("The nightly export job goes to the warehouse now.", (known,), moved=True) == known
    assert topics.nearest("The weekly export job goes to the warehouse now.", (known,), moved=True) is None


def _fact(summary: str) -> NearFact:
    return NearFact(1, topics.name(summary), summary, "project", "fact-1")
