"""SeldonDeployments as MLGraphs: trees of units, what they run, and several predictors."""

from __future__ import annotations

import json

import pytest

from mizzen.importers import seldon
from tests.unit.manifests.importing.importing import (
    SELDON,
    arrows,
    calls,
    dag,
    deployment,
    imported,
    notes,
    predictor,
    refused,
)

SKLEARN = "implementation: SKLEARN_SERVER, modelUri: 'gs://models/iris'"
MODEL_A = f"{{name: a, {SKLEARN}}}"
MODEL_B = "{name: b, implementation: XGBOOST_SERVER, modelUri: 'gs://models/boosted'}"


def container(name: str, *dependencies: str) -> dict[str, object]:
    behind = {"dependencies": list(dependencies)} if dependencies else {}
    return {**behind, "implementation": {"name": name, "protocol": "seldon"}}


def routing(how: str, parameter: str, value: str) -> str:
    told = f"parameters: [{{name: {parameter}, value: '{value}'}}]"
    return predictor(f"{{name: r, implementation: {how}, {told}, children: [{MODEL_A}, {MODEL_B}]}}")


def test_a_model_with_files_is_called_by_its_name() -> None:
    found = imported(
        deployment(predictor(f"{{name: classifier, {SKLEARN}, children: []}}", more="name: main, replicas: 3"))
    )
    assert found.manifests[0]["metadata"]["name"] == "d"
    assert found.manifests[0]["spec"] == {
        "dag": [{"name": "classifier", "implementation": {"kfservice": "classifier"}}]
    }
    told, proba = notes(found)
    assert told == (
        "spec.predictors[0].graph: deploy SKLEARN_SERVER 'classifier' here: download the files of gs://models/iris"
        ", then: mizzen deploy PATH --name classifier; for 3 replicas: mizzen scale classifier 3"
    )
    assert "predict_proba" in proba


def test_containers_are_custom_pods_with_their_images_and_replicas() -> None:
    found = imported(deployment(predictor("{name: m, type: MODEL}", ("m", "beside"), "name: main, replicas: 2")))
    containers = [{"name": "m", "image": "x/m:1"}, {"name": "beside", "image": "x/beside:1"}]
    assert found.manifests[0]["spec"]["custom"] == [{"spec": {"containers": containers}, "replicas": 2}]
    assert dag(found) == {"m": container("m")}


@pytest.mark.parametrize(
    ("protocol", "ours"), [("seldon", "seldon"), ("tensorflow", "v1"), ("kfserving", "v2"), ("v2", "v2")]
)
def test_containers_speak_the_protocol_of_the_deployment(protocol: str, ours: str) -> None:
    found = imported(deployment(predictor("{name: m, type: MODEL}", ("m",)), more=f"protocol: {protocol}"))
    assert dag(found)["m"]["implementation"] == {"name": "m", "protocol": ours}


def test_transformers_run_before_and_after_what_is_below_them() -> None:
    before = "{name: in, type: TRANSFORMER, children: [{name: m, type: MODEL}]}"
    tree = f"{{name: out, type: OUTPUT_TRANSFORMER, children: [{before}]}}"
    found = imported(deployment(predictor(tree, ("in", "m", "out"))))
    assert dag(found) == {"in": container("in"), "m": container("m", "in"), "out": container("out", "m")}
    assert sum("is called at /predict like every node" in note for note in notes(found)) == 2


def test_the_average_of_children_is_an_ensemble() -> None:
    tree = f"{{name: avg, type: COMBINER, implementation: AVERAGE_COMBINER, children: [{MODEL_A}, {MODEL_B}]}}"
    found = imported(deployment(predictor(tree)))
    assert dag(found) == {
        "a": calls("a"),
        "b": calls("b"),
        "avg": {"dependencies": ["a", "b"], "merge": {"ensemble": {}}},
    }


def test_a_combiner_of_ones_own_is_called_to_merge_and_only_for_that() -> None:
    found = imported(
        deployment(predictor(f"{{name: mix, type: COMBINER, children: [{MODEL_A}, {MODEL_B}]}}", ("mix",)))
    )
    merge = {"implementation": {"name": "mix", "protocol": "seldon"}}
    assert dag(found)["mix"] == {"dependencies": ["a", "b"], "merge": merge}
    assert any("combiner 'mix' receives all responses in one message" in note for note in notes(found))


