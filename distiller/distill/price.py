"""Tokens in, money out, from dated data: `data/models.json` says what each model cost on the day it names.

A model that is not listed has no price, and its cost is unknown (None), never zero.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from distiller.vocabulary import Price, Usage

_TOKENS_PER_PRICE = 1_000_000
_DATE = re.compile(r"-\d{8}$")

Thinking = Literal["disabled", "low-effort", "omit"]
"""How to keep a model from thinking, which is billed as output: switch it off, ask for little, or say nothing."""


class Model(msgspec.Struct, frozen=True):
    """A model's prices in USD per million tokens (`cache_write`: of the cache that lasts an hour)."""

    input: float
    output: float
    cache_read: float
    cache_write: float
    thinking: Thinking = "omit"


class Catalog(msgspec.Struct, frozen=True):
    """Models by name, as `source` listed them on the day `as_of`."""

    as_of: str
    source: str
    models: dict[str, Model]


def parse(data: bytes) -> Catalog:
    """The bytes of `models.json` as a catalog. Raises msgspec.DecodeError if they are none."""
    return msgspec.json.decode(data, type=Catalog)


def find(catalog: Catalog, name: str) -> Model | None:
    """The model of that name, with or without the date of its version (`-20251001`)."""
    return catalog.models.get(name) or catalog.models.get(_DATE.sub("", name))


def of(model: Model) -> Price:
    """A catalog's model as a price."""
    return Price(model.input, model.output, model.cache_read, model.cache_write)


def cost(usage: Usage, price: Price) -> float:
    """What `usage` costs in USD; input tokens leave out those read from and written to the cache, as the API counts."""
    total = (
        usage.input_tokens * price.input
        + usage.output_tokens * price.output
        + usage.cache_read_tokens * price.cache_read
        + usage.cache_write_tokens * price.cache_write
    )
    return total / _TOKENS_PER_PRICE
