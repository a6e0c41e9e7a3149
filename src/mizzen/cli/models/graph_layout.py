"""Where the boxes of a graph stand on a terminal: in layers from top to bottom, in an order with few crossings, and as
near as may be to what they are joined with. Pure.

A line that spans several layers goes through a place of its own in each of those between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final

GAP: Final = 3
"""Columns from one box to the next, at least."""
_SWEEPS: Final = 4
"""How often the order of layers is looked at, downwards and upwards."""
_PASSES: Final = 8
"""How often boxes move towards what they are joined with."""


@dataclass(slots=True, eq=False)
class Place:
    """A box, or where a line goes through."""

    name: str
    """Empty: a line goes through."""
    width: int
    """An odd number, so that there is a middle."""
    room: int = 0
    """Columns that are needed to the right of the middle, for a label."""
    above: list[Place] = field(default_factory=list)
    below: list[Place] = field(default_factory=list)
    x: int = 0
    """Of the middle."""

    @property
    def half(self) -> int:
        return self.width // 2


Layers = list[list[Place]]


def layered(widths: Mapping[str, int], lines: Sequence[tuple[str, str, int]], most: int) -> Layers | None:
    """Places in the order in which they are drawn, and where each stands. None when they need more than `most` columns.

    `widths`: of each box by its name, each before all that lines lead to from it. `lines`: from, to, and the length of
    the label.
    """
    layers = _layers(widths, lines, most)
    if layers is None:
        return None
    _order(layers)
    _move(layers)
    left = min(place.x - place.half for layer in layers for place in layer)
    for layer in layers:
        for place in layer:
            place.x -= left
    return layers if all(_end(layer) <= most for layer in layers) else None


def _layers(widths: Mapping[str, int], lines: Sequence[tuple[str, str, int]], most: int) -> Layers | None:
    depths = dict.fromkeys(widths, 0)
    targets: dict[str, list[str]] = {name: [] for name in widths}
    for source, target, _ in lines:
        targets[source].append(target)
    for name in widths:  # all lines to it come from those before
        for target in targets[name]:
            depths[target] = max(depths[target], depths[name] + 1)
    layers: Layers = [[] for _ in range(max(depths.values(), default=-1) + 1)]
    needed = [0] * len(layers)
    boxes = {}
    for name, width in widths.items():
        boxes[name] = Place(name, width | 1)
        layers[depths[name]].append(boxes[name])
        needed[depths[name]] += width + GAP
    if any(columns > most + GAP for columns in needed):
        return None
    for source, target, label in lines:
        last = boxes[source]
        for depth in range(depths[source] + 1, depths[target]):
            through = Place("", 1)
            layers[depth].append(through)
            needed[depth] += 1 + GAP
            if needed[depth] > most + GAP:  # before there are more of them than anybody could draw
                return None
            _join(last, through, label)
            last = through
        _join(last, boxes[target], label)
    return layers


def _join(above: Place, below: Place, label: int) -> None:
    above.below.append(below)
    below.above.append(above)
    for place in (above, below):
        place.room = max(place.room, label + 2)


def _order(layers: Layers) -> None:
    """By the mean place of what each is joined with, down and up, and the best of all that is seen."""
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(2 * _SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        for layer in layers if down else reversed(layers):
            places = {id(place): at for each in layers for at, place in enumerate(each)}
            means = {id(place): _mean([places[id(one)] for one in (place.above if down else place.below)])
                     for place in layer}  # fmt: skip
            layer.sort(key=lambda place: (means[id(place)], places[id(place)]))
        found = _crossings(layers)
        if found < fewest:
            best, fewest = [list(layer) for layer in layers], found
    layers[:] = best


def _crossings(layers: Layers) -> int:
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
        starts = _starts(layer)
        for place, start in zip(layer, starts, strict=True):
            place.x = start - starts[-1] // 2
    for number in range(_PASSES):
        down = number % 2 == 0
        for layer in layers if down else reversed(layers):
            _settle(layer, [_wanted(place, down=down, both=number >= _PASSES - 2) for place in layer])


def _wanted(place: Place, *, down: bool, both: bool) -> float:
    near = [*place.above, *place.below] if both else place.above if down else place.below
    return _mean([other.x for other in near]) if near else place.x


def _settle(layer: list[Place], wanted: Sequence[float]) -> None:
    """Each as near to where it wants to be as its neighbours allow: those that are in each other's way go together to
    the mean of what they want."""
    starts = _starts(layer)
    groups: list[tuple[float, int]] = []
    """Sum and number of those that go together."""
    for want, start in zip(wanted, starts, strict=True):
        total, count = want - start, 1
        while groups and groups[-1][0] / groups[-1][1] > total / count:
            before = groups.pop()
            total, count = total + before[0], count + before[1]
        groups.append((total, count))
    shifts = [round(total / count) for total, count in groups for _ in range(count)]
    for place, start, shift in zip(layer, starts, shifts, strict=True):
        place.x = start + shift


def _starts(layer: Sequence[Place]) -> list[int]:
    """Middles, when all stand as near to each other as they may."""
    starts = [0]
    for one, other in pairwise(layer):
        apart = max(one.half + GAP + other.half, one.room + 2)
        starts.append(starts[-1] + apart + apart % 2)  # so that there is a column in the middle between two
    return starts


def _end(layer: Sequence[Place]) -> int:
    return max((place.x + max(place.half + 1, place.room) for place in layer), default=0)
