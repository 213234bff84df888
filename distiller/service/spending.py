"""What the store's passes used in, what people ask about money out: each day's cost, and whether a budget suffices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from distiller import timestamps
from distiller.ports import Clock, Store
from distiller.service.gate import BUDGET_DAYS, Budget
from distiller.vocabulary import Spending, TurnQuery, TurnState, Usage

ENOUGH_ANSWERS = 20
BAD_SHARE = 0.05
LOOK_BACK_DAYS = 7
DAYS_AT_LIMIT = 3


class DayCost(msgspec.Struct, frozen=True):
    """What one backend's model was asked on one local day, and at what price; `cost_usd` is None if none is known."""

    day: str
    backend: str | None
    model: str | None
    turns: int
    calls: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float | None


def by_day(rows: Iterable[Spending], local_date: Callable[[str], str]) -> list[DayCost]:
    """Spending by local day, backend and model, newest day first; what cost no call is left out."""
    groups: dict[tuple[str, str, str], list[Spending]] = {}
    for row in rows:
        if row.usage.calls or tokens(row.usage):
            day = local_date(f"{row.minute}:00.000Z")
            groups.setdefault((day, row.backend or "", row.model or ""), []).append(row)
    return [_day(*key, groups[key]) for key in sorted(groups, reverse=True)]


def tokens(usage: Usage) -> int:
    """All tokens that count against a budget: read, written, and those of the cache."""
    return usage.input_tokens + usage.output_tokens + usage.cache_read_tokens + usage.cache_write_tokens


def enough(store: Store, clock: Clock, budget: Budget) -> str | None:
    """Which budget would suffice, once the last three days all ended at the limit; None otherwise."""
    now = timestamps.to_text(clock.now())
    days = store.setting(BUDGET_DAYS) or []
    lately = {clock.local_date(timestamps.after(now, seconds=-86400 * back)) for back in range(DAYS_AT_LIMIT)}
    if not lately <= set(days):
        return None
    rows = store.spending(since=timestamps.after(now, seconds=-86400 * DAYS_AT_LIMIT))
    turns = sum(row.turns for row in rows if row.usage.calls)
    left = len(store.turns(TurnQuery(states=(TurnState.WAITING,), reasons=("budget",))))
    if not turns:
        return None
    share = (turns + left) / turns / DAYS_AT_LIMIT
    wished = [f"budget.daily_tokens = {_round_up(sum(tokens(row.usage) for row in rows) * share):,}".replace(",", "_")]
    usd = sum(row.usage.cost_usd or 0 for row in rows) * share
    if budget.daily_usd is not None and usd > budget.daily_usd:
        wished.append(f"budget.daily_usd = {math.ceil(usd * 10) / 10:g}")
    return " and ".join(wished)


def badly_answered(store: Store, now: str) -> str | None:
    """What to say of a model whose answers are unusable too often; None while it does well or little is known."""
    rows = store.spending(since=timestamps.after(now, seconds=-86400 * LOOK_BACK_DAYS))
    counts: dict[str, tuple[int, int]] = {}
    for row in rows:
        if row.model and row.usage.calls:
            turns, bad = counts.get(row.model, (0, 0))
            counts[row.model] = (turns + row.turns, bad + row.unusable)
    for model, (turns, bad) in counts.items():
        if turns >= ENOUGH_ANSWERS and bad / turns > BAD_SHARE:
            return f"{bad} of {turns} answers of {model} in {LOOK_BACK_DAYS} days could not be used."
    return None


def _day(day: str, backend: str, model: str, rows: Sequence[Spending]) -> DayCost:
    def total(name: str) -> Any:
        return sum(getattr(row.usage, name) for row in rows)

    costs = [row.usage.cost_usd for row in rows if row.usage.cost_usd is not None]
    return DayCost(
        day, backend or None, model or None, sum(row.turns for row in rows), total("calls"), total("input_tokens"),
        total("output_tokens"), total("cache_read_tokens"), total("cache_write_tokens"), sum(costs) if costs else None,
    )  # fmt: skip


def _round_up(value: float) -> int:
    """To two leading digits, upwards: a wish, not a measurement."""
    step = int(10 ** max(0, math.floor(math.log10(max(value, 1))) - 1))
    return math.ceil(value / step) * step
