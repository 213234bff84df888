"""launchd's side against a stand-in: the file's form, the calls' order, what each code leads to. No Mac was there."""

from __future__ import annotations

import json
import os
import plistlib
from pathlib import Path

import pytest

from distiller.adapters.changes_file import FileChanges
from distiller.adapters.supervisor_launchd import LABEL, LaunchdSupervisor
from distiller.bootstrap.services import unit
from distiller.errors import DistillerError, SettingError
from distiller.service.installation import Installation
from distiller.vocabulary import ServiceRecipe

pytestmark = pytest.mark.integration

UID = 501
TARGET = f"gui/{UID}/{LABEL}"


class Mac:
    """An account of a Mac, as far as launchctl's stand-in goes."""

    def __init__(self, folder: Path, tool: Path) -> None:
        (folder / "bin").mkdir()
        (folder / "bin/launchctl").symlink_to(tool)
        self.folder = folder
        self.environment = {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "HOME": str(folder / "Ann & Bob"),
            "STANDIN_LAUNCHCTL_DIR": str(folder / "launchctl"),
        }
        Path(self.environment["HOME"]).mkdir()

    @property
    def supervisor(self) -> LaunchdSupervisor:
        """As a command makes it."""
        return LaunchdSupervisor(unit(f"launchd/{LABEL}.plist"), self.environment, uid=UID)

    @property
    def recipe(self) -> ServiceRecipe:
        """What bootstrap would say."""
        home = f"{self.environment['HOME']}/Library"
        return ServiceRecipe(
            command=(f"{self.environment['HOME']}/.local/bin/distiller", "run"),
            config=f"{home}/config", data=f"{home}/data", state=f"{home}/state", logs=f"{home}/Logs/distiller",
            environment={"PATH": "/usr/bin:/bin", "LANG": "en_US.UTF-8"},
        )  # fmt: skip

    def use(self) -> Installation:
        """The use case over the real files."""
        return Installation(self.supervisor, FileChanges(f"{self.recipe.state}/changes.json"), self.recipe)

    def install(self) -> None:
        """Install and start."""
        use = self.use()
        list(use.carry_out(use.plan_install()))

    def calls(self) -> list[tuple[str, int]]:
        """Verbs and codes of what was asked of launchctl, looks left out."""
        lines = (self.folder / "launchctl/calls.jsonl").read_text().splitlines()
        return [(one["argv"][0], one["rc"]) for one in map(json.loads, lines) if one["argv"][0] != "print"]


@pytest.fixture
def mac(tmp_path: Path, shared: Path) -> Mac:
    """An account on which nothing was done."""
    tool = shared / "tools/standin-launchctl"
    if not tool.exists():
        pytest.skip(f"no {tool}: launchd's stand-in is not part of the project")
    return Mac(tmp_path, tool)


def test_the_property_list_says_what_was_meant(mac: Mac) -> None:
    """Read back, it has absolute paths, no placeholder, restart on failure only, and nothing but what launchd knows."""
    agent = plistlib.loads(mac.supervisor.text(mac.recipe).encode())

    assert agent["ProgramArguments"] == list(mac.recipe.command)
    assert agent["StandardErrorPath"] == f"{mac.recipe.logs}/crash.log"
    assert agent["EnvironmentVariables"] == {**mac.recipe.environment, "DISTILLER_MANAGER": "launchd"}
    assert (agent["KeepAlive"], agent["ProcessType"], agent["Umask"]) == ({"SuccessfulExit": False}, "Background", 0o77)
    assert "@" not in json.dumps(agent)


def test_install_and_uninstall_in_launchds_order(mac: Mac) -> None:
    """`enable`, `bootstrap`, later `bootout` before the file goes; nothing is left, and the file is nobody else's."""
    before = sorted(mac.folder.glob("Ann & Bob/**/*"))
    mac.install()
    status, mode = mac.use().status(), Path(mac.supervisor.file).stat().st_mode & 0o777
    use = mac.use()
    list(use.carry_out(use.plan_uninstall(purge=True)))

    assert mac.calls() == [("enable", 0), ("bootstrap", 0), ("bootout", 0)]
    assert (status.state, status.healthy, status.pid, mode) == ("active", True, 4242, 0o644)
    assert sorted(mac.folder.glob("Ann & Bob/**/*")) == before


def test_an_update_boots_the_old_one_out_first(mac: Mac) -> None:
    """A second bootstrap of a loaded agent would be refused (5), so the old one goes before."""
    mac.install()
    mac.install()

    assert mac.calls() == [("enable", 0), ("bootstrap", 0), ("bootout", 0), ("enable", 0), ("bootstrap", 0)]


def test_start_stop_restart(mac: Mac) -> None:
    """A stop unloads (KeepAlive would bring it back), a start loads again, a restart kicks."""
    mac.install()
    states = [mac.use().control(act).state for act in ("stop", "start", "restart")]

    assert states == ["inactive", "active", "active"]
    assert mac.calls()[2:] == [("bootout", 0), ("enable", 0), ("bootstrap", 0), ("kickstart", 0)]


def test_a_bootout_in_progress_is_waited_for(mac: Mac, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code 36 means that it goes on; when it does not end in time, one line says what is safe and what to do."""
    monkeypatch.setattr("distiller.adapters.supervisor_launchd.GONE_SECONDS", 0.5)
    mac.install()
    mac.environment["STANDIN_BOOTOUT_SLOW"] = "1"

    with pytest.raises(DistillerError, match="did not end") as caught:
        mac.use().control("stop")
    stopped = mac.use().control("stop")

    assert "facts are safe" in str(caught.value)
    assert stopped.state == "inactive"


def test_without_a_graphical_login_one_line_says_so(mac: Mac) -> None:
    """Code 125 (ssh): nothing is written."""
    mac.environment["STANDIN_NO_GUI"] = "1"

    with pytest.raises(DistillerError, match="graphical login"):
        mac.use().plan_install()

    assert not Path(mac.supervisor.file).exists()
    assert mac.use().status().state == "no-manager"


def test_a_path_that_xml_cannot_hold_is_refused(mac: Mac) -> None:
    """A control character in a path is one line, not a broken file."""
    recipe = ServiceRecipe(("/bin/d\x01", "run"), "/c", "/d", "/s", "/l", {})

    with pytest.raises(SettingError, match="control characters"):
        mac.supervisor.text(recipe)
