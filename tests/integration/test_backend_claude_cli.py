"""`claude -p` as a model: what it is given, what it may touch, and what each of its failures means."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from distiller.adapters.backend_claude_cli import ClaudeCliBackend
from distiller.distill import prompt
from distiller.errors import (
    BackendError,
    BackendHaltedError,
    BackendUnavailableError,
    RequestRefusedError,
    SettingError,
)
from distiller.transcript.pieces import OWN_SESSION_MARK
from distiller.vocabulary import Redacted, Request, Role, Row, Usage, Window
from tests.fakes import claude_program, model_server
from tests.fakes.backend import NOTHING
from tests.fakes.model_server import ModelServer, Response
from tests.parts import needs

pytestmark = pytest.mark.integration

TOKEN = "sk-ant-oat01-made-up"
RULE = "From now on always use uv in this repo, never pip."


def asked(text: str = RULE, *, repair: str | None = None) -> Request:
    """A request about one row of the person's."""
    window = Window((Row(1, "m1", Role.USER, "own", Redacted(text)),), "2026-12-01", Redacted("/work/shop"))
    return Request(window, (), "p", prompt.write(window, ()), prompt.VERSION, repair)


def backend(tmp_path: Path, program: str, **changes: Any) -> ClaudeCliBackend:
    """The backend with a home of its own below `tmp_path`."""
    usual: dict[str, Any] = {"model": "haiku", "token": lambda: TOKEN, "folder": str(tmp_path / "own")}
    return ClaudeCliBackend(program=program, **usual | changes)


async def failure(tmp_path: Path, program: str, **changes: Any) -> BackendError:
    """The error that a call ends with."""
    with pytest.raises(BackendError) as caught:
        await backend(tmp_path, program, **changes).distill(asked())
    assert "\n" not in str(caught.value)
    assert RULE[:20] not in str(caught.value)
    return caught.value


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie that waits for its new parent has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


# --- with a stand-in ----------------------------------------------------------------------------------------------


async def test_an_answer_comes_back_with_what_it_used(tmp_path: Path) -> None:
    """Text, tokens, worth and the model that the alias stood for are those of the program's result."""
    reply = await backend(tmp_path, claude_program.saying(tmp_path, NOTHING)).distill(asked())

    assert (reply.text, reply.backend, reply.model, reply.prompt_version, reply.fault) == (
        NOTHING, "claude-cli", "claude-haiku-5-5", prompt.VERSION, None,
    )  # fmt: skip
    assert reply.usage == Usage(1, 40, 20, 1900, 7, 0.0012, reply.usage.took_ms)


async def test_the_turn_goes_in_by_stdin_and_begins_with_the_mark(tmp_path: Path) -> None:
    """No argument and no variable holds a word of the turn; a second question says why it is asked."""
    program = claude_program.saying(tmp_path, NOTHING)

    await backend(tmp_path, program).distill(asked(repair="no JSON object in the answer"))

    run = claude_program.last_run(tmp_path)
    assert run["stdin"].startswith(f"{OWN_SESSION_MARK}\n")
    assert RULE in run["stdin"]
    assert "could not be used: no JSON object in the answer." in run["stdin"]
    assert RULE not in json.dumps([run["arguments"], run["environment"]])
    assert run["arguments"] == [
        "-p", "--output-format", "json", "--tools", "", "--setting-sources", "", "--strict-mcp-config",
        "--disable-slash-commands", "--no-session-persistence", "--safe-mode", "--model", "haiku",
        "--system-prompt", prompt.SYSTEM,
    ]  # fmt: skip


async def test_the_environment_is_built_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the person's environment says of Claude, keys or homes does not reach the program; proxies do."""
    program = claude_program.saying(tmp_path, NOTHING)
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CONFIG_DIR", "CLAUDE_CODE_USE_BEDROCK", "SECRET"):
        monkeypatch.setenv(name, "from-the-person")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")

    await backend(tmp_path, program).distill(asked())

    run = claude_program.last_run(tmp_path)
    environment, own = run["environment"], str(tmp_path / "own")
    assert "from-the-person" not in environment.values()
    assert (environment["HOME"], environment["CLAUDE_CONFIG_DIR"], run["cwd"]) == (own, f"{own}/config", own)
    assert (environment["CLAUDE_CODE_OAUTH_TOKEN"], environment["HTTPS_PROXY"]) == (TOKEN, "http://proxy.example:3128")
    assert environment["CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"] == "1"


