"""The Messages API as a model: what goes over the wire, and what each thing that comes back means."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

import distiller
from distiller.adapters.backend_anthropic import AnthropicBackend
from distiller.distill import price, prompt
from distiller.distill.reply import ANSWER_SCHEMA
from distiller.errors import (
    BackendError,
    BackendHaltedError,
    BackendUnavailableError,
    SettingError,
)
from distiller.vocabulary import Price, Redacted, Request, Role, Row, Usage, Window
from tests.fakes.backend import NOTHING
from tests.fakes.model_server import Body, ModelServer, Response, Seen, prompt_of

pytestmark = pytest.mark.integration

KEY = "sk-ant-api03-made-up"
RULE = "From now on always use uv in this repo, never pip."
BROKEN = ("reset", "close", "stall", "stallhdr", "drip", "mid", "midreset", "garbage", "empty", "nonhttp")
ENVIRONMENT = {
    "ANTHROPIC_API_KEY": "planted-key",
    "ANTHROPIC_AUTH_TOKEN": "planted-token",
    "ANTHROPIC_CUSTOM_HEADERS": "Authorization: Bearer planted-header\nx-planted: planted-header\nHost: planted",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:9/planted",
    "ANTHROPIC_PROFILE": "planted-profile",
}


def asked(text: str = RULE, *, repair: str | None = None) -> Request:
    """A request about one row of the person's."""
    window = Window((Row(1, "m1", Role.USER, "own", Redacted(text)),), "2026-12-01", Redacted("/work/shop"))
    return Request(window, (), "p", prompt.write(window, ()), prompt.VERSION, repair)


def backend(url: str, **changes: Any) -> AnthropicBackend:
    """The backend with a key and a server of one's own."""
    usual: dict[str, Any] = {"model": "claude-haiku-5-5", "key": lambda: KEY, "base_url": url, "timeout_seconds": 10}
    return AnthropicBackend(**usual | changes)


async def failure(url: str, *, request: Request | None = None, **changes: Any) -> BackendError:
    """The error that a call ends with: one line, without a word of the turn and without the key."""
    with pytest.raises(BackendError) as caught:
        await backend(url, **changes).distill(request or asked())
    line = str(caught.value)
    assert "\n" not in line
    assert RULE[:20] not in line
    assert KEY not in line
    return caught.value


def described(error: BackendError) -> tuple[str, object, int, bool]:
    """What a caller does with an error: its sort, reason or weight, calls, and whether it may have been billed."""
    weight = getattr(error, "reason", None) or getattr(error, "counts", None)
    return type(error).__name__, weight, error.calls, error.spent_tokens > 1000


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """A model that answers on loopback."""
    with ModelServer() as running:
        yield running


# --- what goes over the wire --------------------------------------------------------------------------------------


async def test_an_answer_comes_back_with_what_it_used_and_cost(server: ModelServer) -> None:
    """Text, tokens of each kind, cost by the given price, model and prompt version."""
    counts = {"input_tokens": 500, "output_tokens": 30, "cache_read_input_tokens": 2000}
    server.answer = lambda _: Response(changes={"usage": counts | {"cache_creation_input_tokens": 100}})
    haiku = Price(1, 5, 0.10, 2)

    reply = await backend(server.url, price=haiku).distill(asked())

    assert (reply.text, reply.backend, reply.model, reply.prompt_version, reply.fault) == (
        NOTHING, "anthropic", "claude-haiku-5-5", prompt.VERSION, None,
    )  # fmt: skip
    expected = Usage(1, 500, 30, 2000, 100)
    assert reply.usage == Usage(1, 500, 30, 2000, 100, price.cost(expected, haiku), reply.usage.took_ms)


