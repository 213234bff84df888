"""What only the real database shows: processes, crashes, full disks, rights, old and new schemas, bytes on the disk."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import sqlite_utils

from distiller.adapters.store_sqlite import SqliteStore, database, due, facts, forgetting, open_store, rows
from distiller.errors import DiskFullError, StoreBusyError, StoreUnusableError
from distiller.timestamps import after
from distiller.vocabulary import (
    Candidate,
    Declined,
    FactKind,
    FactQuery,
    FactStatus,
    Lease,
    Limits,
    Op,
    Operation,
    Plan,
    Proposal,
    RecallRecord,
    Redacted,
    Refusal,
    Retention,
    Saved,
    TurnQuery,
    TurnState,
)
from tests.fakes.store_values import AT, add, answered, asked, claim, cursor, enrolment, fact, quote, session, settled

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
LATER = after(AT, seconds=3600)
replace = msgspec.structs.replace


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """A fresh store."""
    made = open_store(str(tmp_path))
    yield made
    made.close()


def run(code: str, *args: str) -> subprocess.Popen[bytes]:
    """Start Python with the checkout on its path."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *args], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


# --- rights, start, schema ----------------------------------------------------------------------------------------


def test_nobody_else_may_read(tmp_path: Path) -> None:
    """Folders 0700, files 0600, whatever the umask says and whatever they were before."""
    old_umask = os.umask(0)
    try:
        home = tmp_path / "data"
        home.mkdir(mode=0o755)
        made = open_store(str(home))
        made.apply(Plan((add("f1"),)), actor="person", at=AT)
        made.backup("manual", at=AT)
        made.erase(["f1"], at=AT)
        made.apply(Plan((add("f2"),)), actor="person", at=AT)
    finally:
        os.umask(old_umask)

    rights = {path.relative_to(home).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in home.rglob("*")}
    made.close()
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert rights.pop("backups") == 0o700
    assert {"distiller.db", "distiller.db-wal", "distiller.db-shm", "forgotten.key", "forgotten.jsonl"} < set(rights)
    assert set(rights.values()) == {0o600}


def test_opening_an_up_to_date_store_imports_little(tmp_path: Path) -> None:
    """F64: a recall starts without the library that migrations need."""
    open_store(str(tmp_path)).close()
    code = """
        import sys
        from distiller.adapters.store_sqlite import open_store
        from distiller.vocabulary import FactQuery
        store = open_store(sys.argv[1])
        store.search(["uv"], query=FactQuery())
        store.facts(FactQuery())
        print([name for name in ("sqlite_utils", "click", "asyncio", "numpy") if name in sys.modules])
    """

    out, err = run(code, str(tmp_path)).communicate(timeout=60)

    assert (out.decode().strip(), err) == ("[]", b"")


def test_several_processes_may_make_the_same_fresh_store(tmp_path: Path) -> None:
    """F42: daemon, MCP server and command line start together for the first time."""
    code = """
        import sys
        from distiller.adapters.store_sqlite import open_store
        store = open_store(sys.argv[1])
        print(store.set_setting("who", sys.argv[2], at="", only_if_absent=True))
    """
    processes = [run(code, str(tmp_path), str(number)) for number in range(4)]

    answers = [process.communicate(timeout=60) for process in processes]

    assert [err for _, err in answers] == [b""] * 4
    assert len({out for out, _ in answers}) == 1


def test_an_older_program_leaves_a_newer_database_alone(tmp_path: Path) -> None:
    """It says so, and writes nothing."""
    open_store(str(tmp_path)).close()
    with sqlite3.connect(tmp_path / "distiller.db") as connection:
        connection.execute("INSERT INTO migrations (number, name) VALUES (9999, 'from the future')")
    connection.close()

    for read_only in (True, False):
        with pytest.raises(StoreUnusableError, match="upgrade distiller"):
            open_store(str(tmp_path), read_only=read_only)


