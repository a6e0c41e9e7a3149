"""The nodes of a graph, made ready to run: what follows which, and what can be known of them before anybody asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from mizzen.graph import table_types

if TYPE_CHECKING:
    from mizzen.graph.executor import Run

HUGE = 1e100

Choose = Callable[["Run"], tuple[int, float]]
"""Which of a route's children is taken, by its place among them, and how likely that was; 0: not known."""


class Shape:
    """A node, made ready to run."""

    __slots__ = (
        "absorbs", "choose", "direct", "final", "keyed", "lacking", "merge", "merge_target", "name", "named", "next",
        "node", "place", "route", "route_target", "shadows", "skip", "target", "timeout", "weights", "width",
    )  # fmt: skip

    def __init__(self, node: table_types.Node, place: int) -> None:
        self.node = node
        self.place = place
        self.name = node.name
        self.width = len(node.dependencies)
        self.merge = node.merge if node.dependencies else None
        self.route = node.route
        self.timeout = None if node.timeout_ms is None else node.timeout_ms / 1000
        self.skip = node.skip
        self.lacking = node.lacking
        self.keyed = self.merge is None and self.width > 1
        self.weights = _weights(self.merge, self.width)
        self.next: tuple[tuple[Shape, int], ...] = ()
        """Children that may be taken, and the place of this node among their dependencies."""
        self.named: dict[str, tuple[Shape, int]] = {}
        self.shadows: tuple[Shape, ...] = ()
        self.absorbs = False
        """Some ensemble behind it takes what has come by the deadline."""
        self.final = False
        """What it makes is, by itself or merged, what is answered: it is asked for what the caller wants."""
        self.direct = False
        """It makes the whole answer, whenever it runs: in the caller's own form."""
        # What it calls, as whoever binds it says.
        self.target: Any = None
        self.merge_target: Any = None
        self.route_target: Any = None
        self.choose: Choose | None = None


def shapes_of(graph: table_types.Graph) -> tuple[Shape, ...]:
    """The nodes of a graph, still without what they call."""
    shapes = tuple(Shape(node, place) for place, node in enumerate(graph.nodes))
    for shape in shapes:
        route, apart = shape.route, set(shape.route.shadows if shape.route is not None else ())
        taken = route.children if route is not None else shape.node.children
        shape.next = tuple((shapes[place], _slot(shapes[place], shape)) for place in taken)
        shape.named = {child.name: (child, slot) for child, slot in shape.next}
        shape.shadows = tuple(shapes[place] for place in shape.node.children if place in apart)
    for shape in reversed(shapes):
        behind = [child for child, _ in shape.next]
        shape.absorbs = any(child.absorbs or (child.merge is not None and child.merge.partial) for child in behind)
        shape.final = all(_passes_on(child) and child.final for child in behind)
    ends = [shape for shape in shapes if not shape.node.children]
    calls = any(shape.route is not None and shape.route.kind == "call" for shape in shapes)
    if len(ends) == 1 and not calls and _is_plain(ends[0], shapes):
        ends[0].direct = True
    return shapes


def said(shape: Shape, text: str) -> str:
    """What is wrong at a node, with its name."""
    return f"node '{shape.name}': {text}"


def _slot(child: Shape, parent: Shape) -> int:
    return child.node.dependencies.index(parent.place)


def _weights(merge: table_types.Merging | None, width: int) -> Sequence[float]:
    if merge is None or not merge.weights:
        return (1.0,) * width
    most = max(merge.weights)
    # Sums of what is beyond all measure would be infinite.
    return merge.weights if most < HUGE else tuple(weight / most for weight in merge.weights)


def _passes_on(shape: Shape) -> bool:
    """What arrives is what it gives, but for its form."""
    merges = shape.merge is not None and shape.merge.kind == "call"
    return shape.target is None and shape.node.call is None and not merges


def _is_plain(shape: Shape, shapes: Sequence[Shape]) -> bool:
    """Whatever happens, it has one message at most, and it makes it by a call."""
    if shape.node.call is None:
        return False
    while shape.merge is None and shape.width:
        if shape.width > 1:
            return False
        shape = shapes[shape.node.dependencies[0]]
    return True