async def test_the_request_holds_what_is_needed_and_no_more(server: ModelServer) -> None:
    """Model, limit, fixed part, turn and schema; no tools, no temperature, no stream."""
    await backend(server.url).distill(asked())

    (seen,) = server.requests
    assert seen.path == "/v1/messages"
    assert seen.body == {
        "model": "claude-haiku-5-5",
        "max_tokens": 1500,
        "system": [{"type": "text", "text": prompt.SYSTEM, "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [{"role": "user", "content": asked().prompt}],
        "output_config": {"format": {"type": "json_schema", "schema": ANSWER_SCHEMA}},
    }


@pytest.mark.parametrize(
    ("thinking", "thinking_sent", "effort_sent"),
    [("omit", None, None), ("disabled", {"type": "disabled"}, None), ("low-effort", None, "low")],
)
async def test_thinking_is_kept_small_as_the_model_allows(
    server: ModelServer, thinking: str, thinking_sent: object, effort_sent: object
) -> None:
    """Thinking is billed as output: it is switched off, asked to be little, or not spoken of."""
    await backend(server.url, thinking=thinking).distill(asked())

    body = server.requests[0].body
    assert (body.get("thinking"), body["output_config"].get("effort")) == (thinking_sent, effort_sent)


async def test_two_requests_differ_in_the_turn_alone(server: ModelServer) -> None:
    """What a provider caches is byte-identical, whatever is asked."""
    model = backend(server.url)
    await model.distill(asked("Use pnpm."))
    await model.distill(asked("We deploy on Thursdays.", repair="the answer has no list of facts"))

    one, two = map(without_turn, server.requests)
    assert one == two


def without_turn(seen: Seen) -> bytes:
    """A request's bytes with a mark where the turn stands."""
    turn = json.dumps(prompt_of(seen.body), ensure_ascii=False).encode()
    assert seen.raw.count(turn) == 1
    return seen.raw.replace(turn, b"TURN")


async def test_a_second_question_says_why(server: ModelServer) -> None:
    """After the same turn the model reads what was wrong and what is wanted; before, nothing of the kind."""
    model = backend(server.url)
    await model.distill(asked())
    await model.distill(asked(repair="the JSON of the answer is broken or cut off"))

    first, second = server.prompts
    assert second.startswith(first)
    assert "could not be used: the JSON of the answer is broken or cut off. Answer" in second
    assert "could not be used" not in first


async def test_the_key_stands_in_one_header_and_nowhere_else(server: ModelServer) -> None:
    """It is neither in the address nor in the body, and the one header is the standard one."""
    await backend(server.url).distill(asked())

    (seen,) = server.requests
    assert {name for name, value in seen.headers.items() if KEY in value} == {"authorization"}
    assert seen.headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in seen.path
    assert KEY.encode() not in seen.raw


@pytest.mark.parametrize("none", [None, ""])
async def test_a_server_of_ones_own_needs_no_key(server: ModelServer, none: str | None) -> None:
    """Without a key no header of that kind is sent at all."""
    await backend(server.url, key=lambda: none).distill(asked())

    assert not server.requests[0].headers.keys() & {"authorization", "x-api-key"}


async def test_a_new_key_counts_without_a_restart(server: ModelServer) -> None:
    """The key is asked for at each call."""
    keys = iter(["first", "second"])
    model = backend(server.url, key=lambda: next(keys))

    await model.distill(asked())
    await model.distill(asked())

    assert [seen.headers["authorization"] for seen in server.requests] == ["Bearer first", "Bearer second"]


@pytest.mark.parametrize("end", ["", "/", "/v1", "/v1/", "//"])
async def test_an_address_may_end_as_people_write_it(server: ModelServer, end: str) -> None:
    """The SDK adds /v1; an address that has it already does not get it twice."""
    await backend(server.url + end).distill(asked())

    assert server.requests[0].path == "/v1/messages"


@pytest.mark.parametrize("address", ["localhost:11434", "ftp://host", "http://", "http://host:no", "http://[", "/v1"])
def test_an_address_that_is_none_is_a_setting_error(address: str) -> None:
    """It is told when the backend is made, not at the first turn."""
    with pytest.raises(SettingError, match=r"anthropic\.base_url"):
        backend(address)


@pytest.mark.parametrize("name", sorted(ENVIRONMENT))
@pytest.mark.parametrize("key", [KEY, None], ids=["key", "no-key"])
async def test_nothing_is_taken_from_the_environment(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, name: str, key: str | None
) -> None:
    """Keys, tokens, headers, addresses and profiles that lie around have no effect, with a key of ours or without."""
    with ModelServer() as other:
        monkeypatch.setenv(name, other.url if name == "ANTHROPIC_BASE_URL" else ENVIRONMENT[name])
        await backend(server.url, key=lambda: key).distill(asked())

    (seen,) = server.requests
    assert "planted" not in json.dumps([seen.path, seen.headers, seen.body])
    assert seen.headers.get("authorization") == (f"Bearer {key}" if key else None)
    assert other.requests == []


async def test_the_environments_address_is_no_server_of_ones_own(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a base_url of ours and without a key the backend halts, whatever the environment offers."""
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)

    error = await failure("", key=lambda: None)

    assert isinstance(error, BackendHaltedError)
    assert (error.reason, error.fix) == ("key-missing", "`distiller config set-key anthropic`")
    assert server.requests == []


async def test_the_environments_address_gets_no_key_of_ours(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a base_url of ours a turn goes to Anthropic's host (here: to a proxy that is away) or nowhere."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")

    error = await failure("")

    assert described(error) == ("BackendUnavailableError", False, 0, False)
    assert server.requests == []


async def test_a_key_that_cannot_be_used_halts(server: ModelServer) -> None:
    """An unreadable file and characters that no header takes are told before anything is sent."""

    def unreadable() -> str:
        raise SettingError("The key in /keys/anthropic cannot be read: Permission denied.")

    keys: list[Callable[[], str | None]] = [unreadable, lambda: "sk ant", lambda: "schlüssel", lambda: "a\nb"]

    errors = [await failure(server.url, key=key) for key in keys]

    assert [getattr(error, "reason", None) for error in errors] == ["key-missing", "auth", "auth", "auth"]
    assert server.requests == []


async def test_a_proxy_has_no_place_on_this_machine(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server on loopback is reached although every proxy variable points elsewhere."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    await backend(server.url.replace("127.0.0.1", "localhost")).distill(asked())

    assert len(server.requests) == 1


async def test_a_proxy_is_used_for_servers_elsewhere(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the network has a proxy, a request to another machine goes through it."""
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)

    error = await failure("http://model.example")

    assert described(error)[0] == "BackendHaltedError"  # the stand-in knows no such path: 404
    assert [seen.path for seen in server.requests] == ["http://model.example/v1/messages"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("all_proxy", "nonsense://user:secret@host"),
        ("ALL_PROXY", "socks5://user:secret@host:1080"),
        ("SSL_CERT_FILE", "/no/such/secret.pem"),
    ],
)
async def test_a_network_variable_that_cannot_be_used_waits(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """It is no damaged program: a restart would not help, and the turn is not to blame."""
    monkeypatch.setenv(name, value)

    error = await failure("http://model.example")

    assert described(error) == ("BackendUnavailableError", False, 0, False)
    assert "secret" not in str(error)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(server: ModelServer, status: int) -> None:
    """A request goes to the configured host or nowhere: neither turn nor key reach another one."""
    with ModelServer() as other:
        server.answer = lambda _: Response(status, "moved", {"location": f"{other.url}/v1/messages"})
        error = await failure(server.url)

    assert described(error) == ("BackendUnavailableError", True, 1, False)
    assert (len(server.requests), other.requests) == (1, [])


# --- what comes back ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "message", "sort", "weight"),
    [
        (400, "Your credit balance is too low to access the API.", "BackendHaltedError", "quota"),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "RequestRefusedError", "too-long"),
        (400, "request (9000 tokens) exceeds the available context size", "RequestRefusedError", "too-long"),
        (400, "model 'haiku' not found", "BackendHaltedError", "model-unknown"),
        (400, "messages: at least one is required", "RequestRefusedError", "request-invalid"),
        (401, "invalid key", "BackendHaltedError", "auth"),
        (402, "pay", "BackendHaltedError", "quota"),
        (403, "not allowed", "BackendHaltedError", "auth"),
        (404, "model: claude-haiku-9", "BackendHaltedError", "model-unknown"),
        (405, "no", "RequestRefusedError", "request-invalid"),
        (407, "proxy", "BackendUnavailableError", False),
        (408, "slow", "BackendUnavailableError", True),
        (409, "conflict", "BackendUnavailableError", True),
        (413, "large", "RequestRefusedError", "too-long"),
        (422, "no", "RequestRefusedError", "request-invalid"),
        (429, "slow down", "BackendUnavailableError", False),
        (429, "50,000 input tokens per minute; ask for more quota", "BackendUnavailableError", False),
        (429, "You exceeded your current quota", "BackendHaltedError", "quota"),
        (429, "monthly spend limit reached", "BackendHaltedError", "quota"),
        (500, "boom", "BackendUnavailableError", True),
        (502, "bad gateway", "BackendUnavailableError", True),
        (503, "away", "BackendUnavailableError", True),
        (529, "Overloaded", "BackendUnavailableError", False),
        (599, "odd", "BackendUnavailableError", True),
    ],
)
async def test_every_status_has_its_meaning(
    server: ModelServer, status: int, message: str, sort: str, weight: object
) -> None:
    """What a person must mend halts, what passes waits, what never works is refused; none of it is billed."""
    server.answer = lambda _: Response(status, message)

    error = await failure(server.url)

    assert described(error) == (sort, weight, 1, False)
    assert str(status) in str(error)
    assert not isinstance(error, BackendHaltedError) or error.fix
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [429, 503, 529])
@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "86400"}, 86400),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "inf"}, None),
        ({}, None),
    ],
    ids=str,
)
async def test_what_a_server_asks_for_is_obeyed_in_full(
    server: ModelServer, status: int, headers: Mapping[str, str], seconds: float | None
) -> None:
    """A day is a day; what cannot be read is nothing."""
    server.answer = lambda _: Response(status, "later", headers)

    error = await failure(server.url)

    assert getattr(error, "retry_after_seconds", "-") == seconds


