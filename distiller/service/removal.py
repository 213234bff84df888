"""What a person wants gone in, what was removed and what is left out: `purge` by origin, `scrub` by text.

Both count first, act in one transaction of the store, and look again afterwards: nobody is told that a text is gone
because an act said so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatch

import msgspec

from distiller.errors import UnknownNameError, UsageError
from distiller.memory import needles
from distiller.ports import Home, Store
from distiller.vocabulary import Project, Purge, Scrubbed

MOST_SHARE = 0.2  # of all facts; what stands in more of them is a word of the trade, not a secret
FEW_FACTS = 5  # so many may always be changed, however few there are


class Found(msgspec.Struct, frozen=True):
    """Where a text stands: rows by table, copies and files by path; `ids` and `facts` as in `Scrubbed`."""

    rows: dict[str, int]
    copies: dict[str, int]
    files: dict[str, int]
    ids: int
    facts: int

    @property
    def anywhere(self) -> bool:
        """Whether there is anything to take out."""
        return any((*self.rows.values(), *self.copies.values(), *self.files.values()))


class Done(msgspec.Struct, frozen=True):
    """What a scrub changed, and the files of ours in which the text still stands."""

    found: Found
    left: tuple[str, ...]


def expression(text: str) -> re.Pattern[str]:
    """What the person typed as a pattern.

    Raises:
        UsageError: it is no regular expression, or finds the empty text.
    """
    try:
        wanted = needles.expression(text)
    except re.error as error:
        raise UsageError(f"That is no regular expression ({error}); nothing was changed.") from None
    if needles.matches_nothing(wanted):
        raise UsageError("That expression finds the empty text, so everything; nothing was changed. Say more of it.")
    return wanted


def find(store: Store, home: Home, wanted: re.Pattern[str]) -> Found:
    """Where it stands now; nothing is changed."""
    return found_in(store.find_text(wanted), home.find_text(wanted))


def refuse_most(found: Found) -> None:
    """Raise UsageError if so many facts hold the text that it can hardly be meant."""
    hit = found.rows.get("facts", 0)
    if hit > max(FEW_FACTS, MOST_SHARE * found.facts):
        raise UsageError(
            f"That stands in {hit} of {found.facts} facts; nothing was changed. Say more of it, or --force."
        )


def scrub(store: Store, home: Home, wanted: re.Pattern[str], *, at: str) -> Done:
    """Take the text out of store, copies and files, and look whether it is gone."""
    done = store.scrub(wanted, at=at)
    files = home.scrub(wanted)
    again = store.find_text(wanted)
    left = {*home.find_text(wanted), *home.holding(done.texts | again.texts)}
    left |= {path for path, count in again.copies.items() if count}
    return Done(found_in(done, files), tuple(sorted(left | ({"the database"} if again.rows else set()))))


def found_in(scrubbed: Scrubbed, files: dict[str, int]) -> Found:
    """Store and files together, without the texts themselves."""
    copies = {path: count for path, count in scrubbed.copies.items() if count}
    return Found(scrubbed.rows, copies, files, scrubbed.ids, scrubbed.facts)


# --- purge ------------------------------------------------------------------------------------------------------


def projects_named(store: Store, wanted: str) -> list[Project]:
    """All projects that a name, key or pattern means, aliases left out.

    Raises:
        UnknownNameError: none.
    """
    own = [project for project in store.projects() if project.alias_of is None]
    exact = [project for project in own if wanted in (project.name, project.key)]
    found = exact or [one for one in own if fnmatch(one.name, wanted) or fnmatch(one.key, wanted)]
    if not found:
        raise UnknownNameError(
            f"{wanted}: no project goes by that name; nothing was removed. `distiller projects` lists them."
        )
    return found


def keys_of(store: Store, projects: Sequence[Project]) -> tuple[str, ...]:
    """The keys under which turns of these projects lie or, in older copies, lay."""
    own = {project.key for project in projects}
    return tuple(sorted(own | {one.key for one in store.projects() if one.alias_of in own}))


def purge(store: Store, what: Purge, *, at: str) -> tuple[dict[str, int], dict[str, int]]:
    """What was removed, and what a second look still finds (all zero when all is well)."""
    removed = store.purge(what, at=at)
    return removed, store.purgeable(what)


def set_aside(home: Home) -> list[str]:
    """Damaged databases that a restore kept: nothing can be taken out of them."""
    return [file.path for file in home.listing() if ".db.damaged-" in file.path]
