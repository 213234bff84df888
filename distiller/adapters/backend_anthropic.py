"""A request in, a model's answer out, by the Messages API: Anthropic's, or whatever speaks it at `base_url`.

The SDK is imported by the first call, since it costs 0.7 s and 68 MB. It is kept from all that it would pick up by
itself: no key, profile, address or header comes from the environment, it neither retries nor follows a redirect, and
the body is read here, because a gateway's page with status 200 must not pass for an answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from msgspec import structs

from distiller.distill import price as prices
from distiller.distill import prompt
from distiller.distill.exchange import (
    Fixes,
    Refusal,
    error_of,
    guess_tokens,
    says_used_up,
    usage_of,
    used_up,
    user_text,
)
from distiller.distill.reply import ANSWER_SCHEMA
from distiller.errors import BackendHaltedError, BackendUnavailableError, OutdatedProgramError, SettingError
from distiller.vocabulary import Price, Reply, Request

if TYPE_CHECKING:
    import anthropic

_HOST = "https://api.anthropic.com"
_CONNECT_SECONDS = 10
_SET_KEY = "`distiller config set-key anthropic`"
_FIXES = Fixes(_SET_KEY, "`distiller config set anthropic.model NAME`")
_OWN_FIXES = Fixes(_SET_KEY, f"{_FIXES.model}, or `distiller config set anthropic.base_url ADDRESS`")
_UNSENT = frozenset({"ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"})
_FORM = re.compile(
    r"output_config|cache_control|thinking|format|schema|extra (?:inputs|fields)|unknown field|unrecognized",
    re.IGNORECASE,
)
_WRONG_FORM = (400, 422)
_FAULTS: Mapping[str, Literal["refused", "cut-off"]] = {
    "refusal": "refused",
    "max_tokens": "cut-off",
    "model_context_window_exceeded": "cut-off",
}


class AnthropicBackend:
    """One model behind one address. `key` is asked at each call, so that a new key counts without a restart."""

    name = "anthropic"

    def __init__(
        self,
        *,
        model: str,
        key: Callable[[], str | None],
        base_url: str = "",
        timeout_seconds: float = 60,
        max_output_tokens: int = 1500,
        thinking: str = "omit",
        price: Price | None = None,
    ) -> None:
        self.price = price
        self._model = model
        self._key = key
        self._url = _address(base_url)
        self._own_server = self._url != _HOST
        self._timeout_seconds = timeout_seconds
        self._max_output_tokens = max_output_tokens
        self._thinking = thinking
        self._plain = False
        self._client: anthropic.AsyncAnthropic | None = None

    async def distill(self, request: Request) -> Reply:
        """Ask once, within the deadline (which begins when the SDK is there)."""
        key = self._key_now()
        user = user_text(request)
        client = self._client
        if client is None:
            client = self._client = await asyncio.to_thread(self._open)
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                body = await self._ask(client, user, key)
        except TimeoutError:
            raise _lost(f"no whole answer within {self._timeout_seconds:g} s", user) from None
        return self._reply(body, request, user, round((time.monotonic() - started) * 1000))

    def _key_now(self) -> str | None:
        try:
            key = self._key()
        except SettingError as error:
            raise BackendHaltedError("key-missing", str(error), fix=_SET_KEY) from error
        if not key and not self._own_server:
            raise BackendHaltedError("key-missing", "there is no key for the Anthropic API", fix=_SET_KEY)
        if key and not (key.isascii() and key.isprintable() and " " not in key):
            raise BackendHaltedError("auth", "the key holds characters that no key has", fix=_SET_KEY)
        return key or None

    def _open(self) -> anthropic.AsyncAnthropic:
        """The client that all calls share."""
        try:
            import anthropic  # noqa: PLC0415 -- see the module's beginning
            import anthropic.resources.messages  # noqa: PLC0415 -- a client imports it late
        except Exception as error:  # whatever breaks here, these are not the files that this process started with
            raise _outdated(error) from error
        for name in ("anthropic", "httpx2"):  # ANTHROPIC_LOG=debug would put prompts into the log
            logging.getLogger(name).setLevel(logging.WARNING)
        try:
            return self._connected(anthropic)
        except (ValueError, ImportError, OSError) as error:
            if not _has_network_variables():
                raise _outdated(error) from error
            raise BackendUnavailableError(
                f"the environment's proxy or certificate variables cannot be used ({type(error).__name__})",
                counts=False,
            ) from error

    def _connected(self, sdk: ModuleType) -> anthropic.AsyncAnthropic:
        """A client that takes nothing from the environment but proxies.

        With a key, if only a word in its place, the SDK looks for no other credentials; each request brings its own.
        """
        connect_seconds = min(_CONNECT_SECONDS, self._timeout_seconds / 2)
        client: anthropic.AsyncAnthropic = sdk.AsyncAnthropic(
            api_key="comes-with-each-request",
            base_url=self._url,
            max_retries=0,
            open_telemetry=False,
            timeout=sdk.Timeout(self._timeout_seconds, connect=connect_seconds),
            http_client=sdk.DefaultAsyncHttpxClient(follow_redirects=False, trust_env=not _is_loopback(self._url)),
        )
        client._custom_headers = {}  # noqa: SLF001 -- what ANTHROPIC_CUSTOM_HEADERS put there; it knows no switch
        return client

    async def _ask(self, client: anthropic.AsyncAnthropic, user: str, key: str | None) -> bytes:
        """The body of the answer; a server of one's own that does not know the newer fields is asked without them."""
        said = await self._send(client, user, key, plain=self._plain)
        if isinstance(said, Refusal) and not self._plain and self._own_server and _is_about_form(said):
            self._plain = True
            said = await self._send(client, user, key, plain=True)
        if isinstance(said, Refusal):
            if key:
                said = said._replace(message=said.message.replace(key, "[the key]"))  # some echo what they turn down
            raise error_of(said, user=user, fixes=_OWN_FIXES if self._own_server else _FIXES)
        return said

    async def _send(
        self, client: anthropic.AsyncAnthropic, user: str, key: str | None, *, plain: bool
    ) -> bytes | Refusal:
        import anthropic  # noqa: PLC0415 -- there since the client was made

        headers = {"Authorization": f"Bearer {key}" if key else anthropic.omit, "Connection": "close"}
        try:
            raw = await client.messages.with_raw_response.create(
                **self._parameters(user, plain=plain), extra_headers=headers
            )
        except anthropic.APIStatusError as error:
            return _refusal(error.status_code, error.response.headers, error.response.content)
        except anthropic.APIConnectionError as error:
            raise _unreached(error, user) from error
        except ImportError as error:
            raise _outdated(error) from error
        return bytes(raw.http_response.content)

    def _parameters(self, user: str, *, plain: bool) -> dict[str, Any]:
        """What is asked. The fixed part stands first and is marked, so that the provider keeps it for an hour."""
        messages = [{"role": "user", "content": user}]
        asked = {"model": self._model, "max_tokens": self._max_output_tokens, "messages": messages}
        if plain:
            return asked | {"system": prompt.SYSTEM}
        output: dict[str, Any] = {"format": {"type": "json_schema", "schema": ANSWER_SCHEMA}}
        if self._thinking == "low-effort":
            output["effort"] = "low"
        if self._thinking == "disabled":
            asked["thinking"] = {"type": "disabled"}
        kept = {"type": "ephemeral", "ttl": "1h"}
        system = [{"type": "text", "text": prompt.SYSTEM, "cache_control": kept}]
        return asked | {"system": system, "output_config": output}

    def _reply(self, body: bytes, request: Request, user: str, took_ms: int) -> Reply:
        message = _message(body)
        if message is None:
            raise _lost("what came with status 200 is no answer of a model; perhaps a gateway's page", user)
        text = _text(message)
        usage = usage_of(message.get("usage"), user=user, text=text, took_ms=took_ms)
        if says_used_up(text, user):
            raise used_up("the model's answer says that the account is used up", usage)
        if self.price:
            usage = structs.replace(usage, cost_usd=prices.cost(usage, self.price))
        model = message.get("model")
        return Reply(
            text,
            usage,
            self.name,
            model if isinstance(model, str) else self._model,
            request.prompt_version or prompt.VERSION,
            _FAULTS.get(str(message.get("stop_reason"))),
        )