@pytest.mark.parametrize(("ahead", "expected"), [(7200, 7200), (-60, 0)])
async def test_a_server_may_name_a_date(server: ModelServer, ahead: float, expected: float) -> None:
    """A date is the time until then; one that is over is no wait."""
    server.answer = lambda _: Response(429, "later", {"retry-after": formatdate(time.time() + ahead, usegmt=True)})

    error = await failure(server.url)

    assert getattr(error, "retry_after_seconds", None) == pytest.approx(expected, abs=5)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>sign in to the network</html>",
        b"\x00\xff{]not json",
        b'{"type": "message", "content": [{"type": "te',
        b'{"type": "error", "error": {"type": "overloaded_error", "message": "x"}}',
        b'{"choices": []}',
        b'{"content": "text"}',
        b"[]",
        b"null",
        b"[" * 100_000,
        NOTHING.encode(),
    ],
    ids=["empty", "page", "garbage", "half", "error", "openai", "text", "list", "null", "deep", "bare-answer"],
)
@pytest.mark.parametrize("kind", ["application/json", "text/html", "application/json; charset=nonsense"])
async def test_a_body_that_is_no_message_is_no_answer(server: ModelServer, body: bytes, kind: str) -> None:
    """Status 200 with something else is a gateway's doing: the turn waits, and it is not the model's word."""
    server.answer = lambda _: Response(body=body, headers={"content-type": kind})

    assert described(await failure(server.url)) == ("BackendUnavailableError", True, 1, True)


