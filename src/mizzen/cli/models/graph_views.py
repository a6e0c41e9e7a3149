"""What the plane and a gateway tell of a graph, as lines for people. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mizzen.cli import output
from mizzen.cli.models import graph_drawing
from mizzen.cli.models.deploy import nested
from mizzen.cli.models.graph_drawing import Box, Line

Data = Mapping[str, Any]

_MOST_NAMED: Final = 4
"""Dependencies of one node that a list names."""
_BAR: Final = 30
"""Columns of a bar of times."""
_SCALE: Final = 20
"""Columns from 0 to 1."""
_LONGEST: Final = 200
"""Characters that are shown of one tensor."""


# show


def shown(view: Data, width: int) -> Iterator[str]:
    """A headline, the drawing, and what there is to say besides."""
    yield headline(view)
    yield ""
    if not view["nodes"]:
        yield f"no spec of it was accepted yet; 'mizzen describe mlgraph {view['name']}' says why"
        return
    yield from graph_drawing.drawn(boxes(view), lines(view), width) or listed(view)
    remarks = list(_remarks(view))
    if remarks:
        yield ""
        yield from remarks


def headline(view: Data) -> str:
    said = [view["name"], f"generation {view['generation']}", "ready" if view["ready"] else "not ready"]
    if view["serving"] is not None and view["serving"] != view["wanted"]:
        said.append(f"generation {view['serving']} answers")
        if view["generation"] != view["wanted"]:
            said.append(f"generation {view['wanted']} is not accepted")
    asked = _asked(view)
    if asked:
        said.append(f"{output.rate(asked)} requests/s")
    return " · ".join(said)


def boxes(view: Data) -> list[Box]:
    return [Box(node["name"], tuple(_texts(node)), dashed=node["shadow"]) for node in view["nodes"]]


def lines(view: Data) -> list[Line]:
    busy = _busy(view)
    return [Line(edge["from"], edge["to"], _label(edge, busy=busy)) for edge in view["edges"]]


def listed(view: Data) -> Iterator[str]:
    """Node by node, deeper ones further to the right: for what no terminal is wide enough for."""
    busy = _busy(view)
    arriving: dict[str, list[Data]] = {node["name"]: [] for node in view["nodes"]}
    for edge in view["edges"]:
        arriving.setdefault(edge["to"], []).append(edge)
    depths: dict[str, int] = {}
    for node in view["nodes"]:
        edges = arriving[node["name"]]
        depths[node["name"]] = max((depths.get(edge["from"], 0) + 1 for edge in edges), default=0)
        head, *rest = _texts(node)
        named = [f"{edge['from']} {_label(edge, busy=busy)}".rstrip() for edge in edges[:_MOST_NAMED]]
        more = [f"{len(edges) - _MOST_NAMED} more"] if len(edges) > _MOST_NAMED else []
        came = [f"← {', '.join((*named, *more))}"] if edges else []
        yield "  ".join(("  " * depths[node["name"]] + head, *rest, *came))


def _texts(node: Data) -> Iterator[str]:
    yield f"{'✓' if node['ready'] else '✗'} {node['name']}"
    yield _does(node)
    figures = [] if node["meanMs"] is None else [output.milliseconds(node["meanMs"] / 1000)]
    if node["errorsPerSecond"]:
        figures.append(f"{output.rate(node['errorsPerSecond'])} err/s")
    if figures:
        yield ", ".join(figures)


def _does(node: Data) -> str:
    called = {call["role"]: call["name"] for call in node["calls"]}
    merge = f"merged by {called['merge']}" if "merge" in called else node["merge"]
    route = f"routed by {called['route']}" if "route" in called else node["route"]
    return " · ".join(filter(None, (merge, called.get("implementation"), route))) or "passes on"


def _label(edge: Data, *, busy: bool) -> str:
    """How much passes; of a graph that nobody asks, how much is to."""
    label = f"{output.rate(edge['perSecond'])}/s" if busy else ""
    if not busy and edge["traffic"] is not None:
        label = f"{edge['traffic']}%"
    return f"shadow {label}".strip() if edge["shadow"] else label


def _busy(view: Data) -> bool:
    return any(edge["perSecond"] for edge in view["edges"])


def _asked(view: Data) -> float:
    """Requests a second: each goes to all nodes that depend on nobody."""
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


def explained(name: str, told: Data) -> Iterator[str]:
    """The way that a request took, how long each call took and what it gave, and the answer."""
    answer = told.get("answer")
    who = f"{answer['model_name']} version {answer['model_version']}, request {answer['id']}" if answer else name
    yield f"{who} · {output.milliseconds(told['took_ms'] / 1000)}"
    if told["taken"]:
        yield f"taken   {', '.join(told['taken'])}"
    for choice in told["routing"]:
        likely = f" (probability {choice['probability']:.3g})" if "probability" in choice else ""
        yield f"chosen  {choice['node']} → {', '.join(choice['chosen']) or 'none'}{likely}"
    if told["nodes"]:
        yield ""
        yield from _calls(told["nodes"], told["took_ms"])
    if answer:
        yield ""
        yield "answer"
        yield from (f"  {tensor(each)}" for each in answer["outputs"])
        confidence = (answer.get("parameters") or {}).get("confidence")
        if confidence is not None:
            yield f"  confidence {confidence:.3g}"


def _calls(nodes: Sequence[Data], whole: float) -> Iterator[str]:
    titles = [_title(each) for each in nodes]
    wide = max(map(len, titles))
    for each, title in zip(nodes, titles, strict=True):
        took = output.milliseconds(each["took_ms"] / 1000)
        code = "" if each["code"] == 200 else f"  {each['code']}"
        yield f"{title.ljust(wide)}  {bar(each['began_ms'], each['took_ms'], whole)}  {took:>8}{code}"
        if "error" in each:
            yield f"    {each['error']}"
        yield from (f"    {tensor(output_)}" for output_ in each.get("outputs", ()))


def _title(call: Data) -> str:
    return str(call["node"]) if call["phase"] == "implementation" else f"{call['node']} ({call['phase']})"


def bar(began: float, took: float, whole: float) -> str:
    """When something was, within all the time there was."""
    scale = _BAR / whole if whole > 0 else 0.0
    first = min(int(began * scale), _BAR - 1)
    length = max(1, min(round(took * scale), _BAR - first))
    return "·" * first + "█" * length + "·" * (_BAR - first - length)


def tensor(of: Data) -> str:
    if "data" not in of:
        size = output.size((of.get("parameters") or {}).get("left_out_bytes"))
        return f"{of['name']}: {of['datatype']} {of['shape']}, {size}"
    text = json.dumps(nested(of["data"], of["shape"]), ensure_ascii=False)
    return f"{of['name']}: {graph_drawing.cut(text, _LONGEST)}"


# state


def learnt(state: Data) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """Tables, each with a line above: of each bandit its arms, then how well versions do."""
    for node in state["nodes"]:
        weighs = node["policy"].startswith("exp")
        rows = [
            (
                f"{arm['arm']} *" if arm["best"] else arm["arm"],
                str(arm["count"]),
                _mean(arm["mean"]),
                interval(arm),
                *((f"{arm['weight']:.3f}",) if weighs else ()),
            )
            for arm in node["arms"]
        ]
        yield _bandit(node), ("ARM", "COUNT", "MEAN", "95% INTERVAL", *(("WEIGHT",) if weighs else ())), rows
    if state["quality"]:
        titles = ("NODE", "VERSION", "REWARDS", "MEAN", "TRUTHS", "ACCURACY")
        yield "by version", titles, [
            (
                each["node"], each["version"], str(each["rewards"]), _mean(each["rewardMean"]), str(each["truths"]),
                _mean(each["accuracy"]),
            )
            for each in state["quality"]
        ]  # fmt: skip


def _bandit(node: Data) -> str:
    parameters = ", ".join(f"{name} {value:g}" for name, value in node["parameters"].items())
    said = [f"{node['node']}: {node['policy']}" + (f", {parameters}" if parameters else "")]
    said.append("1 reward" if node["feedback"] == 1 else f"{node['feedback']} rewards")
    if node["perUser"]:
        said.append("1 user has their own" if node["users"] == 1 else f"{node['users']} users have their own")
    if node["own"]:
        said.append("this user's")
    return " · ".join(said)


def interval(arm: Data) -> str:
    """The ends, and a line from 0 to 1 with the mean on it."""
    low, high = arm["interval"]
    first, last = round(low * (_SCALE - 1)), round(high * (_SCALE - 1))
    cells = ["·"] * _SCALE
    cells[first : last + 1] = "━" * (last + 1 - first)
    if arm["mean"] is not None:
        cells[round(arm["mean"] * (_SCALE - 1))] = "●"
    return f"{low:.3f} {''.join(cells)} {high:.3f}"


def _mean(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