def test_an_older_database_is_copied_before_it_is_migrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An upgrade can be taken back; a reader that may not migrate says who can."""
    open_store(str(tmp_path / "data")).close()
    newer = tmp_path / "migrations"
    shutil.copytree(database.MIGRATIONS, newer)
    (newer / "9000_more.sql").write_text("CREATE TABLE more (id TEXT);\nINSERT INTO more VALUES ('a;b');\n")
    monkeypatch.setattr(database, "MIGRATIONS", newer)

    with pytest.raises(StoreUnusableError, match="distiller run"):
        open_store(str(tmp_path / "data"), read_only=True)
    made = open_store(str(tmp_path / "data"))

    assert made.totals(day_from=AT).schema == 9000
    made.close()
    assert [path.name.endswith("-migration.db") for path in (tmp_path / "data/backups").iterdir()] == [True]


def test_a_migration_that_fails_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All migrations or none."""
    open_store(str(tmp_path / "data")).close()
    newer = tmp_path / "migrations"
    shutil.copytree(database.MIGRATIONS, newer)
    (newer / "9000_bad.sql").write_text("CREATE TABLE more (id TEXT);\nINSERT INTO nowhere VALUES (1);\n")
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", newer)
        with pytest.raises(sqlite3.OperationalError):
            open_store(str(tmp_path / "data"))

    made = open_store(str(tmp_path / "data"))
    assert made.totals(day_from=AT).schema == database.latest()
    assert made.database.read("SELECT 1 FROM sqlite_schema WHERE name = 'more'") == []
    made.close()


FIRST_ROWS = """
    INSERT INTO sessions (agent, id, root_session_id, role) VALUES ('claude_code', 's1', 's1', 'person');
    INSERT INTO turns (
      key, revision, id, agent, session_id, project_key, file, start_byte, end_byte, ended_at, end_sign, digest,
      words_digest, state, reason, backend, attempts, lease_owner, lease_generation, lease_until, text, enrolled_at,
      settled_at, pass_id
    ) VALUES
      ('open', 1, 't1', 'claude_code', 's1', 'p1', '/s/a', 0, 9, :at, 'marked', 'd1', 'w1', 'waiting', 'queued', NULL,
        1, 'dead', 1, :at, :text, :at, NULL, 'pass-open'),
      ('dead', 1, 't2', 'claude_code', 's1', 'p1', '/s/a', 9, 20, :at, 'marked', 'd2', 'w2', 'dead', 'backend-failed',
        'embedded', 8, NULL, 8, NULL, :text, :at, :at, 'pass-dead');
    INSERT INTO passes (id, turn_key, revision, attempt, started_at, input_tokens, cost_usd, outcome, reason, answer)
    VALUES
      ('pass-open', 'open', 1, 1, :at, 40, 0.5, NULL, NULL, :answer),
      ('pass-dead', 'dead', 1, 8, :at, 2, 0.25, 'dead', 'backend-failed', NULL);
"""


def test_a_database_of_the_first_schema_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the upgrade old rows read as before, count as spent, and an answer without its question is asked for."""
    first = tmp_path / "migrations"
    first.mkdir()
    shutil.copy(database.MIGRATIONS / "0001_first.sql", first)
    with monkeypatch.context() as patch:
        patch.setattr(database, "MIGRATIONS", first)
        old = open_store(str(tmp_path / "data"))
        assert database.schema_of(old.database.connection) == 1
        blobs = {"at": AT, "text": rows.pack(enrolment("open").text), "answer": rows.pack("an old answer")}
        with old.database.writing() as connection:
            for statement in FIRST_ROWS.split(";")[:-1]:
                connection.execute(statement, blobs)
        old.close()

    made = open_store(str(tmp_path / "data"))

    assert made.totals(day_from=AT).schema == database.latest()
    assert [path.name.endswith("-migration.db") for path in (tmp_path / "data/backups").iterdir()] == [True]
    assert made.exchange("pass-open") == (None, "an old answer")
    assert [(one.purse, one.usage.input_tokens) for one in made.spending(since="")] == [("daily", 42)]
    assert made.totals(day_from=AT).last_error == (AT, "backend-failed", "backend-failed (turn t2)")
    spent = Limits(since=AT, tokens=43, reserved_tokens=2)
    assert made.claim("open", owner="me", at=LATER, limits=spent) == Declined("budget")
    assert made.requeue(TurnQuery(), at=LATER) == ["dead"]
    assert made.due(at=LATER, limit=9) == ["open"]
    lease = made.claim("open", owner="me", at=LATER, limits=replace(spent, tokens=44))
    assert isinstance(lease, Lease)
    assert (lease.saved, lease.attempt, lease.text) == (None, 2, enrolment("open").text)
    made.save_answer(lease, asked(), answered(), at=LATER)
    made.commit(settled(TurnState.EMPTY, "one-off"), lease, at=LATER)
    assert [(one.id, one.reason) for one in made.passes("open")] == [
        (lease.pass_id, "one-off"),
        ("pass-open", "interrupted"),
    ]
    assert made.check() == []
    made.close()


@pytest.mark.parametrize("column", ["prompt", "answer"])
@pytest.mark.parametrize("cell", [b"no zlib", rows.pack(["no such value"]), zlib.compress(b"\xff no JSON")])
def test_a_saved_answer_that_cannot_be_read_is_asked_for_again(store: SqliteStore, column: str, cell: bytes) -> None:
    """Another program's question, or a damaged cell, costs one call and stops nothing."""
    store.enrol([enrolment("k1")], None, at=AT)
    dead = store.claim("k1", owner="dead", at=AT)
    assert isinstance(dead, Lease)
    store.save_answer(dead, asked(), answered(), at=AT)
    store.database.connection.execute(f"UPDATE passes SET {column} = ?", (cell,))

    lease = store.claim("k1", owner="me", at=LATER, limits=Limits(since=LATER, tokens=5, reserved_tokens=5))

    assert isinstance(lease, Lease)
    assert (lease.saved, store.exchange(lease.pass_id)) == (None, (None, None))
    assert [one.usage.input_tokens for one in store.passes("k1")] == [5, 400]