async def test_a_body_that_cannot_be_unpacked_is_no_answer(server: ModelServer) -> None:
    """A broken encoding is a broken connection."""
    server.answer = lambda _: Response(body=b"abc", headers={"content-encoding": "gzip"})

    assert described(await failure(server.url)) == ("BackendUnavailableError", True, 1, True)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"[]",
        b'{"error": "out of memory"}',
        b'{"detail": [{"loc": ["body"]}]}',
        b'{"error": {"code": 3}}',
        b"\xff",
    ],
    ids=["page", "empty", "list", "text", "detail", "code", "garbage"],
)
async def test_an_error_may_come_in_any_shape(server: ModelServer, body: bytes) -> None:
    """A status is understood whatever stands below it."""
    server.answer = lambda _: Response(500, body=body)

    assert described(await failure(server.url)) == ("BackendUnavailableError", True, 1, False)


@pytest.mark.parametrize(
    ("stop_reason", "fault"),
    [
        ("end_turn", None),
        ("refusal", "refused"),
        ("max_tokens", "cut-off"),
        ("model_context_window_exceeded", "cut-off"),
    ],
)
async def test_a_model_that_ended_badly_is_a_reply(server: ModelServer, stop_reason: str, fault: str | None) -> None:
    """It was asked and paid for: text and usage are kept, the fault is said."""
    server.answer = lambda _: Response(text='{"facts": [', stop_reason=stop_reason)

    reply = await backend(server.url).distill(asked())

    assert (reply.text, reply.fault, reply.usage.calls, reply.usage.input_tokens > 0) == ('{"facts": [', fault, 1, True)