async def test_the_programs_home_is_private_and_is_cleared(tmp_path: Path) -> None:
    """Only the owner may enter it, also if it stood open; what a run leaves in its temporary folder is gone."""
    (tmp_path / "own").mkdir(mode=0o755)

    await backend(tmp_path, claude_program.saying(tmp_path, NOTHING)).distill(asked())

    temporary = claude_program.last_run(tmp_path)["environment"]["TMPDIR"]
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "own/config").stat().st_mode) == 0o700
    assert temporary.startswith(str(tmp_path / "own"))
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["config"]


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (401, "Failed to authenticate. API Error: 401 invalid token", "auth"),
        (None, "Invalid API key · Please run /login", "auth"),
        (None, "OAuth token has expired", "auth"),
        (403, "Failed to authenticate. API Error: 403 no", "auth"),
        (None, "Claude AI usage limit reached|1796150000", "quota"),
        (None, "You've hit your limit · resets 3pm", "quota"),
        (429, "API Error: 429 You have hit your usage limit", "quota"),
        (400, "Credit balance is too low", "quota"),
        (404, "There's an issue with the selected model (haiku).", "model-unknown"),
        (None, "API Error: 404 model not found", "model-unknown"),
    ],
)
async def test_what_a_person_has_to_mend_halts(tmp_path: Path, status: int | None, text: str, reason: str) -> None:
    """Login, limit and model are told apart, each with what to do."""
    error = await failure(tmp_path, claude_program.saying(tmp_path, text, is_error=True, api_error_status=status))

    assert isinstance(error, BackendHaltedError)
    assert (error.reason, bool(error.fix)) == (reason, True)


@pytest.mark.parametrize(
    ("status", "text", "counts"),
    [
        (429, "API Error: Server is temporarily limiting requests (not your usage limit) · rate", False),
        (529, "API Error: 529 over. This is a server-side issue", False),
        (None, "API Error: Overloaded", False),
        (None, "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)", False),
        (500, "API Error: 500 boom. This is a server-side issue", True),
        (None, "API Error: Stream ended without receiving any events", True),
        (None, "something new", True),
    ],
)
async def test_what_passes_by_itself_waits(tmp_path: Path, status: int | None, text: str, counts: bool) -> None:  # noqa: FBT001 -- a table
    """A busy or unreachable server never counts against a turn; a broken one does."""
    error = await failure(tmp_path, claude_program.saying(tmp_path, text, is_error=True, api_error_status=status))

    assert isinstance(error, BackendUnavailableError)
    assert error.counts == counts


