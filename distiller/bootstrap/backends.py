"""A Config in, its backends out: how each is made, what its calls cost, what a day may cost.

A backend is chosen by name, by the person; no key that lies around makes one chosen.
"""

from __future__ import annotations

import os
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

import msgspec

from distiller.config import Config
from distiller.vocabulary import Price, Usage

if TYPE_CHECKING:
    from distiller.adapters.keys_files import Key
    from distiller.distill.price import Catalog
    from distiller.ports import Backend
    from distiller.service.gate import Budget

Number = TypeVar("Number", int, float)

CATALOG = Path(__file__).parents[1] / "data" / "models.json"
LEASE_SECONDS = 300
MARGIN_SECONDS = 60
KEY_VARIABLES = {"anthropic": "ANTHROPIC_API_KEY"}


class Backends:
    """The backends of one configuration."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._settings = config.settings

    @cached_property
    def catalog(self) -> Catalog:
        """Models and prices, with their date."""
        from distiller.distill import price

        return price.parse(CATALOG.read_bytes())

    def backend(self, name: str) -> Backend:
        """The backend of that name; a library that it needs is imported at its first call."""
        if name == "anthropic":
            return self._anthropic()
        if name == "claude-cli":
            return self._claude_cli()
        from distiller.adapters.backend_embedded import EmbeddedBackend

        return EmbeddedBackend()

    def pricing(self, name: str) -> Backend:
        """Asks nobody and says what asking would cost."""
        from distiller.adapters.backend_pricing import PricingBackend

        return PricingBackend(name, self.model(name), self.price(name))

    def model(self, name: str) -> str | None:
        """The model that the backend of that name asks."""
        return {"anthropic": self._settings.anthropic.model, "claude-cli": self._settings.claude_cli.model}.get(name)

    def price(self, name: str) -> Price | None:
        """What that model costs: your own price, else the dated one; None if unknown or if nobody is asked."""
        from distiller.distill import price

        model = self.model(name)
        if model is None:
            return None
        own = self._settings.prices.get(model)
        if own is not None:
            return msgspec.convert(own, Price, from_attributes=True)
        if name == "anthropic" and self._settings.anthropic.base_url:
            return None  # another server has its own prices, if any
        known = price.find(self.catalog, model)
        return price.of(known) if known is not None else None

    def whose_price(self, name: str) -> str:
        """Where a known price comes from, in words."""
        own = self.model(name) in self._settings.prices
        return "your own price" if own else f"prices of {self.catalog.as_of}"

    def budget(self, name: str, *, share: float = 1) -> Budget | None:
        """What a day and a minute may cost; None for a backend without calls. `share` is of the calls in a minute."""
        if self.model(name) is None:
            return None
        from distiller.service.gate import Budget

        limits = self._settings.budget
        calls = unlimited(limits.calls_per_minute)
        tokens = self._call_tokens(name)
        return Budget(
            daily_tokens=unlimited(limits.daily_tokens),
            daily_usd=unlimited(limits.daily_usd),
            calls_per_minute=None if calls is None else max(1, round(calls * share)),
            call_tokens=tokens.input_tokens + tokens.output_tokens,
            call_usd=self._cost(name, tokens),
        )

    def lease_seconds(self, name: str) -> float:
        """Longer than a call and its repair may take, so that nobody else asks the same meanwhile."""
        timeout = {
            "anthropic": self._settings.anthropic.timeout_seconds,
            "claude-cli": self._settings.claude_cli.timeout_seconds,
        }.get(name, 0)
        return max(LEASE_SECONDS, 2 * timeout + MARGIN_SECONDS)

    def key(self, name: str) -> Key | None:
        """The secret of a backend and where it was found."""
        from distiller.adapters.keys_files import read_key

        variable = KEY_VARIABLES.get(name) if self._settings.anthropic.key_from_env else None
        return read_key(name, str(self._config.home.config), os.environ, variable=variable)

    def write_key(self, name: str, value: str) -> str:
        """Keep the secret of a backend; where."""
        from distiller.adapters.keys_files import write_key

        return write_key(name, value, str(self._config.home.config))

    def _anthropic(self) -> Backend:
        from distiller.adapters.backend_anthropic import AnthropicBackend
        from distiller.distill import price

        settings = self._settings.anthropic
        known = price.find(self.catalog, settings.model) if not settings.base_url else None
        return AnthropicBackend(
            model=settings.model,
            key=partial(self._key_value, "anthropic"),
            base_url=settings.base_url,
            timeout_seconds=settings.timeout_seconds,
            max_output_tokens=settings.max_output_tokens,
            thinking=known.thinking if known is not None else "omit",
            price=self.price("anthropic"),
        )

    def _claude_cli(self) -> Backend:
        from distiller.adapters.backend_claude_cli import ClaudeCliBackend

        settings = self._settings.claude_cli
        return ClaudeCliBackend(
            program=settings.program,
            model=settings.model,
            token=partial(self._key_value, "claude-cli"),
            folder=str(self._config.home.state / "agent"),
            timeout_seconds=settings.timeout_seconds,
        )

    def _key_value(self, name: str) -> str | None:
        key = self.key(name)
        return key.value if key is not None else None

    def _call_tokens(self, name: str) -> Usage:
        """The most that one call may use, guessed on the high side."""
        from distiller.distill import prompt

        window = self._settings.window
        output = self._settings.anthropic.max_output_tokens if name == "anthropic" else CLI_OUTPUT_TOKENS
        return Usage(input_tokens=prompt.most_tokens(window.tokens, window.near_facts), output_tokens=output)

    def _cost(self, name: str, usage: Usage) -> float:
        from distiller.distill import price

        known = self.price(name)
        return price.cost(usage, known) if known is not None else 0


CLI_OUTPUT_TOKENS = 1500
"""What an answer through the `claude` program is reserved at; it takes no such limit."""


def unlimited(value: Number | Literal["none"]) -> Number | None:
    """A limit as the settings write it, None where there is none."""
    return None if value == "none" else value
