"""Diversity of the choices that a route makes. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def normalized_entropy(shares: Collection[float]) -> float | None:
    """Entropy of how often each of K choices was made, divided by ln K: 1 if all are equally frequent, 0 if one choice
    is always made. None if there were no requests, or fewer than two choices."""
    total = sum(shares)
    if len(shares) < 2 or total <= 0:
        return None
    parts = [share / total for share in shares if share > 0]
    return max(0.0, -math.fsum(part * math.log(part) for part in parts) / math.log(len(shares)))


def sum_choices(choices: Collection[Mapping[str, int]]) -> dict[str, int]:
    """Add up the choices of several gateways. A child that was never chosen stays in the result, with 0."""
    totals: dict[str, int] = {}
    for each in choices:
        for child, count in each.items():
            totals[child] = totals.get(child, 0) + count
    return totals
