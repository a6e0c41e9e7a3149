"""Lines between two layers of boxes: how they are grouped, the row where each turns, and their characters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mizzen.cli.models.graph_layout import LayoutNode

UP, DOWN, LEFT, RIGHT = 1, 2, 4, 8
_CHARACTERS: Final = {
    UP: "│", DOWN: "│", UP | DOWN: "│", LEFT: "─", RIGHT: "─", LEFT | RIGHT: "─", UP | RIGHT: "╰", UP | LEFT: "╯",
    DOWN | RIGHT: "╭", DOWN | LEFT: "╮", UP | DOWN | RIGHT: "├", UP | DOWN | LEFT: "┤", LEFT | RIGHT | DOWN: "┬",
    LEFT | RIGHT | UP: "┴", UP | DOWN | LEFT | RIGHT: "┼",
}  # fmt: skip
_PORTS: Final = ((0, 0), (-1, 1), (1, -1), (-2, 2), (2, -2))
"""Offsets from the middle where tangled lines leave and enter boxes: tried until no two lines collide."""
_NEAR: Final = 2
"""Columns by which a line may miss the middle of a box if that makes it straight."""


@dataclass(slots=True)
class Net:
    """Lines drawn as one: from one place to several, or from several to one."""

    tops: dict[int, LayoutNode] = field(default_factory=dict)
    """By column."""
    bottoms: dict[int, LayoutNode] = field(default_factory=dict)
    row: int = -1
    """The row where it turns; -1 if it does not."""

    @property
    def straight(self) -> bool:
        return len(self.tops) == 1 and self.tops.keys() == self.bottoms.keys()

    @property
    def columns(self) -> list[int]:
        return sorted({*self.tops, *self.bottoms})


def nets_of(upper: Sequence[LayoutNode]) -> list[Net] | None:
    """All lines below a layer, with a row for each that turns. None if some would overlap."""
    groups = _group_places(upper)
    for ports in _PORTS:
        nets = [net for tops, bottoms in groups for net in _nets_of_group(tops, bottoms, ports)]
        if _assign_rows(nets):
            return nets
    return None


def rows_of(nets: Iterable[Net]) -> int:
    return max((net.row + 1 for net in nets), default=0)


def render(nets: Sequence[Net], rows: int) -> dict[tuple[int, int], str]:
    """The characters of all lines, by row and column."""
    cells: dict[tuple[int, int], list[int]] = {}
    for net in nets:
        for cell, bits in _bits_of(net, rows).items():
            cells.setdefault(cell, []).append(bits)
    return {cell: _character_of(bits) for cell, bits in cells.items()}


def _group_places(upper: Sequence[LayoutNode]) -> list[tuple[list[LayoutNode], list[LayoutNode]]]:
    """Connected places, directly or through others, as (above, below)."""
    groups: list[tuple[list[LayoutNode], list[LayoutNode]]] = []
    for place in upper:
        if not place.below:
            continue
        tops, bottoms = [place], list(place.below)
        for group in [each for each in groups if any(below in each[1] for below in place.below)]:
            groups.remove(group)
            tops = [*group[0], *tops]
            bottoms = [*group[1], *(below for below in bottoms if below not in group[1])]
        groups.append((tops, bottoms))
    return groups


def _nets_of_group(tops: Sequence[LayoutNode], bottoms: Sequence[LayoutNode], ports: tuple[int, int]) -> list[Net]:
    if len(tops) == 1:
        return [Net({_aligned_column(tops[0], bottoms): tops[0]}, {place.x: place for place in bottoms})]
    if len(bottoms) == 1:
        return [Net({place.x: place for place in tops}, {_aligned_column(bottoms[0], tops): bottoms[0]})]
    leaves, enters = ports
    return [
        Net({_port_column(place, leaves): place}, {_port_column(below, enters): below for below in place.below})
        for place in tops
    ]


def _aligned_column(place: LayoutNode, others: Sequence[LayoutNode]) -> int:
    """The column of a connected place, if it is near enough to make the line straight; else its own column."""
    near = [other.x for other in others if abs(other.x - place.x) <= _NEAR]
    return near[0] if near and place.name and place.x not in near else place.x


def _port_column(place: LayoutNode, by: int) -> int:
    return place.x + by if place.name else place.x


def _assign_rows(nets: Sequence[Net]) -> bool:
    """Assign a row to each net that turns. False if two nets collide wherever they turn."""
    before: dict[int, set[int]] = {}
    for at, net in enumerate(nets):
        # In one column, a line from above must turn before a line to below begins.
        before[at] = {
            other for other, each in enumerate(nets) if other != at and not each.tops.keys().isdisjoint(net.bottoms)
        }
    waiting = dict(before)
    while waiting:
        free = [at for at, others in waiting.items() if not others & waiting.keys()]
        if not free:
            return False
        for at in free:
            del waiting[at]
            if not nets[at].straight:
                nets[at].row = _first_free_row(nets, at, before[at])
            elif before[at]:
                return False
    return True


def _first_free_row(nets: Sequence[Net], at: int, before: Iterable[int]) -> int:
    """The first free row below all rows in `before`."""
    first, last = nets[at].columns[0], nets[at].columns[-1]
    row = max((nets[other].row + 1 for other in before), default=0)
    while any(
        net.row == row and net.columns[0] <= last + 1 and first <= net.columns[-1] + 1
        for number, net in enumerate(nets)
        if number != at
    ):
        row += 1
    return row


def _bits_of(net: Net, rows: int) -> Mapping[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}

    def add(row: int, column: int, bits: int) -> None:
        found[row, column] = found.get((row, column), 0) | bits

    turn = rows if net.straight else net.row
    for column in net.tops:
        for row in range(turn):
            add(row, column, UP | DOWN)
    if net.straight:
        return found
    for column in net.tops:
        add(turn, column, UP)
    for column in net.bottoms:
        add(turn, column, DOWN)
        for row in range(turn + 1, rows):
            add(row, column, UP | DOWN)
    first, last = net.columns[0], net.columns[-1]
    for column in range(first, last + 1):
        add(turn, column, (LEFT if column > first else 0) | (RIGHT if column < last else 0))
    return found


def _character_of(bits: Sequence[int]) -> str:
    if len(bits) == 2 and set(bits) == {UP | DOWN, LEFT | RIGHT}:
        return "│"  # two lines that only cross: one passes behind the other
    joined = 0
    for each in bits:
        joined |= each
    return _CHARACTERS[joined]
