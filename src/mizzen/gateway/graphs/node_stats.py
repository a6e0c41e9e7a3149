"""What happens at the nodes of a graph, counted by hand; text is made at scrape time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from mizzen.gateway.inference.calls import OK
from mizzen.graph import table_types
from mizzen.protocol.gateway_files.counts import GraphNode


class NodeTally:
    """One node, in one gateway, for as long as the graph has it."""

    __slots__ = (
        "agreed",
        "answered",
        "chosen",
        "codes",
        "differed",
        "disagreed",
        "partial",
        "ran",
        "seconds",
        "shadow_seconds",
        "shadowed",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ran = 0
        """Messages that it had."""
        self.answered = 0
        """Calls of its implementation that were answered, and the time they took."""
        self.seconds = 0.0
        self.codes: Counter[int] = Counter()
        """Of those that were not."""
        self.chosen: Counter[str] = Counter()
        """Messages that its route sent, by child; 0 for those that it may send to and has not."""
        self.partial = 0
        """Merges of less than was to come."""
        self.shadowed: Counter[int] = Counter()
        """Copies that it answered as a shadow, by code."""
        self.shadow_seconds = 0.0
        self.agreed = self.differed = 0
        """Of those: answers like the one that was given, and others."""
        self.disagreed: dict[tuple[str, str], tuple[int, float]] = {}
        """Of an ensemble, by pairs of members: how often both answered, and the sum of how far they differed."""

    def ended(self, code: int, seconds: float) -> None:
        if code == OK:
            self.answered += 1
            self.seconds += seconds
        else:
            self.codes[code] += 1

    def differ(self, one: str, other: str, by: float) -> None:
        count, total = self.disagreed.get((one, other), (0, 0.0))
        self.disagreed[one, other] = count + 1, total + by

    def may_choose(self, children: Sequence[str]) -> None:
        """These, and no others. In place: who counts has it in hand."""
        for gone in self.chosen.keys() - set(children):
            del self.chosen[gone]
        for child in children:
            self.chosen.setdefault(child, 0)


class Tallies:
    """All graphs of a gateway. Those of a node live as long as Tables have it."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, str], dict[str, NodeTally]] = {}

    def of(self, namespace: str, name: str, graph: table_types.Graph) -> list[NodeTally]:
        """One for each node, in the order of the graph."""
        before = self._nodes.get((namespace, name), {})
        kept = self._nodes[namespace, name] = {node.name: before.get(node.name) or NodeTally() for node in graph.nodes}
        for node in graph.nodes:
            places = node.route.children if node.route is not None else ()
            kept[node.name].may_choose([graph.nodes[place].name for place in places])
        return [kept[node.name] for node in graph.nodes]

    def keep(self, named: Collection[tuple[str, str]]) -> None:
        self._nodes = {key: nodes for key, nodes in self._nodes.items() if key in named}

    def counts(self) -> list[GraphNode]:
        return [
            GraphNode(
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