@pytest.mark.parametrize(
    ("parameters", "traffic", "says"),
    [
        ("[{name: ratioA, value: '0.2', type: FLOAT}]", {"a": 20, "b": 80}, ""),
        ("[{name: ratioA, value: 0.2}]", {"a": 20, "b": 80}, ""),
        ("[{name: ratioA, value: '0.125', type: FLOAT}]", {"a": 13, "b": 87}, "0.125 is rounded to 13%"),
        ("[]", {"a": 50, "b": 50}, "RANDOM_ABTEST without ratioA is an even split"),
        ("[{name: ratioA, value: '0'}]", {"a": 0, "b": 100}, ""),
        ("[{name: ratioA, value: '1.5'}]", {"a": 100, "b": 0}, "1.5 is read as 1"),
        ("[{name: ratioA, value: '0.3'}, {name: x, value: '1'}]", {"a": 30, "b": 70}, "Seldon ignores the ratio"),
    ],
)
def test_a_test_between_two_is_a_split(parameters: str, traffic: dict[str, int], says: str) -> None:
    tree = f"{{name: ab, implementation: RANDOM_ABTEST, parameters: {parameters}, children: [{MODEL_A}, {MODEL_B}]}}"
    found = imported(deployment(predictor(tree)))
    assert dag(found)["ab"] == {"route": {"split": {"traffic": traffic}}}
    assert any(says in note for note in notes(found))


def test_a_simple_router_takes_its_first_child() -> None:
    tree = f"{{name: r, type: ROUTER, implementation: SIMPLE_ROUTER, children: [{MODEL_A}, {MODEL_B}]}}"
    found = imported(deployment(predictor(tree)))
    assert dag(found)["r"]["route"] == {"split": {"traffic": {"a": 100, "b": 0}}}


def test_a_third_child_of_a_test_between_two_never_gets_a_request() -> None:
    third = "{name: c, implementation: MLFLOW_SERVER, modelUri: 'gs://models/c'}"
    tree = f"{{name: ab, implementation: RANDOM_ABTEST, children: [{MODEL_A}, {MODEL_B}, {third}]}}"
    found = imported(deployment(predictor(tree)))
    assert dag(found)["ab"]["route"]["split"]["traffic"] == {"a": 50, "b": 50, "c": 0}
    assert any("1 more never receive a request" in note for note in notes(found))


@pytest.mark.parametrize(
    ("image", "parameters", "route"),
    [
        ("seldonio/mab_epsilon_greedy:1.3", ", {name: epsilon, value: '0.2'}", {"egreedy": 0.2}),
        ("seldonio/mab_epsilon_greedy:1.3", "", {"egreedy": 0.1}),
        ("seldonio/mab_thompson_sampling:0.1", "", {"thompson": {}}),
    ],
)
def test_seldons_bandits_are_ours(image: str, parameters: str, route: dict[str, object]) -> None:
    told = f"parameters: [{{name: n_branches, value: '2'}}{parameters}]"
    tree = f"{{name: eg, type: ROUTER, {told}, children: [{{name: m, type: MODEL}}, {MODEL_B}]}}"
    found = imported(deployment(predictor(tree, ("m", "eg")).replace("x/eg:1", image)))
    assert dag(found) == {"eg": {"route": {"mab": route}}, "m": container("m", "eg"), "b": calls("b", "eg")}
    (pod,) = found.manifests[0]["spec"]["custom"]
    assert [container["name"] for container in pod["spec"]["containers"]] == ["m"]
    assert any("starts without history; parameters n_branches are left out" in note for note in notes(found))


def test_a_bandit_by_its_implementation() -> None:
    found = imported(
        deployment(predictor(f"{{name: eg, implementation: EPSILON_GREEDY, children: [{MODEL_A}, {MODEL_B}]}}"))
    )
    assert dag(found)["eg"]["route"] == {"mab": {"egreedy": 0.1}}


def test_a_router_of_ones_own_is_asked_and_gets_its_parameters() -> None:
    tree = (
        f"{{name: r, type: ROUTER, parameters: [{{name: k, value: '2', type: INT}}], children: [{MODEL_A}, {MODEL_B}]}}"
    )
    found = imported(deployment(predictor(tree, ("r",))))
    assert dag(found)["r"] == {"route": {"implementation": {"name": "r", "protocol": "seldon"}}}
    ((container,),) = [pod["spec"]["containers"] for pod in found.manifests[0]["spec"]["custom"]]
    ((variable, value),) = [(each["name"], each["value"]) for each in container["env"]]
    assert (variable, json.loads(value)) == (seldon.PARAMETERS, [{"name": "k", "value": "2", "type": "INT"}])


def test_without_router_and_combiner_only_the_first_child_answers() -> None:
    third = f"{{name: c, {SKLEARN}, children: [{MODEL_A}]}}"
    tree = f"{{name: t, type: TRANSFORMER, children: [{MODEL_A}, {MODEL_B}, {third}]}}"
    found = imported(deployment(predictor(tree, ("t",))))
    assert dag(found)["t"]["route"] == {"split": {"shadow": ["b"]}}
    assert arrows(found) == {"t": [], "a": ["t"], "b": ["t"]}
    assert any("Seldon drops the response of 'b': it becomes a shadow" in note for note in notes(found))
    assert any("Seldon drops the response of 'c'; it and its subtree are left out" in note for note in notes(found))


