"""What passes through the nodes of graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts
from mizzen.usage.graph_rates import NodeCounts, node_growth, sum_over_gateways
from mizzen.usage.rates import Growth, UsageSample, compute_growth, sum_growths
from tests.support.usage.counted import counts

KEY = ("default", "g", "a")


def node(name: str = "a", **more: Any) -> GraphNodeCounts:
    return GraphNodeCounts(namespace="default", graph="g", node=name, **more)


def told(*nodes: GraphNodeCounts, **more: Any) -> Counts:
    return msgspec.structs.replace(counts(**more), graphs=list(nodes))


def test_what_is_new_is_what_was_counted_since() -> None:
    before = node(
        ran=5, answered=4, seconds=1.0, codes={500: 1}, chosen={"b": 5, "c": 0}, disagreed=[("b", "c", 2, 0.5)]
    )
    after = node(
        ran=9, answered=7, seconds=1.5, codes={500: 1, 503: 1}, chosen={"b": 8, "c": 1}, partial=1,
        shadowed={200: 2, 504: 1}, shadow_seconds=0.25, agreed=1, differed=1, disagreed=[("b", "c", 3, 0.75)],
    )  # fmt: skip
    [(key, found)] = node_growth(told(before), told(after))
    assert key == KEY
    assert found == NodeCounts(
        ran=4, answered=3, seconds=0.5, failed=1, chosen={"b": 3, "c": 1}, partial=1, shadowed=3, shadow_seconds=0.25,
        agreed=1, differed=1, disagreed={("b", "c"): (1, 0.25)},
    )  # fmt: skip
    assert list(node_growth(told(after), told(after))) == []


def test_a_graph_that_came_back_is_counted_from_nothing() -> None:
    [(_, found)] = node_growth(told(node(ran=90, answered=90)), told(node(ran=2, answered=2)))
    assert found.ran == 2
    [(_, first)] = node_growth(None, told(node(ran=3)))
    assert first.ran == 3


def test_a_child_that_an_edit_removed_takes_nothing_from_the_others() -> None:
    [(_, found)] = node_growth(told(node(ran=5, chosen={"b": 3, "c": 2})), told(node(ran=7, chosen={"b": 4, "d": 1})))
    assert (found.ran, found.chosen) == (2, {"b": 1, "d": 1})


def test_all_gateways_count_together() -> None:
    other = msgspec.structs.replace(node(ran=9), graph="h")
    found = sum_over_gateways([told(node(ran=1), other), told(node(ran=2), node("b", ran=5))], "default", "g")
    assert {name: each.ran for name, each in found.items()} == {"a": 3, "b": 5}
    assert sum_over_gateways([told(node())], "lab", "g") == {}


def test_growth_tells_of_nodes_as_of_versions() -> None:
    first, second = told(node(ran=10), at=100.0), told(node(ran=30), at=102.0)
    before, after = UsageSample(100.0, {"gateway-0": first}), UsageSample(102.0, {"gateway-0": second})
    grown = compute_growth(before, after)
    assert grown.nodes[KEY].ran == pytest.approx(20)
    both = sum_growths([grown, replace(grown), Growth()])
    assert both.seconds == 4.0
    assert both.nodes[KEY].ran == pytest.approx(40)
