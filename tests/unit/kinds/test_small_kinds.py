"""Rollout, Monitor, Node, RoleBinding, Workload."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.kinds.access import RoleBindingSpec
from mizzen.kinds.rollout import RolloutSpec
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.schema.resource import Meta, Resource
from tests.unit.kinds.examined import faults, warnings

TARGET = {"kind": "Model", "name": "iris"}
ANALYSIS = {"metric": "error-rate", "threshold": 0.01}
STEPS: list[dict[str, Any]] = [
    {"setWeight": 0},
    {"pause": {"duration": "1h30m"}},
    {"setWeight": 100},
    {"pause": None},
    {
        "analysis": {
            "metric": "latency-p99", "vs": "stable", "tolerance": 0.1, "interval": "30s", "count": 5, "failureLimit": 1,
            "minSamples": 100, "timeout": "2h",
        }
    },
    {"analysis": {"query": "up", "threshold": -3, "higherIsBetter": True}},
]  # fmt: skip


def _rollout(*steps: Any, target: Any = TARGET) -> dict[str, Any]:
    return {"target": target, "steps": list(steps)}


def test_a_rollout_with_every_step() -> None:
    assert warnings("Rollout", _rollout(*STEPS)) == set()
    read = RolloutSpec.of(Resource("Rollout", Meta("r"), _rollout(*STEPS)))
    assert read.steps[3].pause is not None
    assert read.steps[3].pause.duration is None


@pytest.mark.parametrize(
    "analysis",
    [
        {"metric": "reward", "vs": "stable"},
        {"metric": "accuracy", "threshold": 0.9},
        {"metric": "error-rate", "threshold": 0.1},
        {"query": "up", "threshold": 1},
        {"query": "up", "threshold": 1, "higherIsBetter": True},
    ],
)
def test_analyses(analysis: dict[str, Any]) -> None:
    assert faults("Rollout", _rollout({"analysis": analysis})) == set()


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({"steps": STEPS}, "spec.target: required"),
        ({"target": TARGET}, "spec.steps: required"),
        (_rollout(), "spec.steps: must have at least 1 entry"),
        (_rollout(*STEPS, target={"kind": "Modle", "name": "iris"}), "spec.target.kind: 'Modle' is not a valid "
        "value; did "
        "you mean 'Model'?"),
        (_rollout(*STEPS, target={"kind": "Node", "name": "iris"}), "spec.target.kind: 'Node' is not a valid value; "
        "values "
        "are Model, InferenceModel, MLGraph"),
        (_rollout(*STEPS, target={"kind": "Model", "name": "a:b"}), "spec.target.name: 'a:b' is not a valid name; "
        "expected "
        "lower-case letters, digits and '-', at most 63"),
        (_rollout({}), "spec.steps[0]: one of setWeight, pause, analysis is required"),
        (_rollout({"setWeight": 1, "pause": None}), "spec.steps[0]: only one of setWeight, pause, analysis may be "
        "set, not setWeight and pause"),
        (_rollout({"setWeight": 101}), "spec.steps[0].setWeight: must be at most 100, not 101"),
        (_rollout({"setWeight": -1}), "spec.steps[0].setWeight: must be at least 0, not -1"),
        (_rollout({"pause": {"duration": "a while"}}), "spec.steps[0].pause.duration: 'a while' is not a valid "
        "duration; expected "
        "a text such as 30s, 5m, 1h30m or 2d"),
        (_rollout({"pause": {"duration": 30}}), "spec.steps[0].pause.duration: must be a text; quote it: '30'"),
        (_rollout({"pause": {"duration": "0s"}}), "spec.steps[0].pause.duration: must be above 0"),
        (_rollout({"analysis": {"threshold": 1}}), "spec.steps[0].analysis: one of metric, query is required"),
        (_rollout({"analysis": ANALYSIS | {"query": "up"}}), "spec.steps[0].analysis: only one of metric, query may "
        "be set, not metric and query"),
        (_rollout({"analysis": {"metric": "reward"}}), "spec.steps[0].analysis: one of threshold, vs is required"),
        (_rollout({"analysis": ANALYSIS | {"vs": "stable"}}), "spec.steps[0].analysis: only one of threshold, vs may "
        "be set, not threshold and vs"),
        (_rollout({"analysis": ANALYSIS | {"metric": "eror-rate"}}), "spec.steps[0].analysis.metric: 'eror-rate' is "
        "not a valid value; did you mean 'error-rate'?"),
        (_rollout({"analysis": ANALYSIS | {"threshold": 5}}), "spec.steps[0].analysis.threshold: error-rate is a "
        "share; it must be from 0 to 1, not 5"),
        (_rollout({"analysis": {"metric": "latency-p50", "threshold": 0}}), "spec.steps[0].analysis.threshold: must "
        "be above 0, not 0"),
        (_rollout({"analysis": ANALYSIS | {"tolerance": 0.1}}), "spec.steps[0].analysis.tolerance: only possible with "
        "vs"),
        (_rollout({"analysis": ANALYSIS | {"higherIsBetter": True}}), "spec.steps[0].analysis.higherIsBetter: only "
        "possible with query; for error-rate it is known"),
        (_rollout({"analysis": ANALYSIS | {"count": 0}}), "spec.steps[0].analysis.count: must be at least 1, not 0"),
        (_rollout({"analysis": ANALYSIS | {"minSamples": 0}}), "spec.steps[0].analysis.minSamples: must be at least "
        "1, not 0"),
        (_rollout({"setWieght": 5}), "spec.steps[0]: unknown field 'setWieght'; did you mean 'setWeight'?"),
    ],
)  # fmt: skip
def test_a_rollout_that_is_wrong(spec: dict[str, Any], fault: str) -> None:
    assert faults("Rollout", spec) == {fault}


def test_a_rollout_that_is_odd() -> None:
    assert warnings("Rollout", _rollout({"setWeight": 50}, {"pause": {}}, {"setWeight": 20}, {"setWeight": 40})) == {
        "spec.steps[2].setWeight: 20 is below 50, the weight of an earlier step",
        "spec.steps[3].setWeight: 40 is below 50, the weight of an earlier step",
    }
    assert warnings("Rollout", _rollout({"analysis": ANALYSIS | {"count": 2, "failureLimit": 2}})) == {
        "spec.steps[0].analysis.failureLimit: with 2 measurements the analysis can never fail"
    }


@given(st.lists(st.integers(0, 100), min_size=1, max_size=8))
def test_weights_that_only_grow_are_not_odd(weights: list[int]) -> None:
    odd = warnings("Rollout", _rollout(*({"setWeight": weight} for weight in weights)))
    assert (odd == set()) is (weights == sorted(weights))


def test_all_faults_of_a_rollout_at_once() -> None:
    assert faults("Rollout", _rollout({"setWeight": "x"}, {}, {"analysis": {"metric": "reward", "threshold": 2}})) == {
        "spec.steps[0].setWeight: must be a whole number, not 'x'",
        "spec.steps[1]: one of setWeight, pause, analysis is required",
        "spec.steps[2].analysis.threshold: reward is a share; it must be from 0 to 1, not 2",
    }
    assert faults("Rollout", _rollout({"setWeight": 101}, target={"kind": "x"})) == {
        "spec.steps[0].setWeight: must be at most 100, not 101",
        "spec.target.kind: 'x' is not a valid value; values are Model, InferenceModel, MLGraph",
        "spec.target.name: required",
    }


def test_monitors() -> None:
    assert warnings("Monitor", {"modelName": "iris"}) == set()
    assert warnings("Monitor", {"modelName": "iris", "tool": "tensorboard"}) == set()
    assert faults("Monitor", {}) == {"spec.modelName: required"}
    assert faults("Monitor", {"modelName": "iris", "tool": "Tensor Board"}) == {
        "spec.tool: 'Tensor Board' is not a valid tool name; expected a lower-case word such as tensorboard"
    }
    assert warnings("Monitor", {"modelName": "iris", "tool": "tensorbord"}) == {
        "spec.tool: unknown tool 'tensorbord', so the built-in viewer is used; did you mean 'tensorboard'?"
    }


NODE: dict[str, Any] = {
    "layer": "edge", "address": "10.0.0.7:8470", "capabilities": ["containers", "gpus"], "cpu": 4, "memory": "16Gi",
    "gpus": 2,
}  # fmt: skip


@pytest.mark.parametrize("address", ["host", "host.example:80", "[::1]:8470", "10.0.0.7"])
def test_nodes(address: str) -> None:
    assert warnings("Node", NODE | {"address": address}) == set()
    assert warnings("Node", {"layer": "cloud"}) == set()


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "spec.layer: required"),
        ({"layer": "clod"}, "spec.layer: 'clod' is not a valid value; did you mean 'cloud'?"),
        (NODE | {"address": "http://host"}, "spec.address: 'http://host' is not an address; expected host or "
        "host:port"),
        (NODE | {"capabilities": ["gpus", "gpus"]}, "spec.capabilities[1]: 'gpus' is given twice"),
        (NODE | {"memory": "much"}, "spec.memory: 'much' is not a valid quantity; expected a text such as 2, 0.5, "
        "500m, 512Mi or 4Gi"),
        (NODE | {"gpus": -1}, "spec.gpus: must be at least 0, not -1"),
        (NODE | {"labels": {}}, "spec: unknown field 'labels'; valid are layer, address, capabilities, cpu, memory, "
        "gpus"),
    ],
)  # fmt: skip
def test_a_node_that_is_wrong(spec: dict[str, Any], fault: str) -> None:
    assert faults("Node", spec) == {fault}


def test_a_node_that_is_odd() -> None:
    assert warnings("Node", {"layer": "edge", "capabilities": ["gpu"], "gpus": 1}) == {
        "spec.capabilities[0]: unknown capability 'gpu'; did you mean 'gpus'?",
        "spec.gpus: not used, because capabilities do not include 'gpus'",
    }


BINDING: dict[str, Any] = {
    "subjects": ["ada", "group:data-science", "bob@example.org", "*"],
    "verbs": ["read", "predict"],
    "target": {"model": "iris", "alias": "prod"},
}


@pytest.mark.parametrize(
    ("target", "read"),
    [
        ({"model": "iris", "alias": "prod"}, ("iris", "prod")),
        ({"model": "iris"}, ("iris", "")),
        ({"model": "iris", "namespace": "default"}, ("iris", "")),
        ({"namespace": "default"}, ("", "")),
    ],
)
def test_what_a_binding_speaks_of(target: dict[str, str], read: tuple[str, str]) -> None:
    assert warnings("RoleBinding", BINDING | {"target": target}) == set()
    spec = RoleBindingSpec.model_validate(BINDING | {"target": target})
    assert (spec.model, spec.alias) == read


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"subjects": []}, "spec.subjects: must have at least 1 entry"),
        ({"subjects": ["ada", "ada"]}, "spec.subjects[1]: 'ada' is given twice"),
        ({"subjects": ["group:"]}, "spec.subjects[0]: 'group:' is not a valid subject; expected a principal's name, "
        "group:<name> or '*'"),
        ({"subjects": ["a b"]}, "spec.subjects[0]: 'a b' is not a valid subject; expected a principal's name, "
        "group:<name> or '*'"),
        ({"subjects": [""]}, "spec.subjects[0]: '' is not a valid subject; expected a principal's name, group:<name> "
        "or '*'"),
        ({"verbs": []}, "spec.verbs: must have at least 1 entry"),
        ({"verbs": ["read", "read"]}, "spec.verbs[1]: 'read' is given twice"),
        ({"verbs": ["reed"]}, "spec.verbs[0]: 'reed' is not a valid value; did you mean 'read'?"),
        ({"target": {}}, "spec.target: needs a model or a namespace; for this whole namespace write namespace: "
        "default"),
        ({"target": {"alias": "prod", "namespace": "default"}}, "spec.target.alias: needs model, the model that the "
        "alias belongs to"),
        ({"target": {"model": "iris", "alias": "v3"}}, "spec.target.alias: 'v3' is a version, not an alias"),
        ({"target": {"namespace": "other"}}, "spec.target.namespace: must be 'default', since a binding applies to "
        "its own namespace only"),
        ({"target": {"namespace": "A B"}}, "spec.target.namespace: 'A B' is not a valid namespace name"),
        ({"target": {"modle": "iris"}}, "spec.target: unknown field 'modle'; did you mean 'model'?"),
    ],
)  # fmt: skip
def test_a_binding_that_is_wrong(fields: dict[str, Any], fault: str) -> None:
    extra = (
        {"spec.target.alias: needs model, the model that the alias belongs to"}
        if fields.get("target") == {"alias": "prod"}
        else set()
    )
    assert faults("RoleBinding", BINDING | fields) == {fault} | extra


def test_a_binding_must_say_what_it_speaks_of() -> None:
    assert faults("RoleBinding", {}) == {"spec.subjects: required", "spec.verbs: required", "spec.target: required"}


def test_the_namespace_is_compared_only_where_it_is_known() -> None:
    assert warnings("RoleBinding", BINDING | {"target": {"namespace": "other"}}, Context()) == set()


WORKLOAD: dict[str, Any] = {
    "purpose": "serve",
    "command": ["python", "-m", "x"],
    "env": {"A": "1"},
    "secretEnv": {"TOKEN": {"name": "hub", "key": "token"}},
}


def test_a_workload_names_secrets_and_holds_none() -> None:
    assert faults("Workload", WORKLOAD) == set()
    assert faults("Workload", WORKLOAD | {"env": {"TOKEN": "x"}}) == {"spec.secretEnv.TOKEN: is also set in env"}
    assert faults("Workload", WORKLOAD | {"secretEnv": {"TOKEN": "hunter2"}}) == {
        "spec.secretEnv.TOKEN: must be an object"
    }
