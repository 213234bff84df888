"""A request in, a model's answer out, by `claude -p`: for those who have a subscription and no key.

The program runs as a bare model: no tools, hooks, settings, servers or commands, in a home of its own that holds
nothing of the person's, and it keeps no session. The turn goes in by stdin, since arguments are visible to every user
of the machine; it begins with a mark, so that no watcher takes the call for the person's own session.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Literal, NamedTuple

from msgspec import structs

from distiller.distill import prompt
from distiller.distill.exchange import (
    QUOTA_FIX,
    Fixes,
    Refusal,
    error_of,
    guess_tokens,
    says_used_up,
    told_of,
    usage_of,
    used_up,
    user_text,
)
from distiller.errors import BackendError, BackendHaltedError, BackendUnavailableError, SettingError
from distiller.transcript.pieces import OWN_SESSION_MARK
from distiller.vocabulary import Reply, Request, Usage

_MOST_BYTES = 4 << 20
_MOST_USD = 1000  # for one call
_REAP_SECONDS = 5
_PR_SET_PDEATHSIG = 1
_SET_TOKEN = "`claude setup-token`, then `distiller config set-key claude-cli`"  # noqa: S105 -- a command
_SET_PROGRAM = "`distiller config set claude_cli.program PATH`"
_FIXES = Fixes(_SET_TOKEN, "`distiller config set claude_cli.model NAME`")
_NOT_RUNNABLE = (126, 127)  # as shells and env say it: no right to run it, or no interpreter for it

_FLAGS = (
    "-p", "--output-format", "json", "--tools", "", "--setting-sources", "", "--strict-mcp-config",
    "--disable-slash-commands", "--no-session-persistence", "--safe-mode",
)  # fmt: skip
"""As Claude Code 2.1.333 knows them (`claude --help`); each was seen to work."""
_HANDED_ON = (
    "PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
)  # fmt: skip
_SWITCHES = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_INSTALLATION_CHECKS": "1",
    "CLAUDE_CODE_DISABLE_THINKING": "1",  # it would be billed as output
    "CLAUDE_CODE_MAX_RETRIES": "0",  # a failed call waits in the ledger, not in here
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_FALLBACK": "1",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "8000",  # well over an answer: at its limit the program asks thrice more
}
_STATUS = re.compile(r"API Error: (\d{3})\b")
_AUTH = re.compile(
    r"invalid api key|token has (?:expired|been revoked)|failed to authenticate|not logged in|please run /login",
    re.IGNORECASE,
)
_AWAY = re.compile(r"overloaded|temporarily limiting|rate limit", re.IGNORECASE)
_UNREACHED = re.compile(r"ECONNREFUSED|ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH|unable to connect", re.IGNORECASE)
_NO_MODEL = re.compile(r"issue with the selected model|model.{0,60}not (?:found|exist)", re.IGNORECASE)
_CUT_OFF = re.compile(r"exceeded the \d+ output token maximum", re.IGNORECASE)


class _Ended(NamedTuple):
    """A program that ended by itself and what it said."""

    code: int
    out: bytes
    err: bytes


class ClaudeCliBackend:
    """One model of a subscription. `folder` is the program's home; `token` is asked at each call."""

    name = "claude-cli"

    def __init__(
        self,
        *,
        program: str,
        model: str,
        token: Callable[[], str | None],
        folder: str,
        timeout_seconds: float = 120,
    ) -> None:
        self._program = program
        self._model = model
        self._token = token
        self._folder = os.path.abspath(folder)
        self._timeout_seconds = timeout_seconds

    async def distill(self, request: Request) -> Reply:
        """Ask once, within the deadline; whatever happens, no process is left behind."""
        token, program = self._token_now(), self._found()
        user = user_text(request)
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                ended = await self._run(program, token, f"{OWN_SESSION_MARK}\n\n{user}")
        except TimeoutError:
            raise _lost(f"claude gave no answer within {self._timeout_seconds:g} s and was stopped", user) from None
        if ended is None:
            raise _lost(f"claude said more than {_MOST_BYTES >> 20} MB and was stopped", user)
        hidden = (token.encode(), b"[the token]")
        ended = ended._replace(out=ended.out.replace(*hidden), err=ended.err.replace(*hidden))
        return self._reply(ended, request, user, round((time.monotonic() - started) * 1000))

    def _token_now(self) -> str:
        try:
            token = self._token()
        except SettingError as error:
            raise BackendHaltedError("key-missing", str(error), fix=_SET_TOKEN) from error
        if not token:
            raise BackendHaltedError("key-missing", "there is no token for claude-cli", fix=_SET_TOKEN)
        return token

    def _found(self) -> str:
        program = shutil.which(os.path.expanduser(self._program))
        if program is None:
            raise _missing(f"there is no program {self._program!r}")
        return os.path.abspath(program)

    async def _run(self, program: str, token: str, prompt_text: str) -> _Ended | None:
        """Run the program to its end; None if it says too much."""
        words = [program, *_FLAGS, "--model", self._model, "--system-prompt", prompt.SYSTEM]
        with self._room() as temporary:
            async with _process(words, self._folder, self._environment(token, temporary)) as process:
                return await _talk(process, prompt_text.encode("utf-8", "replace"))

    def _room(self) -> tempfile.TemporaryDirectory[str]:
        """A folder for what the program leaves behind in one run, in a home that only its owner may enter."""
        try:
            for folder in (self._folder, os.path.join(self._folder, "config")):
                os.makedirs(folder, mode=0o700, exist_ok=True)
                os.chmod(folder, 0o700)
            return tempfile.TemporaryDirectory(dir=self._folder, prefix="tmp-", ignore_cleanup_errors=True)
        except OSError as error:
            raise BackendUnavailableError(
                f"no folder for claude below {self._folder}: {error.strerror}", counts=False
            ) from error

    def _environment(self, token: str, temporary: str) -> dict[str, str]:
        """Built from nothing: what the caller's environment says about Claude Code or the API has no effect."""
        handed_on = {name: value for name in _HANDED_ON if (value := os.environ.get(name)) is not None}
        own = {
            "HOME": self._folder,
            "CLAUDE_CONFIG_DIR": os.path.join(self._folder, "config"),
            "CLAUDE_CODE_OAUTH_TOKEN": token,
            "TMPDIR": temporary,  # it leaves folders there that nobody removes
        }
        return handed_on | _SWITCHES | own

    def _reply(self, ended: _Ended, request: Request, user: str, took_ms: int) -> Reply:
        result = _result(ended.out)
        if result is None:
            raise _no_result(ended, user)
        text = result["result"] if isinstance(result.get("result"), str) else ""
        fault = _fault(result, text)
        if fault is None and (result.get("is_error") or result.get("subtype") not in (None, "success")):
            raise _error(result, text, user)
        usage = _usage(result, user, text, took_ms)
        if says_used_up(text, user):
            raise used_up("the model's answer says that the subscription is used up", usage)
        return Reply(
            text.encode("utf-8", "replace").decode(),
            usage,
            self.name,
            _model_of(result) or self._model,
            request.prompt_version or prompt.VERSION,
            fault,
        )