async def test_only_text_blocks_are_the_answer(server: ModelServer) -> None:
    """Thinking and unknown blocks are left out, text in several blocks is joined."""
    blocks = [
        {"type": "thinking", "thinking": "hm", "signature": "x"},
        {"type": "text", "text": '{"facts"'},
        {"type": "something-new", "text": 7},
        "stray",
        {"type": "text", "text": ": []}"},
        {"type": "text", "text": None},
    ]
    server.answer = lambda _: Response(changes={"content": blocks})

    assert (await backend(server.url).distill(asked())).text == '{"facts": []}'


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        {"output_tokens": 7},
        {"input_tokens": "7"},
        {"input_tokens": -(10**6)},
        {"input_tokens": 10**30},
        {"input_tokens": True},
        {"input_tokens": 7, "output_tokens": -3},
    ],
)
async def test_usage_that_is_not_said_is_guessed(server: ModelServer, usage: object) -> None:
    """A server that counts nothing does not make calls free of charge."""
    server.answer = lambda _: Response(changes={"usage": usage})

    reply = await backend(server.url, price=Price(1, 5)).distill(asked())

    assert reply.usage.input_tokens > len(prompt.SYSTEM) // 4
    assert reply.usage.output_tokens > 10
    assert reply.usage.cost_usd


async def test_a_model_without_a_price_has_no_cost(server: ModelServer) -> None:
    """An unknown cost is not zero."""
    assert (await backend(server.url).distill(asked())).usage.cost_usd is None


async def test_half_a_character_in_an_answer_does_no_harm(server: ModelServer) -> None:
    """A lone surrogate, which no store takes, is replaced."""
    server.answer = lambda _: Response(text="{\ud800}")

    assert (await backend(server.url).distill(asked())).text == "{?}"


@pytest.mark.parametrize(
    "text",
    [
        "You've hit your session limit · resets 3pm",
        "You have hit your weekly limit.",
        "Claude usage limit reached.",
        "Your monthly spend limit has been exceeded",
        "Credit balance is too low",
        "quota exceeded",
        "You are out of credits",
    ],
)
async def test_a_notice_of_the_limit_halts(server: ModelServer, text: str) -> None:
    """A gateway says it as an answer; it is the account, not the turn."""
    server.answer = lambda _: Response(text=text)

    error = await failure(server.url)

    assert described(error) == ("BackendHaltedError", "quota", 1, True)
    assert isinstance(error, BackendHaltedError)
    assert error.said_by_model  # an answer may be provoked: one alone proves nothing


@pytest.mark.parametrize(
    ("turn", "text"),
    [
        ("Show a banner: usage limit reached.", "Sure, the banner says: usage limit reached."),
        (RULE, '{"facts": [], "session_note": "usage limit reached"}'),
        (RULE, "I read the turn about limits. " * 20 + "usage limit reached"),
        (RULE, "I would rather not."),
    ],
)
async def test_prose_is_no_notice(server: ModelServer, turn: str, text: str) -> None:
    """A model that talks about limits because the turn does, or at length, or in JSON, halts nothing."""
    server.answer = lambda _: Response(text=text)

    assert (await backend(server.url).distill(asked(turn))).text == text


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("max_tokens: must be\n at least 1", "max_tokens: must be at least 1"),
        (f"messages.0.content: {RULE}", ""),
        ("x " + RULE[:21], ""),
        ("the key sk-ant-api03-" + "A1b2C3d4" * 12 + " is odd", "sk-ant"),
        ("word " * 100, "word word"),
        ("long" * 5000, ""),
    ],
    ids=["plain", "echo", "part", "secret", "long", "page"],
)
async def test_of_a_servers_words_little_is_told(server: ModelServer, message: str, told: str) -> None:
    """At most 120 characters, one line, redacted, and none where the turn shows through."""
    server.answer = lambda _: Response(405, message)

    line = str(await failure(server.url))
    tail = line.partition("(api_error)")[2]

    assert len(tail) <= 122
    assert "A1b2C3d4" not in line
    assert (told in tail) if told not in ("", "sk-ant") else "long" not in tail
    assert told or tail == ""


