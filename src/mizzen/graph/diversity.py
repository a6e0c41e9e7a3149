"""How diverse the choices of a route are. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping


def entropy(shares: Collection[float]) -> float | None:
    """Of choices, by how often each of K was made, divided by ln K: 1 when all are made alike, 0 when it is always the
    same one. None where there is nothing to tell: nobody has chosen, or there was no choice."""
    total = sum(shares)
    if len(shares) < 2 or total <= 0:
        return None
    parts = [share / total for share in shares if share > 0]
    return max(0.0, -math.fsum(part * math.log(part) for part in parts) / math.log(len(shares)))


def joined(chosen: Collection[Mapping[str, int]]) -> dict[str, int]:
    """What several gateways have chosen, together. A child that nobody has taken counts as one that could be."""
    found: dict[str, int] = {}
    for each in chosen:
        for child, count in each.items():
            found[child] = found.get(child, 0) + count
    return found
