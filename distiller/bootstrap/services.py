"""A configuration and an environment in, the installation of this program as a service out.

The unit names the launcher that upgrades leave in place (`~/.local/bin/distiller`), never the interpreter or folder
behind it: those go away with the next upgrade, and a service would go with them.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from distiller.config import Config, Home
from distiller.errors import SettingError
from distiller.vocabulary import ServiceRecipe

if TYPE_CHECKING:
    from distiller.ports import Supervisor
    from distiller.service.installation import Installation

PROGRAM = "distiller"
PACKAGE = Path(__file__).parents[1]
BRIEF = ("/.cache/uv/", "/uv/cache/", "/.cache/pipx/", "/pipx/.cache/")  # where `uvx` and `pipx run` put things
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 -- what PrivateTmp hides
"""Where this is not (systemd makes it at boot), a fenced-in service that is handed a key ends with 226 (measured);
it reads the key's file itself then."""
CARRIED = (
    "CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "TZ",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy",
)  # fmt: skip
"""Variables that decide where things lie or how the network is reached; a service does not get those of a shell."""


def installation(config: Config, environment: Mapping[str, str], *, started_as: str) -> Installation:
    """Installs the program that was started as `started_as`, for the home of `config`."""
    from distiller.adapters.changes_file import FileChanges
    from distiller.service.installation import Installation

    return Installation(
        supervisor(environment),
        FileChanges(str(config.home.state / "changes.json")),
        recipe(config, environment, started_as=started_as),
        runnable=lambda path: os.access(path, os.X_OK),
    )


def supervisor(environment: Mapping[str, str]) -> Supervisor:
    """The manager of services on this kind of machine."""
    if sys.platform == "darwin":
        from distiller.adapters.supervisor_launchd import LABEL, LaunchdSupervisor

        return LaunchdSupervisor(unit(f"launchd/{LABEL}.plist"), environment, uid=os.getuid())
    from distiller.adapters.supervisor_systemd import UNIT, SystemdSupervisor

    return SystemdSupervisor(unit(f"systemd/{UNIT}").decode(), environment, uid=os.getuid())


def unit(name: str) -> bytes:
    """A unit as shipped: inside the package where it was installed, beside it in a checkout."""
    inside = PACKAGE / "_units" / name
    return (inside if inside.exists() else PACKAGE.parent / name).read_bytes()


def recipe(config: Config, environment: Mapping[str, str], *, started_as: str) -> ServiceRecipe:
    """What the unit says for this configuration."""
    words = launcher(started_as, environment)
    home = config.home
    roots = [root for roots in config.agent_roots.values() for root in roots]
    near = [words[0], str(PACKAGE), sys.prefix, *map(str, home.folders), *roots]
    return ServiceRecipe(
        command=(*words, *places(config), "run"),
        config=str(home.config),
        data=str(home.data),
        state=str(home.state),
        logs=str(home.logs),
        environment=variables(config, environment, words[0]),
        private_tmp=not any(path.startswith(f"{folder}/") for path in near for folder in TEMPORARY),
    )


def launcher(started_as: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The words that start this program in a year too.

    Raises:
        SettingError: it was started from an environment that will be thrown away.
    """
    on_path = shutil.which(PROGRAM, path=environment.get("PATH"))
    own = os.path.abspath(started_as) if os.path.basename(started_as) == PROGRAM else None  # noqa: PTH100, PTH119 -- text
    if on_path is not None:
        on_path = os.path.abspath(on_path)  # noqa: PTH100
        if own is None or brief(own) or same(own, on_path):
            own = on_path
    if own is None and not brief(sys.executable):
        return (sys.executable, "-m", PROGRAM)
    if own is None or brief(own):
        raise SettingError(
            "This distiller runs from a cache that is emptied now and then, so a service of it would vanish. Nothing "
            "was changed; `uv tool install distiller` or `pipx install distiller` first."
        )
    return (own,)


def brief(path: str) -> bool:
    """Whether what lies there is thrown away by itself."""
    return any(part in path for part in BRIEF)


def same(path: str, other: str) -> bool:
    """Whether both lead to one file."""
    return os.path.realpath(path) == os.path.realpath(other)


def places(config: Config) -> Iterator[str]:
    """Options that lead to the same home and settings."""
    home, base = config.home, config.home.config.parent
    if home == Home(base / "config", base / "data", base / "state", base / "logs"):
        yield from ("--home", str(base))
    if config.file != home.config / "config.toml":
        yield from ("--config", str(config.file.absolute()))


def variables(config: Config, environment: Mapping[str, str], program: str) -> dict[str, str]:
    """The environment of the service; nothing that may be secret, since a unit file is no place for that."""
    carried = {
        name: value
        for name in CARRIED
        if (value := environment.get(name)) and value.isprintable() and "@" not in value  # user:password@proxy
    }
    language = environment.get("LANG", "")
    return {
        "PATH": ":".join(dict.fromkeys(path_folders(config, environment, program))),
        "LANG": language if "UTF-8" in language.upper() else "C.UTF-8",
        "PYTHONUNBUFFERED": "1",
        **carried,
    }


def path_folders(config: Config, environment: Mapping[str, str], program: str) -> Iterator[str]:
    """Where the service looks for programs: where this shell finds them now, since it gets no shell's PATH (F35)."""
    home = environment.get("HOME") or str(Path.home())
    yield os.path.join(home, ".local/bin")  # noqa: PTH118
    yield os.path.dirname(program)  # noqa: PTH120
    for name in (config.settings.claude_cli.program, "node"):
        found = shutil.which(os.path.expanduser(name), path=environment.get("PATH"))  # noqa: PTH111
        if found:
            yield os.path.dirname(os.path.abspath(found))  # noqa: PTH100, PTH120
    if sys.platform == "darwin":
        yield "/opt/homebrew/bin"
    yield from ("/usr/local/bin", "/usr/bin", "/bin")
