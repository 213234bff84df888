"""Which project a folder belongs to, told from `.git` files alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from distiller.adapters.projects_git import GitProjects, normalise
from distiller.vocabulary import Project


def repository(folder: Path, remote: str | None = None) -> Path:
    """A folder with what git leaves there."""
    (folder / ".git").mkdir(parents=True)
    config = f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n' if remote else "[core]\n"
    (folder / ".git/config").write_text(config)
    return folder


def test_f16_worktrees_and_subfolders_are_one_project_and_namesakes_are_two(tmp_path: Path) -> None:
    """F16: app, its worktree and its package are one project; another app of the same name is another."""
    app = repository(tmp_path / "acme/app", "git@github.com:acme/app.git")
    other = repository(tmp_path / "other/app", "https://github.com/other/app")
    (app / "packages/web").mkdir(parents=True)
    (app / ".claude/worktrees/calm-otter").mkdir(parents=True)

    folders = (app, other, app / ".claude/worktrees/calm-otter", app / "packages/web")
    keys = [GitProjects().resolve(str(folder)).key for folder in folders]

    assert keys == ["github.com/acme/app", "github.com/other/app", "github.com/acme/app", "github.com/acme/app"]


def test_a_linked_worktree_belongs_to_its_repository(tmp_path: Path) -> None:
    """`git worktree add` leaves a file that points into the main repository."""
    main = repository(tmp_path / "main", "ssh://git@example.com:2222/team/main.git")
    own = main / ".git/worktrees/feature"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    feature = tmp_path / "feature"
    feature.mkdir()
    (feature / ".git").write_text(f"gitdir: {own}\n")

    assert GitProjects().resolve(str(feature)) == Project(
        "example.com/team/main", "main", remote="example.com/team/main", folders=(str(feature),)
    )


def test_a_repository_without_remote_is_known_by_its_common_folder(tmp_path: Path) -> None:
    """Without a remote the key holds this machine's id, since the same path elsewhere is another project."""
    project = GitProjects().resolve(str(repository(tmp_path / "tool")))

    assert project.key.startswith(f"git:{tmp_path}/tool/.git@")
    assert project.name == "tool"


def test_a_nested_repository_is_its_own_project(tmp_path: Path) -> None:
    """The nearest `.git` counts."""
    repository(tmp_path / "outer", "https://example.com/a/outer")
    inner = repository(tmp_path / "outer/vendor/inner", "https://example.com/b/inner")

    assert GitProjects().resolve(str(inner)).key == "example.com/b/inner"


def test_a_folder_without_repository_is_its_own_project(tmp_path: Path) -> None:
    """A plain folder is known by its path and this machine."""
    (tmp_path / "notes").mkdir()

    project = GitProjects().resolve(str(tmp_path / "notes"))

    assert project.key.startswith(f"dir:{tmp_path}/notes@")
    assert project.name == "notes"


def test_a_folder_that_is_gone_takes_its_ancestors_project(tmp_path: Path) -> None:
    """A deleted worktree of a known repository is that repository, on disk or as the store remembers it."""
    repository(tmp_path / "app", "https://github.com/acme/app")
    remembered = {"/elsewhere/shop": Project("github.com/acme/shop", "shop")}
    projects = GitProjects(remembered.get)

    assert projects.resolve(str(tmp_path / "app/gone/deeper")).key == "github.com/acme/app"
    assert projects.resolve("/elsewhere/shop/packages/web").key == "github.com/acme/shop"
    assert projects.resolve("/elsewhere/other").key.startswith("dir:/elsewhere/other@")


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("git@GitHub.com:acme/app.git", "github.com/acme/app"),
        ("https://user:token@github.com/acme/app.git", "github.com/acme/app"),
        ("ssh://git@example.com:22/acme/app/", "example.com/acme/app"),
        ("github.com:acme/app", "github.com/acme/app"),
        ("/srv/git/app.git", None),
        ("../app", None),
        ("", None),
    ],
)
def test_addresses_of_one_repository_are_one_key(address: str, key: str | None) -> None:
    """Neither user, password, port nor `.git` is part of the key; a path is no remote."""
    assert normalise(address) == key


@pytest.mark.parametrize(
    "content", ["", "[remote", '[remote "origin"]\nurl\n', "\x00\xff", '[remote "x"]\nurl = /a/b\n']
)
def test_a_broken_git_config_is_no_crash(tmp_path: Path, content: str) -> None:
    """Bad input is a project without remote."""
    repository(tmp_path / "app")
    (tmp_path / "app/.git/config").write_text(content)

    assert GitProjects().resolve(str(tmp_path / "app")).key.startswith("git:")