def test_a_combiner_below_a_router_has_one_node_before_its_children() -> None:
    average = f"{{name: avg, implementation: AVERAGE_COMBINER, children: [{MODEL_A}, {MODEL_B}]}}"
    tree = f"{{name: ab, implementation: RANDOM_ABTEST, children: [{average}, {{name: c, {SKLEARN}}}]}}"
    found = imported(deployment(predictor(tree)))
    assert dag(found)["ab"]["route"]["split"]["traffic"] == {"avg-in": 50, "c": 50}
    assert arrows(found) == {
        "ab": [],
        "avg-in": ["ab"],
        "a": ["avg-in"],
        "b": ["avg-in"],
        "avg": ["a", "b"],
        "c": ["ab"],
    }


def test_a_unit_elsewhere_is_a_service() -> None:
    found = imported(
        deployment(predictor("{name: m, type: MODEL, endpoint: {service_host: scorer.ml, service_port: 9000}}"))
    )
    assert dag(found) == {"m": {"implementation": {"svc": "scorer.ml:9000", "protocol": "seldon"}}}


def test_methods_say_what_a_unit_of_no_type_does() -> None:
    tree = f"{{name: u, methods: [TRANSFORM_INPUT, TRANSFORM_OUTPUT], children: [{MODEL_A}]}}"
    found = imported(deployment(predictor(tree, ("u",))))
    assert arrows(found) == {"u": [], "a": ["u"], "u-output": ["a"]}
    assert dag(found)["u-output"]["implementation"]["name"] == "u"


def test_a_unit_that_says_nothing_is_a_model() -> None:
    found = imported(deployment(predictor("{name: m}", ("m",))))
    assert dag(found) == {"m": container("m")}
    assert "spec.predictors[0].graph: 'm' has no type; read as MODEL" in notes(found)


def test_several_predictors_are_graphs_that_one_splits_among() -> None:
    stable = predictor(f"{{name: classifier, {SKLEARN}}}", more="name: stable, traffic: 90")
    canary = predictor(
        "{name: classifier, implementation: SKLEARN_SERVER, modelUri: 'gs://new'}", more="name: canary, traffic: 10"
    )
    tried = predictor(f"{{name: classifier, {SKLEARN}}}", more="name: tried, shadow: true, traffic: 50")
    found = imported(deployment(f"{stable}, {canary}, {tried}", name="iris"))
    assert [one["metadata"]["name"] for one in found.manifests] == ["iris-stable", "iris-canary", "iris-tried", "iris"]
    called = [dag(found, place)["classifier"]["implementation"]["kfservice"] for place in range(3)]
    assert called == ["classifier", "iris-canary-classifier", "classifier"], "other files are another model"
    split = {"traffic": {"stable": 90, "canary": 10}, "shadow": ["tried"]}
    assert dag(found, 3) == {
        "split": {"route": {"split": split}},
        "stable": calls("iris-stable", "split"),
        "canary": calls("iris-canary", "split"),
        "tried": calls("iris-tried", "split"),
    }
    assert "spec.predictors[2].traffic: a shadow receives a copy of every request" in notes(found)


@pytest.mark.parametrize(
    ("given", "split", "says"),
    [
        ((0, 0), {}, "no predictor has traffic; the split is even"),
        ((1, 2), {"traffic": {"p0": 33, "p1": 67}}, "traffic sums to 3, not 100: 1, 2 became 33, 67"),
        ((100, 0), {"traffic": {"p0": 100, "p1": 0}}, ""),
    ],
)
def test_traffic_is_whole_per_cent(given: tuple[int, ...], split: dict[str, object], says: str) -> None:
    each = [predictor(MODEL_A, more=f"name: p{place}, traffic: {share}") for place, share in enumerate(given)]
    found = imported(deployment(", ".join(each)))
    assert dag(found, 2)["split"]["route"] == {"split": split}
    assert any(says in note for note in notes(found))


def test_a_model_that_has_the_name_of_its_deployment_is_called_otherwise() -> None:
    found = imported(deployment(predictor(f"{{name: iris, {SKLEARN}}}"), name="iris"))
    assert dag(found)["iris"]["implementation"] == {"kfservice": "iris-model"}


def test_models_of_one_name_and_other_files_are_told_apart_over_deployments() -> None:
    other = "{name: a, implementation: SKLEARN_SERVER, modelUri: 'gs://other'}"
    found = imported(f"{deployment(predictor(MODEL_A), 'one')}---\n{deployment(predictor(other), 'two')}")
    assert [dag(found, place)["a"]["implementation"]["kfservice"] for place in (0, 1)] == ["a", "two-a"]


