"""Layout of a graph's boxes on a terminal: layers from top to bottom, with few crossings and short lines. Pure.

A line that spans several layers passes through a place of its own in each layer between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final

GAP: Final = 3
"""Minimum columns between two boxes."""
_SWEEPS: Final = 4
"""Ordering sweeps, downward and upward."""
_PASSES: Final = 8
"""Passes that move boxes toward their neighbors."""


@dataclass(slots=True, eq=False)
class LayoutNode:
    """A box, or a point that a line passes through."""

    name: str
    """Empty: a line passes through."""
    width: int
    """Odd, so that there is a middle column."""
    room: int = 0
    """Columns needed to the right of the middle, for a label."""
    above: list[LayoutNode] = field(default_factory=list)
    below: list[LayoutNode] = field(default_factory=list)
    x: int = 0
    """Column of the middle."""

    @property
    def half(self) -> int:
        return self.width // 2


Layers = list[list[LayoutNode]]


def lay_out(widths: Mapping[str, int], lines: Sequence[tuple[str, str, int]], most: int) -> Layers | None:
    """Layers of places in drawing order, with their columns. None if they need more than `most` columns.

    `widths`: width of each box by name, in topological order. `lines`: source, target, and length of the label.
    """
    layers = _build_layers(widths, lines, most)
    if layers is None:
        return None
    _order(layers)
    _move(layers)
    left = min(place.x - place.half for layer in layers for place in layer)
    for layer in layers:
        for place in layer:
            place.x -= left
    return layers if all(_right_edge(layer) <= most for layer in layers) else None


def _build_layers(widths: Mapping[str, int], lines: Sequence[tuple[str, str, int]], most: int) -> Layers | None:
    depths = dict.fromkeys(widths, 0)
    targets: dict[str, list[str]] = {name: [] for name in widths}
    for source, target, _ in lines:
        targets[source].append(target)
    for name in widths:  # in topological order, so depths[name] is final here
        for target in targets[name]:
            depths[target] = max(depths[target], depths[name] + 1)
    layers: Layers = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    needed = [0] * len(layers)
    boxes = {}
    for name, width in widths.items():
        boxes[name] = LayoutNode(name, width | 1)
        layers[depths[name]].append(boxes[name])
        needed[depths[name]] += width + GAP
    if any(columns > most + GAP for columns in needed):
        return None
    for source, target, label in lines:
        last = boxes[source]
        for depth in range(depths[source] + 1, depths[target]):
            through = LayoutNode("", 1)
            layers[depth].append(through)
            needed[depth] += 1 + GAP
            if needed[depth] > most + GAP:  # stop before there are too many to draw
                return None
            _join(last, through, label)
            last = through
        _join(last, boxes[target], label)
    return layers


def _join(above: LayoutNode, below: LayoutNode, label: int) -> None:
    above.below.append(below)
    below.above.append(above)
    for place in (above, below):
        place.room = max(place.room, label + 2)


def _order(layers: Layers) -> None:
    """Order layers by the barycenter of neighbors, down and up, and keep the order with the fewest crossings."""
    best, fewest = [list(layer) for layer in layers], _count_crossings(layers)
    for sweep in range(2 * _SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            places = {id(place): at for each in layers for at, place in enumerate(each)}
            means = {id(place): _mean([places[id(one)] for one in (place.above if down else place.below)])
                     for place in layer}  # fmt: skip
            layer.sort(key=lambda place: (means[id(place)], places[id(place)]))
        found = _count_crossings(layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    layers[:] = best


def _count_crossings(layers: Layers) -> int:
    count = 0
    for upper, lower in pairwise(layers):
        places = {id(place): at for at, place in enumerate(lower)}
        ends = [(at, places[id(below)]) for at, place in enumerate(upper) for below in place.below]
        count += sum((one[0] - other[0]) * (one[1] - other[1]) < 0 for one, other in combinations(ends, 2))
    return count


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else -1.0


def _move(layers: Layers) -> None:
    for layer in layers:
        starts = _tight_columns(layer)
        for place, start in zip(layer, starts, strict=True):
            place.x = start - starts[-1] // 2
    for number in range(_PASSES):
        down = number % 2 == 0
        for layer in layers if down else reversed(layers):
            _settle(layer, [_wanted_column(place, down=down, both=number >= _PASSES - 2) for place in layer])


def _wanted_column(place: LayoutNode, *, down: bool, both: bool) -> float:
    near = [*place.above, *place.below] if both else place.above if down else place.below
    return _mean([other.x for other in near]) if near else place.x


def _settle(layer: list[LayoutNode], wanted: Sequence[float]) -> None:
    """Move each place as near to its wanted column as its neighbors allow.

    Places that collide move together, to the mean of their wanted columns.
    """
    starts = _tight_columns(layer)
    groups: list[tuple[float, int]] = []
    """Sum of the shifts and number of places that move together."""
    for want, start in zip(wanted, starts, strict=True):
        total, count = want - start, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            before = groups.pop()
            total, count = total + before[0], count + before[1]
        groups.append((total, count))
    shifts = [round(total / count) for total, count in groups for _ in range(count)]
    for place, start, shift in zip(layer, starts, shifts, strict=True):
        place.x = start + shift


def _tight_columns(layer: Sequence[LayoutNode]) -> list[int]:
    """Middle columns of the tightest packing."""
    starts = [0]
    for one, other in pairwise(layer):
        apart = max(one.half + GAP + other.half, one.room + 2)
        starts.append(starts[-1] + apart + apart % 2)  # even, so that there is a middle column between two places
    return starts


def _right_edge(layer: Sequence[LayoutNode]) -> int:
    return max((place.x + max(place.half + 1, place.room) for place in layer), default=0)