# --- servers of one's own that know less --------------------------------------------------------------------------


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    "message",
    ["output_config: Extra inputs are not permitted", "unknown field `cache_control`", "thinking is not supported"],
)
async def test_a_server_that_knows_less_is_asked_plainly(server: ModelServer, status: int, message: str) -> None:
    """It is asked once more without the newer fields, and from then on at once so."""

    def strict(body: Body) -> str | Response:
        return Response(status, message) if "output_config" in body else NOTHING

    server.answer = strict
    model = backend(server.url, thinking="disabled")

    first, second = await model.distill(asked()), await model.distill(asked("Use pnpm."))

    assert (first.text, second.text, first.usage.calls) == (NOTHING, NOTHING, 1)
    assert ["output_config" in seen.body for seen in server.requests] == [True, False, False]
    assert server.requests[1].body.keys() == {"model", "max_tokens", "system", "messages"}
    assert server.requests[1].body["system"] == prompt.SYSTEM


async def test_a_server_that_refuses_the_plain_form_too_has_the_last_word(server: ModelServer) -> None:
    """Two requests, not a third."""
    server.answer = lambda _: Response(400, "output_config: unknown field")

    error = await failure(server.url)

    assert described(error) == ("RequestRefusedError", "request-invalid", 1, False)
    assert len(server.requests) == 2


async def test_a_server_that_is_slow_twice_ends_at_the_one_deadline(server: ModelServer) -> None:
    """Asking plainly does not begin the time anew."""
    server.answer = lambda _: Response(400, "output_config: unknown field", delay=0.7)
    started = time.monotonic()

    error = await failure(server.url, timeout_seconds=1)

    assert described(error) == ("BackendUnavailableError", True, 1, True)
    assert time.monotonic() - started < 5  # with the import, on a busy machine


# --- a failing network --------------------------------------------------------------------------------------------


@contextmanager
def misbehaving(shared: Path, script: str, *, body: Path) -> Iterator[str]:
    """The address of a running bad-model-server."""
    words = [sys.executable, str(shared / "tools/bad-model-server"), "--script", script, "--body", str(body)]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.terminate()
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("429", ("BackendUnavailableError", False, 1, False)),
        ("500", ("BackendUnavailableError", True, 1, False)),
        ("529", ("BackendUnavailableError", False, 1, False)),
        ("400", ("RequestRefusedError", "request-invalid", 1, False)),
        ("401", ("BackendHaltedError", "auth", 1, False)),
        ("html", ("BackendUnavailableError", True, 1, False)),
        *[(word, ("BackendUnavailableError", True, 1, True)) for word in BROKEN],
    ],
)
async def test_a_server_that_misbehaves_is_an_error_of_ours(
    shared: Path, tmp_path: Path, word: str, expected: tuple[str, object, int, bool]
) -> None:
    """Stalls, drips, resets and half answers end by the deadline, each with its weight, and the next call is served."""
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"content": [{"type": "text", "text": NOTHING}], "stop_reason": "end_turn"}))
    with misbehaving(shared, f"{word},ok", body=body) as url:
        model = backend(url, timeout_seconds=1.5)
        model_ready = await model_failure(model)
        reply = await model.distill(asked())

    assert described(model_ready) == expected
    assert getattr(model_ready, "retry_after_seconds", None) == (2 if word == "429" else None)
    assert reply.text == NOTHING


async def model_failure(model: AnthropicBackend) -> BackendError:
    """The error that a call ends with, no later than its deadline and a bit."""
    with pytest.raises(BackendError) as caught:
        async with asyncio.timeout(30):
            await model.distill(asked())
    return caught.value


async def test_a_drip_ends_at_the_deadline(shared: Path, tmp_path: Path) -> None:
    """A byte a second keeps a connection alive for ever, but not a call."""
    body = tmp_path / "body.json"
    body.write_text(json.dumps({"content": [], "filler": "x" * 500}))
    with misbehaving(shared, "ok,drip", body=body) as url:
        model = backend(url, timeout_seconds=2)
        await model.distill(asked())
        started = time.monotonic()
        await model_failure(model)

    assert 1.9 < time.monotonic() - started < 4


