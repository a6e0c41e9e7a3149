"""What windows of load on graphs come to: a table, and the figures that graphs are held to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from bench.peers.figures import Figure, at_most
from bench.report import Window, number, table

FLOOR, MODEL, APART = "nginx", "model", "apart"
GATEWAY, RUNTIME = "gateway", "runtime"
FAMILIES = ("deep", "passing", "wide")
"""Graphs that come in several sizes, `<family><size>`."""
STEADY = 1.25
"""How much dearer a further node may be in a large graph than in a small one for the cost to count as linear."""

HEADER = (
    "connections", "graph", "CPU µs/request", "min-max", "x nginx", "gateway µs", "x model's", "runtime µs",
    "requests/s", "p50 ms", "p99 ms", "errors",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over rounds, µs of CPU for a request."""

    rounds: Mapping[int, float]
    """Of its gateway, by round."""
    whole: float
    lowest: float
    highest: float
    gateway: float
    runtime: float
    per_second: float
    p50_ms: float
    p99_ms: float
    errors: int


Costs = Mapping[tuple[str, int], Cost]
"""By name and connections."""


def costs(windows: Sequence[Window]) -> Costs:
    """Windows with too few requests are left out."""
    groups: dict[tuple[str, int], list[Window]] = {}
    for window in windows:
        if window.enough:
            groups.setdefault((window.contestant, window.connections), []).append(window)
    return {key: _cost(group) for key, group in groups.items()}


def whole_table(found: Costs) -> str:
    rows: list[tuple[str, ...]] = [HEADER]
    for name, connections in sorted(found, key=lambda key: key[1]):
        rows.append(_row(found, name, connections))
    return table(rows)


def lines(found: Costs, connections: Sequence[int], sizes: Sequence[int]) -> list[Figure]:
    return [*_shapes(found, connections), *_sizes(found, connections, sizes)]


def _shapes(found: Costs, connections: Sequence[int]) -> Iterator[Figure]:
    for number_ in connections:
        at = f"{number_} connections"
        one, choice, bandit = (found.get((name, number_)) for name in (MODEL, "split", "egreedy"))
        if number_ == 64:
            all_three, floor = found.get(("ensemble", number_)), found.get((FLOOR, number_))
            ratio = all_three.whole / floor.whole if all_three and floor else None
            yield at_most(f"ensemble of three, {at}, CPU against nginx", 13, ratio)
        yield at_most(f"split, {at}, gateway's share against one model's", 1.25, shares(choice, one))
        yield at_most(f"e-greedy with records, {at}, gateway's share against one model's", 1.6, shares(bandit, one))
        five, single = found.get(("chain5", number_)), found.get(("chain1", number_))
        ratio = five.whole / single.whole if five and single else None
        yield at_most(f"chain of 5, {at}, CPU against one node", 3, ratio)


def shares(cost: Cost | None, other: Cost | None) -> float | None:
    """How many times the share of the gateway is what it is for another: the median of all rounds that both were in.
    What else the machine does changes from minute to minute, and less between two windows of one round."""
    if cost is None or other is None:
        return None
    return median([spent / other.rounds[at] for at, spent in cost.rounds.items() if at in other.rounds] or [math.nan])


def _sizes(found: Costs, connections: Sequence[int], sizes: Sequence[int]) -> Iterator[Figure]:
    if len(sizes) < 3 or not connections:
        return
    first, last = min(sizes), max(sizes)
    middle = sorted(sizes)[len(sizes) // 2]
    for family in FAMILIES:
        at = [found.get((f"{family}{size}", connections[0])) for size in (first, middle, last)]
        small, half, large = at
        what = f"{family}, a further node between {middle} and {last} against one up to {middle}"
        if small is None or half is None or large is None:
            yield at_most(what, STEADY, None)
            continue
        early, late = (half.whole - small.whole) / (middle - first), (large.whole - half.whole) / (last - middle)
        ratio = late / early if early > 0 else None
        yield at_most(what, STEADY, ratio, f" ({number(early)} µs, then {number(late)} µs)")


def _cost(group: Sequence[Window]) -> Cost:
    whole = [window.cpu_us for window in group]
    return Cost(
        rounds={window.round: window.parts.get(GATEWAY, 0.0) for window in group},
        whole=median(whole),
        lowest=min(whole),
        highest=max(whole),
        gateway=median(window.parts.get(GATEWAY, 0.0) for window in group),
        runtime=median(window.parts.get(RUNTIME, 0.0) for window in group),
        per_second=median(window.per_second for window in group),
        p50_ms=median(window.p50_ms for window in group),
        p99_ms=median(window.p99_ms for window in group),
        errors=sum(window.errors for window in group),
    )


def _row(found: Costs, name: str, connections: int) -> tuple[str, ...]:
    cost = found[name, connections]
    floor, one = found.get((FLOOR, connections)), found.get((MODEL, connections))
    plain = name == FLOOR
    return (
        str(connections),
        name,
        number(cost.whole),
        f"{number(cost.lowest)}-{number(cost.highest)}",
        f"{cost.whole / floor.whole:.2f}" if floor else "-",
        "-" if plain else number(cost.gateway),
        f"{shares(cost, one):.2f}" if one and not plain else "-",
        "-" if plain else number(cost.runtime),
        number(cost.per_second),
        f"{cost.p50_ms:.2f}",
        f"{cost.p99_ms:.2f}",
        str(cost.errors),
    )