def test_a_damaged_database_is_named_with_a_way_out(tmp_path: Path) -> None:
    """F41: one line says what is broken and where copies are."""
    (tmp_path / "distiller.db").write_bytes(b"this is no database" * 100)

    with pytest.raises(StoreUnusableError, match="backups"):
        open_store(str(tmp_path))


def test_there_is_nothing_to_read_before_the_first_start(tmp_path: Path) -> None:
    """A reader makes no database."""
    with pytest.raises(StoreUnusableError, match="distiller run"):
        open_store(str(tmp_path), read_only=True)

    assert list(tmp_path.iterdir()) == []


# --- several at once ----------------------------------------------------------------------------------------------


def test_a_worker_thread_may_use_what_another_thread_opened(store: SqliteStore) -> None:
    """The daemon opens the store at its start and works in one thread of its own."""
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(store.enrol([enrolment("k1")], None, at=AT)))
    thread.start()
    thread.join()

    assert len(answers) == 1
    assert len(store.turns(TurnQuery())) == 1


WRITER = """
    import sys
    from distiller.adapters.store_sqlite import open_store
    from distiller.vocabulary import TurnState
    from tests.fakes.store_values import AT, claim, cursor, enrolment, quote, session, settled
    store, me = open_store(sys.argv[1]), sys.argv[2]
    for n in range(int(sys.argv[3])):
        key = f"{me}-{n}"
        turn = enrolment(key, of=session(me), message_ids=(key,))
        store.enrol([turn], cursor(f"/{me}", n + 1), at=AT)
        lease = store.claim(key, owner=me, at=AT)
        said = quote(f"u-{key}", key, quote=f"always use tool{me}x{n} in here")
        fact = claim(f"tool-{me}-{n}", summary=f"tool{me}x{n}", body=f"Always use tool{me}x{n}.", evidence=(said,))
        store.commit(settled(TurnState.KEPT, kept=(fact,)), lease, at=AT)
        print(key, flush=True)
"""


def test_two_processes_write_at_once(tmp_path: Path) -> None:
    """F40: nothing is lost, nothing fails, readers never wait."""
    reader = open_store(str(tmp_path))
    processes = [run(WRITER, str(tmp_path), name, "40") for name in ("a", "b")]
    while any(process.poll() is None for process in processes):
        reader.search(["always"], query=FactQuery(limit=5))
    errors = [process.communicate()[1] for process in processes]

    assert errors == [b"", b""]
    assert reader.totals(day_from=AT).states == {"kept": 80}
    assert len(reader.facts(FactQuery())) == 80
    assert reader.check() == []
    reader.close()


CLAIMER = """
    import sys
    from distiller.adapters.store_sqlite import open_store
    from distiller.vocabulary import Lease, Limits
    from tests.fakes.store_values import AT
    store, me, rounds = open_store(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    for n in range(rounds):
        print("ready", flush=True)
        sys.stdin.readline()
        limits = Limits(since=AT, tokens=100 * (n + 1), reserved_tokens=100)
        print(type(store.claim(f"{me}-{n}", owner=me, at=AT, limits=limits)).__name__, flush=True)
"""


