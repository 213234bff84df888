"""Installing as a plan: what is shown is what is done, and what was done is taken back, however far it came."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from distiller.errors import DistillerError
from distiller.service.installation import Installation, Plan
from distiller.vocabulary import ServiceRecipe, ServiceSeen, ServiceStep

UNIT = "/home/ann/.config/systemd/user/distiller.service"
RECIPE = ServiceRecipe(
    command=("/home/ann/.local/bin/distiller", "run"),
    config="/home/ann/.config/distiller",
    data="/home/ann/.local/share/distiller",
    state="/home/ann/.local/state/distiller",
    logs="/home/ann/.local/state/distiller/log",
    environment={"LANG": "C.UTF-8"},
)


class FakeSupervisor:
    """A manager that only remembers; `refuses` is a command that it will not do."""

    name = "fake"
    file = UNIT

    def __init__(self) -> None:
        self.seen = ServiceSeen("inactive")
        self.done: list[str] = []
        self.linger: bool | None = False
        self.missing: str | None = None
        self.refuses = ""
        self.may_linger = True
        self.version = 1

    def obstacle(self) -> str | None:
        return self.missing

    def text(self, recipe: ServiceRecipe) -> str:
        return f"{self.version} {' '.join(recipe.command)}{'' if recipe.sandbox else ' unfenced'}"

    def steps(self, act: str) -> list[ServiceStep]:
        return [ServiceStep("run", act, "", words=(act,))]

    def lingers(self) -> bool | None:
        return self.linger

    def linger_step(self, *, on: bool) -> ServiceStep:
        return ServiceStep("run", f"linger {on}", "", words=("linger", str(on)))

    def run(self, step: ServiceStep) -> None:
        if step.target == self.refuses:
            raise DistillerError("refused")
        self.done.append(step.target)
        if step.words[0] == "linger" and self.may_linger:
            self.linger = step.words[1] == "True"
        self.seen = ServiceSeen("inactive" if step.target in {"unload", "stop"} else "active")

    def look(self) -> ServiceSeen:
        return self.seen


class DiedError(Exception):
    """The process was killed just there."""


class FakeChanges:
    """Files and folders in memory; `crash_at` counts down to a death between two changes."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.folders = {"/home/ann", "/home/ann/.local"}
        self.records: dict[str, Any] = {}
        self.crash_at = -1

    def _change(self) -> None:
        self.crash_at -= 1
        if self.crash_at == 0:
            raise DiedError

    def record(self, group: str) -> dict[str, Any] | None:
        return copy.deepcopy(self.records.get(group))

    def keep(self, group: str, record: dict[str, Any] | None) -> None:
        self._change()
        if record is None:
            self.records.pop(group, None)
        else:
            assert RECIPE.state in self.folders
            self.records[group] = record

    def text(self, path: str) -> str | None:
        return self.files.get(path)

    def missing_folders(self, path: str) -> list[str]:
        parts = path.split("/")
        return [
            one for end in range(2, len(parts) + 1) if (one := "/".join(parts[:end])) not in {"/home", *self.folders}
        ]

    def make_folder(self, path: str) -> None:
        self._change()
        self.folders.add(path)

    def write(self, path: str, text: str) -> None:
        self._change()
        assert path.rpartition("/")[0] in self.folders
        self.files[path] = text

    def remove(self, path: str) -> bool:
        self._change()
        if any(other.startswith(f"{path}/") for other in (*self.files, *self.folders)):
            return False
        self.files.pop(path, None)
        self.folders.discard(path)
        return True

    def purge(self, kind: str, folder: str) -> list[str]:
        self._change()
        if kind == "state":
            self.records.clear()
        self.remove(folder)
        return []


class Machine:
    """A person's machine, and distiller on it."""

    def __init__(self) -> None:
        self.supervisor = FakeSupervisor()
        self.changes = FakeChanges()

    def use(self, recipe: ServiceRecipe = RECIPE, *, runnable: bool = True) -> Installation:
        """The use case as a command makes it."""
        return Installation(self.supervisor, self.changes, recipe, runnable=lambda _: runnable)

    def install(self, recipe: ServiceRecipe = RECIPE, *, linger: bool = False) -> Plan:
        """Install; the plan that was carried out."""
        use = self.use(recipe)
        plan = use.plan_install(linger=linger)
        list(use.carry_out(plan))
        return plan

    def uninstall(self, *, purge: bool = False) -> list[tuple[ServiceStep, str]]:
        """Uninstall; what was said of each step."""
        use = self.use()
        return list(use.carry_out(use.plan_uninstall(purge=purge)))

    def state(self) -> tuple[Any, ...]:
        """All there is."""
        return copy.deepcopy((self.changes.files, self.changes.folders, self.changes.records, self.supervisor.linger))


