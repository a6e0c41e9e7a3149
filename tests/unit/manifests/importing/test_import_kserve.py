"""KServe's InferenceGraph as an MLGraph: every type of router, alone and within others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mizzen.importers import kserve
from tests.unit.manifests.importing.importing import arrows, calls, dag, graph, imported, notes, refused

SEQUENCE = "routerType: Sequence, steps"
ENSEMBLE = "routerType: Ensemble, steps"
SPLITTER = "routerType: Splitter, steps"
SWITCH = "routerType: Switch, steps"
HARD = "dependency: Hard"


def test_a_sequence_is_a_chain() -> None:
    found = imported(
        graph(f"root: {{{SEQUENCE}: [{{serviceName: a, {HARD}}}, {{serviceName: b, data: $response, {HARD}}}]}}")
    )
    assert dag(found) == {"a": calls("a"), "b": calls("b", "a")}
    assert notes(found) == [
        f"spec.nodes: deploy '{name}' here: mizzen deploy PATH --name {name}" for name in ("a", "b")
    ]


def test_steps_are_soft_unless_they_say_hard() -> None:
    b, c = "{serviceName: b, data: $response, dependency: Soft}", f"{{serviceName: c, data: $response, {HARD}}}"
    found = imported(graph(f"root: {{{SEQUENCE}: [{{serviceName: a}}, {b}, {c}]}}"))
    assert [node.get("onError") for node in dag(found).values()] == ["skip", "skip", None]
    (note,) = [note for note in notes(found) if "onError" in note]
    assert "KServe passes its error on like a response" in note


def test_a_step_without_data_gets_the_request_and_the_answer_before_it_goes_to_nobody() -> None:
    found = imported(graph(f"root: {{{SEQUENCE}: [{{serviceName: a}}, {{serviceName: b, data: $request, {HARD}}}]}}"))
    assert dag(found) == {
        "root": {"route": {"split": {"shadow": ["a"]}}},
        "a": calls("a", "root"),
        "b": calls("b", "root"),
    }
    assert "spec.nodes.root.steps[1].data: 'b' receives the input of node 'root', not the response before it" in notes(
        found
    )
    assert any("no step uses the response of 'a': it becomes a shadow" in note for note in notes(found))


def test_of_a_longer_chain_that_nobody_takes_nothing_is_left() -> None:
    steps = f"[{{serviceName: a}}, {{serviceName: b, data: $response}}, {{serviceName: c, {HARD}}}]"
    found = imported(graph(f"root: {{{SEQUENCE}: {steps}}}"))
    assert dag(found) == {"c": calls("c")}
    assert "spec.nodes.root.steps[0]: no step uses the response of 'a', 'b'; left out" in notes(found)


def test_an_ensemble_has_several_outputs_and_no_average() -> None:
    steps = f"[{{serviceName: sk, name: first, {HARD}}}, {{serviceName: xg, name: second}}]"
    found = imported(graph(f"root: {{{ENSEMBLE}: {steps}}}"))
    assert dag(found) == {"first": calls("sk"), "second": calls("xg", skip=True)}
    assert not any("named" in note for note in notes(found))


def test_answers_of_an_ensemble_that_are_named_otherwise_are_told() -> None:
    found = imported(graph(f"root: {{{ENSEMBLE}: [{{serviceName: sk}}, {{serviceName: xg, name: X_G}}]}}"))
    assert list(dag(found)) == ["sk", "x-g"]
    assert "spec.nodes.root: its responses are named sk, x-g here, but 0, X_G in KServe" in notes(found)
    assert "spec.nodes.root.steps[1]: 'X_G' becomes the node 'x-g'" in notes(found)


def test_what_follows_an_ensemble_gets_all_answers_in_one_call() -> None:
    found = imported(
        graph(
            f"root: {{{SEQUENCE}: [{{nodeName: both}}, {{serviceName: judge, data: $response, {HARD}}}]}}, "
            f"both: {{{ENSEMBLE}: [{{serviceName: a, {HARD}}}, {{serviceName: b, {HARD}}}]}}"
        )
    )
    assert dag(found)["judge"] == {"dependencies": ["a", "b"], "merge": {"implementation": {"kfservice": "judge"}}}
    assert any("'<node>.<tensor>': a, b" in note for note in notes(found))


def test_an_ensemble_behind_a_step_runs_beside_itself() -> None:
    found = imported(
        graph(
            f"root: {{{SEQUENCE}: [{{serviceName: feast}}, {{nodeName: both, data: $response}}]}}, "
            f"both: {{{ENSEMBLE}: [{{serviceName: a}}, {{serviceName: b}}]}}"
        )
    )
    assert arrows(found) == {"feast": [], "a": ["feast"], "b": ["feast"]}


@pytest.mark.parametrize(
    ("outer", "inner", "skips"), [("Hard", "Soft", False), ("Soft", "Hard", True), ("Soft", "Soft", True)]
)
def test_within_an_ensemble_its_own_step_says_what_may_fail(outer: str, inner: str, skips: bool) -> None:
    found = imported(
        graph(
            f"root: {{{ENSEMBLE}: [{{nodeName: chain, dependency: {outer}}}, {{serviceName: b, {HARD}}}]}}, "
            f"chain: {{{SEQUENCE}: [{{serviceName: a, dependency: {inner}}}]}}"
        )
    )
    assert dag(found) == {"a": calls("a", skip=skips), "b": calls("b")}


def test_a_splitter_splits() -> None:
    found = imported(graph(f"root: {{{SPLITTER}: [{{serviceName: a, weight: 20}}, {{serviceName: b, weight: 80}}]}}"))
    assert dag(found) == {
        "root": {"route": {"split": {"traffic": {"a": 20, "b": 80}}}},
        "a": calls("a", "root", skip=True),
        "b": calls("b", "root", skip=True),
    }


@pytest.mark.parametrize(
    ("weights", "shares", "says"),
    [
        ((1, 1, 1), (34, 33, 33), "weights sum to 3, not 100: 1, 1, 1 became 34, 33, 33"),
        ((100, 0, 0), (100, 0, 0), ""),
        ((50, 49, 0), (51, 49, 0), "weights sum to 99, not 100"),
        ((100, None, 100), (50, 0, 50), "steps[1].weight: missing; read as 0"),
    ],
)
def test_weights_become_whole_per_cent(weights: tuple[int | None, ...], shares: tuple[int, ...], says: str) -> None:
    steps = [
        f"{{serviceName: m{place}, weight: {'' if weight is None else weight}}}" for place, weight in enumerate(weights)
    ]
    found = imported(graph(f"root: {{{SPLITTER}: [{', '.join(steps)}]}}"))
    assert tuple(dag(found)["root"]["route"]["split"]["traffic"].values()) == shares
    assert any(says in note for note in notes(found))


def test_a_splitter_without_weights_is_even() -> None:
    found = imported(graph(f"root: {{{SPLITTER}: [{{serviceName: a}}, {{serviceName: b}}]}}"))
    assert dag(found)["root"]["route"] == {"split": {}}
    assert "spec.nodes.root.steps: no step has a weight; the split is even" in notes(found)


def test_what_follows_a_splitter_runs_for_whichever_was_taken() -> None:
    found = imported(
        graph(
            f"root: {{{SEQUENCE}: [{{nodeName: ab}}, {{serviceName: last, data: $response, {HARD}}}]}}, "
            f"ab: {{{SPLITTER}: [{{serviceName: a, weight: 50}}, {{serviceName: b, weight: 50}}]}}"
        )
    )
    assert dag(found)["last"] == calls("last", "a", "b")


def test_a_branch_with_several_beginnings_has_one_node_before_them() -> None:
    found = imported(
        graph(
            f"root: {{{SPLITTER}: [{{nodeName: both, weight: 90}}, {{serviceName: c, weight: 10}}]}}, "
            f"both: {{{ENSEMBLE}: [{{serviceName: a}}, {{serviceName: b}}]}}"
        )
    )
    assert dag(found)["root"]["route"]["split"]["traffic"] == {"both": 90, "c": 10}
    assert dag(found)["both"] == {"dependencies": ["root"], "route": {}}
    assert arrows(found) == {"root": [], "both": ["root"], "a": ["both"], "b": ["both"], "c": ["root"]}


def test_a_switch_asks_a_router_that_is_not_there_yet() -> None:
    steps = "[{serviceName: dog, condition: 'kind==dog'}, {serviceName: cat, condition: 'kind==cat'}]"
    found = imported(graph(f"root: {{{SWITCH}: {steps}}}", name="pets"))
    assert dag(found)["root"] == {"route": {"implementation": {"kfservice": "pets-root"}}}
    assert arrows(found) == {"root": [], "dog": ["root"], "cat": ["root"]}
    (annotation,) = found.manifests[0]["metadata"]["annotations"].items()
    assert annotation[0] == kserve.CONDITIONS
    assert json.loads(annotation[1]) == {
        "root": [{"node": "dog", "condition": "kind==dog"}, {"node": "cat", "condition": "kind==cat"}]
    }
    assert any("calls 'pets-root', a router that you must serve" in note for note in notes(found))
    assert any("KServe responds 404" in note for note in notes(found))


def test_a_condition_on_the_answer_before_is_a_router_that_may_name_nobody() -> None:
    steps = f"[{{serviceName: a, {HARD}}}, {{serviceName: b, data: $response, condition: x, {HARD}}}]"
    found = imported(graph(f"root: {{{SEQUENCE}: {steps}}}"))
    assert dag(found) == {
        "a": calls("a"),
        "if-b": {"dependencies": ["a"], "route": {"implementation": {"kfservice": "g-if-b"}}},
        "b": calls("b", "if-b"),
    }


def test_what_a_condition_stops_goes_on_where_its_node_is_not_the_last() -> None:
    found = imported(
        graph(
            f"root: {{{SEQUENCE}: [{{nodeName: maybe}}, {{serviceName: last, data: $response}}]}}, "
            f"maybe: {{{SEQUENCE}: [{{serviceName: a}}, {{serviceName: b, data: $response, condition: x}}]}}"
        )
    )
    assert arrows(found) == {"a": [], "if-b": ["a"], "b": ["if-b"], "if-b-not": ["if-b"], "last": ["b", "if-b-not"]}


def test_a_node_that_is_called_twice_is_there_twice() -> None:
    found = imported(
        graph(
            f"root: {{{ENSEMBLE}: [{{nodeName: one}}, {{nodeName: one}}]}}, "
            f"one: {{{SEQUENCE}: [{{serviceName: a}}, {{serviceName: b, data: $response}}]}}"
        )
    )
    assert arrows(found) == {"a": [], "b": ["a"], "a-2": [], "b-2": ["a-2"]}
    assert dag(found)["a-2"]["implementation"] == {"kfservice": "a"}


@pytest.mark.parametrize(
    ("url", "called"),
    [
        ("http://b.ml.svc.cluster.local/v1/models/b:predict", {"protocol": "v1"}),
        ("https://b.ml/v2/models/b/infer", {"protocol": "v2"}),
        ("http://b.ml:9000/v2/models/b/versions/3/infer", {"protocol": "v2"}),
        ("http://b.ml/seldon/ns/b/api/v1.0/predictions", {"protocol": "seldon"}),
        ("http://b.ml", {}),
    ],
)
def test_an_address_is_a_service_and_its_path_says_what_it_speaks(url: str, called: dict[str, str]) -> None:
    found = imported(graph(f"root: {{{SEQUENCE}: [{{serviceUrl: '{url}', {HARD}}}]}}"))
    assert dag(found) == {"b": {"implementation": {"svc": url, **called}}}
    assert any("its path does not show its protocol" in note for note in notes(found)) != bool(called)


def test_time_limits_carry_over_within_the_ceiling() -> None:
    more = (
        "timeout: 300, routerTimeouts: {serviceClient: 2, serverRead: 9}, resources: {limits: {cpu: 1}}, minReplicas: 0"
    )
    found = imported(graph(f"root: {{{SEQUENCE}: [{{serviceName: a, {HARD}}}]}}", more=more))
    assert found.manifests[0]["spec"]["timeoutMs"] == 60_000
    assert dag(found)["a"]["timeoutMs"] == 2_000
    told = notes(found)
    assert "spec.timeout: 300 s is above the maximum of 60 s, which applies" in told
    assert "spec.routerTimeouts.serverRead: has no equivalent; it is left out" in told
    left = "has no equivalent, since gateways run graphs themselves; it is left out"
    assert {f"spec.resources: {left}", f"spec.minReplicas: {left}"} <= set(told)


def test_what_is_not_read_or_not_reached_is_told() -> None:
    steps = "[{serviceName: a, condition: x, weight: 3, data: $response.predictions, colour: red}]"
    found = imported(graph(f"root: {{{ENSEMBLE}: {steps}}}, lost: {{{SEQUENCE}: [{{serviceName: b}}]}}"))
    at = "spec.nodes.root.steps[0]"
    assert {
        f"{at}.condition: Ensemble nodes do not use conditions; it is left out",
        f"{at}.weight: Ensemble nodes do not use weights; it is left out",
        f"{at}.data: '$response.predictions' is read as '$request', as in KServe",
        f"{at}.colour: has no equivalent; it is left out",
        "spec.nodes.lost: no step calls it; it is left out",
    } <= set(notes(found))


def test_a_model_that_has_the_name_of_a_graph_is_called_otherwise() -> None:
    one = graph(f"root: {{{SEQUENCE}: [{{serviceName: g}}, {{serviceName: h, data: $response}}]}}")
    found = imported(f"{one}---\n{graph(f'root: {{{SEQUENCE}: [{{serviceName: a}}]}}', name='h')}")
    assert [node["implementation"]["kfservice"] for node in dag(found).values()] == ["g-model", "g-h"]
    assert any(
        "'g' is called 'g-model' here, since a graph or another model has that name" in note for note in notes(found)
    )


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        (f"start: {{{SEQUENCE}: [{{serviceName: a}}]}}", "spec.nodes.root: required"),
        ("root: {routerType: Sequence}", "spec.nodes.root.steps: must have at least 1 entry"),
        ("root: {routerType: Fork, steps: [{serviceName: a}]}", "spec.nodes.root.routerType: 'Fork' is not a valid "
        "value"),
        (f"root: {{{SEQUENCE}: [{{name: a}}]}}", "must have exactly one of serviceName, serviceUrl and nodeName"),
        (f"root: {{{SEQUENCE}: [{{serviceName: a, nodeName: b}}]}}", "must have exactly one of"),
        (f"root: {{{SEQUENCE}: [{{nodeName: b}}]}}", "spec.nodes.root.steps[0].nodeName: no node 'b'"),
        (f"root: {{{SEQUENCE}: [{{serviceName: 7}}]}}", "spec.nodes.root.steps[0].serviceName: must be a text"),
        (f"root: {{{SEQUENCE}: {{serviceName: a}}}}", "spec.nodes.root.steps: must be a list"),
        (f"root: {{{SEQUENCE}: [{{serviceUrl: 'ftp://x'}}]}}", "is not a valid address"),
        (f"root: {{{SPLITTER}: [{{serviceName: a, weight: -1}}]}}", "must be at least 0, not -1"),
        (f"root: {{{SPLITTER}: [{{serviceName: a, weight: 0}}]}}", "every weight is 0"),
        (f"root: {{{SPLITTER}: [{{serviceName: a, weight: 0.5}}]}}", "must be a whole number"),
        (
            f"root: {{{SEQUENCE}: [{{nodeName: a}}]}}, a: {{{SWITCH}: [{{nodeName: b}}]}}, "
            f"b: {{{ENSEMBLE}: [{{nodeName: a}}]}}",
            "spec.nodes: nodes call each other in a cycle: a -> b -> a",
        ),
        (f"root: {{{ENSEMBLE}: [{{nodeName: root}}]}}", "cycle: root -> root"),
        (
            f"root: {{{SEQUENCE}: [{{serviceName: a}}, {{serviceName: b, data: $request, condition: x}}]}}",
            "it receives the request if the response of 'a' meets a condition, which no route can express",
        ),
        (
            f"root: {{{SEQUENCE}: [{{serviceName: a}}, {{serviceName: b, data: $response, condition: x}}, "
            "{serviceName: c}]}",
            "spec.nodes.root.steps[2]: it receives the request if the response of 'a' meets a condition",
        ),
        (
            f"root: {{{SEQUENCE}: [{{nodeName: both}}, {{nodeName: ab, data: $response}}]}}, "
            f"both: {{{ENSEMBLE}: [{{serviceName: a}}, {{serviceName: b}}]}}, ab: {{{SPLITTER}: [{{serviceName: c}}]}}",
            "it receives the responses of a, b at once, and nothing joins them before",
        ),
        (
            f"root: {{{SEQUENCE}: [{{nodeName: ab}}, {{serviceName: c, data: $response}}]}}, "
            f"ab: {{{SPLITTER}: [{{nodeName: both}}, {{serviceName: x}}]}}, "
            f"both: {{{ENSEMBLE}: [{{serviceName: a}}, {{serviceName: b}}]}}",
            "it receives one response or several, depending on the route of a request",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_turned_says_why(nodes: str, says: str) -> None:
    (fault, *_) = refused(imported(graph(nodes)))
    assert says in fault


def test_deep_and_wide_graphs_are_refused_in_words() -> None:
    deep = {f"n{place}": _router("Sequence", [{"nodeName": f"n{place + 1}"}]) for place in range(200)}
    (fault,) = refused(imported(_written({"root": _router("Sequence", [{"nodeName": "n0"}]), **deep})))
    assert "no node 'n200'" in fault or "more than 50 deep" in fault
    wide = {f"n{place}": _router("Ensemble", [{"nodeName": f"n{place + 1}"}] * 2) for place in range(30)}
    leaf = {"n30": _router("Sequence", [{"serviceName": "a"}])}
    (fault,) = refused(imported(_written({"root": wide["n0"], **wide, **leaf})))
    assert "more than 1,000 nodes" in fault


def _router(kind: str, steps: list[dict[str, Any]]) -> dict[str, Any]:
    return {"routerType": kind, "steps": steps}


def _written(nodes: dict[str, Any]) -> str:
    head = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "InferenceGraph", "metadata": {"name": "g"}}
    return json.dumps({**head, "spec": {"nodes": nodes}})
