"""Whole session files: those made up by us beside the turns expected from them, and the shared public ones.

`DISTILLER_SHARED` names the folder of the public sessions; without it they are looked for beside the checkout.
After a wanted change `python tests/integration/test_transcript_corpus.py` writes the expected turns anew, for review.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from distiller.transcript import formats
from distiller.transcript.identity import digest, words_digest
from distiller.transcript.repair import pairing_fault
from distiller.transcript.session import SessionReader
from distiller.vocabulary import Block, EndSign, Message, SessionRole, Text, ToolCall, Turn, Withdrawn

CORPUS = Path(__file__).parents[1] / "corpus"
OURS = sorted(path for agent in ("claude_code", "codex", "neutral") for path in (CORPUS / agent).rglob("*.jsonl"))
SHARED = Path(os.environ.get("DISTILLER_SHARED", Path(__file__).parents[3] / "shared"))
LONG_AFTER = "2030-01-01T00:00:00.000Z"

pytestmark = pytest.mark.integration
needs_shared = pytest.mark.skipif(not (SHARED / "transcripts").is_dir(), reason=f"no public sessions at {SHARED}")


def files(agent: str) -> list[Path]:
    """All shared sessions of an agent; some stand in folders with a leading dot, which globbing passes over."""
    found = (Path(root) / name for root, _, names in os.walk(SHARED / "transcripts" / agent) for name in names)
    return sorted(path for path in found if path.suffix == ".jsonl")


def read(agent: str, path: Path, *, chunk: int = 1 << 16) -> tuple[SessionReader, list[Turn | Withdrawn]]:
    """A reader that has read `path` to its end, and what came out."""
    side = path.with_suffix(".meta.json")
    reader = SessionReader(agent, str(path), side=json.loads(side.read_bytes()) if side.exists() else None)
    data = path.read_bytes()
    out = [item for start in range(0, len(data), chunk) for item in reader.feed(data[start : start + chunk])]
    return reader, out + reader.finish(now=LONG_AFTER, grown_at=None)


# -- made up by us -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", OURS, ids=lambda path: str(path.relative_to(CORPUS)))
def test_our_sessions_give_the_turns_beside_them(path: Path) -> None:
    """Each session gives exactly the turns, session and counts that were reviewed and stand beside it."""
    agent = path.relative_to(CORPUS).parts[0]

    assert formats.sniff(str(path), path.read_bytes()[:65536]) == agent
    assert shown(*read(agent, path, chunk=97)) == json.loads(path.with_suffix(".turns.json").read_bytes())


def test_a_codex_fork_has_its_parent_s_turns() -> None:
    """F13: its lines are stamped anew, under the old turn ids; what was said is the same."""
    parent, fork = (read("codex", path)[1] for path in sorted((CORPUS / "codex" / "0.135").glob("*.jsonl")))
    first, copied = parent[0], fork[0]

    assert isinstance(first, Turn)
    assert isinstance(copied, Turn)
    assert (first.key, digest(first), words_digest(first)) == (copied.key, digest(copied), words_digest(copied))
    assert (copied.session.root_id, copied.prompt_at != first.prompt_at) == (first.session.id, True)


def shown(reader: SessionReader, out: list[Turn | Withdrawn]) -> dict[str, Any]:
    """What a person has to review of a file's turns."""
    counts = msgspec.to_builtins(reader.counts)
    return {
        "session": msgspec.to_builtins(reader.session),
        "counts": {name: value for name, value in counts.items() if value},
        "turns": [_turn(item) if isinstance(item, Turn) else {"withdrawn": item.key} for item in out],
    }


def _turn(turn: Turn) -> dict[str, Any]:
    names = ("key", "kind", "end_sign", "start_byte", "end_byte", "prompt_at", "ended_at", "cwd", "model")
    fields = {name: msgspec.to_builtins(getattr(turn, name)) for name in names}
    extra = {
        name: getattr(turn, name) for name in ("local_date", "typed", "outcome", "cost_usd") if getattr(turn, name)
    }
    role = {} if turn.session.role is SessionRole.PERSON else {"role": turn.session.role.value}
    return {**fields, **extra, **role, "messages": [_message(message) for message in turn.messages]}


def _message(message: Message) -> str:
    who = f"{message.role} ({message.origin})" if message.origin else str(message.role)
    return f"{who} {message.id}: " + " | ".join(_block(block) for block in message.blocks)


