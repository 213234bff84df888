"""What a person wants of the service in, a plan shown before it is done out, and the plan done.

A plan is a list of steps (values); nothing is touched before `carry_out`. What is changed is recorded first, so that
`uninstall` takes back that and no more: a file that stood there before comes back, a folder goes only if we made it
and nobody else uses it, linger only if we set it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from distiller.errors import DistillerError, SettingError
from distiller.ports import Changes, Supervisor
from distiller.vocabulary import ServiceRecipe, ServiceSeen, ServiceStep

GROUP = "service"
TIDY = "if nothing else is in it"
PURGED = {"config": "settings and keys", "data": "facts and backups", "logs": "the logs", "state": "live state"}
STALE = {
    "file": "the unit file is not what this version would write",
    "reload": "the manager has not read the file as it is now",
    "elsewhere": "another file of that name wins",
    "program": "it starts another program than this one",
    "places": "it keeps its things elsewhere than this command does",
    "gone": "the program that it starts is gone",
    "foreign": "it was installed for another home or made by hand",
}


class Record(msgspec.Struct):
    """What installing changed, for undo; `installed` is off when only our own things are left, and their folders."""

    installed: bool
    file: str
    recipe: ServiceRecipe
    before: str | None = None  # what stood in the file when it was not ours
    folders: list[str] = []  # that we made, outermost first
    linger: bool = False


class Plan(msgspec.Struct, frozen=True):
    """Steps in order, what is to be kept on record before the first, and what a person should know."""

    steps: list[ServiceStep]
    record: Record | None
    notes: list[str] = []


class ServiceStatus(msgspec.Struct, frozen=True):
    """How the service is: `state` is active, activating, inactive, failed, not-installed or no-manager."""

    manager: str
    state: str
    healthy: bool
    stale: list[str]  # codes of STALE
    file: str
    enabled: bool
    pid: int | None
    restarts: int | None
    result: str | None
    exit_code: int | None
    command: list[str]
    linger: bool | None
    text: str | None
    fix: str | None


class Installation:
    """The service of one home under one manager."""

    def __init__(
        self,
        supervisor: Supervisor,
        changes: Changes,
        recipe: ServiceRecipe,
        *,
        runnable: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._supervisor = supervisor
        self._changes = changes
        self._recipe = recipe
        self._runnable = runnable  # whether there is a program at a path

    # -- plans --------------------------------------------------------------------------------------------------
    def plan_install(self, *, linger: bool = False, sandbox: bool | None = None) -> Plan:
        """What installing would do; the same again is an update, which keeps the `sandbox` there is (at first, one).

        Raises:
            DistillerError: there is no manager.
        """
        self._need_manager()
        file, kept = self._supervisor.file, self._record()
        record = kept if kept is not None and kept.installed else None
        fenced = sandbox if sandbox is not None else record is None or record.recipe.sandbox
        recipe = msgspec.structs.replace(self._recipe, sandbox=fenced)
        text = self._supervisor.text(recipe)
        there = self._changes.text(file)
        missing = self._missing(file)
        steps = [ServiceStep("folder", path, "for you alone") for path in missing]
        if there != text:
            why = "how it is started" if there is None else "replaces the one that is there"
            steps.append(ServiceStep("write", file, why, text=text))
        steps += self._supervisor.steps("load")
        lingers = self._supervisor.lingers()
        sets_linger = linger and lingers is False
        if sets_linger:
            steps.append(self._supervisor.linger_step(on=True))
        new = Record(
            installed=True,
            file=file,
            recipe=recipe,
            before=record.before if record else there,
            folders=[*(kept.folders if kept else []), *missing],
            linger=sets_linger or (record.linger if record else False),
        )
        return Plan(steps, new, self._install_notes(there, record, linger=linger, lingers=lingers))

    def _install_notes(
        self, there: str | None, record: Record | None, *, linger: bool, lingers: bool | None
    ) -> list[str]:
        notes = []
        if there is not None and record is None:
            notes.append("The file that is there is of another home or made by hand; `uninstall` brings it back.")
        if lingers is False and not linger:
            notes.append("It runs while you are logged in; --linger also from boot on and after your logout.")
        if linger and lingers is None:
            notes.append("Nobody here can say whether you may linger (no logind), so --linger does nothing.")
        return notes

    def plan_uninstall(self, *, purge: bool = False) -> Plan:
        """What uninstalling would do; nothing if nothing is there.

        Raises:
            DistillerError: there is no manager, or the service is not ours.
        """
        self._need_manager()
        file, record = self._supervisor.file, self._record()
        steps: list[ServiceStep] = []
        there = self._changes.text(file)
        if self._is_installed(record, there):
            steps += self._supervisor.steps("unload")
            steps += self._undo_file(record, there)
            steps += self._supervisor.steps("forget")
        if record is not None and record.linger:
            steps.append(self._supervisor.linger_step(on=False))
        if purge:
            steps += [ServiceStep("purge", getattr(self._recipe, kind), what) for kind, what in PURGED.items()]
        folders = record.folders if record is not None else []
        gone = [path for path in reversed(folders) if purge or not self._holds_ours(path)]
        if not steps:
            return Plan([], record)
        steps += [ServiceStep("remove", path, TIDY) for path in gone]
        left = [path for path in folders if path not in gone]
        kept = Record(installed=False, file=file, recipe=self._recipe, folders=left) if left else None
        return Plan(steps, kept)

    def _is_installed(self, record: Record | None, there: str | None) -> bool:
        """Whether there is something to take back; a file without a record is ours only if it says what ours would."""
        if record is not None:
            return record.installed
        if there is not None and there != self._supervisor.text(self._recipe):
            raise DistillerError(
                f"{self._supervisor.file} was installed for another home or made by hand; nothing was changed. "
                "Uninstall it with the --home that it names, or remove it yourself."
            )
        return there is not None

    def _undo_file(self, record: Record | None, there: str | None) -> list[ServiceStep]:
        if record is not None and record.before is not None:
            return [ServiceStep("write", record.file, "as it was before", text=record.before)]
        if there is None:
            return []
        return [ServiceStep("remove", self._supervisor.file, "how it was started")]

    def _holds_ours(self, path: str) -> bool:
        """Whether something of ours that stays lies in the folder, or is it."""
        return any(f"{ours}/".startswith(f"{path}/") for ours in places(self._recipe))

    def _missing(self, file: str) -> list[str]:
        """Folders that have to be made for the file and for our own things."""
        recipe = self._recipe
        wanted = [file.rpartition("/")[0], recipe.config, recipe.data, recipe.state, recipe.logs]
        found = (path for folder in wanted for path in self._changes.missing_folders(folder))
        return list(dict.fromkeys(found))

    def _need_manager(self) -> None:
        if (obstacle := self._supervisor.obstacle()) is not None:
            raise DistillerError(obstacle)

    def _record(self) -> Record | None:
        kept = self._changes.record(GROUP)
        if kept is None:
            return None
        try:
            return msgspec.convert(kept, Record)
        except msgspec.ValidationError as error:
            raise SettingError(
                f"The record of what was installed cannot be read ({error}). Nothing was changed; "
                "`distiller service install` of the version that wrote it can."
            ) from None

    # -- deeds --------------------------------------------------------------------------------------------------
    def carry_out(self, plan: Plan) -> Iterator[tuple[ServiceStep, str]]:
        """Do the steps; each is given back when it is done, with what there is to say of it (mostly nothing).

        The record is kept before the first change when there is more to take back after it, and after the last one
        when there is less: whatever is interrupted, `uninstall` still knows of it.

        Raises:
            DistillerError: a step failed; the record says what was begun, so `uninstall` takes it back.
        """
        more = plan.record is not None and plan.record.installed
        early = [step for step in plan.steps if (step.act == "folder" if more else not tidies(step))]
        late = [step for step in plan.steps if step not in early]
        for step in early:  # when installing, the record itself needs one of the folders
            yield step, self._do(step)
        if plan.record is not None or self._changes.record(GROUP) is not None:
            self._changes.keep(GROUP, None if plan.record is None else msgspec.to_builtins(plan.record))
        for step in late:  # when removing, the record's own folder may be among them
            yield step, self._do(step)
        if more and plan.record is not None and plan.record.linger and self._supervisor.lingers() is False:
            plan.record.linger = False  # it was refused: what an administrator sets later is not ours to undo
            self._changes.keep(GROUP, msgspec.to_builtins(plan.record))

    def _do(self, step: ServiceStep) -> str:
        match step.act:
            case "folder":
                self._changes.make_folder(step.target)
            case "write":
                self._changes.write(step.target, step.text or "")
            case "remove":
                return "" if self._changes.remove(step.target) else "left: something else is in it"
            case "purge":
                kind = next(kind for kind in PURGED if getattr(self._recipe, kind) == step.target)
                left = self._changes.purge(kind, step.target)
                return f"left, not ours: {', '.join(left)}" if left else ""
            case _:
                self._supervisor.run(step)
                return self._linger_refused(step)
        return ""

    def _linger_refused(self, step: ServiceStep) -> str:
        """What to say when the step was to change whether the service lingers, and it did not."""
        for on in (True, False):
            if step == self._supervisor.linger_step(on=on) and self._supervisor.lingers() is not on:
                return f"refused; an administrator can: sudo {step.target}"
        return ""

    def control(self, act: str) -> ServiceStatus:
        """Start, stop or restart what is installed; how it is then.

        Raises:
            DistillerError: there is no manager, nothing is installed, or it did not work.
        """
        self._need_manager()
        if self._changes.text(self._supervisor.file) is None:
            raise DistillerError("The service is not installed; nothing was changed. See `distiller service install`.")
        for step in self._supervisor.steps(act):
            self._supervisor.run(step)
        return self.status()

    # -- status -------------------------------------------------------------------------------------------------
    def status(self) -> ServiceStatus:
        """How the service is; a service that is not as this program would have it is `stale`."""
        obstacle = self._supervisor.obstacle()
        there = self._changes.text(self._supervisor.file)
        kept = self._record()
        record = kept if kept is not None and kept.installed else None
        seen = ServiceSeen("no-manager") if obstacle else self._supervisor.look()
        state = "not-installed" if there is None and not obstacle else seen.state
        stale = [] if there is None else self._stale(there, record, seen)
        healthy = state == "active" and not stale
        return ServiceStatus(
            manager=self._supervisor.name,
            state=state,
            healthy=healthy,
            stale=stale,
            file=self._supervisor.file,
            enabled=seen.enabled,
            pid=seen.pid,
            restarts=seen.restarts,
            result=seen.result,
            exit_code=seen.exit_code,
            command=list((record.recipe if record else self._recipe).command),
            linger=None if obstacle else self._supervisor.lingers(),
            text=seen.text,
            fix=None if healthy else obstacle or fix(state, stale),
        )

    def _stale(self, there: str, record: Record | None, seen: ServiceSeen) -> list[str]:
        if record is None and there != self._supervisor.text(self._recipe):
            return ["foreign"]
        installed = record.recipe if record else self._recipe
        claims = {
            "file": there != self._supervisor.text(installed),
            "reload": seen.needs_reload,
            "elsewhere": seen.file is not None and seen.file != self._supervisor.file,
            "program": installed.command[0] != self._recipe.command[0]
            or (seen.program is not None and seen.program != installed.command[0]),
            "places": places(installed) != places(self._recipe),
            "gone": not self._runnable(installed.command[0]),
        }
        return [code for code, holds in claims.items() if holds]


def tidies(step: ServiceStep) -> bool:
    """Whether a step only removes what is left when all else is taken back."""
    return step.act == "purge" or step.why == TIDY


def places(recipe: ServiceRecipe) -> Sequence[str]:
    """Where a service made so keeps its things."""
    return (recipe.config, recipe.data, recipe.state, recipe.logs)


def fix(state: str, stale: Sequence[str]) -> str:
    """What to do about it."""
    if state == "not-installed" or (stale and tuple(stale) != ("reload",)):
        return "distiller service install"
    if stale:
        return "distiller service restart"
    if state in {"failed", "activating"}:
        return "distiller doctor; distiller logs -n 20; when that is mended, distiller service restart"
    return "distiller service start"
