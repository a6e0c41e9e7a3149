"""Drawing of a graph as text: boxes in layers from top to bottom, and lines between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mizzen.cli.models import graph_edges, graph_layout
from mizzen.cli.models.graph_edges import Net
from mizzen.cli.models.graph_layout import LayoutNode

MAX_TEXT: Final = 26
"""Characters of a line in a box."""
_SOLID: Final = ("╭", "─", "╮", "│", "╰", "╯")
_DASHED: Final = ("╭", "┄", "╮", "┆", "╰", "╯")


@dataclass(frozen=True, slots=True)
class Box:
    name: str
    lines: tuple[str, ...]
    """Text in the box."""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class LabeledLine:
    source: str
    target: str
    label: str = ""


def draw(boxes: Sequence[Box], lines: Sequence[LabeledLine], width: int) -> list[str] | None:
    """Draw a graph. None if it needs more than `width` columns, or if lines would overlap.

    `boxes`: in topological order.
    """
    known = {box.name: box for box in boxes}
    lines = [line for line in lines if line.source in known and line.target in known]
    widths = {box.name: max(len(truncate(text)) for text in box.lines) + 4 for box in boxes}
    found = graph_layout.lay_out(widths, [(line.source, line.target, len(line.label)) for line in lines], width)
    if not found:
        return None
    canvas = _Canvas()
    labels = {(line.source, line.target): line.label for line in lines if line.label}
    top = 0
    for layer in found:
        nets = graph_edges.nets_of(layer)
        if nets is None:
            return None
        height = max((len(known[place.name].lines) for place in layer if place.name), default=1) + 2
        for place in layer:
            _draw_box(canvas, place, known.get(place.name), range(top, top + height), nets)
        top = _draw_lines(canvas, layer, nets, top + height, labels)
    under = [f"{source} → {target}  {label}" for (source, target), label in labels.items()]
    return [*canvas.lines(), *([""] if under else []), *under]


def truncate(text: str, most: int = MAX_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


class _Canvas:
    def __init__(self) -> None:
        self._cells: dict[tuple[int, int], str] = {}

    def put(self, row: int, column: int, text: str) -> None:
        for at, character in enumerate(text):
            self._cells[row, column + at] = character

    def is_free(self, row: int, column: int, length: int) -> bool:
        return not any((row, column + at) in self._cells for at in range(length))

    def lines(self) -> list[str]:
        rows: dict[int, dict[int, str]] = {}
        for (row, column), character in self._cells.items():
            rows.setdefault(row, {})[column] = character
        return [
            "".join(rows.get(row, {}).get(column, " ") for column in range(max(rows.get(row, {0: ""})) + 1)).rstrip()
            for row in range(max(rows, default=-1) + 1)
        ]


def _draw_box(canvas: _Canvas, place: LayoutNode, box: Box | None, rows: range, nets: Sequence[Net]) -> None:
    if box is None:
        for row in rows:
            canvas.put(row, place.x, "│")
        return
    left, inner = place.x - place.half, place.width - 2
    corner, flat, end, side, foot, heel = _DASHED if box.dashed else _SOLID
    canvas.put(rows[0], left, corner + flat * inner + end)
    for at, row in enumerate(rows[1:-1]):
        text = truncate(box.lines[at]) if at < len(box.lines) else ""
        canvas.put(row, left, f"{side} {text.ljust(inner - 2)} {side}")
    canvas.put(rows[-1], left, foot + flat * inner + heel)
    for net in nets:
        for column, source in net.tops.items():
            if source is place:
                canvas.put(rows[-1], column, "┬")


def _draw_lines(
    canvas: _Canvas, layer: Sequence[LayoutNode], nets: Sequence[Net], top: int, labels: dict[tuple[str, str], str]
) -> int:
    """Draw the lines below a layer and return the row where the next layer begins. Removes the labels it has drawn."""
    if not nets:
        return top
    leaving = _labels_at_start(layer, labels)
    rows = graph_edges.rows_of(nets)
    if leaving:  # these labels get their own row
        for net in nets:
            for column, place in net.tops.items():
                canvas.put(top, column, "│")
                line = leaving.get(id(place))
                if line is not None:
                    canvas.put(top, column + 2, labels.pop(line))
        top += 1
    for (row, column), character in graph_edges.render(nets, rows).items():
        canvas.put(top + row, column, character)
    top += rows
    for net in nets:
        for column, place in net.bottoms.items():
            canvas.put(top, column, "▼" if place.name else "│")
    for net in nets:
        for column, place in net.bottoms.items():
            lines = [line for line in _labeled_lines_to(place, labels) if len(place.above) == 1]
            if len(lines) == 1 and canvas.is_free(top, column + 1, len(labels[lines[0]]) + 2):
                canvas.put(top, column + 2, labels.pop(lines[0]))
    return top + 1


def _labels_at_start(layer: Sequence[LayoutNode], labels: Mapping[tuple[str, str], str]) -> dict[int, tuple[str, str]]:
    """Lines whose label is drawn at their start: the only line of a place, if it meets others at its end."""
    found = {}
    for place in layer:
        if len(place.below) == 1 and len(place.below[0].above) > 1:
            lines = _labeled_lines_to(place.below[0], labels, through=place)
            if len(lines) == 1:
                found[id(place)] = lines[0]
    return found


def _labeled_lines_to(
    place: LayoutNode, labels: Mapping[tuple[str, str], str], through: LayoutNode | None = None
) -> list[tuple[str, str]]:
    """Labeled lines that end at a place: those through one place above it, or all."""
    sources = {_source_of(above) for above in place.above if through is None or above is through}
    target = _target_of(place)
    return [(source, target) for source in sources if (source, target) in labels]


def _source_of(place: LayoutNode) -> str:
    while not place.name:
        place = place.above[0]
    return place.name


def _target_of(place: LayoutNode) -> str:
    while not place.name:
        place = place.below[0]
    return place.name
