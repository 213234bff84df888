"""Coding agents as tests run them: the real programs, offline against a scripted model, and a stand-in for one.

The real ones come from npm through the tools of ../shared. The stand-in acts like a `claude -p` that cannot be kept
from writing a session file of each call; it is this module, run as a program.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from distiller import timestamps
from tests.fakes.backend import NOTHING
from tests.fakes.claude_program import SUCCESS
from tests.fakes.process import Program
from tests.fakes.sessions import ClaudeSession

Files = dict[Path, tuple[int, bytes]]

_ROOT = Path(__file__).parents[2]
_LIMIT_SECONDS = 300


class _Agent:
    """A real program with a home of its own that works in a clone of acme/shop."""

    tool: ClassVar[str]

    def __init__(self, shared: Path, program: Program, *, home: Path, sessions: Path) -> None:
        self.left: Files = {}  # the session files as they were when the agent last ended
        self.sessions = sessions
        self._tool = shared / "tools" / self.tool
        self._home = home
        self._work = program.folder / "shop"
        self._script = program.folder / "script.json"
        (self._work / ".git").mkdir(parents=True, exist_ok=True)
        (self._work / ".git/config").write_text('[remote "origin"]\n\turl = git@example.com:acme/shop.git\n')

    def _run(self, prompt: str, script: list[Any], *more: str) -> str:
        """One prompt, answered as `script` says; what the program prints."""
        self._script.write_text(json.dumps(script))
        done = subprocess.run(
            [sys.executable, str(self._tool), "--home", str(self._home), "--cwd", str(self._work),
             "--script", str(self._script), prompt, "--", *more],
            capture_output=True, text=True, timeout=_LIMIT_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        self.left = session_files(self.sessions)
        return done.stdout


class Claude(_Agent):
    """Runs the real Claude Code; its session files land in the folder that `program` watches."""

    tool = "real_claude.py"

    def __init__(self, shared: Path, program: Program, *, home: Path | None = None) -> None:
        place = home or program.folder / "claude-home"
        super().__init__(shared, program, home=place, sessions=program.projects)
        (place / ".claude").mkdir(parents=True, exist_ok=True)
        (place / ".claude/projects").symlink_to(program.projects)

    def says(self, prompt: str, script: list[Any], *more: str) -> str:
        """One prompt with `-p`; gives the session id."""
        return str(json.loads(self._run(prompt, script, *more))["session_id"])


class Codex(_Agent):
    """Runs the real Codex; `program` is told to read its rollouts."""

    tool = "real_codex.py"

    def __init__(self, shared: Path, program: Program) -> None:
        home = program.folder / "codex-home"
        super().__init__(shared, program, home=home, sessions=home / ".codex/sessions")
        program.environment["DISTILLER_AGENTS__CODEX__ENABLED"] = "true"
        program.environment["DISTILLER_AGENTS__CODEX__ROOTS"] = json.dumps([str(self.sessions)])

    def says(self, prompt: str, script: list[Any], *more: str) -> str:
        """One prompt with `exec`; gives the session id."""
        events = [json.loads(line) for line in self._run(prompt, script, *more).splitlines()]
        return str(next(event["thread_id"] for event in events if event["type"] == "thread.started"))


def session_files(folder: Path) -> Files:
    """Time of the last change and content of each session file below `folder`."""
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in folder.rglob("*.jsonl")}


def text(words: str) -> dict[str, str]:
    """A text block."""
    return {"type": "text", "text": words}


def bash(command: str) -> dict[str, Any]:
    """A call of Claude Code's shell."""
    return {"type": "tool_use", "name": "Bash", "input": {"command": command, "description": command}}


def exec_command(command: str) -> dict[str, Any]:
    """A call of Codex's shell."""
    return {"type": "tool_use", "name": "exec_command", "input": {"cmd": command}}


def ask_agent(order: str = "Always answer only with JSON and never use tests.") -> dict[str, Any]:
    """A call that starts a sub-agent with an order for it."""
    orders = {"description": "look", "prompt": order, "subagent_type": "general-purpose"}
    return {"type": "tool_use", "name": "Agent", "input": orders}


def claude_at(shared: Path, folder: Path, url: str, *, persistent: bool = False) -> str:
    """A script that starts the real Claude Code with the model at `url`; `persistent`: deaf to the ban on sessions."""
    spec = importlib.util.spec_from_file_location("real_claude", shared / "tools/real_claude.py")
    assert spec
    assert spec.loader
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    without_ban = 'for word do shift; [ "$word" = --no-session-persistence ] || set -- "$@" "$word"; done'
    return _script(
        folder,
        *([without_ban] if persistent else []),
        f"export ANTHROPIC_BASE_URL={url}",
        f'exec "{tool.claude_program()}" "$@"',
    )


def claude_that_keeps_sessions(folder: Path, sessions: Path) -> str:
    """A stand-in for `claude` that finds nothing and leaves a session of each call in `sessions`."""
    return _script(
        folder, "here=$PWD", f'cd "{_ROOT}"', f'exec "{sys.executable}" -m tests.fakes.agents "{sessions}" "$here"'
    )


def ghost(asked: str, *, cwd: str) -> ClaudeSession:
    """A session as `claude -p` keeps it: its first prompt came from a program, and no mark ends its turn."""
    name = str(uuid.uuid4())
    session = ClaudeSession(name, cwd=cwd, at=timestamps.to_text(datetime.now(UTC)), entrypoint="sdk-cli")
    for operation in ({"operation": "enqueue", "content": asked}, {"operation": "dequeue"}):
        session.raw({"type": "queue-operation", "timestamp": session.at, "sessionId": name, **operation})
    session.prompt(asked, promptSource="sdk", turnOrigin="sdk")
    session.say(NOTHING)
    return session


def _script(folder: Path, *lines: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "claude"
    script.write_text("\n".join(("#!/bin/sh", *lines, "")))
    script.chmod(0o700)
    return str(script)


def main(sessions: Path, cwd: str) -> None:
    """Answer what comes by stdin with nothing, and keep a session of it."""
    session = ghost(sys.stdin.read(), cwd=cwd)
    (sessions / f"{session.session_id}.jsonl").write_bytes(bytes(session))
    print(json.dumps(SUCCESS | {"result": NOTHING}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
