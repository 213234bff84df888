"""Prices: what the shipped catalog says, and what usage costs by it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import distiller
from distiller.distill import price
from distiller.vocabulary import Price, Usage

CATALOG = price.parse((Path(distiller.__file__).parent / "data/models.json").read_bytes())


def test_the_shipped_catalog_is_dated_and_names_its_source() -> None:
    """Prices without a date and a source could not be checked."""
    assert (CATALOG.as_of, CATALOG.source.startswith("https://")) == ("2026-12-01", True)


@pytest.mark.parametrize("name", sorted(CATALOG.models))
def test_every_listed_price_follows_the_price_list(name: str) -> None:
    """Output costs five times the input, writing an hour's cache twice, reading it a tenth at most."""
    model = CATALOG.models[name]

    assert model.output == pytest.approx(5 * model.input)
    assert model.cache_write == pytest.approx(2 * model.input)
    assert 0 < model.cache_read <= model.input / 10 + 1e-9
    assert name.startswith("claude-")


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("claude-haiku-5-5", "claude-haiku-5-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("claude-haiku-4-5-2025", None),
        ("haiku", None),
        ("llama3.2", None),
        ("", None),
    ],
)
def test_a_model_is_found_with_and_without_its_date(name: str, known_as: str | None) -> None:
    """The date of a version does not change a price; an alias or a foreign model has none."""
    expected = CATALOG.models[known_as] if known_as else None

    assert price.find(CATALOG, name) == expected


def test_usage_costs_what_the_invoice_says() -> None:
    """Each kind of token at its own price, per million."""
    haiku = price.of(CATALOG.models["claude-haiku-4-5"])
    usage = Usage(input_tokens=2_500, output_tokens=300, cache_read_tokens=2_000, cache_write_tokens=1_000)

    assert haiku == Price(1, 5, 0.10, 2)
    assert price.cost(usage, haiku) == pytest.approx(0.0025 + 0.0015 + 0.0002 + 0.002)
    assert price.cost(Usage(), haiku) == 0


@pytest.mark.parametrize("data", [b"", b"[]", b'{"as_of": "2026-12-01"}', b'{"models": {"a": {"input": "1"}}}'])
def test_a_catalog_that_is_none_is_refused(data: bytes) -> None:
    """Half a price list is an error, not free models."""
    with pytest.raises(msgspec.DecodeError):
        price.parse(data)
