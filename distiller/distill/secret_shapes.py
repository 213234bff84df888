"""Nothing in, the shapes of known secrets out: one line per kind. Dated data, checked 2026-12.

A shape is searched only where one of its `hints` occurs: `in` runs at memory speed, a regular expression does not.
The group `v` (else the whole match) is what gets replaced.
"""

from __future__ import annotations

import re
from functools import cached_property


class Shape:
    """How one kind of secret looks; `hints` are matched against lower-cased text."""

    def __init__(self, kind: str, hints: tuple[str, ...], source: str, flags: re.RegexFlag) -> None:
        self.kind = kind
        self.hints = hints
        self._source = source
        self._flags = flags

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The expression, made when a hint of it is first met: most commands never meet one."""
        return re.compile(self._source, self._flags)


def _shape(kind: str, hints: str, pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Shape:
    return Shape(kind, tuple(hints.split()), pattern, flags)


# Between the parts of a wrapped token stand a line's end (also escaped, also continued) and the next line's indent.
_FOLD = r"(?:\\?\r?\n|\\r\\n|\\n)[ \t>|+\"']*+"
# The rest of a token that goes on in the next line: it must look random, else the next line's first word would go.
_REST = rf"(?:{_FOLD}(?=[A-Za-z_-]*+\d)(?=[\w-]*[A-Za-z])[\w-]{{8,}}+)*+"


def _wrapped(prefix: str, characters: str, length: int) -> str:
    """A token of fixed `length` after `prefix`, whole or broken once or more by a line's end."""
    return rf"(?<![A-Za-z0-9]){prefix}(?:(?:{_FOLD})?{characters}){{{length}}}"


