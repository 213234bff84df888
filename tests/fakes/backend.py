"""A backend that says what a test tells it to say, and fails when told to."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from distiller.vocabulary import Reply, Request, Usage

USAGE = Usage(calls=1, input_tokens=100, output_tokens=10, cost_usd=0.001)
NOTHING = json.dumps(
    {"facts": [], "candidates": [], "suspicious": [], "session_note": None, "empty_reason": "nothing-durable"}
)


def fact(request: Request, *, slug: str, quote: str, **changes: Any) -> str:
    """An answer with one fact that quotes the row in which `quote` stands."""
    row = next(row for row in request.window.rows if quote in row.text and not row.previous)
    item = {
        "op": "add", "slug": slug, "kind": "project", "scope": "project", "summary": quote[:120], "body": quote,
        "related": [], "strength": "stated", "valid_until": None,
        "evidence": [{"row": row.number, "role": "user", "quote": quote}],
    } | changes  # fmt: skip
    return json.dumps({"facts": [item], "candidates": [], "suspicious": [], "session_note": None, "empty_reason": None})


class FakeBackend:
    """Answers by `answer(request)`; raises each of `failures` first, one a call."""

    def __init__(
        self,
        answer: Callable[[Request], str | Reply] = lambda _: NOTHING,
        *,
        failures: list[BaseException] | None = None,
        name: str = "fake",
    ) -> None:
        self.name = name
        self.requests: list[Request] = []
        self._answer = answer
        self._failures = list(failures or [])

    def recover(self) -> None:
        """Fail no more."""
        self._failures.clear()

    async def distill(self, request: Request) -> Reply:
        """One call."""
        self.requests.append(request)
        if self._failures:
            raise self._failures.pop(0)
        given = self._answer(request)
        if isinstance(given, Reply):
            return given
        return Reply(given, USAGE, self.name, "fake-1", request.prompt_version)