async def test_a_prompt_that_is_too_long_is_never_asked_again(tmp_path: Path) -> None:
    """The program says so itself."""
    text = "Prompt is too long · the request is ~3 tokens (limit 2)"

    error = await failure(tmp_path, claude_program.saying(tmp_path, text, is_error=True, api_error_status=400))

    assert isinstance(error, RequestRefusedError)
    assert error.reason == "too-long"


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"stop_reason": "refusal", "is_error": True}, "refused"),
        ({"stop_reason": "max_tokens"}, "cut-off"),
        (
            {
                "result": "API Error: Claude's response exceeded the 8000 output token maximum. To configure",
                "is_error": True,
            },
            "cut-off",
        ),
    ],
)
async def test_a_model_that_ended_badly_is_a_reply(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    """It was asked and paid for: the fault is said, nothing is raised."""
    program = claude_program.stand_in(tmp_path, out=json.dumps(claude_program.SUCCESS | {"result": ""} | changes))

    assert (await backend(tmp_path, program).distill(asked())).fault == fault


@pytest.mark.parametrize(
    "told",
    [
        {"out": '{"type": "result", "res'},
        {"out": ""},
        {"out": "<html>"},
        {"out": "[]"},
        {"out": "null", "code": 1},
        {"err": f"Error: {RULE}", "code": 1},
        {"do": "deaf"},
    ],
    ids=["half", "nothing", "page", "list", "null", "echo", "deaf"],
)
async def test_an_end_without_result_counts(tmp_path: Path, told: dict[str, Any]) -> None:
    """Whatever came instead of a result, the turn waits, the failure counts and the call may have been billed."""
    error = await failure(tmp_path, claude_program.stand_in(tmp_path, **told))

    assert isinstance(error, BackendUnavailableError)
    assert (error.counts, error.calls, error.spent_tokens > 1000) == (True, 1, True)


async def test_a_login_that_fails_without_a_result_halts(tmp_path: Path) -> None:
    """Some versions say it on stderr alone."""
    error = await failure(tmp_path, claude_program.stand_in(tmp_path, err="Invalid API key", code=1))

    assert getattr(error, "reason", None) == "auth"


async def test_warnings_before_the_result_do_no_harm(tmp_path: Path) -> None:
    """Only the last line is the result."""
    out = f"(node:1) Warning: old\n{json.dumps(claude_program.SUCCESS | {'result': NOTHING})}\n"

    assert (await backend(tmp_path, claude_program.stand_in(tmp_path, out=out)).distill(asked())).text == NOTHING


async def test_a_result_without_usage_is_guessed(tmp_path: Path) -> None:
    """A call without numbers is not a call for nothing."""
    reply = await backend(
        tmp_path, claude_program.saying(tmp_path, NOTHING, usage=None, total_cost_usd=None, modelUsage=None)
    ).distill(asked())

    assert (reply.usage.calls, reply.usage.input_tokens > 1000, reply.usage.cost_usd) == (1, True, None)
    assert reply.model == "haiku"


async def test_a_program_that_says_too_much_is_stopped(tmp_path: Path) -> None:
    """A flood ends at a few MB, long before the deadline."""
    program = claude_program.stand_in(tmp_path, filler="x" * 1_000_000, times=200)

    error = await failure(tmp_path, program, timeout_seconds=60)

    assert isinstance(error, BackendUnavailableError)
    assert "4 MB" in str(error)


async def test_a_program_that_hangs_is_stopped_with_its_children(tmp_path: Path) -> None:
    """At the deadline the whole group is killed; nothing goes on in the background."""
    error = await failure(tmp_path, claude_program.stand_in(tmp_path, do="hang"), timeout_seconds=2)

    run = claude_program.last_run(tmp_path)
    assert isinstance(error, BackendUnavailableError)
    assert (error.counts, error.calls) == (True, 1)
    await until(lambda: gone(run["pid"]) and gone(run["child"]))


async def test_cancelling_stops_the_program_at_once(tmp_path: Path) -> None:
    """A daemon that ends leaves no program and no child of it behind, and does not wait for the deadline."""
    program = claude_program.stand_in(tmp_path, do="hang")
    call = asyncio.create_task(backend(tmp_path, program).distill(asked()))
    await until((tmp_path / "run.json").exists)
    run = claude_program.last_run(tmp_path)

    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert time.monotonic() - started < 1
    await until(lambda: gone(run["pid"]) and gone(run["child"]))


async def test_a_program_that_is_not_there_halts(tmp_path: Path) -> None:
    """A missing, an unusable and a too old program are each said, with what to do."""
    unusable = tmp_path / "unusable"
    unusable.write_text("#!/no/such/interpreter\n")
    unusable.chmod(0o700)
    old = claude_program.stand_in(tmp_path / "old", err="error: unknown option '--safe-mode'\n", code=1)
    no_node = claude_program.stand_in(tmp_path / "node", err="/usr/bin/env: 'node': No such file\n", code=127)

    errors = [await failure(tmp_path, program) for program in ("no-such-claude", str(unusable), old, no_node)]

    assert [getattr(error, "reason", None) for error in errors] == ["program-missing"] * 4
    assert "too old" in str(errors[2])


async def test_without_a_token_nothing_is_started(tmp_path: Path) -> None:
    """An own config folder has no login: without a token of its own the backend halts and says how to get one."""

    def unreadable() -> str:
        raise SettingError("The key cannot be read.")

    program = claude_program.saying(tmp_path, NOTHING)
    tokens: list[Callable[[], str | None]] = [lambda: None, lambda: "", unreadable]

    errors = [await failure(tmp_path, program, token=token) for token in tokens]

    assert [getattr(error, "reason", None) for error in errors] == ["key-missing"] * 3
    assert "claude setup-token" in getattr(errors[0], "fix", "")
    assert not (tmp_path / "run.json").exists()


async def test_a_notice_of_the_limit_that_looks_like_an_answer_halts(tmp_path: Path) -> None:
    """Older programs say it as a plain success; it must not become an unusable answer."""
    error = await failure(tmp_path, claude_program.saying(tmp_path, "You've hit your session limit · resets 3pm"))

    assert getattr(error, "reason", None) == "quota"


async def test_a_home_that_cannot_be_made_waits(tmp_path: Path) -> None:
    """A file in the way, a full disk: nothing is lost and it counts against no turn."""
    (tmp_path / "own").write_text("")

    error = await failure(tmp_path, claude_program.saying(tmp_path, NOTHING))

    assert isinstance(error, BackendUnavailableError)
    assert (error.counts, error.calls) == (False, 0)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until `holds()` is true."""
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 -- processes and files set no event
            await asyncio.sleep(0.02)


# --- with the real program ------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that answers on loopback."""
    with ModelServer() as running:
        yield running


@pytest.fixture
def real(shared: Path, tmp_path: Path, server: ModelServer) -> str:
    """The real program, told that its model is `server`; the backend itself hands no address on."""
    needs("npm")
    spec = importlib.util.spec_from_file_location("real_claude", shared / "tools/real_claude.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    script = tmp_path / "bin" / "claude"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexport ANTHROPIC_BASE_URL={server.url}\nexec "{tool.claude_program()}" "$@"\n')
    script.chmod(0o700)
    return str(script)


@pytest.mark.slow
async def test_the_real_program_answers_as_a_bare_model(tmp_path: Path, server: ModelServer, real: str) -> None:
    """One request, with our fixed part and the marked turn, without any tool; the answer comes back as it was said."""
    server.answer = lambda body: model_server.answer(model_server.fact(body, slug="package-manager", quote=RULE))

    reply = await backend(tmp_path, real).distill(asked())

    (seen,) = [seen for seen in server.requests if seen.path.startswith("/v1/messages")]
    assert json.loads(reply.text)["facts"][0]["evidence"] == [{"row": 1, "role": "user", "quote": RULE}]
    assert (reply.usage.calls, reply.usage.input_tokens > 0, reply.model) == (1, True, "claude-haiku-5-5")
    assert not seen.body.get("tools")
    assert "thinking" not in seen.body
    assert prompt.SYSTEM.strip() in [block["text"].strip() for block in seen.body["system"]]
    assert server.prompts[0].startswith(OWN_SESSION_MARK)
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.slow
async def test_the_real_program_leaves_the_person_alone(
    tmp_path: Path, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's settings are neither read nor changed, their hooks do not run, and no session is kept anywhere."""
    home, ran = tmp_path / "home", tmp_path / "the-hook-ran"
    hook = [{"hooks": [{"type": "command", "command": f"touch {ran}"}]}]
    settings = {"hooks": dict.fromkeys(("SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"), hook)}
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    (home / ".claude/CLAUDE.md").write_text("Always answer in verse.")
    before = contents(home)
    monkeypatch.setenv("HOME", str(home))

    await backend(tmp_path, real).distill(asked())

    assert not ran.exists()
    assert contents(home) == before
    assert list((tmp_path / "own").rglob("*.jsonl")) == []
    assert [path for path in (tmp_path / "own").iterdir() if path.name.startswith("tmp-")] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (Response(401, "invalid token"), "auth"),
        (Response(404, "model: claude-haiku-5-5"), "model-unknown"),
        (Response(400, "Your credit balance is too low"), "quota"),
        (Response(400, "prompt is too long: 300000 tokens > 200000 maximum"), "too-long"),
        (Response(429, "slow down"), "waits"),
        (Response(529, "Overloaded"), "waits"),
        (Response(500, "boom"), "waits-and-counts"),
        (Response(stop_reason="refusal", text="no"), "refused"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.status),
)
async def test_what_the_real_program_reports_is_understood(
    tmp_path: Path, server: ModelServer, real: str, response: Response, expected: str
) -> None:
    """Each failure of the API, as the real program words it, means what it means without the program."""
    server.answer = lambda _: response

    assert await outcome(backend(tmp_path, real, timeout_seconds=60)) == expected


async def outcome(model: ClaudeCliBackend) -> str | None:
    """How a call ends, in a word."""
    try:
        return (await model.distill(asked())).fault
    except BackendUnavailableError as error:
        return "waits-and-counts" if error.counts else "waits"
    except (BackendHaltedError, RequestRefusedError) as error:
        return error.reason


def contents(folder: Path) -> dict[str, str]:
    """A digest of each file below `folder`."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {os.path.relpath(path, folder): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