@pytest.fixture
def machine() -> Machine:
    """A machine on which nothing was done."""
    return Machine()


def test_a_plan_changes_nothing(machine: Machine) -> None:
    """Planning may be shown and refused: files, record and manager are as they were."""
    before = machine.state()

    machine.use().plan_install(linger=True)
    machine.use().plan_uninstall(purge=True)

    assert machine.state() == before
    assert machine.supervisor.done == []


def test_what_is_shown_is_what_is_done(machine: Machine) -> None:
    """Each step of the plan is carried out once, folders first, the manager after the file."""
    plan = machine.install()

    acts = [step.act for step in plan.steps]
    assert acts == [*["folder"] * acts.count("folder"), "write", "run"]
    assert machine.changes.files == {UNIT: "1 /home/ann/.local/bin/distiller run"}
    assert machine.supervisor.done == ["load"]


def test_purging_leaves_the_machine_as_it_was(machine: Machine) -> None:
    """Files, folders, record and linger after `uninstall --purge` are those before `install --linger`."""
    before = machine.state()

    machine.install(linger=True)
    machine.uninstall(purge=True)

    assert machine.state() == before


def test_uninstalling_in_two_goes_leaves_no_more_than_in_one(machine: Machine) -> None:
    """First without --purge (our folders stay), then with it: nothing is left either."""
    before = machine.state()

    machine.install()
    machine.uninstall()
    kept = RECIPE.data in machine.changes.folders
    idle = machine.use().plan_uninstall().steps
    machine.uninstall(purge=True)

    assert (kept, idle) == (True, [])
    assert machine.state() == before


def test_an_interrupted_installation_can_be_taken_back(machine: Machine) -> None:
    """Wherever it dies, before or after any change, `uninstall --purge` leaves what was there before."""
    steps = len(machine.use().plan_install().steps) + 1
    deaths = 0
    for at in range(1, steps + 1):
        broken = Machine()
        broken.changes.folders |= {RECIPE.state, RECIPE.logs, "/home/ann/.local/state"}
        before = broken.state()[0]
        broken.changes.crash_at = at
        try:
            broken.install()
        except DiedError:
            deaths += 1
        broken.changes.crash_at = -1
        if broken.use().plan_uninstall(purge=True).steps:
            broken.uninstall(purge=True)
        assert (broken.state()[0], broken.state()[2]) == (before, {}), at
    assert deaths > 3


def test_an_update_keeps_what_the_first_installation_recorded(machine: Machine) -> None:
    """Installing again rewrites only what differs and still takes back the first one's changes."""
    machine.changes.folders.add(UNIT.rpartition("/")[0])
    machine.changes.files[UNIT] = "by hand"
    first = machine.install(linger=True)
    same = machine.install()
    machine.supervisor.version = 2
    changed = machine.install()

    machine.uninstall()

    assert [step.act for step in same.steps] == ["run"]
    assert [step.act for step in changed.steps] == ["write", "run"]
    assert any("by hand" in note for note in first.notes)
    assert machine.changes.files == {UNIT: "by hand"}
    assert machine.supervisor.linger is False


def test_linger_that_others_set_stays(machine: Machine) -> None:
    """Linger that was on before is not ours to take back, even if it was asked for."""
    machine.supervisor.linger = True

    machine.install(linger=True)
    machine.uninstall(purge=True)

    assert machine.supervisor.linger is True


def test_an_update_keeps_the_fence_as_it_was_chosen(machine: Machine) -> None:
    """Who had to install without the fence need not say so again after each upgrade."""
    use = machine.use()
    list(use.carry_out(use.plan_install(sandbox=False)))

    unchanged = [step.act for step in machine.use().plan_install().steps]
    fenced = [step.text for step in machine.use().plan_install(sandbox=True).steps if step.act == "write"]

    assert unchanged == ["run"]
    assert fenced == ["1 /home/ann/.local/bin/distiller run"]


