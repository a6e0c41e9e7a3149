"""What a scrape is told of graphs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mizzen.gateway.graphs.node_stats import GraphStats, NodeStats
from mizzen.gateway.telemetry import metrics
from mizzen.graph import diversity, table_types
from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts

ROUTER = GraphNodeCounts(namespace="default", graph="g", node="a", ran=10, chosen={"b": 6, "c": 2, "d": 0})
MODEL = GraphNodeCounts(
    namespace="default", graph="g", node="b", ran=6, answered=5, seconds=0.25, codes={503: 1}, partial=2,
    disagreed=[("c", "d", 4, 1.5)],
)  # fmt: skip
SHADOW = GraphNodeCounts(
    namespace="lab", graph="h", node="s", shadowed={200: 3, 504: 1}, shadow_seconds=0.5, agreed=2, differed=1
)


def counts(*graphs: GraphNodeCounts, gateway: str = "gateway-0") -> Counts:
    return Counts(gateway, 1, 1.0, 2.0, 0.5, 1024, [], [], {}, graphs=list(graphs))


def scraped(*gateways: Counts, sees: str = "") -> set[str]:
    text = metrics.render(gateways, lambda namespace, graph: sees in ("", f"{namespace}/{graph}")).decode()
    list(text_string_to_metric_families(text))
    return {line for line in text.splitlines() if line.startswith("mizzen_graph")}


def test_nodes_choices_shadows_and_ensembles_are_told() -> None:
    a, b, s = (
        f'gateway="gateway-0",namespace="{of.namespace}",graph="{of.graph}",node="{of.node}"'
        for of in (ROUTER, MODEL, SHADOW)
    )
    assert scraped(counts(ROUTER, MODEL, SHADOW)) == {
        f"mizzen_graph_node_messages_total{{{a}}} 10",
        f"mizzen_graph_node_messages_total{{{b}}} 6",
        f"mizzen_graph_node_messages_total{{{s}}} 0",
        f'mizzen_graph_node_calls_total{{{b},code="200"}} 5',
        f'mizzen_graph_node_calls_total{{{b},code="503"}} 1',
        f"mizzen_graph_node_seconds_total{{{b}}} 0.25",
        f'mizzen_graph_routed_total{{{a},child="b"}} 6',
        f'mizzen_graph_routed_total{{{a},child="c"}} 2',
        f'mizzen_graph_routed_total{{{a},child="d"}} 0',
        'mizzen_graph_selection_entropy{namespace="default",graph="g",node="a"} '
        f"{diversity.normalized_entropy([6, 2, 0])!r}",
        f"mizzen_graph_partial_total{{{b}}} 2",
        f'mizzen_graph_disagreement_sum{{{b},one="c",other="d"}} 1.5',
        f'mizzen_graph_disagreement_count{{{b},one="c",other="d"}} 4',
        f'mizzen_graph_shadow_calls_total{{{s},code="200"}} 3',
        f'mizzen_graph_shadow_calls_total{{{s},code="504"}} 1',
        f"mizzen_graph_shadow_seconds_total{{{s}}} 0.5",
        f'mizzen_graph_shadow_compared_total{{{s},result="agreed"}} 2',
        f'mizzen_graph_shadow_compared_total{{{s},result="differed"}} 1',
    }


def test_only_what_one_may_see_is_told() -> None:
    told = scraped(counts(ROUTER, SHADOW), sees="lab/h")
    assert told
    assert not [line for line in told if 'graph="g"' in line]
    assert b"mizzen_graph" not in metrics.render([counts(ROUTER)], lambda *_: False)
    assert b"mizzen_graph" not in metrics.render([counts()], lambda *_: True)


def test_families_are_what_they_say() -> None:
    text = metrics.render([counts(ROUTER, MODEL, SHADOW)], lambda *_: True).decode()
    families = {each.name: each.type for each in text_string_to_metric_families(text) if "graph" in each.name}
    assert families["mizzen_graph_disagreement"] == "summary"
    assert families["mizzen_graph_selection_entropy"] == "gauge"
    assert {kind for name, kind in families.items() if name.endswith(("seconds", "calls", "routed"))} == {"counter"}


def test_entropy_is_that_of_all_gateways_together() -> None:
    one = counts(GraphNodeCounts(namespace="n", graph="g", node="a", chosen={"b": 5, "c": 0}))
    other = counts(GraphNodeCounts(namespace="n", graph="g", node="a", chosen={"b": 0, "c": 5}), gateway="gateway-1")
    told = [line for line in scraped(one, other) if "entropy" in line]
    assert told == ['mizzen_graph_selection_entropy{namespace="n",graph="g",node="a"} 1.0']


@given(st.lists(st.integers(0, 10**6), min_size=2, max_size=8))
def test_entropy_lies_between_one_choice_and_all_alike(shares: list[int]) -> None:
    found = diversity.normalized_entropy(shares)
    if not sum(shares):
        assert found is None
        return
    assert found is not None
    assert 0.0 <= found <= 1.0 + 1e-12
    assert (found == 0.0) == (sum(share > 0 for share in shares) == 1)


@pytest.mark.parametrize(("shares", "wanted"), [([], None), ([7], None), ([0, 0], None), ([9, 0, 0], 0.0)])
def test_without_a_choice_there_is_no_entropy(shares: list[int], wanted: float | None) -> None:
    assert diversity.normalized_entropy(shares) == wanted


def test_entropy_is_divided_by_the_logarithm_of_all_that_could_be_chosen() -> None:
    assert diversity.normalized_entropy([5, 5, 0]) == pytest.approx(math.log(2) / math.log(3))


def test_what_a_route_may_send_to_is_counted_from_nothing_and_goes_with_an_edit() -> None:
    tallies = GraphStats()
    first = tallies.nodes_of("n", "g", graph("b", "c"))
    first[0].chosen["b"] += 3
    held = first[0].chosen
    assert [(each.node, each.chosen) for each in tallies.counts()] == [("a", {"b": 3, "c": 0}), ("b", {}), ("c", {})]
    tallies.nodes_of("n", "g", graph("b", "d"))
    assert tallies.counts()[0].chosen == {"b": 3, "d": 0}
    assert held is first[0].chosen
    assert NodeStats().chosen == {}


def graph(*children: str) -> table_types.CompiledGraph:
    places = tuple(range(1, len(children) + 1))
    root = table_types.Node(name="a", children=places, route=table_types.Routing(kind="split", children=places))
    ends = (table_types.Node(name=name, dependencies=(0,), call=table_types.Callee(name=name)) for name in children)
    return table_types.CompiledGraph(uid="u", generation=1, nodes=(root, *ends))
