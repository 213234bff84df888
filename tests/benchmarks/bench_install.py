"""This checkout in, the size of what installing it puts on a disk out: the core, without bytecode.

Installs into a fresh virtual environment with uv where it is found, else with pip; packages come from the ordinary
registry or its cache. The environment's own pip is not counted. Run: `python tests/benchmarks/bench_install.py`
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.benchmarks.measure import MB, show

ROOT = Path(__file__).parents[2]
INSTALLERS = ("pip", "setuptools")
LARGEST = 5


def main() -> None:
    """Install, add up, print."""
    with tempfile.TemporaryDirectory() as folder:
        site = install(Path(folder, "venv"))
        sizes = by_package(site)
    show("installed core, without bytecode", sum(sizes.values()) / MB, "MB", at_most=70, packages=len(sizes))
    for name, size in sizes.most_common(LARGEST):
        show(f"installed: {name}", size / MB, "MB")


def install(venv: Path) -> Path:
    """Make an environment with this checkout in it; its site-packages."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    python = venv / "bin/python"
    uv = shutil.which("uv")
    command = [uv, "pip", "install", "-q", "--python", str(python)] if uv else [
        sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-compile"]  # fmt: skip
    subprocess.run([*command, str(ROOT)], check=True)
    return next(venv.glob("lib/python*/site-packages"))


def by_package(site: Path) -> Counter[str]:
    """Bytes by top-level name; what belongs to an installer is left out."""
    sizes: Counter[str] = Counter()
    for path in site.rglob("*"):
        name = path.relative_to(site).parts[0].partition("-")[0].removesuffix(".py")
        if path.is_file() and path.suffix != ".pyc" and name not in INSTALLERS:
            sizes[name] += path.stat().st_size
    return sizes


if __name__ == "__main__":
    main()
