"""Text views of a graph, from the responses of the plane and a gateway. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mizzen.cli import output
from mizzen.cli.models import graph_drawing
from mizzen.cli.models.deploy import nest
from mizzen.cli.models.graph_drawing import Box, LabeledLine

Data = Mapping[str, Any]

_MOST_NAMED: Final = 4
"""Dependencies of a node that the list view names."""
_BAR: Final = 30
"""Columns of a time bar."""
_SCALE: Final = 20
"""Columns of a confidence interval, from 0 to 1."""
_LONGEST: Final = 200
"""Maximum characters shown of one tensor."""


# show


def render_graph(view: Data, width: int) -> Iterator[str]:
    """A headline, the drawing, and remarks."""
    yield format_headline(view)
    yield ""
    if not view["nodes"]:
        yield f"no spec was accepted yet; 'mizzen describe mlgraph {view['name']}' shows why"
        return
    yield from graph_drawing.draw(boxes_of(view), lines_of(view), width) or list_nodes(view)
    remarks = list(_remarks(view))
    if remarks:
        yield ""
        yield from remarks


def format_headline(view: Data) -> str:
    parts = [view["name"], f"generation {view['generation']}", "ready" if view["ready"] else "not ready"]
    if view["serving"] is not None and view["serving"] != view["wanted"]:
        parts.append(f"generation {view['serving']} answers")
        if view["generation"] != view["wanted"]:
            parts.append(f"generation {view['wanted']} is not accepted")
    if rate := _request_rate(view):
        parts.append(f"{output.format_rate(rate)} requests/s")
    return " · ".join(parts)


def boxes_of(view: Data) -> list[Box]:
    return [Box(node["name"], tuple(_node_lines(node)), dashed=node["shadow"]) for node in view["nodes"]]


def lines_of(view: Data) -> list[LabeledLine]:
    busy = _is_busy(view)
    return [LabeledLine(edge["from"], edge["to"], _edge_label(edge, busy=busy)) for edge in view["edges"]]


def list_nodes(view: Data) -> Iterator[str]:
    """One line per node, indented by depth: for graphs that are too wide to draw."""
    busy = _is_busy(view)
    arriving: dict[str, list[Data]] = {node["name"]: [] for node in view["nodes"]}
    for edge in view["edges"]:
        arriving.setdefault(edge["to"], []).append(edge)
    depths: dict[str, int] = {}
    for node in view["nodes"]:
        edges = arriving[node["name"]]
        depths[node["name"]] = max((depths.get(edge["from"], 0) + 1 for edge in edges), default=0)
        head, *rest = _node_lines(node)
        named = [f"{edge['from']} {_edge_label(edge, busy=busy)}".rstrip() for edge in edges[:_MOST_NAMED]]
        more = [f"{len(edges) - _MOST_NAMED} more"] if len(edges) > _MOST_NAMED else []
        came = [f"← {', '.join((*named, *more))}"] if edges else []
        yield "  ".join(("  " * depths[node["name"]] + head, *rest, *came))


def _node_lines(node: Data) -> Iterator[str]:
    yield f"{'✓' if node['ready'] else '✗'} {node['name']}"
    yield _summarize_calls(node)
    figures = [] if node["meanMs"] is None else [output.format_milliseconds(node["meanMs"] / 1000)]
    if node["errorsPerSecond"]:
        figures.append(f"{output.format_rate(node['errorsPerSecond'])} err/s")
    if figures:
        yield ", ".join(figures)


def _summarize_calls(node: Data) -> str:
    called = {call["role"]: call["name"] for call in node["calls"]}
    merge = f"merged by {called['merge']}" if "merge" in called else node["merge"]
    route = f"routed by {called['route']}" if "route" in called else node["route"]
    return " · ".join(filter(None, (merge, called.get("implementation"), route))) or "passes on"


def _edge_label(edge: Data, *, busy: bool) -> str:
    """The rate on an edge, or for an idle graph its configured share of traffic."""
    label = f"{output.format_rate(edge['perSecond'])}/s" if busy else ""
    if not busy and edge["traffic"] is not None:
        label = f"{edge['traffic']}%"
    return f"shadow {label}".strip() if edge["shadow"] else label


def _is_busy(view: Data) -> bool:
    return any(edge["perSecond"] for edge in view["edges"])


def _request_rate(view: Data) -> float:
    """Requests per second: each request goes to all nodes without dependencies."""
    later = {edge["to"] for edge in view["edges"]}
    return max((node["messagesPerSecond"] for node in view["nodes"] if node["name"] not in later), default=0.0)


def _remarks(view: Data) -> Iterator[str]:
    for node in view["nodes"]:
        name, selection = node["name"], node["selection"]
        if not node["ready"]:
            yield f"✗ {name}: {node['reason'] or 'not known yet'}"
        if selection is not None and selection["entropy"] is not None:
            shares = ", ".join(f"{child} {share:.0%}" for child, share in selection["shares"].items())
            yield f"{name} chose {shares}; entropy {selection['entropy']:.2f}"
        for pair in node["disagreement"]:
            apart = f"differ by {pair['mean']:.3g} on average, over {pair['count']} answers"
            yield f"{pair['one']} and {pair['other']} {apart}"
        if node["shadowing"] is not None:
            yield f"{name} would have given the same answer in {node['shadowing']['agreement']:.0%} of requests"


# explain


def render_trace(name: str, trace: Data) -> Iterator[str]:
    """The path of a request, the time and outputs of each call, and the response."""
    answer = trace.get("answer")
    who = f"{answer['model_name']} version {answer['model_version']}, request {answer['id']}" if answer else name
    yield f"{who} · {output.format_milliseconds(trace['took_ms'] / 1000)}"
    if trace["taken"]:
        yield f"taken   {', '.join(trace['taken'])}"
    for choice in trace["routing"]:
        likely = f" (probability {choice['probability']:.3g})" if "probability" in choice else ""
        yield f"chosen  {choice['node']} → {', '.join(choice['chosen']) or 'none'}{likely}"
    if trace["nodes"]:
        yield ""
        yield from _call_lines(trace["nodes"], trace["took_ms"])
    if answer:
        yield ""
        yield "answer"
        yield from (f"  {render_tensor(each)}" for each in answer["outputs"])
        confidence = (answer.get("parameters") or {}).get("confidence")
        if confidence is not None:
            yield f"  confidence {confidence:.3g}"


def _call_lines(nodes: Sequence[Data], whole: float) -> Iterator[str]:
    titles = [_call_title(each) for each in nodes]
    wide = max(map(len, titles))
    for each, title in zip(nodes, titles, strict=True):
        took = output.format_milliseconds(each["took_ms"] / 1000)
        code = "" if each["code"] == 200 else f"  {each['code']}"
        yield f"{title.ljust(wide)}  {render_bar(each['began_ms'], each['took_ms'], whole)}  {took:>8}{code}"
        if "error" in each:
            yield f"    {each['error']}"
        yield from (f"    {render_tensor(output_)}" for output_ in each.get("outputs", ()))


def _call_title(call: Data) -> str:
    return str(call["node"]) if call["phase"] == "implementation" else f"{call['node']} ({call['phase']})"


def render_bar(began: float, took: float, whole: float) -> str:
    """A bar that shows when a call ran, within the whole request."""
    scale = _BAR / whole if whole > 0 else 0.0
    first = min(int(began * scale), _BAR - 1)
    length = max(1, min(round(took * scale), _BAR - first))
    return "·" * first + "█" * length + "·" * (_BAR - first - length)


def render_tensor(of: Data) -> str:
    if "data" not in of:
        size = output.format_size((of.get("parameters") or {}).get("left_out_bytes"))
        return f"{of['name']}: {of['datatype']} {of['shape']}, {size}"
    text = json.dumps(nest(of["data"], of["shape"]), ensure_ascii=False)
    return f"{of['name']}: {graph_drawing.truncate(text, _LONGEST)}"


# state


def build_state_tables(state: Data) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Tables, each with a title: the arms of each bandit, then the quality of each version."""
    for node in state["nodes"]:
        weighs = node["policy"].startswith("exp")
        rows = [
            (
                f"{arm['arm']} *" if arm["best"] else arm["arm"],
                str(arm["count"]),
                _format_mean(arm["mean"]),
                render_interval(arm),
                *((f"{arm['weight']:.3f}",) if weighs else ()),
            )
            for arm in node["arms"]
        ]
        yield _bandit_title(node), ("ARM", "COUNT", "MEAN", "95% INTERVAL", *(("WEIGHT",) if weighs else ())), rows
    if state["quality"]:
        titles = ("NODE", "VERSION", "REWARDS", "MEAN", "TRUTHS", "ACCURACY")
        yield "by version", titles, [
            (
                each["node"], each["version"], str(each["rewards"]), _format_mean(each["rewardMean"]),
                str(each["truths"]), _format_mean(each["accuracy"]),
            )
            for each in state["quality"]
        ]  # fmt: skip


def _bandit_title(node: Data) -> str:
    parameters = ", ".join(f"{name} {value:g}" for name, value in node["parameters"].items())
    parts = [f"{node['node']}: {node['policy']}" + (f", {parameters}" if parameters else "")]
    parts.append("1 reward" if node["feedback"] == 1 else f"{node['feedback']} rewards")
    if node["perUser"]:
        parts.append(
            "1 user has a separate state" if node["users"] == 1 else f"{node['users']} users have separate states"
        )
    if node["own"]:
        parts.append("this user's")
    return " · ".join(parts)


def render_interval(arm: Data) -> str:
    """The bounds of an interval, and a line from 0 to 1 that marks it and the mean."""
    low, high = arm["interval"]
    first, last = round(low * (_SCALE - 1)), round(high * (_SCALE - 1))
    cells = ["·"] * _SCALE
    cells[first : last + 1] = "━" * (last + 1 - first)
    if arm["mean"] is not None:
        cells[round(arm["mean"] * (_SCALE - 1))] = "●"
    return f"{low:.3f} {''.join(cells)} {high:.3f}"


def _format_mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
