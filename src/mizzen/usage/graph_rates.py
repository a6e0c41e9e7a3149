"""Counts of graph nodes: their growth, and their sums over all gateways. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts

NodeKey = tuple[str, str, str]
"""Namespace, graph and node."""


@dataclass(slots=True)
class NodeCounts:
    """The counts of one node, from one gateway or from all."""

    ran: float = 0.0
    """Messages that it processed."""
    answered: float = 0.0
    seconds: float = 0.0
    """The total duration of answered calls."""
    failed: float = 0.0
    """Calls that were not answered."""
    chosen: dict[str, float] = field(default_factory=dict)
    """Messages that its route sent to each child."""
    partial: float = 0.0
    shadowed: float = 0.0
    """Copies that it got as a shadow; `shadow_seconds` is their total duration."""
    shadow_seconds: float = 0.0
    agreed: float = 0.0
    differed: float = 0.0
    disagreed: dict[tuple[str, str], tuple[float, float]] = field(default_factory=dict)
    """For an ensemble, by pairs of members: how often both answered, and the sum of their differences."""

    def add(self, other: NodeCounts, times: float = 1.0) -> None:
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


def node_growth(old: Counts | None, new: Counts) -> Iterator[tuple[NodeKey, NodeCounts]]:
    """The growth of nodes whose counts have changed; `old`: the earlier counts of the same gateway process."""
    before = {_key_of(each): each for each in old.graphs} if old is not None else {}
    for each in new.graphs:
        was = before.get(_key_of(each))
        if was == each:
            continue
        grown = _counts_of(each)
        if was is not None and _continues(was, each):
            less = _counts_of(was)
            # An edit may have removed a child, which is no longer counted: do not subtract its earlier count.
            less.chosen = {child: count for child, count in less.chosen.items() if child in grown.chosen}
            less.disagreed = {pair: sums for pair, sums in less.disagreed.items() if pair in grown.disagreed}
            grown.add(less, -1.0)
        yield _key_of(each), grown


def sum_over_gateways(gateways: Iterable[Counts], namespace: str, graph: str) -> Mapping[str, NodeCounts]:
    """The sums over all gateways for one graph, by node."""
    found: dict[str, NodeCounts] = {}
    for counts in gateways:
        for each in counts.graphs:
            if (each.namespace, each.graph) == (namespace, graph):
                found.setdefault(each.node, NodeCounts()).add(_counts_of(each))
    return found


def _counts_of(node: GraphNodeCounts) -> NodeCounts:
    return NodeCounts(
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


def _continues(was: GraphNodeCounts, now: GraphNodeCounts) -> bool:
    """False when the counts restarted at zero: a gateway drops a graph that is not served, and it may come back."""
    return (
        was.ran <= now.ran
        and was.answered <= now.answered
        and all(count <= now.chosen.get(child, count) for child, count in was.chosen.items())
    )


def _key_of(node: GraphNodeCounts) -> NodeKey:
    return node.namespace, node.graph, node.node