def test_two_processes_at_the_edge_of_a_budget_get_one_claim(tmp_path: Path) -> None:
    """F02: money is checked in the transaction that reserves it; both want the last of it, round after round."""
    rounds = 25
    made = open_store(str(tmp_path))
    keys = [f"{me}-{n}" for me in "ab" for n in range(rounds)]
    made.enrol([enrolment(key, message_ids=(key,), of=session(key)) for key in keys], None, at=AT)
    command = [sys.executable, "-c", textwrap.dedent(CLAIMER), str(tmp_path)]
    processes = [
        subprocess.Popen(
            [*command, me, str(rounds)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        for me in "ab"
    ]

    answers = []
    for _ in range(rounds):
        assert [told(process) for process in processes] == ["ready", "ready"]
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
        answers.append(sorted(told(process) for process in processes))

    for process in processes:
        process.communicate(timeout=60)
    assert answers == [["Declined", "Lease"]] * rounds
    assert made.totals(day_from=AT).today.input_tokens == 100 * rounds
    made.close()


def told(process: subprocess.Popen[str]) -> str:
    """The next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_two_connections_at_the_edge_of_a_burst_get_one_claim(tmp_path: Path) -> None:
    """The calls of a minute are counted over all connections, whoever asks first, minute after minute."""
    minutes = 30
    stores = {me: open_store(str(tmp_path)) for me in "ab"}
    keys = [f"{me}-{n}" for me in "ab" for n in range(minutes)]
    stores["a"].enrol([enrolment(key, message_ids=(key,), of=session(key)) for key in keys], None, at=AT)
    limits = Limits(since="", calls_per_minute=1, reserved_tokens=1)
    start = threading.Barrier(2)
    answers: list[list[str]] = [[] for _ in range(minutes)]

    def claim_each_minute(me: str) -> None:
        for n in range(minutes):
            start.wait()
            claimed = stores[me].claim(f"{me}-{n}", owner=me, at=after(AT, seconds=60 * n), limits=limits)
            answers[n].append(type(claimed).__name__)

    threads = [threading.Thread(target=claim_each_minute, args=(me,)) for me in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [sorted(pair) for pair in answers] == [["Declined", "Lease"]] * minutes
    for made in stores.values():
        made.close()


def test_two_connections_at_the_edge_of_a_budget_reserve_one_further_call(tmp_path: Path) -> None:
    """F02: the last of the money goes to one repair, whoever asks first, round after round."""
    rounds = 30
    stores = {me: open_store(str(tmp_path)) for me in "ab"}
    keys = [f"{me}-{n}" for me in "ab" for n in range(rounds)]
    stores["a"].enrol([enrolment(key, message_ids=(key,), of=session(key)) for key in keys], None, at=AT)
    leases = {key: stores[key[0]].claim(key, owner=key[0], at=AT) for key in keys}
    start = threading.Barrier(2)
    answers: list[list[Declined | None]] = [[] for _ in range(rounds)]

    def reserve_each_round(me: str) -> None:
        for n in range(rounds):
            lease = leases[f"{me}-{n}"]
            assert isinstance(lease, Lease)
            start.wait()
            limits = Limits(since=AT, tokens=100 * (n + 1), reserved_tokens=100)
            answers[n].append(stores[me].reserve(lease, limits, at=AT))

    threads = [threading.Thread(target=reserve_each_round, args=(me,)) for me in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [sorted(pair, key=bool) for pair in answers] == [[None, Declined("budget")]] * rounds
    today = stores["a"].totals(day_from=AT).today
    assert (today.calls, today.input_tokens) == (rounds, 100 * rounds)
    for made in stores.values():
        made.close()


def test_killed_in_the_middle_of_writes(tmp_path: Path) -> None:
    """F41: after kill -9 each settled turn has its fact, each acknowledged one is there, the database is sound."""
    for number in range(4):
        process = run(WRITER, str(tmp_path), f"p{number}", "100000")
        assert process.stdout is not None
        acknowledged = [process.stdout.readline().decode().strip() for _ in range(15)]
        process.send_signal(signal.SIGKILL)
        process.communicate()

        made = open_store(str(tmp_path))
        kept = {row.key for row in made.turns(TurnQuery(states=(TurnState.KEPT,)))}
        assert set(acknowledged) <= kept
        assert {evidence.turn_key for f in made.facts(FactQuery()) for evidence in made.evidence([f.id])[f.id]} == kept
        assert made.check() == []
        made.close()


def test_a_writer_that_holds_on_is_waited_for_and_then_named(tmp_path: Path) -> None:
    """F40: busy is an error of its own; nothing was written, and later it works."""
    made = open_store(str(tmp_path), busy_seconds=0.05)
    other = sqlite3.connect(tmp_path / "distiller.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusyError, match="nothing was written"):
        made.enrol([enrolment("k1")], None, at=AT)
    record = RecallRecord("r1", AT, "mcp", None, None, None, None, (), "here", 5, (), 0, 0)
    assert not made.record_recall(record)
    assert made.facts(FactQuery()) == []
    made.checkpoint()

    other.execute("ROLLBACK")
    other.close()
    made.enrol([enrolment("k1")], None, at=AT)
    assert made.record_recall(record)
    made.close()


FULL = """
    import subprocess, sys
    from distiller.adapters.store_sqlite import open_store
    from distiller.errors import DiskFullError
    from tests.fakes.store_values import AT, enrolment
    store, n = open_store(sys.argv[1]), 0
    try:
        while n < 5000:
            store.enrol([enrolment(f"k{n}", message_ids=(f"m{n}",), own=f"{n}" * 2000)], None, at=AT)
            n += 1
    except DiskFullError as error:
        print("full:", error)
    print(store.totals(day_from=AT).states == {"waiting": n}, n > 3)
    subprocess.run(["mount", "-o", "remount,size=9m", sys.argv[1]], check=True)
    store.enrol([enrolment("again", message_ids=("x",))], None, at=AT)
    print(store.totals(day_from=AT).states == {"waiting": n + 1}, store.check())
"""


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """What was acknowledged stays, the error says what to do, and it goes on when there is room."""
    mount = ["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o size=1m none {tmp_path}"]
    if shutil.which("unshare") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    script = f'mount -t tmpfs -o size=1m none {tmp_path} && exec {sys.executable} -c "$0" {tmp_path}'
    command = ["unshare", "-m", "sh", "-c", script, textwrap.dedent(FULL)]

    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    full, *rest = out.stdout.splitlines()
    assert full.startswith("full: no room for"), out.stderr
    assert rest == ["True True", "True []"]


def test_a_full_disk_is_told_apart(store: SqliteStore) -> None:
    """SQLite rolls back by itself when the disk is full; the error is ours and nothing is left open."""
    (pages,) = store.database.connection.execute("PRAGMA page_count").fetchone()
    store.database.connection.execute(f"PRAGMA max_page_count = {pages}")

    many = [enrolment(f"k{number}", message_ids=(f"m{number}",)) for number in range(500)]
    with pytest.raises(DiskFullError, match="nothing is lost"):
        store.enrol(many, None, at=AT)

    assert store.turns(TurnQuery()) == []

    assert not store.database.connection.in_transaction
    assert store.check() == []


def test_a_folder_that_may_only_be_read_can_be_searched(tmp_path: Path) -> None:
    """`search` and `doctor` still read where nothing can be written."""
    home = tmp_path / "data"
    made = open_store(str(home))
    made.apply(Plan((add("f1"),)), actor="person", at=AT)
    made.close()
    code = """
        import sys
        from distiller.adapters.store_sqlite import open_store
        from distiller.errors import StoreUnusableError
        from distiller.vocabulary import FactQuery
        print([hit.fact.id for hit in open_store(sys.argv[1], read_only=True).search(["uv"], query=FactQuery())])
        try:
            open_store(sys.argv[1]).set_setting("a", 1, at="")
        except StoreUnusableError as error:
            print("refused")
    """
    bind = f"mount --bind {home} {home} && mount -o remount,bind,ro {home}"
    if shutil.which("unshare") is None or subprocess.run(["unshare", "-m", "sh", "-c", bind], check=False).returncode:
        pytest.skip("needs the right to mount")
    command = ["unshare", "-m", "sh", "-c", f'{bind} && exec {sys.executable} -c "$0" {home}', textwrap.dedent(code)]

    out = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (out.stdout.split("\n")[:2], out.stderr) == (["['f1']", "refused"], "")


# --- search and checks --------------------------------------------------------------------------------------------


def test_a_question_of_common_words_is_ranked_by_its_rarest(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where all words together stand in too many facts, those that tell least are left out, never the last one."""
    monkeypatch.setattr(facts, "RANKED_FACTS", 2)
    many = [add(f"f{number}", name=f"common-{number}", summary="", body="") for number in range(5)]
    store.apply(Plan((*many, add("rare", name="common-gem", summary="", body=""))), actor="person", at=AT)

    assert [hit.fact.id for hit in store.search(["common", "gem", "absent"], query=FactQuery())] == ["rare"]
    assert len(store.search(["common"], query=FactQuery())) == 6


def test_a_check_finds_an_index_that_disagrees(store: SqliteStore) -> None:
    """F31: the index is compared with the facts, not only with itself."""
    store.apply(Plan((add("f1"),)), actor="person", at=AT)
    store.database.connection.execute(
        "INSERT INTO facts_fts (facts_fts, rowid, name, summary, body) SELECT 'delete', number, name, summary, body"
        " FROM facts"
    )

    assert len(store.check()) == 1


def test_looking_for_due_turns_reads_no_texts(store: SqliteStore) -> None:
    """The daemon looks each minute: what decides lies in the indexes, however much waits and however long it is."""
    plans = [
        row["detail"]
        for by_hand in (False, True)
        for row in store.database.read(
            f"EXPLAIN QUERY PLAN {due.question(by_hand=by_hand, newest_first=by_hand)}",
            {"at": AT, "soon": LATER, "only": None, "limit": 9},
        )
    ]

    read = [plan for plan in plans if plan.startswith(("SCAN t", "SEARCH t", "SCAN e", "SEARCH e"))]
    assert ["COVERING INDEX" in plan for plan in read] == [True] * 4
    assert not [plan for plan in plans if "TEMP B-TREE" in plan]


# --- copies -------------------------------------------------------------------------------------------------------


def test_copies_are_plain_databases_and_old_ones_go(store: SqliteStore, tmp_path: Path) -> None:
    """7 nightly, 3 of each other kind; a copy needs no WAL beside it."""
    store.apply(Plan((add("f1"),)), actor="person", at=AT)
    times = [after(AT, seconds=number) for number in range(9)]
    nightly = [store.backup("nightly", at=at) for at in times]
    for at in times:
        store.backup("manual", at=at)

    copies = sorted(path.name for path in (tmp_path / "backups").iterdir())

    assert len([name for name in copies if name.endswith("-nightly.db")]) == 7
    assert len([name for name in copies if name.endswith("-manual.db")]) == 3
    assert len(copies) == 10
    with sqlite3.connect(nightly[-1]) as copy:
        assert copy.execute("SELECT id FROM facts").fetchall() == [("f1",)]
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    copy.close()


def test_the_wal_is_folded_back(store: SqliteStore, tmp_path: Path) -> None:
    """F45: an idle store has no long log beside it."""
    for number in range(50):
        store.enrol([enrolment(f"k{number}", message_ids=(f"m{number}",))], None, at=AT)

    store.checkpoint()

    assert (tmp_path / "distiller.db-wal").stat().st_size == 0


# --- forgetting ---------------------------------------------------------------------------------------------------

SECRET = "zanzibar"


def told_everywhere(store: SqliteStore) -> None:
    """A fact whose words stand wherever words can stand."""
    words = f'The "{SECRET}" host/path is ours'
    store.enrol(
        [
            enrolment("k1", own=words, prompt=Redacted(words), of=replace(session(), title=f"About: {words}")),
            enrolment("k2", message_ids=("n",), own=f"As I said:\n{words.replace(' ', chr(10))} ok", ended_at=LATER),
        ],
        cursor("/a", 1),
        at=AT,
    )
    lease = store.claim("k1", owner="me", at=AT)
    assert isinstance(lease, Lease)
    answer = msgspec.json.encode({"facts": [{"body": words, "slug": "x"}]}).decode()
    store.save_answer(lease, asked(f"near: {words}"), answered(answer), at=AT)
    kept = claim(
        "staging-host",
        summary=Redacted(words),
        body=Redacted(f"{words}. It is old."),
        evidence=(quote("u1", "k1", quote=Redacted(words)),),
    )
    settlement = settled(TurnState.KEPT, kept=(kept,), note=f"Note: {words}.")
    shown = replace(settlement.verdict, refusals=(Refusal("echo", "staging-host", f"said {words}"),))
    store.commit(replace(settlement, verdict=shown, error=f"refused: {words}"), lease, at=AT)
    (made,) = store.facts(FactQuery())
    edited = replace(made, summary=f"Edited: {words}", name="stage-place")
    store.apply(
        Plan(
            (Operation(Op.EDIT, made, edited), add("f2", name="other-fact", related=("stage-place", "kept-one"))),
            candidates=((Candidate("c1", "user", "x-y", FactKind.USER, words, "b", ("s1",), AT, AT), ()),),
            proposals=((Proposal("p1", "widen", None, {"body": words}, "open", AT), ()),),
        ),
        actor="person",
        at=AT,
    )
    store.record_recall(
        RecallRecord("r1", AT, "mcp", None, None, None, Redacted(words), ("stage-place",), "here", 5, (made.id,), 1, 1)
    )
    store.set_setting("remembered", {"a": words}, at=AT)
    with store.database.writing() as connection:
        connection.execute("UPDATE runs SET final_summary = ?", (words,))


def cells(path: Path) -> Iterator[tuple[str, str, str]]:
    """(table, column, text) of every cell of every table, decompressed."""
    connection = sqlite3.connect(path)
    for table in sqlite_utils.Database(connection).tables:
        for row in table.rows:
            for column, value in row.items():
                if isinstance(value, bytes):
                    try:
                        text = zlib.decompress(value).decode()
                    except zlib.error:
                        text = value.decode("latin-1")
                    yield table.name, column, text
                elif isinstance(value, str):
                    yield table.name, column, value
    connection.close()


def test_an_erased_fact_is_in_no_row_no_index_no_log_and_no_copy(store: SqliteStore, tmp_path: Path) -> None:
    """F33: a grep over all bytes and all decompressed cells finds nothing, backups included."""
    told_everywhere(store)
    store.backup("nightly", at=AT)
    store.checkpoint()
    store.record_recall(RecallRecord("r2", AT, "cli", None, None, None, Redacted(SECRET), (), "here", 5, (), 0, 0))
    databases = [tmp_path / "distiller.db", *(tmp_path / "backups").glob("*.db")]
    found = {(table, column) for table, column, text in cells(databases[1]) if SECRET in text}
    expected = {*forgetting.TEXT_COLUMNS, *forgetting.JSON_COLUMNS, *forgetting.ZLIB_COLUMNS}
    expected -= {("passes", "reason"), ("fact_history", "reason"), ("recalls", "names"), ("facts", "related")}
    expected -= {("candidates", "body")}
    assert found >= expected, "the fact must first stand everywhere, else this test cannot fail"

    for set_aside in ("distiller.db.damaged-20261201", "restoring.tmp"):
        (tmp_path / set_aside).write_bytes(b"damaged " + SECRET.encode())
    (made,) = store.resolve_fact("stage-place")
    store.database.connection.execute("DELETE FROM recalls WHERE id = 'r2'")
    assert store.erase([made.id], at=LATER) == 1

    for path in databases:
        assert [place for *place, text in cells(path) if SECRET in text or "stage-place" in text] == []
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        assert SECRET.encode() not in path.read_bytes(), path
        assert b"stage-place" not in path.read_bytes(), path
    other = store.fact("f2")
    assert other is not None
    assert other.related == ("kept-one",)
    assert store.check() == []
    assert store.search([SECRET], query=FactQuery(statuses=())) == []


TRICKY = 'Grüße an "Zoë":\n\tuse uv \U0001f600 in C:\\repo/a'


@pytest.mark.parametrize(
    "retold",
    [
        TRICKY,
        json.dumps({"quote": TRICKY}),
        json.dumps({"quote": TRICKY}, ensure_ascii=False),
        json.dumps({"result": json.dumps({"quote": TRICKY})}),
        json.dumps(TRICKY).replace("/", "\\/").replace("\\u00fc", "\\u00FC"),
        TRICKY.replace("\n", "\n  "),
    ],
    ids=["plain", "json", "json-utf8", "json-twice", "json-odd", "indented"],
)
@pytest.mark.parametrize("place", ["prompt", "row", "answer"])
def test_erased_words_are_found_in_whatever_way_they_were_written(store: SqliteStore, place: str, retold: str) -> None:
    """F33: JSON inside JSON, its ASCII escapes and set-in lines hide nothing in a question or an answer."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = store.claim("k1", owner="me", at=AT)
    assert isinstance(lease, Lease)
    other = asked("Something else")
    question = {"prompt": replace(other, prompt=Redacted(retold)), "row": asked(retold, prompt=None)}.get(place, other)
    store.save_answer(lease, question, answered(retold if place == "answer" else "{}"), at=AT)
    store.apply(Plan((add("f1", summary=TRICKY, body="An old rule."),)), actor="pass", at=AT)

    store.erase(["f1"], at=LATER)

    assert store.exchange(lease.pass_id) == (None, None)


def test_a_question_that_says_nothing_of_an_erased_fact_stays(store: SqliteStore) -> None:
    """An erasure takes no more than it must: the answer that was paid for is still judged."""
    store.enrol([enrolment("k1")], None, at=AT)
    lease = store.claim("k1", owner="dead", at=AT)
    assert isinstance(lease, Lease)
    store.save_answer(lease, asked("grün"), answered(TRICKY[:8]), at=AT)
    store.apply(Plan((add("f1", summary=TRICKY),)), actor="pass", at=AT)

    store.erase(["f1"], at=LATER)

    taken = store.claim("k1", owner="me", at=LATER)
    assert isinstance(taken, Lease)
    assert taken.saved == Saved(asked("grün"), answered(TRICKY[:8]))


WITHOUT_WORDS = {  # codes, ids, times, places: not a person's words
    "turns": """key id agent session_id project_key file prompt_at ended_at end_sign digest words_digest prompt_digest
        state reason backend lease_owner lease_until retry_at enrolled_at settled_at pass_id""",
    "passes": "id turn_key backend model prompt_version started_at outcome operations purse fault",
    "fact_history": "fact_id op actor at group_id pass_id",
    "sessions": """agent id root_session_id parent_session_id role cwd project_key file model started_at last_at
        off_record_at note_turn_key""",
    "runs": "run_id agent session_id project_key started_at outcome tool_calls",
    "recalls": "id at channel agent session_id turn_key project_key scope fact_ids",
    "candidates": "id scope name kind sessions first_at last_at status fact_id",
    "proposals": "id kind fact_id status created_at decided_at decided_by pass_id",
    "settings": "key at",
}
TABLES_WITHOUT_WORDS = (
    *("cursors", "folders", "imports", "migrations", "pauses", "projects", "recalled_facts", "tombstones"),
    *("turn_messages", "evidence_links"),
)
ERASED_BY_ID = ("facts", "evidence", "redirects")


def test_every_column_that_can_hold_words_is_looked_through(store: SqliteStore) -> None:
    """A new column has to be classed before it can hide an erased text."""
    classed = {(table, column) for table, columns in WITHOUT_WORDS.items() for column in columns.split()}
    classed |= {*forgetting.TEXT_COLUMNS, *forgetting.JSON_COLUMNS, *forgetting.ZLIB_COLUMNS}

    columns = {
        (table.name, column.name)
        for table in sqlite_utils.Database(store.database.connection).tables
        if table.name not in TABLES_WITHOUT_WORDS + ERASED_BY_ID and not table.name.startswith("facts_fts")
        for column in table.columns
        if column.type in ("TEXT", "BLOB")
    }

    assert columns - classed == set()


def test_a_restored_copy_still_honours_what_was_erased(tmp_path: Path) -> None:
    """A copy that was kept elsewhere brings the fact back; opening it takes the fact out again."""
    home = tmp_path / "data"
    made = open_store(str(home))
    told_everywhere(made)
    elsewhere = shutil.copy(made.backup("manual", at=AT), tmp_path / "kept.db")
    (gone,) = made.resolve_fact("stage-place")
    made.erase([gone.id], at=LATER)
    made.close()
    shutil.copy(elsewhere, home / "distiller.db")

    restored = open_store(str(home))

    assert restored.fact(gone.id) is None
    assert [place for *place, text in cells(home / "distiller.db") if SECRET in text] == []
    assert restored.fact("f2") is not None
    restored.close()


def test_a_rebuilt_database_still_honours_what_was_erased(tmp_path: Path) -> None:
    """F32: the database is lost, the sessions are read again, and the fact stays gone under any slug."""
    made = open_store(str(tmp_path))
    said = quote("u1", "k1", quote=Redacted("please always deploy from the zanzibar host"))
    made.enrol([enrolment("k1")], None, at=AT)
    lease = made.claim("k1", owner="me", at=AT)
    assert isinstance(lease, Lease)
    made.commit(settled(TurnState.KEPT, kept=(claim("deploy-host", evidence=(said,)),)), lease, at=AT)
    made.erase([made.facts(FactQuery())[0].id], at=LATER)
    made.close()
    for path in tmp_path.glob("distiller.db*"):
        path.unlink()

    rebuilt = open_store(str(tmp_path))
    rebuilt.enrol([enrolment("k1")], None, at=LATER)
    again = rebuilt.claim("k1", owner="me", at=LATER)
    assert isinstance(again, Lease)
    shorter = replace(said, quote=Redacted("always deploy  from the zanzibar host"))
    record = rebuilt.commit(
        settled(TurnState.KEPT, kept=(claim("host-for-deploys", evidence=(shorter,)),)), again, at=LATER
    )

    assert record.refused == {"forgotten": 1}
    assert rebuilt.facts(FactQuery(statuses=())) == []
    rebuilt.close()


def test_a_copy_that_cannot_be_rewritten_stops_the_erasure(store: SqliteStore, tmp_path: Path) -> None:
    """Nobody is told that a text is gone while a copy still holds it."""
    store.apply(Plan((add("f1"),)), actor="person", at=AT)
    (tmp_path / "backups").mkdir()
    (tmp_path / "backups/20260101-manual.db").write_bytes(b"broken" * 1000)

    with pytest.raises(StoreUnusableError, match="nothing was erased"):
        store.erase(["f1"], at=LATER)

    assert store.fact("f1") is not None


def test_the_bin_of_a_month_is_really_emptied(store: SqliteStore, tmp_path: Path) -> None:
    """The bin's end is an erasure like any other."""
    store.apply(
        Plan((Operation(Op.ADD, None, fact("f1", status=FactStatus.BINNED, forgotten_at=AT, body=SECRET)),)),
        actor="person",
        at=AT,
    )

    store.expire(Retention(), at=after(AT, seconds=31 * 86400))

    assert all(SECRET.encode() not in path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
