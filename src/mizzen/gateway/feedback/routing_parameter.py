"""The parameter `routing` of an answer: `node=child[,child][@p]`, joined by semicolons.

A client that sends it back with feedback needs no record of the request. It is checked against the graph, and against
the record if there is one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence

from mizzen.graph import table_types
from mizzen.protocol.v2 import shorten
from mizzen.selection.records.record import RecordedDecision

_PART = re.compile(r"(?P<node>[a-z0-9-]+)(/[a-z0-9/-]*)?=(?P<arms>[a-z0-9-]*(,[a-z0-9-]+)*)(@(?P<p>[0-9.e+-]+))?")
_CLOSE = 0.75


def parse(text: str) -> list[RecordedDecision]:
    """Returns a decision for each chosen child. Raises ValueError."""
    decisions = []
    seen: dict[str, str] = {}
    for part in text.split(";"):
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{shorten(part)}' is not in the form node=child, as in answers")
        run = part.partition("=")[0].strip()
        if seen.setdefault(run, part.strip()) != part.strip():
            raise ValueError(
                f"'{shorten(run)}' appears with two choices: '{shorten(seen[run])}' and '{shorten(part.strip())}'"
            )
        likely = _parse_probability(match["p"])
        decisions += [(match["node"], arm, likely) for arm in match["arms"].split(",") if arm]
    return decisions


def check(decisions: Iterable[RecordedDecision], graph: table_types.CompiledGraph) -> None:
    """Raises ValueError for decisions that this graph cannot make."""
    nodes = {node.name: node for node in graph.nodes}
    decisions = list(decisions)
    if not decisions:
        raise ValueError("it names no child")
    for name, arm, likely in decisions:
        node = nodes.get(name)
        if node is None or node.route is None:
            routers = [each.name for each in graph.nodes if each.route is not None]
            raise ValueError(f"'{name}' is not a node that routes{_suggest(name, routers)}")
        arms = arms_of(graph, node.route)
        if arm not in arms:
            raise ValueError(f"'{name}' does not route to '{arm}'{_suggest(arm, arms)}")
        if node.route.policy is not None and node.route.policy.name == "exp3" and not likely:
            raise ValueError(f"'{name}={arm}' lacks its probability; copy it from the answer, such as {name}={arm}@0.5")


def find_contradiction(
    claimed: Sequence[RecordedDecision], recorded: Sequence[RecordedDecision], graph: table_types.CompiledGraph | None
) -> str:
    """Returns the contradiction as text; empty if there is none."""
    recorded_arms, claimed_arms = _by_node(recorded), _by_node(claimed)
    routers = {node.name: node.route for node in graph.nodes if node.route} if graph else {}
    for name, arms in claimed_arms.items():
        if name in recorded_arms and arms != recorded_arms[name]:
            return f"'{name}' took {', '.join(sorted(recorded_arms[name]))}, and not {', '.join(sorted(arms))}"
        if name not in recorded_arms and name not in routers:
            return f"'{name}' is not a node that routes"
        if name not in recorded_arms and routers[name].policy is not None:
            return f"'{name}' did not run for this request"
    return ""


def arms_of(graph: table_types.CompiledGraph, route: table_types.Routing) -> tuple[str, ...]:
    return tuple(graph.nodes[place].name for place in route.children)


def _by_node(decisions: Iterable[RecordedDecision]) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node, arm, _ in decisions:
        found.setdefault(node, set()).add(arm)
    return found


def _parse_probability(text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        likely = float(text)
    except ValueError:
        likely = -1.0
    if not 0.0 < likely <= 1.0:
        raise ValueError(f"'@{shorten(text)}' is not a probability above 0")
    return likely


def _suggest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(known) or 'none'}"
