"""Prometheus metrics of graph nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mizzen.graph import diversity
from mizzen.protocol.gateway_files.counts import Counts, GraphNodeCounts
from mizzen.protocol.prometheus_text import (
    Labels,
    MetricDefinition,
    MetricFamily,
    MetricSample,
    ValuesByLabel,
    build_families,
)

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
    if not rows:
        return
    yield from build_families(_CALLS, rows)
    yield from build_families(_SECONDS, [row for row in rows if row[1].answered])
    yield from build_families(_ROUTES, rows)
    yield _selection_entropy(rows)
    for definitions, some in (
        (_SHADOWS, [row for row in rows if row[1].shadowed]),
        (_PARTIAL_MERGES, [row for row in rows if row[1].partial]),
    ):
        if some:
            yield from build_families(definitions, some)
    yield from _disagreement(rows)


def _selection_entropy(rows: Sequence[Row]) -> MetricFamily:
    name = "mizzen_graph_selection_entropy"
    nodes: dict[Labels, list[GraphNodeCounts]] = {}
    for _, of in rows:
        nodes.setdefault(_labels(of), []).append(of)
    choices = {labels: diversity.sum_choices([of.chosen for of in of_node]) for labels, of_node in nodes.items()}
    spread = [
        MetricSample(name, labels, entropy)
        for labels, chosen in choices.items()
        if (entropy := diversity.normalized_entropy(chosen.values())) is not None
    ]
    help_ = "Entropy of a route's choices in all gateways: 1 if children are chosen equally, 0 if always the same one."
    return MetricFamily(name, "gauge", help_, spread)


def _disagreement(rows: Sequence[Row]) -> Iterator[MetricFamily]:
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


def _calls_by_code(of: GraphNodeCounts) -> ValuesByLabel:
    by_code = sorted({OK: of.answered, **of.codes}.items())
    return ValuesByLabel("code", [(code, count) for code, count in by_code if count])


_Definitions = tuple[MetricDefinition[GraphNodeCounts], ...]
_CALLS: _Definitions = (
    ("mizzen_graph_node_messages_total", "counter", "Messages that reached a node of a graph.", lambda of: of.ran),
    ("mizzen_graph_node_calls_total", "counter", "Calls of the implementation of a node, by code.", _calls_by_code),
)
_SECONDS: _Definitions = (
    ("mizzen_graph_node_seconds_total", "counter", "Time that calls with code 200 took.", lambda of: of.seconds),
)
_ROUTES: _Definitions = (
    ("mizzen_graph_routed_total", "counter", "Messages that the route of a node sent, by child.",
     lambda of: ValuesByLabel("child", sorted(of.chosen.items()))),
)  # fmt: skip
_SHADOWS: _Definitions = (
    ("mizzen_graph_shadow_calls_total", "counter", "Copies of requests sent to a shadow, by code.",
     lambda of: ValuesByLabel("code", sorted(of.shadowed.items()))),
    ("mizzen_graph_shadow_seconds_total", "counter", "Time that calls of a shadow took.",
     lambda of: of.shadow_seconds),
    ("mizzen_graph_shadow_compared_total", "counter",
     "Answers of a shadow that were compared with the caller's answer.",
     lambda of: ValuesByLabel("result", (("agreed", of.agreed), ("differed", of.differed)))),
)  # fmt: skip
_PARTIAL_MERGES: _Definitions = (
    ("mizzen_graph_partial_total", "counter", "Merges with missing members.", lambda of: of.partial),
)
