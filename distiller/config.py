"""Flags, environment and settings file in, one `Config` out, or a SettingError that names key, value and remedy.

The structs below are the only list of settings: validation, `config show` and docs/settings.md are made from them.
Order of precedence: flag > `DISTILLER_…` (dots as `__`) > file > default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta, Struct, field

from distiller.errors import SettingError

Daily = Annotated[str, Meta(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")]
Days = Annotated[int, Meta(ge=0)]
Unlimited = Literal["none"]
NotNegative = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Dollars = Annotated[float, Meta(ge=0)]
Minutes = Annotated[float, Meta(ge=0, le=525_600)]
Backend = Literal["embedded", "anthropic", "claude-cli"]
BACKENDS: tuple[str, ...] = get_args(Backend)


class AgentSettings(Struct, forbid_unknown_fields=True):
    """One agent's switch and places."""

    enabled: Annotated[bool, Meta(description="read this agent's sessions")] = True
    roots: Annotated[list[str], Meta(description="folders to read; empty: the agent's own places")] = field(
        default_factory=list
    )


class TurnSettings(Struct, forbid_unknown_fields=True):
    """When a turn counts as finished, and how files are read."""

    settle_seconds: Annotated[float, Meta(ge=0, description="silence after a final stop reason")] = 3
    weak_settle_seconds: Annotated[float, Meta(ge=0, description="silence after a text without stop reason")] = 120
    abandon_hours: Annotated[float, Meta(gt=0, description="silence after which an open turn is given up")] = 24
    sweep_seconds: Annotated[float, Meta(ge=1, description="how often all files are looked at")] = 60
    max_line_bytes: Annotated[int, Meta(ge=1024, description="longer lines are skipped and counted")] = 33554432


class WindowSettings(Struct, forbid_unknown_fields=True):
    """How much of a turn one pass sees."""

    tokens: Annotated[int, Meta(ge=200, description="the cut turn with what precedes it")] = 2500
    previous_turns: Annotated[int, Meta(ge=0, le=20, description="earlier turns shown verbatim")] = 2
    near_facts: Annotated[int, Meta(ge=0, le=100, description="known facts shown beside it")] = 20
    kept_text_bytes: Annotated[
        int, Meta(ge=4096, description="a waiting turn's text before compression; tool results are cut first")
    ] = 1048576


class BudgetSettings(Struct, forbid_unknown_fields=True):
    """What a day (of your calendar) may cost."""

    daily_tokens: Annotated[NotNegative | Unlimited, Meta(description='0: no calls, `"none"`: no limit')] = 600_000
    daily_usd: Annotated[Dollars | Unlimited, Meta(description='0: no calls that cost, `"none"`: no limit')] = 1.00
    calls_per_minute: Annotated[Positive | Unlimited, Meta(description="the rest wait their turn")] = 20


class AnthropicSettings(Struct, forbid_unknown_fields=True):
    """A model behind the Messages API: Anthropic's, or a server of yours."""

    model: Annotated[str, Meta(min_length=1, description="the model asked")] = "claude-haiku-5-5"
    base_url: Annotated[
        str,
        Meta(pattern=r"^(https?://\S+)?$", description="another server that speaks the Messages API (Ollama, vLLM, …)"),
    ] = ""
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600, description="for a whole call")] = 60
    max_output_tokens: Annotated[int, Meta(ge=200, le=64_000, description="of one answer")] = 1500
    key_from_env: Annotated[bool, Meta(description="use `ANTHROPIC_API_KEY` where no key is stored")] = False


class ClaudeCliSettings(Struct, forbid_unknown_fields=True):
    """The `claude` program of a subscription."""

    program: Annotated[str, Meta(min_length=1, description="its name or path")] = "claude"
    model: Annotated[str, Meta(min_length=1, description="the model asked")] = "haiku"
    timeout_seconds: Annotated[float, Meta(gt=0, le=3600, description="for a whole call")] = 120


class PriceSettings(Struct, forbid_unknown_fields=True):
    """A price of yours, in USD per million tokens."""

    input: Annotated[Dollars, Meta(description="USD per million tokens read")] = 0
    output: Annotated[Dollars, Meta(description="USD per million tokens written")] = 0
    cache_read: Annotated[Dollars, Meta(description="USD per million tokens read from the cache")] = 0
    cache_write: Annotated[Dollars, Meta(description="USD per million tokens put into the cache")] = 0


