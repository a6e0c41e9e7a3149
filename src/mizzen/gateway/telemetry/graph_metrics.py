"""Prometheus metrics of graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mizzen.graph import diversity
from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts
from mizzen.protocol.prometheus_text import Labels, MetricFamily, MetricSample

OK = 200

IsVisible = Callable[[str, str], bool]
Row = tuple[Labels, GraphNodeCounts]


def metric_families(gateways: Sequence[Counts], is_visible: IsVisible) -> Iterator[MetricFamily]:
    """Yields nothing if the caller may see no graph."""
    rows: list[Row] = [
        ((("gateway", each.gateway), *_labels(of)), of)
        for each in gateways
        for of in each.graphs
        if is_visible(of.namespace, of.graph)
    ]
    if rows:
        yield from _node_families(rows)
        yield from _routing_families(rows)
        yield from _shadow_families(rows)
        yield from _ensemble_families(rows)


def _node_families(rows: Sequence[Row]) -> Iterator[MetricFamily]:
    name = "mizzen_graph_node_messages_total"
    ran = [MetricSample(name, labels, of.ran) for labels, of in rows]
    yield MetricFamily(name, "counter", "Messages that reached a node of a graph.", ran)
    name = "mizzen_graph_node_calls_total"
    calls = [
        MetricSample(name, (*labels, ("code", str(code))), count)
        for labels, of in rows
        for code, count in sorted({OK: of.answered, **of.codes}.items())
        if count
    ]
    yield MetricFamily(name, "counter", "Calls of the implementation of a node, by code.", calls)
    name = "mizzen_graph_node_seconds_total"
    seconds = [MetricSample(name, labels, of.seconds) for labels, of in rows if of.answered]
    yield MetricFamily(name, "counter", "Time that calls with code 200 took.", seconds)


def _routing_families(rows: Sequence[Row]) -> Iterator[MetricFamily]:
    name = "mizzen_graph_routed_total"
    routed = [
        MetricSample(name, (*labels, ("child", child)), count)
        for labels, of in rows
        for child, count in sorted(of.chosen.items())
    ]
    yield MetricFamily(name, "counter", "Messages that the route of a node sent, by child.", routed)
    name = "mizzen_graph_selection_entropy"
    nodes: dict[Labels, list[GraphNodeCounts]] = {}
    for _, of in rows:
        nodes.setdefault(_labels(of), []).append(of)
    spread = [
        MetricSample(name, labels, entropy)
        for labels, of_node in nodes.items()
        if (entropy := diversity.normalized_entropy(diversity.sum_choices([of.chosen for of in of_node]).values()))
        is not None
    ]
    yield MetricFamily(
        name,
        "gauge",
        "Entropy of a route's choices in all gateways: 1 if children are chosen equally, 0 if always the same one.",
        spread,
    )


def _shadow_families(rows: Sequence[Row]) -> Iterator[MetricFamily]:
    shadows = [(labels, of) for labels, of in rows if of.shadowed]
    if not shadows:
        return
    name = "mizzen_graph_shadow_calls_total"
    calls = [
        MetricSample(name, (*labels, ("code", str(code))), count)
        for labels, of in shadows
        for code, count in sorted(of.shadowed.items())
    ]
    yield MetricFamily(name, "counter", "Copies of requests sent to a shadow, by code.", calls)
    name = "mizzen_graph_shadow_seconds_total"
    seconds = [MetricSample(name, labels, of.shadow_seconds) for labels, of in shadows]
    yield MetricFamily(name, "counter", "Time that calls of a shadow took.", seconds)
    name = "mizzen_graph_shadow_compared_total"
    compared = [
        MetricSample(name, (*labels, ("result", result)), count)
        for labels, of in shadows
        for result, count in (("agreed", of.agreed), ("differed", of.differed))
    ]
    yield MetricFamily(name, "counter", "Answers of a shadow that were compared with the caller's answer.", compared)


def _ensemble_families(rows: Sequence[Row]) -> Iterator[MetricFamily]:
    name = "mizzen_graph_partial_total"
    partial = [MetricSample(name, labels, of.partial) for labels, of in rows if of.partial]
    if partial:
        yield MetricFamily(name, "counter", "Merges with missing members.", partial)
    name = "mizzen_graph_disagreement"
    pairs = [
        MetricSample(f"{name}{part}", (*labels, ("one", one), ("other", other)), value)
        for labels, of in rows
        for one, other, count, total in of.disagreed
        for part, value in (("_sum", total), ("_count", count))
    ]
    if pairs:
        help_ = "Difference between two members of an ensemble on the same requests, from 0 (they agree) to 1."
        yield MetricFamily(name, "summary", help_, pairs)


def _labels(of: GraphNodeCounts) -> Labels:
    return ("namespace", of.namespace), ("graph", of.graph), ("node", of.node)