def _block(block: Block) -> str:
    if isinstance(block, Text):
        return block.text
    if isinstance(block, ToolCall):
        return f"{block.name} {block.id} {bytes(block.input).decode()}"
    flags = " error" * block.is_error + " synthetic" * block.synthetic
    return f"result {block.tool_use_id}{flags} {bytes(block.content).decode()}"


# -- public sessions ---------------------------------------------------------------------------------------------


@needs_shared
@pytest.mark.parametrize("agent", ["claude_code", "codex"])
def test_real_sessions_are_read_whole(agent: str) -> None:
    """No file raises or is taken for another agent's; every turn pairs its calls, has a key and a span in order."""
    for path in files(agent):
        if path.name in formats.NO_TRANSCRIPTS:
            assert formats.sniff(str(path), path.read_bytes()[:65536]) is None
            continue
        assert formats.sniff(str(path), path.read_bytes()[:65536]) == agent
        size = path.stat().st_size
        for turn in turns_of(agent, path):
            assert pairing_fault(turn.messages) is None
            assert turn.key.startswith(f"{agent}:")
            assert 0 <= turn.start_byte < turn.end_byte <= size
            assert all(message.id for message in turn.messages)


@needs_shared
def test_counts_agree_with_an_independent_scan() -> None:
    """Split messages, pairs, orphans and copies per file are those that `scan_claude.py` counts by other means."""
    scan_claude = shared_tool("scan_claude")
    for path in files("claude_code"):
        if path.name.startswith("agent-acompact"):
            continue  # not read at all
        scan = scan_claude.Scan()
        scan.file(str(path), "")
        counts = read("claude_code", path)[0].counts

        assert (
            counts.split_messages,
            counts.pairs,
            counts.calls_without_result,
            counts.results_without_call,
            counts.copied_lines,
        ) == (
            scan.R["messages"]["split"],
            scan.R["tools"]["paired"],
            scan.R["tools"]["orphan_tool_use"],
            scan.R["tools"]["orphan_tool_result"],
            scan.R["uuid"]["dup_lines_in_file"],
        ), path


@needs_shared
def test_replayed_in_time_real_turns_close_and_none_too_early() -> None:
    """Line by line with the lines' own clock: as many turns close as in `turn_rule_sim.py`, by like signs."""
    signs: Counter[EndSign] = Counter()
    reopened: list[str] = []
    for path in files("claude_code"):
        if path.name.startswith("agent-"):
            continue
        for turn, again in replayed(path):
            if again:
                reopened.append(turn.key)
            elif turn.session.role is not SessionRole.SUBAGENT and turn.message_ids:
                signs[turn.end_sign] += 1

    assert reopened == []
    # turn_rule_sim.py on this folder, by signs: 196 marked, 104 strong, 47 weak, 27 interrupted, 19 by the next prompt,
    # 19 open at the end of their file; which of mark and silence comes first differs by a second here and there.
    assert (signs[EndSign.ABANDONED], signs[EndSign.SETTLED_WEAK]) == (19, 47)
    assert signs[EndSign.MARKED] + signs[EndSign.SETTLED] >= 300
    assert signs.total() - signs[EndSign.ABANDONED] >= 393


def replayed(path: Path) -> Iterator[tuple[Turn, bool]]:
    """Turns of a session as a daemon that watched it would have seen them; True where one came again, longer."""
    reader = SessionReader("claude_code", str(path))
    seen: dict[str, int] = {}
    clock = ""
    lines = path.read_bytes().split(b"\n")
    for raw in (*lines, None):
        now = _time_of(raw) if raw is not None else LONG_AFTER
        out: list[Turn | Withdrawn] = []
        if now and clock:
            out += reader.finish(now=now, grown_at=clock)
        if raw is not None:
            out += reader.feed(raw + b"\n")
        clock = max(clock, now or clock) if raw is not None else clock
        for turn in out:
            if isinstance(turn, Turn):
                yield turn, len(turn.message_ids) > seen.get(turn.key, len(turn.message_ids))
                seen[turn.key] = len(turn.message_ids)


def _time_of(raw: bytes) -> str:
    try:
        return str(json.loads(raw).get("timestamp") or "")
    except ValueError:
        return ""


def turns_of(agent: str, path: Path) -> list[Turn]:
    """The turns of a file."""
    return [item for item in read(agent, path)[1] if isinstance(item, Turn)]


def shared_tool(name: str) -> Any:
    """A module of the shared tools."""
    sys.path.insert(0, str(SHARED / "tools"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


def main() -> None:
    """Write the expected turns of our sessions anew."""
    for path in OURS:
        found = shown(*read(path.relative_to(CORPUS).parts[0], path))
        path.with_suffix(".turns.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()
