"""What a service is made from: the launcher that outlives upgrades, the places, an environment without secrets."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from distiller import config
from distiller.bootstrap import services
from distiller.errors import SettingError
from distiller.vocabulary import ServiceRecipe

pytestmark = pytest.mark.integration


def program(path: Path) -> Path:
    """A program that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def recipe(
    environment: dict[str, str], started_as: Path | str, *, home: str | None = None, file: str | None = None
) -> ServiceRecipe:
    """The recipe for a person with that environment."""
    environment = {"HOME": "/home/ann", **environment}
    return services.recipe(config.load(environment, home=home, file=file), environment, started_as=str(started_as))


def test_the_launcher_on_path_wins_over_what_it_leads_to(tmp_path: Path) -> None:
    """Installers put a link on PATH; the unit names the link, not the environment behind it."""
    behind = program(tmp_path / "venvs/distiller/bin/distiller")
    link = tmp_path / "bin/distiller"
    link.parent.mkdir()
    link.symlink_to(behind)

    for started_as in (behind, link, "/somewhere/distiller/__main__.py"):
        assert recipe({"PATH": str(link.parent)}, started_as).command == (str(link), "run")


def test_another_program_on_path_is_not_taken_for_this_one(tmp_path: Path) -> None:
    """Who starts one of two installations by its path gets a service of that one."""
    other, own = program(tmp_path / "a/distiller"), program(tmp_path / "b/distiller")

    assert recipe({"PATH": str(other.parent)}, own).command[0] == str(own)


def test_without_a_launcher_the_interpreter_is_named_unresolved(tmp_path: Path) -> None:
    """`python -m distiller` of an environment: its own python, not the one behind it."""
    command = recipe({"PATH": str(tmp_path)}, "/somewhere/distiller/__main__.py").command

    assert command == (sys.executable, "-m", "distiller", "run")


def test_a_throw_away_environment_makes_no_service(tmp_path: Path) -> None:
    """`uvx distiller service install` would leave a service whose program vanishes; one line says what to do."""
    brief = program(tmp_path / ".cache/uv/archive-v0/x/bin/distiller")

    with pytest.raises(SettingError, match="uv tool install"):
        recipe({"PATH": str(brief.parent)}, brief)


def test_home_and_settings_file_are_passed_on(tmp_path: Path) -> None:
    """The service serves the home that the command was given, however it was given."""
    own = program(tmp_path / "bin/distiller")
    settings = tmp_path / "other.toml"
    settings.write_text("")

    by_flag = recipe({"PATH": ""}, own, home=str(tmp_path), file=str(settings)).command
    by_variable = recipe({"PATH": "", "DISTILLER_HOME": str(tmp_path)}, own).command

    assert by_flag == (str(own), "--home", str(tmp_path), "--config", str(settings), "run")
    assert by_variable == (str(own), "--home", str(tmp_path), "run")


def test_the_environment_finds_programs_and_holds_no_secret(tmp_path: Path) -> None:
    """F35: PATH has the folder in which `claude` is found now; no key, no proxy with a password is written down."""
    claude = program(tmp_path / "nvm/v22/bin/claude")
    environment = {
        "PATH": str(claude.parent), "ANTHROPIC_API_KEY": "sk-planted", "CLAUDE_CODE_OAUTH_TOKEN": "planted",
        "HTTPS_PROXY": "http://ann:planted@proxy", "NO_PROXY": "localhost", "CODEX_HOME": "/data/codex", "LANG": "C",
    }  # fmt: skip

    made = recipe(environment, program(tmp_path / "bin/distiller")).environment

    assert str(claude.parent) in made["PATH"].split(":")
    assert "/home/ann/.local/bin" in made["PATH"].split(":")
    assert (made["CODEX_HOME"], made["NO_PROXY"], made["LANG"]) == ("/data/codex", "localhost", "C.UTF-8")
    assert "planted" not in str(made)


def test_what_lies_below_tmp_is_not_hidden_from_its_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A private /tmp would hide a home, or a checkout that the program runs from."""
    monkeypatch.setattr(services, "PACKAGE", Path("/opt/distiller/distiller"))
    monkeypatch.setattr(sys, "prefix", "/opt/distiller/.venv")
    own = "/home/ann/.local/bin/distiller"
    ordinary = services.recipe(
        config.load({"HOME": "/home/ann"}, home="/home/ann/d"), {"HOME": "/home/ann"}, started_as=own
    )

    assert ordinary.private_tmp is True
    assert recipe({"PATH": ""}, own, home=f"/tmp/{tmp_path.name}").private_tmp is False  # noqa: S108
    monkeypatch.setattr(services, "PACKAGE", Path("/tmp/checkout/distiller"))  # noqa: S108
    assert recipe({"PATH": ""}, own).private_tmp is False


def test_the_wheel_carries_the_units() -> None:
    """What the build puts into the package is where an installed program looks."""
    root = Path(__file__).parents[2]
    built = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    looked_for = services.PACKAGE / "_units"

    for name in ("systemd/distiller.service", "launchd/dev.distiller.agent.plist"):
        folder, _, _ = name.partition("/")
        assert (services.PACKAGE.parent / built["force-include"][folder]) == looked_for / folder
        assert services.unit(name) == (root / name).read_bytes()
