"""Text in, the values that stand beside a secret's name out: `DB_PASSWORD=…`, `"token": "…"`, `my password is …`.

What makes this hard is code: `token = self.token` and `password: string` name secrets and hold none. So a value has
to look like one, the more so the less its surroundings say: an environment line needs four letters, prose needs a
word that mixes letters and digits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Named(NamedTuple):
    """A secret value found by its name; offsets in characters."""

    start: int
    end: int
    kind: str


_KINDS = {
    "password": "password", "passwd": "password", "passphrase": "password", "passcode": "password", "pwd": "password",
    "passwort": "password", "kennwort": "password", "contraseña": "password", "mot de passe": "password",
    "secret": "secret", "credential": "secret", "connection_string": "secret", "connectionstring": "secret",
    "token": "token", "api_key": "key", "apikey": "key", "api-key": "key", "api key": "key", "access_key": "key",
    "accesskey": "key", "access-key": "key", "access key": "key", "private_key": "key", "privatekey": "key",
    "encryption_key": "key", "signing_key": "key", "auth_key": "key", "authkey": "key", "account_key": "key",
    "license_key": "key", "the key": "key", "my key": "key", "this key": "key",
}  # fmt: skip

_TAIL = r"(?:[_-]?(?:key|value|val|base|string|prod|dev|test|staging|old|new|\d{1,2}))*+s?(?![\w-])"
_TYPE = r"(?::[ ]*(?:&?str|string|secretstr|optional\[str\]|str \| none)[ ]*)?"
_QUOTED = r"""\\*(?P<quote>["'`])(?P<quoted>[^"'`\n\\]{1,400})\\*(?P=quote)"""
_BARE = r"""(?P<bare>[^\s"'`,;\\<>|]{3,400})"""
_ASSIGNED = re.compile(
    _TAIL + rf"""\\*["'\]`*]{{0,3}}[ \t]*{_TYPE}(?P<sign>:=|=>|={{1,3}}|:)[ \t*]*(?:{_QUOTED}|{_BARE})"""
)
_OPTION = re.compile(_TAIL + rf"[ \t]+(?:{_QUOTED}|{_BARE})")
_ELEMENT = re.compile(_TAIL + r">(?P<bare>[^<\n]{3,400})</")
_SAID = re.compile(
    _TAIL
    + r"(?:[ \t]+(?!(?:is|was|are|ist|est|es|to)\b)[\w'/-]+){0,7}[ \t]+(?:is|was|are|ist|lautet|est|es|to)"
    + rf"(?:[ \t]+(?:now|still|just))?:?[ \t]+(?:{_QUOTED}|{_BARE})"
)

_FILLED_IN_LATER = re.compile(
    r"\[redacted:|[*•x.?_-]+\Z|<|\$|\{|%|.*\.\.\.|your|(?:change|replace|insert|enter|put|set)[-_ ]?(?:me|it|this|your)"
    r"|(?:null|none|nil|undefined|true|false|str|string|text|bool|boolean|int|integer|number|any|object|bytes|required"
    r"|optional|hidden|masked|redacted|unset|missing|invalid|valid|wrong|placeholder|dummy|example|value|secret|token|key"
    r"|password|passwd|passwort|pwd|username|user|empty|unknown|default|disabled|enabled|bearer|basic|input|field|auth"
    r"|readonly|private|public|const|await|new|not|the|and|for|from|type|yes|n/a|todo)s?\W*\Z",
    re.IGNORECASE,
)
_CODE = re.compile(
    r".*[(\[{}\])]|\.{0,2}/[\w./-]+\Z|[a-z_$][\w$]*(?:(?:\.|->|::|\?\.)[a-z_$][\w$]*)+\W*\Z|[&!]", re.IGNORECASE
)
_WORD = re.compile(r"[A-Z]?[a-z]+(?:[A-Z_.-]?[a-z]+)*\W*\Z|[A-Z]+(?:_[A-Z]+)*\W*\Z")
_NAME = re.compile(r"[A-Z]+_[A-Z_]+\Z|[a-z]+(?:[A-Z][a-z]+)+\Z|[A-Z][a-z]+\W*\Z")
_TECHNICAL = re.compile(
    r"v?\d[\d.,:/_-]*[a-z%]{0,8}\Z|(?:sha|md|base|utf|rs|hs|es|ed|aes|oauth|rfc|iso|http|ipv)-?\d|[a-z]+[-_]?\d{1,2}\Z",
    re.IGNORECASE,
)
_REST_OF_LINE = re.compile(r"[ \t]*(?:\n|\r|\Z|#)")


def named_secrets(text: str, lower: str) -> Iterator[Named]:
    """Values of named secrets in `text`; `lower` is the same text in lower case, character for character."""
    for word, kind in _KINDS.items():
        at = lower.find(word)
        while at >= 0:
            after = at + len(word)
            if found := _value(text, lower, at, after, kind):
                yield found
            at = lower.find(word, after)


def secret_field(name: str) -> str | None:
    """The kind of secret that a JSON field of this name holds, or None."""
    plain = re.sub(r"[^a-z]", "", name.lower())
    found = _FIELD.search(plain)
    if not found or _PAGING.match(plain):
        return None
    word = found[1]
    return "password" if word.startswith(("pass", "pwd", "kenn")) else "key" if word.endswith("key") else word


_FIELD = re.compile(
    r"(password|passwd|passphrase|passcode|pwd|passwort|kennwort|secret|secretkey|secretkeybase|apikey|accesskey|privatekey"
    r"|authkey|signingkey|encryptionkey|accountkey|token|authorization|cookie|credentials?|connectionstring)\Z"
)
_PAGING = re.compile(r".*(?:page|next|continuation|cancellation|sync|max|stop|pad|eos|bos|unk)token\Z")


def secret_in_field(kind: str, value: str) -> bool:
    """Whether `value`, found in a field named for a secret of this kind, is one."""
    if _FILLED_IN_LATER.match(value) or not value.strip():
        return False
    if kind in ("password", "authorization", "cookie"):
        return True
    if re.search(r"\s", value) or len(value) < _SHORT:
        return False
    return kind == "secret" or len(value) >= _LONG or bool(re.search(r"\d", value))


_PASSWORD, _SHORT, _LONG = 4, 8, 16  # characters from which on a value is taken for a password, a token, a sure token


class _Seen(NamedTuple):
    """A value beside a name, and what its surroundings say."""

    value: str
    kind: str
    quoted: bool
    whole_line: bool  # nothing follows it


def _value(text: str, lower: str, at: int, after: int, kind: str) -> Named | None:
    """The value that belongs to the name which stands from `at` to `after`, in whichever way it is written."""
    for pattern, fits, believed in _WAYS:
        if (match := pattern.match(lower, after)) and fits(text, at, match):
            group = "quoted" if match["bare"] is None else "bare"
            start, end = match.span(group)
            value = text[start:end] if group == "quoted" else text[start:end].rstrip(".:!?)]}")
            seen = _Seen(value, kind, group == "quoted", bool(_REST_OF_LINE.match(text, end)))
            if value and not _FILLED_IN_LATER.match(value) and believed(seen):
                return Named(start, start + len(value), kind)
            return None
    return None


def _is_environment(text: str, at: int, match: re.Match[str]) -> bool:
    """`NAME=value` in capitals without spaces: nothing else is written so."""
    name = text[at : match.start("sign")]
    return match["sign"] == "=" and name == name.upper() and not name.endswith((" ", "\t"))


def _is_assigned(_text: str, _at: int, match: re.Match[str]) -> bool:
    return not (match["bare"] and match["sign"].startswith("=="))  # a comparison


def _is_option(text: str, at: int, _match: re.Match[str]) -> bool:
    return bool(re.search(r"--[\w-]*\Z", text[max(0, at - 32) : at]))


def _is_any(_text: str, _at: int, _match: re.Match[str]) -> bool:
    return True


def _in_environment(seen: _Seen) -> bool:
    if _CODE.match(seen.value):
        return False
    if seen.kind == "password":
        return len(seen.value) >= _PASSWORD
    return len(seen.value) >= _SHORT and not _TECHNICAL.match(seen.value)


def _assigned(seen: _Seen) -> bool:
    value = seen.value
    if re.search(r"\s", value) or (not seen.quoted and _CODE.match(value)):
        return False
    if seen.kind == "password" and (seen.quoted or seen.whole_line):
        return len(value) >= _PASSWORD and not _NAME.match(value)
    return _random(value) or (seen.quoted and len(value) >= _LONG and not _WORD.match(value))


def _said(seen: _Seen) -> bool:
    return _random(seen.value) or (seen.quoted and seen.kind == "password" and len(seen.value) >= _PASSWORD)


def _random(value: str) -> bool:
    """Mixes letters and digits as no word of a language or a program does."""
    mixed = re.match(r"(?=.*\d)(?=.*[A-Za-z]).{6}", value)
    return bool(mixed) and not _TECHNICAL.match(value) and not _CODE.match(value)


_WAYS = (
    (_ASSIGNED, _is_environment, _in_environment),
    (_ASSIGNED, _is_assigned, _assigned),
    (_OPTION, _is_option, _in_environment),
    (_ELEMENT, _is_any, _in_environment),
    (_SAID, _is_any, _said),
)