def test_refused_linger_is_told_and_not_undone_later(machine: Machine) -> None:
    """The service is installed all the same; linger that an administrator sets afterwards outlives our uninstalling."""
    machine.supervisor.may_linger = False
    use = machine.use()
    said = [text for _, text in use.carry_out(use.plan_install(linger=True)) if text]
    machine.supervisor.linger = machine.supervisor.may_linger = True

    machine.uninstall(purge=True)

    assert said == ["refused; an administrator can: sudo linger True"]
    assert machine.supervisor.linger is True


def test_a_refused_start_leaves_a_record(machine: Machine) -> None:
    """When the manager refuses, what was written is known and taken back."""
    machine.supervisor.refuses = "load"
    with pytest.raises(DistillerError, match="refused"):
        machine.install()

    machine.uninstall(purge=True)

    assert machine.changes.files == {}


def test_without_a_manager_nothing_is_begun(machine: Machine) -> None:
    """Each act says what is missing; status says `no-manager` and not `inactive`."""
    machine.supervisor.missing = "no manager here"
    for act in (machine.use().plan_install, machine.use().plan_uninstall, lambda: machine.use().control("start")):
        with pytest.raises(DistillerError, match="no manager here"):
            act()

    status = machine.use().status()
    assert (status.state, status.healthy, status.fix) == ("no-manager", False, "no manager here")


def test_another_homes_service_is_not_removed(machine: Machine) -> None:
    """A unit without a record of ours that says something else is left alone and called foreign."""
    machine.changes.files[UNIT] = "1 /opt/distiller --home /srv run"

    with pytest.raises(DistillerError, match="another home"):
        machine.use().plan_uninstall()
    machine.supervisor.seen = ServiceSeen("active")
    status = machine.use().status()

    assert (status.stale, status.healthy, status.fix) == (["foreign"], False, "distiller service install")


def test_control_needs_an_installed_service(machine: Machine) -> None:
    """Starting what is not installed is one line, and the manager is not asked."""
    with pytest.raises(DistillerError, match="not installed"):
        machine.use().control("start")
    machine.install()
    machine.use().control("stop")

    assert machine.supervisor.done == ["load", "stop"]


@pytest.mark.parametrize(
    ("seen", "recipe", "runnable", "stale"),
    [
        (ServiceSeen("active"), {}, 1, []),
        (ServiceSeen("active", needs_reload=True), {}, 1, ["reload"]),
        (ServiceSeen("active", file="/etc/systemd/user/distiller.service"), {}, 1, ["elsewhere"]),
        (ServiceSeen("active", program="/opt/old/distiller"), {}, 1, ["program"]),
        (ServiceSeen("active"), {"command": ("/opt/new/distiller", "run")}, 1, ["program"]),
        (ServiceSeen("active"), {"data": "/mnt/data"}, 1, ["places"]),
        (ServiceSeen("active"), {}, 0, ["gone"]),
    ],
)
def test_stale_is_whatever_this_program_would_have_otherwise(
    machine: Machine, seen: ServiceSeen, recipe: dict[str, Any], runnable: int, stale: list[str]
) -> None:
    """Each way in which the service is another one than this program would start has its code; only none is healthy."""
    machine.install()
    machine.supervisor.seen = seen

    status = machine.use(msgspec.structs.replace(RECIPE, **recipe), runnable=bool(runnable)).status()

    assert (status.stale, status.healthy) == (stale, not stale)


def test_a_shell_with_another_path_does_not_make_it_stale(machine: Machine) -> None:
    """The environment of the installing shell is on record; that of the asking one plays no part."""
    machine.install()

    status = machine.use(msgspec.structs.replace(RECIPE, environment={"LANG": "de_DE.UTF-8"})).status()

    assert status.stale == []


def test_a_new_version_tells_that_its_unit_is_another(machine: Machine) -> None:
    """After an upgrade whose unit differs, status says so and names the cure."""
    machine.install()
    machine.supervisor.version = 2

    status = machine.use().status()

    assert (status.stale, status.fix) == (["file"], "distiller service install")
