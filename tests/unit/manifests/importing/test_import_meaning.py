"""A graph that was imported answers as the one it was made of: both are interpreted, and what comes out is compared.

What is called is a letter around what it got, so that an answer tells all that was done to the request on its way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.unit.manifests.importing.importing import SELDON, dag, imported, refused

Nodes: TypeAlias = Mapping[str, Any]

KINDS = st.sampled_from(["Sequence", "Sequence", "Sequence", "Ensemble", "Ensemble", "Splitter", "Switch"])
SERVICES = st.sampled_from(["a", "b", "c"])


def asked_of_kserve(nodes: Nodes, pick: int, holds: bool) -> list[str]:
    """What comes of the request `q`. Routers take the branch of number `pick`, conditions hold or not."""

    def node(name: str, got: list[str]) -> list[str]:
        steps = nodes[name]["steps"]
        match nodes[name]["routerType"]:
            case "Splitter" | "Switch":
                return step(steps[pick % len(steps)], got)
            case "Ensemble":
                return [answer for each in steps for answer in step(each, got)]
        answer = got
        for place, each in enumerate(steps):
            if place and "condition" in each and not holds:
                return answer
            answer = step(each, answer if place and each["data"] == "$response" else got)
        return answer

    def step(one: Nodes, got: list[str]) -> list[str]:
        return node(one["nodeName"], got) if "nodeName" in one else [f"{one['serviceName']}({','.join(sorted(got))})"]

    return sorted(node("root", ["q"]))


def asked_of_mizzen(nodes: Nodes, choose: Callable[[str, list[str]], list[str]]) -> list[str]:
    """The same of a dag. `choose` says which children a node takes that does not take all of them; none: it answers."""
    sent: dict[tuple[str, str], list[str]] = {}
    answers: list[str] = []
    for name, node in nodes.items():
        depends = node.get("dependencies", [])
        arrived = [message for on in depends for message in sent.get((on, name), [])] if depends else ["q"]
        if not arrived:
            continue
        if "merge" in node:
            called = node["merge"].get("implementation", {"kfservice": "mean"})["kfservice"]
            arrived = [f"{called}({','.join(sorted(arrived))})"]
        if "implementation" in node:
            arrived = [f"{node['implementation']['kfservice']}({message})" for message in arrived]
        children = [child for child, other in nodes.items() if name in other.get("dependencies", [])]
        route = node.get("route", {})
        taken = choose(name, children) if route and children else children
        taken = [child for child in taken if child not in route.get("split", {}).get("shadow", [])]
        for child in taken:
            sent[name, child] = arrived
        answers += [] if taken else arrived
    shadows = {shadow for node in nodes.values() for shadow in node.get("route", {}).get("split", {}).get("shadow", [])}
    assert not any(on in shadows for node in nodes.values() for on in node.get("dependencies", []))
    return sorted(answers)


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    names = ["root", *(f"n{place}" for place in range(draw(st.integers(0, 4))))]

    def step(later: list[str]) -> dict[str, Any]:
        services = [{"serviceName": draw(SERVICES)}] * max(1, len(later))
        targets = [*services, *({"nodeName": name} for name in later)]
        condition = {"condition": "x"} if draw(st.integers(0, 5)) == 0 else {}
        data = draw(st.sampled_from(["$request", "$response", "$response"]))
        return {**draw(st.sampled_from(targets)), "data": data, "weight": draw(st.integers(1, 5)), **condition}

    return {
        name: {
            "routerType": draw(KINDS),
            "steps": [step(names[place + 1 :]) for _ in range(draw(st.integers(1, 3)))],
        }
        for place, name in enumerate(names)
    }


@given(graphs(), st.integers(0, 5), st.booleans())
@settings(max_examples=examples(500), deadline=None)
def test_an_inference_graph_answers_as_before(nodes: dict[str, Any], pick: int, holds: bool) -> None:
    head = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "InferenceGraph", "metadata": {"name": "graph"}}
    found = imported(json.dumps({**head, "spec": {"nodes": nodes}}))
    if not found.manifests:
        assert refused(found)
        return
    made = dag(found)

    def choose(node: str, children: list[str]) -> list[str]:
        route = made[node]["route"]
        if node.startswith("if-"):
            return children[:1] if holds else children[1:]
        if "implementation" in route or "traffic" in route["split"]:
            return [children[pick % len(children)]]
        return children

    assert asked_of_mizzen(made, choose) == asked_of_kserve(nodes, pick, holds)


def asked_of_seldon(unit: Nodes, got: str) -> str:
    """What comes of a tree of Seldon's; a test between two takes the first."""
    name, children = unit["name"], unit.get("children", [])
    answer = f"{name}({got})" if unit["type"] in ("MODEL", "TRANSFORMER") else got
    if children:
        if unit.get("implementation") == "RANDOM_ABTEST":
            answer = asked_of_seldon(children[0], answer)
        else:
            below = [asked_of_seldon(child, answer) for child in children]
            average = f"mean({','.join(sorted(below))})"
            answer = average if unit.get("implementation") == "AVERAGE_COMBINER" else below[0]
    return f"{name}({answer})" if unit["type"] == "OUTPUT_TRANSFORMER" else answer


@st.composite
def trees(draw: st.DrawFn, depth: int = 3) -> dict[str, Any]:
    name = draw(st.sampled_from(["a", "b", "c", "e"]))
    kinds = ["MODEL", "TRANSFORMER", "OUTPUT_TRANSFORMER", *(["COMBINER", "ROUTER"] if depth else [])]
    kind = draw(st.sampled_from(kinds))
    fewest = 1 if kind in ("COMBINER", "ROUTER") else 0
    children = draw(st.lists(trees(depth - 1), min_size=fewest, max_size=3)) if depth else []
    how = {"COMBINER": "AVERAGE_COMBINER", "ROUTER": "RANDOM_ABTEST"}.get(kind, "")
    # A server, which a graph calls by name, and which so does not need a container.
    return {"name": name, "type": kind, "implementation": how or "SOME_SERVER", "modelUri": name, "children": children}


@given(trees())
@settings(max_examples=examples(500), deadline=None)
def test_a_seldon_deployment_answers_as_before(tree: dict[str, Any]) -> None:
    spec = {"predictors": [{"name": "main", "graph": tree}]}
    text = json.dumps({"apiVersion": SELDON, "kind": "SeldonDeployment", "metadata": {"name": "graph"}, "spec": spec})
    made = dag(imported(text))

    def choose(node: str, children: list[str]) -> list[str]:
        split = made[node]["route"].get("split", {})
        return list(split["traffic"])[:1] if "traffic" in split else children

    assert asked_of_mizzen(made, choose) == [asked_of_seldon(tree, "q")]
