"""Settings: one list of them, precedence as promised, and every mistake named with its place and remedy."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from distiller import config
from distiller.errors import SettingError
from distiller.surfaces.cli import Door
from distiller.surfaces.cli.settings import reference

HOME = {"HOME": "/home/me"}


def write(folder: Path, text: str) -> str:
    """A settings file in its place; the home it belongs to."""
    (folder / "config").mkdir()
    (folder / "config/config.toml").write_text(text)
    return str(folder)


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(tmp_path: Path) -> None:
    """And `config show` can tell where each value came from."""
    home = write(tmp_path, "[turns]\nsettle_seconds = 4\nweak_settle_seconds = 5\nsweep_seconds = 6\n")
    environment = HOME | {"DISTILLER_TURNS__SETTLE_SECONDS": "7", "DISTILLER_TURNS__WEAK_SETTLE_SECONDS": "8"}

    found = config.load(environment, home=home, flags={"turns.settle_seconds": 9})

    turns = found.settings.turns
    assert (turns.settle_seconds, turns.weak_settle_seconds, turns.sweep_seconds, turns.abandon_hours) == (9, 8, 6, 24)
    sources = {row.key: row.source for row in config.describe(found)}
    assert [sources[f"turns.{name}"] for name in ("settle_seconds", "weak_settle_seconds", "sweep_seconds")] == [
        "flag", "environment", "file",
    ]  # fmt: skip
    assert sources["turns.abandon_hours"] == "default"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[turns]\nsettle_seconds = 'soon'\n", "turns.settle_seconds: expected `float`"),
        ("[turns]\nsettle_second = 3\n", "turns.settle_second: no such setting"),
        ("backend = 'gpt'\n", "backend: invalid enum value 'gpt'"),
        ("[turns\n", "config.toml"),
        ("read_from = 'last week'\n", "read_from"),
        ("[retention]\nbin_days = -1\n", "retention.bin_days"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    """File, key and what is expected, in one line."""
    with pytest.raises(SettingError, match="Nothing was changed") as caught:
        config.load(HOME, home=write(tmp_path, text))

    assert said in str(caught.value)
    assert "\n" not in str(caught.value).strip()


def test_a_variable_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The person is sent to the variable, not to a file that is right."""
    with pytest.raises(SettingError, match=r"^DISTILLER_TURNS__SETTLE_SECONDS"):
        config.load(HOME | {"DISTILLER_TURNS__SETTLE_SECONDS": "soon"}, home=str(tmp_path))


def test_agents_own_variables_say_where_their_sessions_are(tmp_path: Path) -> None:
    """Claude Code and Codex can be moved; a setting beats both; a switched-off agent is not read."""
    moved = HOME | {"CLAUDE_CONFIG_DIR": "/elsewhere/claude", "CODEX_HOME": "/elsewhere/codex"}
    plain = config.load(HOME, home=str(tmp_path)).agent_roots
    own = config.load(moved, home=str(tmp_path)).agent_roots
    home = write(tmp_path, '[agents.codex]\nenabled = false\n[agents.claude_code]\nroots = ["/mine"]\n')
    said = config.load(moved, home=home).agent_roots

    assert plain == {
        "claude_code": ("/home/me/.claude/projects",),
        "codex": ("/home/me/.codex/sessions",),
        "neutral": (),
    }
    assert own["claude_code"] == ("/elsewhere/claude/projects",)
    assert own["codex"] == ("/elsewhere/codex/sessions",)
    assert said == {"claude_code": ("/mine",), "neutral": ()}


def test_the_reference_in_docs_is_what_the_settings_are(tmp_path: Path) -> None:
    """The page is made by `distiller config reference`; run it again when this fails."""
    made = CliRunner().invoke(reference, obj=Door(str(tmp_path), None))

    page = Path(__file__).parents[2] / "docs/settings.md"
    assert made.output == page.read_text()


def test_every_setting_has_a_meaning() -> None:
    """A setting that nobody can explain should not be there."""
    assert [row.key for row in config.describe() if not row.description] == []