def _address(base_url: str) -> str:
    """The server's address without the `/v1` that the SDK adds; Anthropic's for "".

    Raises:
        SettingError: it is no web address.
    """
    url = (base_url.strip() or _HOST).rstrip("/").removesuffix("/v1").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise SettingError(f"anthropic.base_url is no address that begins with http:// or https://: {base_url!r}")
    return url


def _is_loopback(url: str) -> bool:
    """Whether the server is on this machine, where no proxy has a place."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _has_network_variables() -> bool:
    """Whether the environment says how to reach the network; what it says may be wrong, and a restart mends nothing."""
    names = {name.lower() for name, value in os.environ.items() if value}
    return bool(names & {"ssl_cert_file", "ssl_cert_dir", "http_proxy", "https_proxy", "all_proxy"})


def _is_about_form(refusal: Refusal) -> bool:
    return refusal.status in _WRONG_FORM and _FORM.search(refusal.message) is not None


def _outdated(error: Exception) -> OutdatedProgramError:
    return OutdatedProgramError(f"a part of distiller was replaced while it ran ({type(error).__name__}); it restarts")


def _unreached(error: BaseException, user: str) -> BackendUnavailableError:
    """Whether a request that failed on the way was sent decides if it may have been billed, and if it counts."""
    names: set[str] = set()
    cause: BaseException | None = error
    while cause is not None:
        names.add(type(cause).__name__)
        cause = cause.__cause__
    if names & _UNSENT:
        return BackendUnavailableError("the model's server cannot be reached", counts=False)
    return _lost("the connection broke before the answer was there", user)


def _lost(line: str, user: str) -> BackendUnavailableError:
    return BackendUnavailableError(line, calls=1, spent_tokens=guess_tokens(user))


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> Refusal:
    """What an error answer says, in the shapes of Anthropic, of OpenAI's imitators and of web frameworks."""
    value = _json(body)
    kind, message = "", ""
    if isinstance(value, dict):
        error = value.get("error", value.get("detail", value.get("message")))
        if isinstance(error, dict):
            kind, error = str(error.get("type") or error.get("code") or ""), error.get("message")
        message = error if isinstance(error, str) else json.dumps(error, ensure_ascii=False)
    return Refusal(status, kind, message, _retry_after(headers))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds, as `retry-after-ms`, as `retry-after` in seconds or as a date; None if it says nothing of use."""
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None or text is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _message(body: bytes) -> dict[str, Any] | None:
    """The message in a body, or None where the body is something else."""
    value = _json(body)
    if isinstance(value, dict) and isinstance(value.get("content"), list) and value.get("type", "message") == "message":
        return value
    return None


def _text(message: dict[str, Any]) -> str:
    """The text blocks joined; thinking is left out. Half surrogates, which no store takes, become question marks."""
    blocks = [block for block in message["content"] if isinstance(block, dict) and block.get("type") == "text"]
    text = "".join(block["text"] for block in blocks if isinstance(block.get("text"), str))
    return text.encode("utf-8", "replace").decode()
