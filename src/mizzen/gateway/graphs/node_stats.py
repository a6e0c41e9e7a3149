"""Counters of graph nodes; text is rendered at scrape time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from mizzen.gateway.queueing.call import OK
from mizzen.graph import table_types
from mizzen.protocol.gateway_files.counts import GraphNodeCounts


@dataclass(slots=True, eq=False)
class NodeStats:
    """Counters of one node in one gateway, for as long as the graph has it."""

    ran: int = 0
    """Messages that reached the node."""
    answered: int = 0
    """Successful calls of its implementation, and the time they took."""
    seconds: float = 0.0
    codes: Counter[int] = field(default_factory=Counter)
    """Codes of the other calls."""
    chosen: Counter[str] = field(default_factory=Counter)
    """Messages that its route sent, by child; 0 for children that got none."""
    partial: int = 0
    """Merges with missing members."""
    shadowed: Counter[int] = field(default_factory=Counter)
    """Copies that it got as a shadow, by code."""
    shadow_seconds: float = 0.0
    agreed: int = 0
    """Shadow answers that were equal to the caller's answer, and others."""
    differed: int = 0
    disagreed: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)
    """By pairs of members of an ensemble: comparisons, and the sum of their differences."""

    def record_call(self, code: int, seconds: float) -> None:
        if code == OK:
            self.answered += 1
            self.seconds += seconds
        else:
            self.codes[code] += 1

    def add_disagreement(self, one: str, other: str, by: float) -> None:
        count, total = self.disagreed.get((one, other), (0, 0.0))
        self.disagreed[one, other] = count + 1, total + by

    def set_children(self, children: Sequence[str]) -> None:
        """Keeps the counts of exactly these children. Changes the counter in place, because fast paths hold it."""
        for gone in self.chosen.keys() - set(children):
            del self.chosen[gone]
        for child in children:
            self.chosen.setdefault(child, 0)


class GraphStats:
    """Counters of all graphs of a gateway. A node's counters live as long as Tables have the node."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str], dict[str, NodeStats]] = {}

    def nodes_of(self, namespace: str, name: str, graph: table_types.CompiledGraph) -> list[NodeStats]:
        """Returns the counters of each node, in the order of the graph."""
        before = self._nodes.get((namespace, name), {})
        nodes = self._nodes[namespace, name] = {node.name: before.get(node.name) or NodeStats() for node in graph.nodes}
        for node in graph.nodes:
            places = node.route.children if node.route is not None else ()
            nodes[node.name].set_children([graph.nodes[place].name for place in places])
        return [nodes[node.name] for node in graph.nodes]

    def retain(self, named: Collection[tuple[str, str]]) -> None:
        self._nodes = {key: nodes for key, nodes in self._nodes.items() if key in named}

    def counts(self) -> list[GraphNodeCounts]:
        return [
            GraphNodeCounts(
                namespace=namespace,
                graph=graph,
                node=node,
                ran=each.ran,
                answered=each.answered,
                seconds=each.seconds,
                codes=dict(each.codes),
                chosen=dict(each.chosen),
                partial=each.partial,
                shadowed=dict(each.shadowed),
                shadow_seconds=each.shadow_seconds,
                agreed=each.agreed,
                differed=each.differed,
                disagreed=[(one, other, count, total) for (one, other), (count, total) in each.disagreed.items()],
            )
            for (namespace, graph), nodes in sorted(self._nodes.items())
            for node, each in nodes.items()
        ]