def _end_with_us() -> None:
    """In the child: be killed when the process that started it is, even by -9 (prctl(2), PR_SET_PDEATHSIG)."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


@asynccontextmanager
async def _process(words: list[str], folder: str, environment: dict[str, str]) -> AsyncIterator[Process]:
    """A process in a group of its own; at the end, whichever it is, the whole group is gone and reaped."""
    try:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=folder, env=environment, start_new_session=True,
            preexec_fn=_end_with_us if sys.platform == "linux" else None,
        )  # fmt: skip
    except OSError as error:
        raise _missing(f"{words[0]} cannot be started: {error.strerror}") from error
    try:
        yield process
    finally:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(TimeoutError):  # a child that left the group may hold a pipe open for ever
            async with asyncio.timeout(_REAP_SECONDS):
                await process.wait()


async def _talk(process: Process, given: bytes) -> _Ended | None:
    """Hand over stdin and read until the program ends."""
    assert process.stdin and process.stdout and process.stderr  # noqa: S101, PT018 -- pipes were asked for
    out, err, _ = await asyncio.gather(
        _read(process.stdout, process), _read(process.stderr, process), _feed(process.stdin, given)
    )
    code = await process.wait()
    return None if out is None or err is None else _Ended(code, out, err)


async def _feed(stdin: asyncio.StreamWriter, given: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # it ended without reading; its exit says why
        stdin.write(given)
        await stdin.drain()
        stdin.close()
        await stdin.wait_closed()


async def _read(stream: asyncio.StreamReader, process: Process) -> bytes | None:
    """All that comes, or None if it is too much; the program is stopped then."""
    said = bytearray()
    while chunk := await stream.read(1 << 16):
        said += chunk
        if len(said) > _MOST_BYTES:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None
    return bytes(said)


def _result(out: bytes) -> dict[str, Any] | None:
    """The result object among what was said; warnings may stand on lines before it."""
    for line in (out, out.strip().rpartition(b"\n")[2]):
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and value.get("type") == "result":
            return value
    return None


def _no_result(ended: _Ended, user: str) -> BackendError:
    """The error for an end without a result: too old, not runnable, or broken."""
    said = (ended.err or ended.out).decode("utf-8", "replace")
    if "unknown option" in said:
        return _missing("claude is too old: it does not know the options that keep it from tools and settings")
    if ended.code in _NOT_RUNNABLE:
        return _missing("claude cannot be run")
    if _AUTH.search(said):
        return BackendHaltedError("auth", "claude is not logged in with the token", fix=_SET_TOKEN, calls=1)
    told = told_of(said, user)
    return _lost(f"claude ended with code {ended.code} and without a result" + (f": {told}" if told else ""), user)


def _error(result: dict[str, Any], text: str, user: str) -> BackendError:
    """The error that a result reports: by the API's status where it is known, else by its words."""
    status = result.get("api_error_status") or _status(text)
    if _AUTH.search(text):
        status = status or 401
    elif says_used_up(text, user):
        return BackendHaltedError("quota", "claude says that the subscription is used up", fix=QUOTA_FIX, calls=1)
    elif _NO_MODEL.search(text):
        status = 404
    elif _AWAY.search(text):
        status = status or 529
    elif _UNREACHED.search(text):
        return BackendUnavailableError("claude cannot reach its server", counts=False)
    if isinstance(status, int):
        return error_of(Refusal(status, message=text), user=user, fixes=_FIXES)
    told = told_of(text, user)
    return _lost("claude reports an error" + (f": {told}" if told else ""), user)


