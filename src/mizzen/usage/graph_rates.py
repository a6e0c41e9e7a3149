"""What passes through the nodes of graphs: by how much their counts grew, and what they come to in all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mizzen.protocol.gateway_files.counts import Counts, GraphNode

NodeKey = tuple[str, str, str]
"""Namespace, graph and node."""


@dataclass(slots=True)
class Passed:
    """Counts of one node, of one gateway or of all."""

    ran: float = 0.0
    """Messages that it had."""
    answered: float = 0.0
    seconds: float = 0.0
    """Of the calls that were answered."""
    failed: float = 0.0
    """Calls that were not."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Messages that its route sent, by child."""
    partial: float = 0.0
    shadowed: float = 0.0
    """Copies that it got as a shadow, and how long they took."""
    shadow_seconds: float = 0.0
    agreed: float = 0.0
    differed: float = 0.0
    disagreed: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """Of an ensemble, by pairs of members: how often both answered, and the sum of how far they differed."""

    def add(self, other: Passed, times: float = 1.0) -> None:
        for name in _NUMBERS:
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for child, count in other.chosen.items():
            self.chosen[child] = self.chosen.get(child, 0.0) + times * count
        for pair, (count, total) in other.disagreed.items():
            before = self.disagreed.get(pair, (0.0, 0.0))
            self.disagreed[pair] = before[0] + times * count, before[1] + times * total


_NUMBERS = (
    "ran", "answered", "seconds", "failed", "partial", "shadowed", "shadow_seconds", "agreed", "differed",
)  # fmt: skip


def passed(old: Counts | None, new: Counts) -> Iterator[tuple[NodeKey, Passed]]:
    """Of nodes of which one gateway has counted something since; `old`: what the same process had counted before."""
    before = {_key(each): each for each in old.graphs} if old is not None else {}
    for each in new.graphs:
        was = before.get(_key(each))
        if was == each:
            continue
        grown = _of(each)
        if was is not None and _goes_on(was, each):
            less = _of(was)
            # An edit may have removed a child: it is not counted any more, and nothing can be taken from nothing.
            less.chosen = {child: count for child, count in less.chosen.items() if child in grown.chosen}
            less.disagreed = {pair: sums for pair, sums in less.disagreed.items() if pair in grown.disagreed}
            grown.add(less, -1.0)
        yield _key(each), grown


def in_all(gateways: Iterable[Counts], namespace: str, graph: str) -> Mapping[str, Passed]:
    """What all of them have counted of one graph, by node."""
    found: dict[str, Passed] = {}
    for counts in gateways:
        for each in counts.graphs:
            if (each.namespace, each.graph) == (namespace, graph):
                found.setdefault(each.node, Passed()).add(_of(each))
    return found


def _of(node: GraphNode) -> Passed:
    return Passed(
        ran=node.ran,
        answered=node.answered,
        seconds=node.seconds,
        failed=sum(node.codes.values()),
        chosen={child: float(count) for child, count in node.chosen.items()},
        partial=node.partial,
        shadowed=sum(node.shadowed.values()),
        shadow_seconds=node.shadow_seconds,
        agreed=node.agreed,
        differed=node.differed,
        disagreed={(one, other): (float(count), total) for one, other, count, total in node.disagreed},
    )


def _goes_on(was: GraphNode, now: GraphNode) -> bool:
    """False when it was counted from nothing: a gateway forgets a graph that is not served, and it may come back."""
    return (
        was.ran <= now.ran
        and was.answered <= now.answered
        and all(count <= now.chosen.get(child, count) for child, count in was.chosen.items())
    )


def _key(node: GraphNode) -> NodeKey:
    return node.namespace, node.graph, node.node
