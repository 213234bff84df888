"""Redaction: no planted secret comes through, and ordinary code does not suffer."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distiller.distill import secret_names
from distiller.distill.redact import NAME_STEMS, Redactor, redact, redact_json

MIXED = "aB3dE5gH"
BEGIN, END = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"

PLANTED = {
    "aws id": ("AKIAIOSFODNN7EXAMPLE", "key AKIAIOSFODNN7EXAMPLE in us-east-1"),
    "aws secret": ("wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "aws secret beside its id": ("wJalrXUtnFEMI", "AKIAIOSFODNN7EXAMPLE, wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
    "github": ("ghp_", "ghp_" + MIXED * 5),
    "github fine-grained": ("github_pat_", "github_pat_" + MIXED * 8),
    "anthropic": ("sk-ant-", "export X sk-ant-api03-" + MIXED * 6),
    "openai": ("sk-proj-", "sk-proj-" + MIXED * 5),
    "slack": ("xoxb-", "xoxb-123456789012-abcDEF123456"),
    "slack webhook": (MIXED * 3, "https://hooks.slack.com/services/T000/B000/" + MIXED * 3),
    "stripe": ("sk_live_", "sk_live_" + MIXED * 3),
    "google": ("AIza", "AIza" + (MIXED * 5)[:35]),
    "jwt": ("eyJzdWIi", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_DEF-123456"),
    "gitlab": ("glpat-", "glpat-" + MIXED * 3),
    "npm": ("npm_", "//registry/:_authToken=npm_" + (MIXED * 5)[:36]),
    "pypi": ("pypi-Ag", "pypi-AgEIcHlwaS5vcmc" + MIXED * 8),
    "huggingface": ("hf_", "hf_" + (MIXED * 5)[:34]),
    "sendgrid": ("SG.", "SG." + MIXED * 2 + "." + MIXED * 5),
    "telegram": ("AAabc", "bot 123456789:AAabcdefghijklmnopqrstuvwxyz0123456"),
    "private key": ("MIIEp", f"{BEGIN}\nMIIEpAIBAAKCAQEA7aB3\n{MIXED * 8}\n{END}"),
    "private key, escaped": ("MIIEvQ", rf"{BEGIN}\nMIIEvQIBADANBgkqhkiG9w\n{END}\n"),
    "private key, end torn off": ("MIIEpA", f"{BEGIN}\nMIIEpAIBAAKCAQEA7aB3\n{MIXED * 3}"),
    "private key, start torn off": (MIXED, f"{MIXED * 6}\nabcdEFGH1234ijkl=\n{END}"),
    "url": ("s3cr3tP", "postgres://app:s3cr3tP@db.example/x"),
    "environment": ("hunter2", "DB_PASSWORD=hunter2"),
    "environment, quoted": ("abcd-efgh", 'export SECRET_KEY="abcd-efgh-ijkl"'),
    "yaml": ("hunter2", "  password: hunter2\n"),
    "json in text": ("hunter2", '{"password": "hunter2"}'),
    "escaped json": ("hunter2", '{\\"password\\": \\"hunter2\\"}'),
    "code": ("letmein", "db_password = 'letmein'"),
    "option": ("hunter22", "mysql --password hunter22 -u x"),
    "xml": ("letmein", "<password>letmein</password>"),
    "authorization": ("abc.def", "Authorization: Bearer abc.def-123456ghijkl"),
    "basic": ("dXNlcjpw", "curl -H 'Authorization: Basic dXNlcjpwYXNzMTIz'"),
    "cookie": ("abcdef123456", "Cookie: session=abcdef123456; theme=dark"),
    "connection string": ("Tr0ub4dor", "Server=x;Database=y;User Id=z;Password=Tr0ub4dor;"),
    "azure": ("abcdefghij", "AccountKey=abcdefghijklmnopqrstuvwxyz0123456789==;"),
    "prose password": ("hunter2-Blue", "my password for the test box is hunter2-Blue, log in and look"),
    "prose key": ("51HxxA9d", "here's the key for the sandbox: sk-test-51HxxA9dQqZp0Lm2, use it"),
    "prose token": ("a1b2c3d4", "the token is a1b2c3d4e5f6"),
    "german prose": ("Sommer2024", "das passwort ist Sommer2024!"),
    "login": ("S3cretPass", "the staging login is admin / S3cretPass!"),
    "login with an address": ("Pnpm4ever", "log in with creds: ops@example.com and Pnpm4ever, then look"),
    "german login": ("Sommer2024", "der Login ist chef / Sommer2024!"),
    "wrapped": ("ijklMNOP", "sk-ant-api03-abcdEFGH1234\nijklMNOP5678qrst"),
    "wrapped, fixed length": (MIXED, "ghp_" + MIXED * 2 + "\n    " + (MIXED * 3)[:20]),
}  # fmt: skip

ORDINARY = """
password = get_password(user)
token = self.token
password: string;
const token = req.headers.authorization
max_tokens: 4096, token_count = 12, next_page_token: abc
commit 3f2a9c1e5b7d8a6f4c3e2d1b0a9f8e7d6c5b4a39
id 550e8400-e29b-41d4-a716-446655440000
/home/u/.ssh/id_rsa
the password is wrong, the token limit is 200k, the secret is base64-encoded
def login(user: str, password: str = None): ...
api_key=os.environ['X']
secretName: my-secret
headers: { Authorization: 'Bearer ' + token }
<input type="password" name="password">
if password == other:
http://localhost:3000/@foo and https://user@host/x
PASSWORD=${PASSWORD}
assert "-----BEGIN PRIVATE KEY-----" in text
<total_tokens>123456</total_tokens>
export ANTHROPIC_API_KEY=sk-...
class sk-folding-cube, sk-learn
new_password: newPassword,
the login is broken, and page2 too
login: docs/setup2.md, logins are slow
Login with GitHub, Google and SAML2
the login service is nginx / v2.3.1
credentials: user and password
signin=oauth, bar_1=2
"""


@pytest.mark.parametrize(("secret", "text"), PLANTED.values(), ids=PLANTED)
def test_a_planted_secret_is_gone_and_redacting_again_changes_nothing(secret: str, text: str) -> None:
    """No secret of a known kind survives, alone or in the middle of other text (property 6)."""
    for whole in (text, f"before\n{text}\nafter"):
        clean = redact(whole)

        assert secret not in clean
        assert "[REDACTED:" in clean
        assert redact(clean) == clean


@pytest.mark.parametrize("line", ORDINARY.strip().splitlines())
def test_ordinary_code_is_left_alone(line: str) -> None:
    """Code that names secrets and holds none, hashes, uuids and paths stay as they are."""
    assert redact(line) == line


@given(st.text(), st.sampled_from(sorted(PLANTED)), st.text())
def test_redaction_is_idempotent_in_any_surroundings(before: str, name: str, after: str) -> None:
    """Whatever stands around a secret, a second pass finds nothing more (property 6)."""
    clean = redact(f"{before} {PLANTED[name][1]} {after}")

    assert redact(clean) == clean


@given(st.text(alphabet=st.characters()))
def test_any_text_comes_out_as_valid_utf8(text: str) -> None:
    """Half surrogates of torn tool output neither crash nor survive (F49)."""
    redact(text).encode()


@pytest.mark.parametrize("name", PLANTED)
def test_a_secret_in_json_is_gone_however_deep(name: str) -> None:
    """JSON strings that hold JSON are looked into; the answer is JSON again (F19)."""
    secret, text = PLANTED[name]
    inner = json.dumps({"stdout": text, "n": 1})

    clean = redact_json(json.dumps({"content": [{"type": "text", "text": inner}]}).encode())

    assert secret not in clean
    assert json.loads(clean)["content"][0]["type"] == "text"
    assert redact_json(clean.encode()) == clean


def test_json_fields_that_name_a_secret_lose_their_value() -> None:
    """A field's name alone tells, whatever the value looks like; pagination and counts do not suffer."""
    value = {
        "password": "x y z",
        "apiKey": "12345678",
        "env": [{"name": "DB_PASSWORD", "value": "hunter"}],
        "nextPageToken": "abcdef123456",
        "max_tokens": 4096,
        "key_file": ["-----BEGIN PRIVATE KEY-----", "MIIEvQIBADANBgkqhkiG9w0B", "-----END PRIVATE KEY-----"],
    }

    clean = json.loads(redact_json(msgspec.Raw(json.dumps(value).encode())))

    assert clean["password"] == "[REDACTED:password]"
    assert clean["apiKey"] == "[REDACTED:key]"
    assert clean["env"][0]["value"] == "[REDACTED:password]"
    assert clean["nextPageToken"] == "abcdef123456"
    assert clean["max_tokens"] == 4096
    assert "MIIEvQ" not in json.dumps(clean["key_file"])


def test_json_without_a_secret_stays_byte_for_byte() -> None:
    """What is clean is not written anew."""
    raw = b'{"b": 1,  "a": [1.50, "x\\u00e9"]}'

    assert redact_json(raw) == raw.decode()


@pytest.mark.parametrize("raw", [b"", b"{", b'{"a": "\\ud83d"}', b"\xff\xfe", b"[" * 5000])
def test_what_is_no_json_is_taken_as_text(raw: bytes) -> None:
    """Torn, foreign or hostile bytes never raise."""
    redact_json(raw).encode()


def test_patterns_of_the_persons_own_count_too() -> None:
    """`redact.patterns` of the settings remove what only this person knows to be secret."""
    clean = Redactor([r"ACME-\d+"])("ticket ACME-1234 is open")

    assert clean == "ticket [REDACTED:custom] is open"


def test_every_name_of_a_secret_is_looked_for() -> None:
    """The quick look for stems may not hide a name from the closer one."""
    assert [name for name in secret_names._KINDS if not any(stem in name for stem in NAME_STEMS)] == []  # noqa: SLF001 - the table itself