def _status(text: str) -> int | None:
    found = _STATUS.search(text)
    return int(found[1]) if found else None


def _fault(result: dict[str, Any], text: str) -> Literal["refused", "cut-off"] | None:
    """How the model itself ended badly; the program reports that as an error of the API."""
    if result.get("stop_reason") == "refusal":
        return "refused"
    return "cut-off" if result.get("stop_reason") == "max_tokens" or _CUT_OFF.search(text) else None


def _usage(result: dict[str, Any], user: str, text: str, took_ms: int) -> Usage:
    """What the result says was used, its worth in USD included; guessed where it says nothing of use."""
    usage = usage_of(result.get("usage"), user=user, text=text, took_ms=took_ms)
    cost = result.get("total_cost_usd")
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost <= _MOST_USD:
        return structs.replace(usage, cost_usd=float(cost))
    return usage


def _model_of(result: dict[str, Any]) -> str | None:
    """The whole name of the model that an alias stood for."""
    models = result.get("modelUsage")
    return next(iter(models)) if isinstance(models, dict) and len(models) == 1 else None


def _missing(line: str) -> BackendHaltedError:
    return BackendHaltedError("program-missing", line, fix=_SET_PROGRAM)


def _lost(line: str, user: str) -> BackendUnavailableError:
    return BackendUnavailableError(line, calls=1, spent_tokens=guess_tokens(user))