async def test_a_server_that_does_not_listen_counts_against_no_turn() -> None:
    """A refused connection and a name that does not resolve sent nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    errors = [await failure(url) for url in (f"http://127.0.0.1:{port}", "http://no-such-host.invalid:4000")]

    assert [described(error) for error in errors] == [("BackendUnavailableError", False, 0, False)] * 2


async def test_a_host_that_never_answers_the_first_packet_counts_against_no_turn() -> None:
    """A full queue drops the handshake: nothing was sent when the time for connecting is over."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for client in (first, second):
            client.settimeout(0)
            client.connect_ex(listener.getsockname())
        await asyncio.sleep(0.1)

        error = await failure(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_seconds=2)

    assert described(error) == ("BackendUnavailableError", False, 0, False)


async def test_a_stalled_call_is_cancelled_at_once(server: ModelServer) -> None:
    """A daemon that ends does not wait for a model."""
    server.answer = lambda _: Response(delay=60)
    call = asyncio.create_task(backend(server.url, timeout_seconds=60).distill(asked()))
    async with asyncio.timeout(20):
        while not server.requests:  # noqa: ASYNC110 -- the server runs in a thread
            await asyncio.sleep(0.02)

    started = time.monotonic()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    assert time.monotonic() - started < 1


async def test_calls_at_the_same_time_do_not_mix(server: ModelServer) -> None:
    """Each gets the answer to its own question, slow ones hold up none, and a failing one harms none."""

    def echo(body: Body) -> str | Response:
        number = int(prompt_of(body).partition("number ")[2].split()[0])
        if number % 5 == 0:
            return Response(500, "boom")
        return Response(text=json.dumps({"number": number}), delay=0.05 * (number % 3))

    server.answer = echo
    model = backend(server.url)

    replies = await asyncio.gather(
        *(model.distill(asked(f"number {number} .")) for number in range(20)), return_exceptions=True
    )

    for number, reply in enumerate(replies):
        if number % 5 == 0:
            assert isinstance(reply, BackendUnavailableError)
        else:
            assert not isinstance(reply, BaseException)
            assert json.loads(reply.text) == {"number": number}
    assert len(server.requests) == 20


# --- in a process of its own --------------------------------------------------------------------------------------

SCRIPT = """
import asyncio, sys
from distiller.adapters.backend_anthropic import AnthropicBackend
from distiller.distill import prompt
from distiller.vocabulary import Redacted, Request, Role, Row, Window
window = Window((Row(1, "m1", Role.USER, "own", Redacted("From now on always use uv.")),), "2026-12-01", Redacted("/x"))
request = Request(window, (), "p", prompt.write(window, ()))
backend = AnthropicBackend(model="m", key=lambda: "k", base_url=sys.argv[1])
print("early" if {"anthropic", "httpx2", "pydantic"} & sys.modules.keys() else "late")
try:
    print(asyncio.run(backend.distill(request)).text)
    print(asyncio.run(backend.distill(request)).text)
except Exception as error:
    print(type(error).__name__)
"""


def run_script(url: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run SCRIPT in a fresh process."""
    place = str(Path(distiller.__file__).parents[1])
    path = os.pathsep.join([environment.pop("PYTHONPATH", place), place])
    return subprocess.run(
        [sys.executable, "-c", SCRIPT, url],
        env=os.environ | environment | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_the_sdk_is_imported_late_and_writes_no_prompt_anywhere(server: ModelServer) -> None:
    """Only the first call pays for it, a later event loop may use the same client, and ANTHROPIC_LOG has no effect."""
    done = run_script(server.url, ANTHROPIC_LOG="debug")

    assert (done.stdout.splitlines(), done.stderr) == (["late", NOTHING, NOTHING], "")


@pytest.mark.parametrize(
    "code", ["raise ImportError('gone')", "def half(:", "import no_such_module", "1 / 0", "", "AsyncAnthropic = 7"]
)
def test_a_replaced_sdk_asks_for_a_restart(server: ModelServer, tmp_path: Path, code: str) -> None:
    """An upgrade below a running process breaks the late import in any way: turns wait and a restart is asked for."""
    (tmp_path / "anthropic").mkdir()
    (tmp_path / "anthropic/__init__.py").write_text(code)

    done = run_script(server.url, PYTHONPATH=str(tmp_path))

    assert (done.stdout.splitlines(), done.stderr) == (["late", "OutdatedProgramError"], "")
