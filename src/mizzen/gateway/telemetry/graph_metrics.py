"""What happens at the nodes of graphs, as families of Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from mizzen.graph import diversity
from mizzen.protocol.gateway_files.counts import Counts, GraphNode
from mizzen.protocol.prometheus_text import Family, Labels, Sample

OK = 200

Sees = Callable[[str, str], bool]
Row = tuple[Labels, GraphNode]


def families(gateways: Sequence[Counts], sees: Sees) -> Iterator[Family]:
    """Nothing where there are no graphs that whoever asks may see."""
    rows: list[Row] = [
        ((("gateway", each.gateway), *_labels(of)), of)
        for each in gateways
        for of in each.graphs
        if sees(of.namespace, of.graph)
    ]
    if rows:
        yield from _of_nodes(rows)
        yield from _of_choices(rows)
        yield from _of_shadows(rows)
        yield from _of_ensembles(rows)


def _of_nodes(rows: Sequence[Row]) -> Iterator[Family]:
    name = "mizzen_graph_node_messages_total"
    ran = [Sample(name, labels, of.ran) for labels, of in rows]
    yield Family(name, "counter", "Messages that a node of a graph had.", ran)
    name = "mizzen_graph_node_calls_total"
    calls = [
        Sample(name, (*labels, ("code", str(code))), count)
        for labels, of in rows
        for code, count in sorted({OK: of.answered, **of.codes}.items())
        if count
    ]
    yield Family(name, "counter", "Calls of what implements a node, by code.", calls)
    name = "mizzen_graph_node_seconds_total"
    seconds = [Sample(name, labels, of.seconds) for labels, of in rows if of.answered]
    yield Family(name, "counter", "How long those took that were answered with 200.", seconds)


def _of_choices(rows: Sequence[Row]) -> Iterator[Family]:
    name = "mizzen_graph_routed_total"
    routed = [
        Sample(name, (*labels, ("child", child)), count)
        for labels, of in rows
        for child, count in sorted(of.chosen.items())
    ]
    yield Family(name, "counter", "Messages that the route of a node sent, by child.", routed)
    name = "mizzen_graph_selection_entropy"
    nodes: dict[Labels, list[GraphNode]] = {}
    for _, of in rows:
        nodes.setdefault(_labels(of), []).append(of)
    spread = [
        Sample(name, labels, entropy)
        for labels, of_node in nodes.items()
        if (entropy := diversity.entropy(diversity.joined([of.chosen for of in of_node]).values())) is not None
    ]
    yield Family(
        name,
        "gauge",
        "Of all choices of a route, in all gateways: 1 when all children are taken alike, 0 when always the same is.",
        spread,
    )


def _of_shadows(rows: Sequence[Row]) -> Iterator[Family]:
    shadows = [(labels, of) for labels, of in rows if of.shadowed]
    if not shadows:
        return
    name = "mizzen_graph_shadow_calls_total"
    calls = [
        Sample(name, (*labels, ("code", str(code))), count)
        for labels, of in shadows
        for code, count in sorted(of.shadowed.items())
    ]
    yield Family(name, "counter", "Copies of requests that a shadow got, by code.", calls)
    name = "mizzen_graph_shadow_seconds_total"
    seconds = [Sample(name, labels, of.shadow_seconds) for labels, of in shadows]
    yield Family(name, "counter", "How long those took.", seconds)
    name = "mizzen_graph_shadow_compared_total"
    compared = [
        Sample(name, (*labels, ("result", result)), count)
        for labels, of in shadows
        for result, count in (("agreed", of.agreed), ("differed", of.differed))
    ]
    yield Family(name, "counter", "Answers of a shadow that were compared with the one that was given.", compared)


def _of_ensembles(rows: Sequence[Row]) -> Iterator[Family]:
    name = "mizzen_graph_partial_total"
    partial = [Sample(name, labels, of.partial) for labels, of in rows if of.partial]
    if partial:
        yield Family(name, "counter", "Merges of less than was to come.", partial)
    name = "mizzen_graph_disagreement"
    pairs = [
        Sample(f"{name}{part}", (*labels, ("one", one), ("other", other)), value)
        for labels, of in rows
        for one, other, count, total in of.disagreed
        for part, value in (("_sum", total), ("_count", count))
    ]
    if pairs:
        help_ = "How far two members of an ensemble differed on the same requests: from 0, when they agree, to 1."
        yield Family(name, "summary", help_, pairs)


def _labels(of: GraphNode) -> Labels:
    return ("namespace", of.namespace), ("graph", of.graph), ("node", of.node)
