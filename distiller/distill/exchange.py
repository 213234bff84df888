"""A request in, the words for a model out; a provider's refusal in, the error that it means out.

Shared by all adapters that speak to a provider, so that the same status means the same everywhere. What a provider says
may echo what it was sent: of its words only a short, redacted piece goes into an error, and none that the turn holds.
"""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple

from distiller.distill import prompt
from distiller.distill.redact import redact
from distiller.distill.window import tokens_of
from distiller.errors import BackendError, BackendHaltedError, BackendUnavailableError, RequestRefusedError
from distiller.vocabulary import Redacted, Request, Usage

QUOTA_FIX = "raise the limit at the provider, or wait until it starts anew"

_TOLD_CHARACTERS = 120
_MOST_TOKENS = 10_000_000
_HEARD_CHARACTERS = 10_000  # a longer message is a page, not a message
_ECHO_CHARACTERS = 20
_QUOTA_TEXT_CHARACTERS = 300

_REPAIR = (
    "An earlier answer of yours to this could not be used: {}. Answer the same question once more, with the JSON "
    "object alone."
)
_USED_UP = re.compile(
    r"\b(?:hit|reached|exceeded) your\b.{0,40}\blimit|(?<!not your )usage limit|spend(?:ing)? limit|credit balance|"
    r"quota (?:was |is |has been )?(?:exceeded|reached|exhausted)|exceeded your (?:current )?quota|out of credits?",
    re.IGNORECASE | re.DOTALL,
)
_MONEY = re.compile(r"quota|spend|credit|billing|(?<!not your )usage limit", re.IGNORECASE)
_PER_MINUTE = re.compile(r"per[ -](?:minute|second)", re.IGNORECASE)
_TOO_LONG = re.compile(
    r"too long|context[ _-](?:length|window|size)|maximum context|too many tokens|exceeds? .{0,40}\bcontext",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|\bmodel\b.{0,80}\b(?:not found|does not exist|is not available)", re.IGNORECASE
)
_KIND = re.compile(r"[a-z][a-z0-9_]{2,39}")

_PAYMENT_REQUIRED, _NOT_FOUND, _TOO_LARGE = 402, 404, 413
_AUTH = frozenset({401, 403})
_BUSY = frozenset({429, 529, 407})  # 407: a proxy on the way, which says nothing about the turn
_ASK_AGAIN = frozenset({408, 409, 425})
_WRONG_FORM = frozenset({400, 422})
_CLIENT_ERRORS = range(400, 500)


class Refusal(NamedTuple):
    """What a provider answered instead of a message; `kind` and `message` are its own words for it."""

    status: int
    kind: str = ""
    message: str = ""
    retry_after_seconds: float | None = None


class Fixes(NamedTuple):
    """What a person can do about it, as commands."""

    auth: str
    model: str


def user_text(request: Request) -> Redacted:
    """What a model is shown after the fixed part."""
    text = request.prompt if request.prompt is not None else prompt.write(request.window, request.near_facts)
    return Redacted(f"{text}\n\n{_REPAIR.format(request.repair.rstrip('. '))}") if request.repair else text


def guess_tokens(user: str) -> int:
    """About how many tokens a call sends."""
    return tokens_of(prompt.SYSTEM) + tokens_of(user)


def usage_of(said: Any, *, user: str, text: str, took_ms: int) -> Usage:
    """What an answer says it used; guessed from what was sent and what came where it says nothing that can be."""
    counts = said if isinstance(said, dict) else {}
    names = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    sent, came, read, written = (_count(counts.get(name, 0)) for name in names)
    if sent is None or came is None or read is None or written is None or "input_tokens" not in counts:
        return Usage(1, guess_tokens(user), tokens_of(text), took_ms=took_ms)
    return Usage(1, sent, came, read, written, took_ms=took_ms)


def _count(value: Any) -> int | None:
    """A number of tokens that one call can have used; some say null for none."""
    if value is None:
        return 0
    return value if type(value) is int and 0 <= value <= _MOST_TOKENS else None


def used_up(line: str, usage: Usage) -> BackendHaltedError:
    """The error of an answer that reads like a notice of the account, at what it cost."""
    spent = usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    return BackendHaltedError("quota", line, fix=QUOTA_FIX, said_by_model=True, calls=usage.calls, spent_tokens=spent)


def says_used_up(text: str, user: str) -> bool:
    """Whether a model's text is a notice that the account is used up; not if the turn itself speaks of that."""
    if len(text) > _QUOTA_TEXT_CHARACTERS or "{" in text:
        return False
    found = _USED_UP.search(text)
    return found is not None and found[0].lower() not in user.lower()


def error_of(refusal: Refusal, *, user: str, fixes: Fixes) -> BackendError:
    """The error that a refusal means; its message tells status, kind and what may be told of the rest."""
    status, line = refusal.status, _line(refusal, user)
    match _meaning(refusal):
        case "quota":
            return BackendHaltedError("quota", line, fix=QUOTA_FIX, calls=1)
        case "auth":
            return BackendHaltedError("auth", line, fix=fixes.auth, calls=1)
        case "model-unknown":
            return BackendHaltedError("model-unknown", line, fix=fixes.model, calls=1)
        case "too-long":
            return RequestRefusedError("too-long", line, calls=1)
        case "request-invalid":
            return RequestRefusedError("request-invalid", line, calls=1)
        case "away":
            counts = status not in _BUSY
            return BackendUnavailableError(
                line, retry_after_seconds=refusal.retry_after_seconds, counts=counts, calls=1
            )


def _meaning(
    refusal: Refusal,
) -> Literal["quota", "auth", "model-unknown", "too-long", "request-invalid", "away"]:
    status, words = refusal.status, f"{refusal.kind} {refusal.message}"
    if status in _CLIENT_ERRORS and _is_quota(status, words):
        return "quota"
    if status in _AUTH:
        return "auth"
    if status == _NOT_FOUND or (status in _WRONG_FORM and _NO_MODEL.search(words)):
        return "model-unknown"
    if status == _TOO_LARGE or (status in _WRONG_FORM and _TOO_LONG.search(words)):
        return "too-long"
    if status in _CLIENT_ERRORS and status not in _BUSY | _ASK_AGAIN:
        return "request-invalid"
    return "away"


def _is_quota(status: int, words: str) -> bool:
    """402 always; 429 where it speaks of money and not of a rate; other statuses only in plain words."""
    if status == _PAYMENT_REQUIRED:
        return True
    if status in _BUSY:
        return _MONEY.search(words) is not None and _PER_MINUTE.search(words) is None
    return _USED_UP.search(words) is not None


def _line(refusal: Refusal, user: str) -> str:
    kind = f" ({refusal.kind})" if _KIND.fullmatch(refusal.kind) else ""
    told = told_of(refusal.message, user)
    return f"the model's provider answered {refusal.status}{kind}" + (f": {told}" if told else "")


def told_of(message: str, user: str) -> str:
    """What of a provider's message may be told: one line, short, redacted, no run of 20 characters of `user`."""
    if len(message) > _HEARD_CHARACTERS:
        return ""
    told = " ".join(redact(message).split())[:_TOLD_CHARACTERS].rstrip()
    sent = " ".join(user.split())
    runs = (told[start : start + _ECHO_CHARACTERS] for start in range(len(told) - _ECHO_CHARACTERS + 1))
    return "" if any(run in sent for run in runs) else told