class RetrySettings(Struct, forbid_unknown_fields=True):
    """How long a turn waits after each failure that counts."""

    waits_minutes: Annotated[list[Minutes], Meta(min_length=1, description="one a failure; after the last: dead")] = (
        field(default_factory=lambda: [1, 5, 15, 60, 240, 720, 1440, 1440])
    )


class RetentionSettings(Struct, forbid_unknown_fields=True):
    """How long things are kept."""

    bin_days: Annotated[Days, Meta(description="a forgotten fact can be brought back")] = 30
    candidate_days: Annotated[Days, Meta(description="a candidate waits for a second session")] = 90
    answer_days: Annotated[Days, Meta(description="prompt and raw answer of a pass")] = 30
    dead_text_days: Annotated[Days, Meta(description="text of a dead turn")] = 90
    run_days: Annotated[Days, Meta(description="run records")] = 180
    recall_days: Annotated[Days, Meta(description="recalls")] = 180
    pass_days: Annotated[Days, Meta(description="pass records")] = 365


class GuardSettings(Struct, forbid_unknown_fields=True):
    """The growth alarm: sessions that no person can have typed."""

    sessions: Annotated[int, Meta(ge=1, description="new sessions of one folder without a typed prompt")] = 30
    minutes: Annotated[float, Meta(gt=0, description="within this time halt the service")] = 10


class LogSettings(Struct, forbid_unknown_fields=True):
    """The log file."""

    level: Annotated[Literal["debug", "info", "warning", "error"], Meta(description="least level written")] = "info"


class RedactSettings(Struct, forbid_unknown_fields=True):
    """Secrets of yours that the built-in patterns cannot know."""

    patterns: Annotated[list[str], Meta(description="more regular expressions")] = field(default_factory=list)