def test_a_node_that_only_routes_does_not_run_the_container_of_its_name() -> None:
    """Else G13 would make that container its implementation."""
    tree = f"{{name: t, type: OUTPUT_TRANSFORMER, children: [{MODEL_A}, {MODEL_B}]}}"
    found = imported(deployment(predictor(tree, ("t",))))
    assert arrows(found) == {"t-pass": [], "a": ["t-pass"], "b": ["t-pass"], "t": ["a"]}


def test_annotations_carry_over_and_the_limit_of_a_call_is_that_of_its_node() -> None:
    more = "annotations: {seldon.io/rest-timeout: '100000', seldon.io/svc-name: x, project: p}"
    text = deployment(predictor(MODEL_A, more="name: main, labels: {version: v1}, annotations: {a: b}"), more=more)
    found = imported(text.replace("{name: d}", "{name: d, labels: {app: seldon}, annotations: {c: e}}"))
    metadata = found.manifests[0]["metadata"]
    assert metadata["labels"] == {"app": "seldon", "version": "v1"}
    assert metadata["annotations"].keys() == {"a", "c", "project", "seldon.io/rest-timeout", "seldon.io/svc-name"}
    assert dag(found)["a"]["timeoutMs"] == 60_000
    assert "spec.annotations.seldon.io/rest-timeout: 100000 ms is above the maximum of 60 s, which applies" in notes(
        found
    )
    assert "spec.annotations: seldon.io/svc-name: kept, but without effect" in notes(found)


def test_what_has_no_equal_is_told() -> None:
    unit = f"{{name: a, {SKLEARN}, logger: {{mode: all}}, endpoint: {{type: GRPC}}}}"
    more = "name: main, explainer: {type: AnchorTabular}, svcOrchSpec: {replicas: 2}"
    text = deployment(predictor(unit, more=more), more="oauth_key: k, transport: grpc, serverType: kafka")
    told = notes(imported(text.replace("[{spec:", "[{hpaSpec: {maxReplicas: 3}, spec:")))
    for path in ("oauth_key", "predictors[0].explainer", "predictors[0].svcOrchSpec", "predictors[0].graph.logger"):
        assert f"spec.{path}: has no equivalent; it is left out" in told
    assert "spec.predictors[0].componentSpecs[0].hpaSpec: has no equivalent; it is left out" in told
    assert "spec.transport: containers are called over HTTP, not gRPC" in told
    assert "spec.predictors[0].graph.endpoint.type: 'a' is called over HTTP, not gRPC" in told
    assert any(note.startswith("spec.serverType: 'kafka' has no equivalent") for note in told)


@pytest.mark.parametrize("version", ["v1", "v1alpha2", "v1alpha3"])
def test_every_version_is_read(version: str) -> None:
    text = deployment(predictor(MODEL_A)).replace(SELDON, f"machinelearning.seldon.io/{version}")
    assert dag(imported(text)) == {"a": calls("a")}


@pytest.mark.parametrize(
    ("predictors", "says"),
    [
        ("", "spec.predictors: must have at least 1 entry"),
        ("{name: p}", "spec.predictors[0].graph: required"),
        ("{graph: {name: a}}", "spec.predictors[0].name: required"),
        (predictor("{type: MODEL}"), "spec.predictors[0].graph.name: required"),
        (predictor("{name: a, type: THING}"), "spec.predictors[0].graph.type: 'THING' is not a valid value"),
        (predictor("{name: a, type: MODEL}"), "no container 'a' in componentSpecs, and no implementation"),
        (predictor("{name: a, type: ROUTER}", ("a",)), "'a' does nothing"),
        (predictor("{name: a, type: MODEL, children: {name: b}}", ("a",)), ".graph.children: must be a list"),
        (routing("RANDOM_ABTEST", "ratioA", "x"), "'x' is not a number"),
        (routing("RANDOM_ABTEST", "ratioA", "1e999999999"), "'1e999999999' is not a number"),
        (routing("EPSILON_GREEDY", "epsilon", "2"), "must be between 0 and 1, not 2"),
        (predictor("{name: a, type: MODEL, endpoint: {service_host: 'a b'}}"), "is not a valid address"),
        (predictor(MODEL_A, more="name: p, traffic: -1"), "spec.predictors[0].traffic: must be at least 0"),
        (predictor(MODEL_A, more="name: p, shadow: true"), "every predictor is a shadow"),
        (f"{predictor(MODEL_A)}, {predictor(MODEL_B)}", "two predictors have the same name"),
        (predictor("{name: A, type: MODEL}", ("A",)), "would be rejected: spec.custom[0].spec.containers[0].name"),
    ],
)
def test_what_cannot_be_turned_says_why(predictors: str, says: str) -> None:
    (fault, *_) = refused(imported(deployment(predictors)))
    assert says in fault
