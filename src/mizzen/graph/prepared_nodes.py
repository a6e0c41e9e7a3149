"""The nodes of a graph, prepared to run: their edges, and everything else that does not depend on a request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mizzen.graph import table_types

MAX_WEIGHT = 1e100

ChooseChild = Callable[[Any], tuple[int, float]]
"""Called with the run; returns the index of the child that a route takes, and its probability, 0 if unknown."""


class PreparedNode:
    """A node, prepared to run."""

    __slots__ = (
        "children_by_name", "choose", "direct", "final", "keyed", "lacking", "merge", "merge_target", "name", "next",
        "place", "route", "route_target", "shadows", "skip", "spec", "target", "timeout", "tolerates_late", "weights",
        "width",
    )  # fmt: skip

    def __init__(self, node: table_types.Node, place: int) -> None:
        self.spec = node
        self.place = place
        self.name = node.name
        self.width = len(node.dependencies)
        self.merge = node.merge if node.dependencies else None
        self.route = node.route
        self.timeout = None if node.timeout_ms is None else node.timeout_ms / 1000
        self.skip = node.skip
        self.lacking = node.lacking
        self.keyed = self.merge is None and self.width > 1
        self.weights = _weights_of(self.merge, self.width)
        self.next: tuple[tuple[PreparedNode, int], ...] = ()
        """Children that may be taken, each with the index of this node among its dependencies."""
        self.children_by_name: dict[str, tuple[PreparedNode, int]] = {}
        self.shadows: tuple[PreparedNode, ...] = ()
        self.tolerates_late = False
        """An ensemble downstream merges the messages that have arrived by the deadline."""
        self.final = False
        """Its outputs, alone or merged, are the answer: it is asked for the outputs that the caller wants."""
        self.direct = False
        """It makes the whole answer whenever it runs, in the encoding that the caller asked for."""
        # What it calls; the gateway sets these when it binds the graph.
        self.target: Any = None
        self.merge_target: Any = None
        self.route_target: Any = None
        self.choose: ChooseChild | None = None


def prepare_nodes(graph: table_types.CompiledGraph) -> tuple[PreparedNode, ...]:
    """Prepare the nodes of a graph; their targets are not bound yet."""
    shapes = tuple(PreparedNode(node, place) for place, node in enumerate(graph.nodes))
    for shape in shapes:
        route, apart = shape.route, set(shape.route.shadows if shape.route is not None else ())
        taken = route.children if route is not None else shape.spec.children
        shape.next = tuple((shapes[place], _slot_of(shapes[place], shape)) for place in taken)
        shape.children_by_name = {child.name: (child, slot) for child, slot in shape.next}
        shape.shadows = tuple(shapes[place] for place in shape.spec.children if place in apart)
    for shape in reversed(shapes):
        behind = [child for child, _ in shape.next]
        shape.tolerates_late = any(
            child.tolerates_late or (child.merge is not None and child.merge.partial) for child in behind
        )
        shape.final = all(_passes_on(child) and child.final for child in behind)
    ends = [shape for shape in shapes if not shape.spec.children]
    calls = any(shape.route is not None and shape.route.kind == "call" for shape in shapes)
    if len(ends) == 1 and not calls and _makes_one_message(ends[0], shapes):
        ends[0].direct = True
    return shapes


def with_node_name(shape: PreparedNode, text: str) -> str:
    """Prefix an error text with the node's name."""
    return f"node '{shape.name}': {text}"


def _slot_of(child: PreparedNode, parent: PreparedNode) -> int:
    return child.spec.dependencies.index(parent.place)


def _weights_of(merge: table_types.Merging | None, width: int) -> Sequence[float]:
    if merge is None or not merge.weights:
        return (1.0,) * width
    most = max(merge.weights)
    # Sums of larger weights could overflow to infinity.
    return merge.weights if most < MAX_WEIGHT else tuple(weight / most for weight in merge.weights)


def _passes_on(shape: PreparedNode) -> bool:
    """Whether the node returns what arrives, apart from the encoding."""
    merges = shape.merge is not None and shape.merge.kind == "call"
    return shape.target is None and shape.spec.call is None and not merges


def _makes_one_message(shape: PreparedNode, shapes: Sequence[PreparedNode]) -> bool:
    """Whether the node always produces at most one message, and produces it by a call."""
    if shape.spec.call is None:
        return False
    while shape.merge is None and shape.width:
        if shape.width > 1:
            return False
        shape = shapes[shape.spec.dependencies[0]]
    return True