SHAPES = (
    _shape("aws-key", "akia asia abia acca", _wrapped("(?:AKIA|ASIA|ABIA|ACCA)", "[A-Z0-9]", 16) + r"(?![A-Za-z0-9])"),
    _shape(
        "aws-secret",
        "akia asia",
        r"\b(?:AKIA|ASIA)[A-Z0-9]{16}[^A-Za-z0-9/+]{1,8}(?:\w+[\s\"':=]{1,5})?"
        r"(?P<v>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
    _shape("github", "ghp_ gho_ ghu_ ghs_ ghr_", _wrapped("gh[pousr]_", "[A-Za-z0-9]", 36) + r"[A-Za-z0-9]*+"),
    _shape("github", "github_pat_", r"github_pat_\w{20,}+" + _REST),
    _shape("anthropic", "sk-ant-", r"\bsk-ant-[\w-]{12,}+" + _REST),
    _shape(
        "openai",
        "sk-",
        r"(?<![A-Za-z0-9-])sk-(?=[\w-]*\d)(?:proj-|svcacct-|admin-|or-v1-|test-|live-)?+[\w-]{14,}+" + _REST,
    ),
    _shape("slack", "xox xapp-", r"\b(?:xox[abeoprs]|xapp)(?:\.xox[a-z])?-[\w-]{10,}+" + _REST),
    _shape("slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<v>[\w/-]{20,})"),
    _shape(
        "stripe",
        "sk_live_ sk_test_ rk_live_ rk_test_ whsec_",
        r"\b(?:[sr]k_(?:live|test)_|whsec_)[A-Za-z0-9]{10,}+" + _REST,
    ),
    _shape("google", "aiza", _wrapped("AIza", r"[\w-]", 35)),
    _shape("google", "ya29. gocspx-", r"\b(?:ya29\.[\w-]{20,}+|GOCSPX-[\w-]{20,}+)" + _REST),
    _shape(
        "gitlab", "glpat- gldt- glrt- glcbt- glptt- glsoat-", r"\bgl(?:pat|dt|rt|cbt|ptt|soat)-[\w.-]{16,}+" + _REST
    ),
    _shape("npm", "npm_", _wrapped("npm_", "[A-Za-z0-9]", 36)),
    _shape("pypi", "pypi-ag", r"\bpypi-Ag[\w-]{40,}+" + _REST),
    _shape("huggingface", "hf_", _wrapped("hf_", "[A-Za-z0-9]", 30) + r"[A-Za-z0-9]*+"),
    _shape("sendgrid", "sg.", r"\bSG\.[\w-]{16,32}\.[\w-]{30,64}"),
    _shape("jwt", "eyj", r"\beyJ[\w-]{8,}+\.(?:" + _FOLD + r")?eyJ[\w-]{8,}+(?:\.[\w-]*+)?" + _REST),
    _shape("azure", "accountkey= sharedaccesskey=", r"(?i)\b(?:account|sharedaccess)key=(?P<v>[A-Za-z0-9+/=]{20,})"),
    _shape("azure", "sig=", r"(?i)[?&;]sig=(?P<v>[A-Za-z0-9%+/_-]{30,}+={0,2})"),
    _shape("aws-signature", "x-amz-s", r"(?i)X-Amz-(?:Signature|Security-Token)=(?P<v>[\w%./+-]{20,})"),
    _shape("telegram", ":aa", r"(?<![\w:])\d{8,10}:AA[\w-]{32,34}(?![\w-])"),
    _shape("discord", "discord", r"discord(?:app)?\.com/api/webhooks/\d+/(?P<v>[\w-]{30,})"),
    _shape("discord", ".", r"(?<![\w.-])[MNO][A-Za-z\d_-]{23,27}\.[\w-]{6}\.[\w-]{27,40}(?![\w.-])"),
    _shape("digitalocean", "dop_v1_ doo_v1_ dor_v1_", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    _shape("twilio", "sk", r"(?<![A-Za-z0-9])SK[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("shopify", "shpat_ shpss_ shppa_ shpca_", r"\bshp(?:at|ss|pa|ca)_[a-fA-F0-9]{32}\b"),
    _shape("mailgun", "key-", r"(?<![A-Za-z0-9-])key-[0-9a-f]{32}(?![A-Za-z0-9])"),
    _shape("groq", "gsk_", r"\bgsk_[A-Za-z0-9]{30,}+" + _REST),
    _shape("xai", "xai-", r"\bxai-[A-Za-z0-9]{40,}+" + _REST),
    _shape("replicate", "r8_", r"\br8_[A-Za-z0-9]{30,}+" + _REST),
    _shape("linear", "lin_api_ lin_oauth_", r"\blin_(?:api|oauth)_[A-Za-z0-9]{30,}+" + _REST),
    _shape("notion", "secret_ ntn_", r"\b(?:secret_|ntn_)[A-Za-z0-9]{40,}+" + _REST),
    _shape("databricks", "dapi", r"\bdapi[a-f0-9]{32}\b"),
    _shape("vault", "hvs. hvb.", r"\bhv[sb]\.[\w-]{20,}+" + _REST),
    _shape("age-key", "age-secret-key-", r"\bAGE-SECRET-KEY-1[A-Z0-9]{40,}+"),
    _shape(
        "authorization",
        "authorization",
        r"""(?i)\bauthorization["']?\s*[:=]\s*["']?(?:(?:bearer|basic|token|digest|apikey|bot|negotiate)\s+)?"""
        r"""(?P<v>(?!(?:bearer|basic|token|digest)\b)[\w.~+/:=-]{6,}+)(?![\w(\[])""",
    ),
    _shape("bearer", "bearer", r"(?i)\bbearer\s+(?P<v>(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{16,}+=*)"),
    _shape(
        "basic",
        "basic ",
        r"(?i)\bbasic\s+(?P<v>(?=[A-Za-z0-9+/]*[A-Z0-9])(?=[A-Za-z0-9+/]*[a-z])[A-Za-z0-9+/]{12,}+={1,2})",
    ),
    _shape("cookie", "cookie:", r"""(?i)\b(?:set-)?cookie["']?:\s*["']?(?P<v>[^\s=;"']+=[^\n"']{6,})"""),
    _shape("curl-user", "curl", r"""\bcurl[^\n|;]{0,200}?\s(?:-u|--user)[ =]["']?[^\s:"'$<{]+:(?P<v>[^\s"'$<{]{3,})"""),
    _shape("url-password", "://", r"""(?<=://)[^\s:/@"'`<>]{0,64}:(?P<v>[^\s/@"'`<>$\{\}*]{2,128})@"""),
    _shape("sshpass", "sshpass", r"""\bsshpass\s+-p\s*["']?(?P<v>[^\s"'$]{3,})"""),
    _shape(  # `the login is admin / S3cret!`: neither half alone has a shape
        "login",
        "login log-in sign-in signin credential creds",
        r"(?i)\b(?:log-?ins?|sign-?in|credentials?|creds)\b[^\n\"'`(){}\[\]<>:=\\/]{0,60}?(?:\b(?:is|are|ist|sind|with|mit)\b|[:=])"
        r"[ \t]{0,9}[\w.@+-]{1,60}[ \t]{0,3}(?:[/:|,]|\band\b|\bund\b)[ \t]{0,3}(?P<v>(?=[^\s]{0,60}[A-Za-z])"
        r"(?=[^\s]{0,60}[\d!@#$%^&*?])(?!v?\d[\w.]*(?:\s|\Z)|[\w.-]{1,60}\.[a-z]{1,5}\b)[^\s\"'`,;\\<>|/(){}\[\]=:]{6,64}+)(?![/(=:])",
    ),
)
"""Provider tokens, headers and URLs. Names with values have their own finder, `secret_names`."""

_LINE_GAP = r"""(?:\\[nrt\\"]|[\s"'|>,#*])*+"""
PRIVATE_KEY = re.compile(
    r"-----BEGIN[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_LINE_GAP}(?:(?:Proc-Type|DEK-Info|Version|Comment):[^\n\\]*+|[A-Za-z0-9+/=]{{16,}}+|[A-Za-z0-9+/]{{1,15}}={{0,2}}"
    rf"(?={_LINE_GAP}(?:-----END|=))))++"
    rf"(?:{_LINE_GAP}={{0,2}}[A-Za-z0-9+/]{{0,8}}{_LINE_GAP}-----END[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?"
)
"""A private key from its first line on, whole or torn off; the bare header in code is none."""

PRIVATE_KEY_END = re.compile(r"-----END[A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
KEY_LINES = re.compile(rf"(?:[A-Za-z0-9+/=]{{16,}}+{_LINE_GAP})+[A-Za-z0-9+/=]{{0,15}}{_LINE_GAP}\Z")
"""What stands before `PRIVATE_KEY_END` when the first lines are torn off."""
