"""What only the real database and real files show of removing: bytes on the disk, copies, names, open logs."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from distiller.adapters.home_files import HomeFiles
from distiller.adapters.notifier_structlog import RotatingFile
from distiller.adapters.store_sqlite import SqliteStore, open_store
from distiller.errors import StoreUnusableError
from distiller.vocabulary import FactQuery, Lease, Plan, Purge, RecallRecord, Redacted, Refusal, TurnQuery, TurnState
from tests.fakes.store_values import (
    AT,
    add,
    answered,
    asked,
    claim,
    cursor,
    enrolment,
    quote,
    session,
    settled,
)

pytestmark = pytest.mark.integration
replace = msgspec.structs.replace
SECRET = "tok-zanzibar-99"
WANTED = re.compile(SECRET)
PROJECT = f"https://{SECRET}@example.com/acme/app"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """An empty store."""
    made = open_store(str(tmp_path / "data"))
    yield made
    made.close()


def told_everywhere(store: SqliteStore) -> None:
    """A settled turn, a waiting one and a dead end, all telling the secret wherever words and places can stand."""
    words = f'The token is {SECRET} for "host/path"'
    place = {"project_key": PROJECT, "file": f"/s/{SECRET}/a.jsonl"}
    of = replace(session(), title=f"About {SECRET}", cwd=f"/work/{SECRET}")
    store.enrol(
        [
            enrolment("k1", own=words, prompt=Redacted(words), of=of, tool_calls=((SECRET, True),), **place),
            enrolment("k2", own=words, of=session("s2"), message_ids=("n",), words="w2", **place),
        ],
        replace(cursor(f"/s/{SECRET}/a.jsonl", 1), lines_unknown={SECRET: 2}),
        at=AT,
    )
    lease = store.claim("k1", owner="me", at=AT)
    assert isinstance(lease, Lease)
    store.save_answer(lease, asked(words), answered(json.dumps({"body": words})), at=AT)
    said = replace(quote("u1", "k1", quote=Redacted(words)), project_key=PROJECT)
    kept = claim("token-place", summary=Redacted(words), body=Redacted(words), evidence=(said,))
    settlement = settled(TurnState.KEPT, kept=(kept,), note=words, error=words)
    verdict = replace(settlement.verdict, refusals=(Refusal("echo", "x-y", words),))
    store.commit(replace(settlement, verdict=verdict), lease, at=AT)
    store.apply(Plan((add("f2", name=f"about-{SECRET}", related=(f"about-{SECRET}",)),)), actor="person", at=AT)
    store.record_recall(
        RecallRecord("r1", AT, "cli", None, None, PROJECT, Redacted(words), (SECRET,), "here", 5, ("f2",), 1, 1)
    )
    store.set_setting("halt", {"text": words}, at=AT)


def places(path: Path, needle: str = SECRET) -> set[str]:
    """table.column of every cell that holds the needle, decompressed."""
    found = set()
    connection = sqlite3.connect(path)
    tables = connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' AND sql NOT LIKE '%fts5%'")
    for (table,) in tables.fetchall():
        if "_fts_" in table:
            continue
        read = connection.execute(f"SELECT * FROM {table}")
        for row in read.fetchall():
            for (column, *_), cell in zip(read.description, row, strict=True):
                text = unpacked(cell) if isinstance(cell, bytes) else str(cell)
                found |= {f"{table}.{column}"} if needle in text else set()
    connection.close()
    return found


def unpacked(cell: bytes) -> str:
    """What a compressed cell says."""
    try:
        return zlib.decompress(cell).decode()
    except zlib.error:
        return cell.decode("latin-1")


def test_a_scrubbed_text_is_in_no_cell_and_no_byte(store: SqliteStore, tmp_path: Path) -> None:
    """A grep over all files and all decompressed cells finds nothing: index, write-ahead log and backups included."""
    told_everywhere(store)
    backup = Path(store.backup("nightly", at=AT))
    told = places(backup)
    assert {name.split(".")[0] for name in told} >= {
        *("facts", "evidence", "fact_history", "turns", "passes", "sessions", "runs", "recalls", "settings"),
        "cursors",
    }, "the text must first stand everywhere, else this test cannot fail"

    done = store.scrub(WANTED, at=AT)

    assert done.copies == {str(backup): sum(done.rows.values())}
    assert places(tmp_path / "data/distiller.db") == places(backup) == set()
    assert [path for path in tmp_path.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()] == []
    assert store.check() == []
    assert store.find_text(WANTED).rows == {}


def test_what_was_scrubbed_still_works(store: SqliteStore) -> None:
    """Places stay one place in every table, names stay names, and a waiting turn can still be settled."""
    told_everywhere(store)

    store.scrub(WANTED, at=AT)

    (kept,) = store.resolve_fact("token-place")
    rows = store.turns(TurnQuery())
    assert {f"project:{row.project_key}" for row in rows} == {kept.scope}
    assert re.fullmatch(r"project:https://\[REDACTED:scrub-[0-9a-f]{8}\]@example.com/acme/app", kept.scope)
    assert store.cursor(rows[0].file) is not None
    renamed = next(one for one in store.facts(FactQuery()) if one.id == "f2")
    assert re.fullmatch(r"about-redacted-[0-9a-f]{8}", renamed.name)
    assert renamed.related == (renamed.name,)
    lease = store.claim("k2", owner="me", at=AT)
    assert isinstance(lease, Lease)
    store.commit(settled(TurnState.EMPTY, "no-cue"), lease, at=AT)


def test_codes_times_and_ids_are_left_alone(store: SqliteStore) -> None:
    """An expression that also fits a state, a day or an id does not break the ledger; ids that fit are counted."""
    told_everywhere(store)
    before = store.turns(TurnQuery())

    done = store.scrub(re.compile("waiting|2026|person|k1|claude_code"), at=AT)

    assert [(row.key, row.state, row.ended_at, row.agent) for row in store.turns(TurnQuery())] == [
        (row.key, row.state, row.ended_at, row.agent) for row in before
    ]
    assert done.ids > 0


def test_quotes_that_read_alike_afterwards_become_one(store: SqliteStore) -> None:
    """Two quotes of one message that differed in the token alone: both facts keep their evidence."""
    first = quote("u1", "k1", quote=Redacted("use tok-1"))
    second = quote("u1", "k1", quote=Redacted("use tok-2"))
    plan = Plan((add("f1", evidence=(first,)), add("f2", name="other-fact", evidence=(second,))))
    store.apply(plan, actor="pass", at=AT)

    store.scrub(re.compile(r"tok-\d"), at=AT)

    quotes = store.evidence(["f1", "f2"])
    assert {owner: [one.quote for one in found] for owner, found in quotes.items()} == {
        "f1": ["use [REDACTED:scrub]"],
        "f2": ["use [REDACTED:scrub]"],
    }
    assert store.check() == []


def test_a_second_scrub_finds_nothing(store: SqliteStore) -> None:
    """The mark is not itself a match, whatever the expression."""
    store.apply(Plan((add("f1", body="The scrub of REDACTED is tok-1."),)), actor="person", at=AT)
    wanted = re.compile("scrub|REDACTED|tok-1")

    store.scrub(wanted, at=AT)

    assert store.find_text(wanted).rows == {}


def test_a_purge_leaves_no_byte_of_what_it_took(store: SqliteStore, tmp_path: Path) -> None:
    """The words of the purged turns are in no cell and no file, backups included; the turns are still known."""
    told_everywhere(store)
    store.apply(Plan((add("f3", name="third-fact", scope="user", body="Something else."),)), actor="person", at=AT)
    backup = Path(store.backup("nightly", at=AT))

    store.purge(Purge(project_keys=(PROJECT,)), at=AT)

    words = 'for \\"host'  # as it stands in JSON
    for path in (tmp_path / "data/distiller.db", backup):
        assert places(path, "The token is") == places(path, words) == set()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert b"The token is" not in path.read_bytes(), path
    assert {row.reason for row in store.turns(TurnQuery())} == {"purged"}
    assert store.fact("f3") is not None
    assert store.check() == []


def test_a_restored_copy_does_not_bring_a_purged_fact_back(tmp_path: Path) -> None:
    """A copy that was kept elsewhere is held to the tombstones when it is opened."""
    made = open_store(str(tmp_path / "data"))
    told_everywhere(made)
    elsewhere = shutil.copy(made.backup("manual", at=AT), tmp_path / "kept.db")
    made.purge(Purge(session=("claude_code", "s1")), at="2026-12-02T12:00:00.000Z")
    made.close()
    shutil.copy(elsewhere, tmp_path / "data/distiller.db")

    restored = open_store(str(tmp_path / "data"))

    assert restored.resolve_fact("token-place") == []
    restored.close()


@pytest.mark.parametrize("act", ["purge", "scrub"])
def test_a_copy_that_cannot_be_rewritten_stops_it(store: SqliteStore, tmp_path: Path, act: str) -> None:
    """Nobody is told that a text is gone while a copy still holds it."""
    told_everywhere(store)
    (tmp_path / "data/backups").mkdir()
    (tmp_path / "data/backups/20260101-manual.db").write_bytes(b"broken" * 1000)
    before = places(tmp_path / "data/distiller.db")

    what = Purge(project_keys=(PROJECT,)) if act == "purge" else WANTED

    with pytest.raises(StoreUnusableError, match="nothing was removed"):
        getattr(store, act)(what, at=AT)

    assert places(tmp_path / "data/distiller.db") == before


# --- files --------------------------------------------------------------------------------------------------------


def test_a_log_is_scrubbed_under_an_open_writer(tmp_path: Path) -> None:
    """The file stays the same file, as long as before, line by line JSON; what is written next is behind it."""
    path = tmp_path / "logs/distiller.jsonl"
    path.parent.mkdir()
    writer = RotatingFile(str(path))
    writer.write(json.dumps({"event": "a", "session": f"x-{SECRET}-y"}).encode() + b"\n")
    writer.write(json.dumps({"event": "b", "session": f"{SECRET}-longer"[:21]}).encode() + b"\n")
    before = path.stat()
    home = HomeFiles([str(tmp_path)], texts=[str(path.parent)])
    wanted = re.compile(rf"{SECRET}(-longe)?")

    counted = home.find_text(wanted)
    done = home.scrub(wanted)
    writer.write(json.dumps({"event": "c"}).encode() + b"\n")
    writer.close()

    assert counted == done == {str(path): 2}
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["event"] for line in lines] == ["a", "b", "c"]
    assert [lines[0]["session"], lines[1]["session"]] == [f"x-{'*' * 15}-y", "[REDACTED:scrub]*****"]
    assert (path.stat().st_ino, path.stat().st_size > before.st_size) == (before.st_ino, True)
    assert home.holding([SECRET]) == []
    assert home.find_text(WANTED) == {}


def test_files_that_are_needed_as_they_are_are_named_instead(tmp_path: Path) -> None:
    """`changes.json` serves the undo: it is not rewritten, and the search names it."""
    changes = tmp_path / "state/changes.json"
    changes.parent.mkdir()
    changes.write_text(json.dumps({"file": SECRET}))
    home = HomeFiles([str(tmp_path)], texts=[str(changes.parent)])

    assert home.scrub(WANTED) == {}
    assert home.holding([SECRET]) == [str(changes)]


def test_the_listing_names_sizes_and_rights(tmp_path: Path) -> None:
    """Folders with what their files weigh, files with theirs; links are not followed."""
    (tmp_path / "home").mkdir(mode=0o700)
    file = tmp_path / "home/a.txt"
    file.write_text("four")
    file.chmod(0o600)
    (tmp_path / "other").write_text("not ours")
    (tmp_path / "home/link").symlink_to(tmp_path / "other")

    listed = HomeFiles([str(tmp_path / "home")], texts=[]).listing()

    assert [(Path(one.path).name, one.bytes, oct(one.mode)) for one in listed] == [
        ("home", 4, "0o700"), ("a.txt", 4, "0o600"),
    ]  # fmt: skip
