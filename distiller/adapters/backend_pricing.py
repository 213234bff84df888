"""A request in, what asking a model about it would cost out: for previews; nobody is asked."""

from __future__ import annotations

import json

import msgspec

from distiller.distill import price, prompt
from distiller.distill.reply import ANSWER_SCHEMA
from distiller.distill.window import tokens_of
from distiller.vocabulary import Price, Reply, Request, Usage

TYPICAL_OUTPUT_TOKENS = 150
NOTHING = json.dumps(
    {"facts": [], "candidates": [], "suspicious": [], "session_note": None, "empty_reason": "nothing-durable"}
)


class PricingBackend:
    """Counts each call as a model's would count, by a guess that errs on the high side."""

    def __init__(self, name: str, model: str | None, known: Price | None) -> None:
        self.name = name
        self._model = model
        self._price = known

    async def distill(self, request: Request) -> Reply:
        """Answer nothing, at the cost that the call would have."""
        read = tokens_of(prompt.SYSTEM) + tokens_of(json.dumps(ANSWER_SCHEMA)) + tokens_of(request.prompt or "")
        usage = Usage(calls=1, input_tokens=read, output_tokens=TYPICAL_OUTPUT_TOKENS)
        if self._price is not None:
            usage = msgspec.structs.replace(usage, cost_usd=price.cost(usage, self._price))
        return Reply(NOTHING, usage, self.name, self._model, request.prompt_version)
