"""The parameter `routing` of an answer: `node=child[,child][@p]`, joined by semicolons. Who sends it back with feedback
needs no record of the request; what they say is checked against the graph, and against the record where there is one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from mizzen.graph import table_types
from mizzen.protocol.v2 import cited
from mizzen.selection.records.record import Decision

_PART = re.compile(r"(?P<node>[a-z0-9-]+)(/[a-z0-9/-]*)?=(?P<arms>[a-z0-9-]*(,[a-z0-9-]+)*)(@(?P<p>[0-9.e+-]+))?")
_CLOSE = 0.75


def read(text: str) -> list[Decision]:
    """A decision for each child that was taken. ValueError."""
    decisions = []
    seen: dict[str, str] = {}
    for part in text.split(";"):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{cited(part)}' is not node=child, as answers have it")
        run = part.partition("=")[0].strip()
        if seen.setdefault(run, part.strip()) != part.strip():
            raise ValueError(f"'{cited(run)}' took two ways at once: '{cited(seen[run])}' and '{cited(part.strip())}'")
        likely = _likely(match["p"])
        decisions += [(match["node"], arm, likely) for arm in match["arms"].split(",") if arm]
    return decisions


def check(decisions: Iterable[Decision], graph: table_types.Graph) -> None:
    """ValueError for what this graph cannot have decided."""
    nodes = {node.name: node for node in graph.nodes}
    decisions = list(decisions)
    if not decisions:
        raise ValueError("it names no child that was taken")
    for name, arm, likely in decisions:
        node = nodes.get(name)
        if node is None or node.route is None:
            routers = [each.name for each in graph.nodes if each.route is not None]
            raise ValueError(f"'{name}' is no node that routes{_meant(name, routers)}")
        arms = arms_of(graph, node.route)
        if arm not in arms:
            raise ValueError(f"'{name}' does not route to '{arm}'{_meant(arm, arms)}")
        if node.route.policy is not None and node.route.policy.name == "exp3" and not likely:
            raise ValueError(f"'{name}={arm}' lacks the probability that the answer has behind it, as in @0.5")


def contradicts(claimed: Sequence[Decision], recorded: Sequence[Decision], graph: table_types.Graph | None) -> str:
    """What is wrong with it; empty when nothing is."""
    known, said = _by_node(recorded), _by_node(claimed)
    routers = {node.name: node.route for node in graph.nodes if node.route} if graph else {}
    for name, arms in said.items():
        if name in known and arms != known[name]:
            return f"'{name}' took {', '.join(sorted(known[name]))}, and not {', '.join(sorted(arms))}"
        if name not in known and name not in routers:
            return f"'{name}' is no node that routes"
        if name not in known and routers[name].policy is not None:
            return f"'{name}' did not run for this request"
    return ""


def arms_of(graph: table_types.Graph, route: table_types.Routing) -> tuple[str, ...]:
    return tuple(graph.nodes[place].name for place in route.children)


def _by_node(decisions: Iterable[Decision]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node, arm, _ in decisions:
        found.setdefault(node, set()).add(arm)
    return found


def _likely(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        likely = float(text)
    except ValueError:
        likely = -1.0
    if not 0.0 < likely <= 1.0:
        raise ValueError(f"'@{cited(text)}' is no probability above 0")
    return likely


def _meant(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(known) or 'none'}"
