"""No secret is stored, logged or queued, and what is erased is gone: both shown by grep, compressed columns too."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

pytestmark = pytest.mark.system

OLD = "2026-11-01T09:00:00.000Z"
RULE = "From now on use uv in this repo, never pip; the word is xylophone."
SECRETS = {  # ten kinds, all made up
    "github": "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5",
    "anthropic": "sk-ant-api03-" + "Zx9Cv8Bn7Ml6Kj5Hg4Fd3Sa2Qw1Er0Ty9Ui8Op7",
    "aws": "AKIA" + "Q3EGRLM2WXYZ7ABC",
    "slack": "xoxb-" + "123456789012-123456789012-AbCdEfGhIjKlMnOpQrStUvWx",
    "url": "hunter2Secret",
    "pair": "s3cr3tVal9ue77",
    "json": "Jq8sPw0rdField55",
    "bearer": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "prose": "hunter2-Blue",
    "key": "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQDdummykeybody",
}


def planted(session: ClaudeSession) -> bytes:
    """A session with all of them, in every place in which a secret was ever found."""
    session.raw({"type": "ai-title", "aiTitle": f"fix {SECRETS['github']}", "sessionId": session.session_id})
    session.raw({"type": SECRETS["slack"], "sessionId": session.session_id})
    session.prompt(
        f"{RULE} My password for the test box is {SECRETS['prose']}. Clone https://me:{SECRETS['url']}@example.com/a.git"
    )
    session.call(
        "c1",
        "Bash",
        {"command": f"export API_TOKEN={SECRETS['pair']}; curl -H 'Authorization: Bearer {SECRETS['bearer']}' x"},
    )
    pem = f"-----BEGIN PRIVATE KEY-----\n{SECRETS['key']}\n-----END PRIVATE KEY-----"
    session.result(
        "c1", f"[ok] {pem}", toolUseResult={"stdout": SECRETS["github"], "env": {"password": SECRETS["json"]}}
    )
    session.call("c3", SECRETS["github"], {}, message=SECRETS["github"])
    session.result("c3", "ok")
    session.call("c2", "Read", {"file_path": f"/work/{SECRETS['aws']}.txt"})
    session.result("c2", json.dumps({"password": SECRETS["json"], "nested": json.dumps({"slack": SECRETS["slack"]})}))
    session.say(f"I set {SECRETS['anthropic'][:30]}\n{SECRETS['anthropic'][30:]} and {SECRETS['slack']}.")
    return session.end()


def test_no_planted_secret_is_anywhere_in_our_home(tmp_path: Path) -> None:
    """Promise 6, F19: ten kinds of secrets in prompt, title, calls, results, file names, metadata; grep finds none."""
    program = Program(tmp_path, logs__level="debug")
    with program.daemon():
        at = program.json("status")["daemon"]["started_at"]
        session = ClaudeSession(at=at)
        session.later(60)
        planted(session)
        (program.projects / f"{SECRETS['github']}.jsonl").write_bytes(bytes(session))
        program.until(program.facts)
        program.run("facts", "add", f"the token is {SECRETS['github']}")
        program.run("recall", SECRETS["anthropic"])
    program.run("status")

    found = {name: where for name, secret in SECRETS.items() if (where := program.holds(secret))}
    assert found == {}
    assert program.holds("xylophone") != []  # the search finds what is there


def test_an_erased_fact_is_gone_and_stays_gone(tmp_path: Path) -> None:
    """Promise 10: erased text is in no file and no column; backfill does not bring it back; stating it anew does."""
    program = Program(tmp_path)
    session = ClaudeSession(at=OLD)
    session.turn(RULE)
    (program.projects / "s.jsonl").write_bytes(bytes(session))
    program.json("backfill")
    (fact,) = program.json("facts", "list")
    assert program.holds("xylophone") != []

    erased = program.json("facts", "forget", fact["id"], "--erase", "--yes")
    after_erase = program.holds("xylophone")
    again = program.json("backfill", "--again", "--yes")
    copied = program.folder / "copy"
    copied.mkdir()
    (copied / "other.jsonl").write_bytes(bytes(session).replace(b"aaaa-4000", b"bbbb-4000"))
    fork = bytes(session).replace(session.session_id.encode(), b"33333333-0000-4000-8000-000000000003")
    (copied / "33333333-0000-4000-8000-000000000003.jsonl").write_bytes(fork.replace(b"aaaa-4000", b"cccc-4000"))
    program.json("backfill", str(copied))
    gone = program.json("facts", "list", "--status", "all")
    after_again = program.holds("xylophone")
    anew = ClaudeSession("22222222-0000-4000-8000-000000000002", at="2027-01-01T09:00:00.000Z")
    anew.turn(RULE)
    (copied / "anew.jsonl").write_bytes(bytes(anew))
    program.json("backfill", str(copied))

    assert (after_erase, after_again) == ([], [])
    assert erased["copies"] == [{"file": str(program.projects / "s.jsonl"), "where": "session file of the agent"}]
    assert again["facts_added"] == 0
    assert gone == []
    assert [one["body"] for one in program.json("facts", "list")] == [RULE]


def test_a_forgotten_fact_comes_back_only_by_undo(tmp_path: Path) -> None:
    """The bin hides at once and survives a backfill; undo brings the fact back as it was."""
    program = Program(tmp_path)
    session = ClaudeSession(at=OLD)
    session.turn(RULE)
    (program.projects / "s.jsonl").write_bytes(bytes(session))
    program.json("backfill")
    (before,) = program.json("facts", "list")

    program.json("facts", "forget", before["name"])
    hidden = (program.json("facts", "list"), program.json("recall", "uv", "pip", cwd=program.folder)["facts"])
    program.json("backfill", "--again", "--yes")
    still_hidden = program.json("facts", "list")
    program.json("facts", "undo")
    (after,) = program.json("facts", "list")

    assert hidden == ([], [])
    assert still_hidden == []
    assert (after["name"], after["body"], after["quote"]) == (before["name"], before["body"], before["quote"])