class Settings(Struct, forbid_unknown_fields=True):
    """All that can be set (CONTRACTS §4)."""

    backend: Annotated[
        Backend, Meta(description="what distils: rules in here, a model behind an API, or the `claude` program")
    ] = "embedded"
    projects: Annotated[
        Literal["all", "ask", "listed"], Meta(description="`ask`: turns of new projects wait for your yes or no")
    ] = "all"
    read_from: Annotated[
        str,
        Meta(
            description="what is live: `now` (first start), `30d`, `all`, or a date",
            pattern=r"^(now|all|\d+d|\d{4}-\d\d-\d\d)$",
        ),
    ] = "now"
    headless: Annotated[
        Literal["repeats", "skip", "read"],
        Meta(description="sessions of programs: read but not their repeated prompts, skip, read all"),
    ] = "repeats"
    off_record: Annotated[list[str], Meta(description="phrases, alone on a line, that end reading of a session")] = (
        field(default_factory=lambda: ["off the record"])
    )
    language: Annotated[str, Meta(pattern=r"^[a-z]{2}$", description="of what a model writes; quotes stay as said")] = (
        "en"
    )
    agents: dict[str, AgentSettings] = field(default_factory=dict)
    turns: TurnSettings = field(default_factory=TurnSettings)
    window: WindowSettings = field(default_factory=WindowSettings)
    budget: BudgetSettings = field(default_factory=BudgetSettings)
    anthropic: AnthropicSettings = field(default_factory=AnthropicSettings)
    claude_cli: ClaudeCliSettings = field(default_factory=ClaudeCliSettings)
    prices: dict[str, PriceSettings] = field(default_factory=dict)
    retry: RetrySettings = field(default_factory=RetrySettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    logs: LogSettings = field(default_factory=LogSettings)
    redact: RedactSettings = field(default_factory=RedactSettings)


class Home(Struct, frozen=True):
    """Where everything of ours lies (CONTRACTS §1)."""

    config: Path
    data: Path
    state: Path
    logs: Path

    @property
    def folders(self) -> tuple[Path, ...]:
        """The four folders."""
        return (self.config, self.data, self.state, self.logs)


class Config(Struct, frozen=True):
    """Settings, where they came from, and where things lie."""

    home: Home
    file: Path
    settings: Settings
    sources: dict[str, str]  # dotted key -> flag | environment | file; others are defaults
    agent_roots: dict[str, tuple[str, ...]]  # agent -> folders to read, in the order of the formats

    def agent_enabled(self, agent: str) -> bool:
        """Whether sessions of `agent` are read."""
        known = self.settings.agents.get(agent)
        return known is None or known.enabled


class SettingInfo(Struct, frozen=True):
    """One setting as people see it; `type_` is the annotation without its description."""

    key: str
    default: Any
    unit: str | None
    description: str
    value: Any = None
    source: str = "default"


NAMED = {"agents": "<agent>", "prices": "<model>"}
"""Tables whose keys are the person's own words."""

UNITS = ("seconds", "hours", "minutes", "days", "bytes", "tokens", "usd")


def home_at(folder: str | None, environment: Mapping[str, str]) -> Home:
    """Our folders: below `folder` (or `DISTILLER_HOME`), else where the system keeps such things."""
    root = folder or environment.get("DISTILLER_HOME")
    if root:
        base = Path(root).expanduser().absolute()
        return Home(base / "config", base / "data", base / "state", base / "logs")
    from platformdirs import PlatformDirs  # noqa: PLC0415 -- 12 ms that `--home` need not pay

    dirs = PlatformDirs("distiller", appauthor=False)
    return Home(dirs.user_config_path, dirs.user_data_path, dirs.user_state_path, dirs.user_log_path)


def load(
    environment: Mapping[str, str],
    *,
    home: str | None = None,
    file: str | None = None,
    flags: Mapping[str, Any] | None = None,
) -> Config:
    """Read everything and check it.

    Raises:
        SettingError: names the file or variable, the key and what is expected.
    """
    place = home_at(home, environment)
    path = Path(file or environment.get("DISTILLER_CONFIG") or place.config / "config.toml").expanduser()
    try:
        from_file = parsed(path.read_text("utf-8"))
    except FileNotFoundError:
        if file:
            raise SettingError(f"{path}: no such file. Nothing was changed; check --config.") from None
        from_file = {}
    except (OSError, ValueError) as error:
        raise SettingError(f"{path}: {error}. Nothing was changed; mend the file.") from None
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for source, pairs in (
        ("file", flatten(from_file)), ("environment", from_environment(environment)), ("flag", (flags or {}).items()),
    ):  # fmt: skip
        for whole, setting in pairs:
            for key, value in flatten(setting, f"{whole}.") if isinstance(setting, dict) else [(whole, setting)]:
                put(merged, key, value)
                sources[key] = source
    try:
        settings = msgspec.convert(merged, Settings, strict=False)
    except msgspec.ValidationError as error:
        raise SettingError(refused(error, path, sources)) from None
    return Config(place, path, settings, sources, agent_roots(settings, environment))


def from_environment(environment: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
    """Dotted keys and values of `DISTILLER_…` variables; a value is read as TOML where it is TOML."""
    for name, text in environment.items():
        if not name.startswith("DISTILLER_") or name in NOT_SETTINGS:
            continue
        key = name.removeprefix("DISTILLER_").lower().replace("__", ".")
        yield key, read_value(text)


NOT_SETTINGS = {
    f"DISTILLER_{name}" for name in ("HOME", "CONFIG", "MANAGER", "SHARED", "NOTHING_SKIPPED")
}  # of the program, of who starts it, of its tests


def read_value(text: str) -> Any:
    """A value as written on a command line: TOML where it parses, else the text itself."""
    try:
        return parsed(f"value = {text}")["value"]
    except ValueError:
        return text


def parsed(text: str) -> dict[str, Any]:
    """TOML as dicts.

    Raises:
        ValueError: it is no TOML.
    """
    import tomllib  # noqa: PLC0415 -- 5 ms that a person without a settings file need not pay

    return tomllib.loads(text)


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys of nested tables; an empty table yields nothing."""
    for key, value in values.items():
        dotted = f"{prefix}{quoted(key)}"
        if isinstance(value, dict):
            yield from flatten(value, f"{dotted}.")
        else:
            yield dotted, value


def put(tree: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key in nested dicts."""
    *path, last = segments(dotted)
    for part in path:
        tree = tree.setdefault(part, {})
    tree[last] = value


def quoted(name: str) -> str:
    """One part of a dotted key; a model may be called `qwen2.5`."""
    return f'"{name}"' if "." in name else name


def segments(dotted: str) -> list[str]:
    """The parts of a dotted key, quoted ones whole."""
    return [inner or plain for inner, plain in re.findall(r'"([^"]*)"|([^."]+)', dotted)]


def refused(error: Exception, path: Path, sources: Mapping[str, str]) -> str:
    """A validation error in the person's terms: the key and where it was set, instead of a path expression."""
    what, _, where = str(error).partition(" - at `$")
    key = where.rstrip("`").lstrip(".")
    if unknown := re.search(r"unknown field `(\w+)`", what):
        key = f"{key}.{unknown[1]}".lstrip(".")
        what = "no such setting"
    at = {"environment": "DISTILLER_" + key.upper().replace(".", "__"), "flag": "the flag"}.get(
        sources.get(key, "file"), str(path)
    )
    told = f"{at}: {key}: {what[:1].lower()}{what[1:]}{_one_of(key)}."
    return f"{told} Nothing was changed; `distiller config reference` lists the settings."


def _one_of(key: str) -> str:
    """The values that a setting may have, where it is a choice."""
    kind: Any = Settings
    for part in key.split("."):
        hints = _annotations(kind) if isinstance(kind, type) and issubclass(kind, Struct) else {}
        kind = hints.get(part)
        kind = get_args(kind)[0] if get_origin(kind) is Annotated else kind
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    return f" (one of: {', '.join(choices)})" if choices else ""


def agent_roots(settings: Settings, environment: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Folders to read by agent; each agent's own variable is honoured."""
    home = environment.get("HOME") or str(Path.home())
    places = {
        "claude_code": os.path.join(environment.get("CLAUDE_CONFIG_DIR") or os.path.join(home, ".claude"), "projects"),  # noqa: PTH118 -- text in, text out
        "codex": os.path.join(environment.get("CODEX_HOME") or os.path.join(home, ".codex"), "sessions"),  # noqa: PTH118
        "neutral": None,
    }
    roots: dict[str, tuple[str, ...]] = {}
    for agent in [*places, *(name for name in settings.agents if name not in places)]:
        own = settings.agents.get(agent, AgentSettings())
        if own.enabled:
            named = [str(Path(root).expanduser().absolute()) for root in own.roots]
            default = places.get(agent)
            roots[agent] = tuple(named or ([default] if default else []))
    return roots


def describe(config: Config | None = None) -> list[SettingInfo]:
    """Every setting with default, unit and meaning, and its value and source where `config` is given."""
    rows = list(_describe(Settings, ""))
    if config is None:
        return rows
    values = dict(flatten(msgspec.to_builtins(config.settings)))
    seen = {row.key for row in rows}
    known = [
        msgspec.structs.replace(row, value=values.get(row.key), source=config.sources.get(row.key, "default"))
        for row in rows
        if "<" not in row.key
    ]
    more = [
        SettingInfo(key, None, None, "", value, config.sources.get(key, "default")) for key, value in values.items()
    ]
    return known + [row for row in more if row.key not in seen]


def _describe(kind: type[Struct], prefix: str) -> Iterator[SettingInfo]:
    hints = msgspec.inspect.type_info(kind)
    assert isinstance(hints, msgspec.inspect.StructType)  # noqa: S101 -- `kind` is a Struct
    annotations = _annotations(kind)
    for item in hints.fields:
        key = f"{prefix}{item.name}"
        annotation = annotations[item.name]
        inner = item.type.type if isinstance(item.type, msgspec.inspect.Metadata) else item.type
        if isinstance(inner, msgspec.inspect.StructType):
            yield from _describe(inner.cls, f"{key}.")
        elif isinstance(inner, msgspec.inspect.DictType) and isinstance(inner.value_type, msgspec.inspect.StructType):
            yield from _describe(inner.value_type.cls, f"{key}.{NAMED[item.name]}.")
        else:
            default = item.default_factory() if item.default is msgspec.NODEFAULT else item.default
            yield SettingInfo(key, default, _unit(key), _description(annotation))


def _annotations(kind: type[Struct]) -> dict[str, Any]:
    from typing import get_type_hints  # noqa: PLC0415 -- only `config show` and the docs ask

    return get_type_hints(kind, include_extras=True)


def _description(annotation: Any) -> str:
    if get_origin(annotation) is Annotated:
        texts = [meta.description for meta in get_args(annotation)[1:] if isinstance(meta, Meta) and meta.description]
        return texts[-1] if texts else ""
    return ""


def _unit(key: str) -> str | None:
    last = key.rsplit(".", 1)[-1]
    return next((unit for unit in UNITS if last == unit or last.endswith(f"_{unit}")), None)


def check(text: str, path: Path) -> Settings:
    """Check the text of a settings file before it is written.

    Raises:
        SettingError: names the key and what is expected.
    """
    try:
        return msgspec.convert(parsed(text), Settings, strict=False)
    except (ValueError, msgspec.ValidationError) as error:
        raise SettingError(refused(error, path, {})) from None
