from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds.parts import env
from mizzen.kinds.parts.env import EnvVar, SecretKeyRef
from mizzen.kinds.parts.pods import PodSpec, PodTemplate, unrunnable_images
from mizzen.kinds.schema.examine import examine
from mizzen.kinds.schema.findings import Context
from tests.support.golden import Golden
from tests.unit.kinds.examined import faults

SECRET = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}


def _of(variables: Any) -> set[str]:
    return faults("Monitor", {"modelName": "iris", "env": variables})


def test_variables_hold_values_or_name_secrets() -> None:
    assert _of([{"name": "A", "value": ""}, {"name": "_b2", "value": "x"}, SECRET]) == set()
    read = [EnvVar.model_validate(item) for item in ({"name": "A", "value": "1"}, SECRET)]
    assert env.plain_values(read) == {"A": "1"}
    assert env.secret_values(read) == {"TOKEN": SecretKeyRef(name="hub", key="token")}


@pytest.mark.parametrize(
    ("variable", "fault"),
    [
        ({"name": "A"}, "spec.env[0]: one of value, valueFrom is required"),
        (
            {**SECRET, "value": "x"},
            "spec.env[0]: only one of value, valueFrom may be set, not value and valueFrom",
        ),
        ({"name": "A", "value": 3}, "spec.env[0].value: must be a text; quote it: '3'"),
        (
            {"name": "2A", "value": "x"},
            "spec.env[0].name: '2A' is not a variable name; expected letters, digits and '_', not starting with a "
            "digit",
        ),
        ({"name": "MIZZEN_SOCKET", "value": "x"}, "spec.env[0].name: 'MIZZEN_SOCKET' is set by Mizzen itself"),
        (
            {"name": "MIZZEN_GPU_MEMORY_SHARE", "value": "inf"},
            "spec.env[0].name: 'MIZZEN_GPU_MEMORY_SHARE' is set by Mizzen itself",
        ),
        ({"name": "A", "valueFrom": {}}, "spec.env[0].valueFrom.secretKeyRef: required"),
        (
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "a/b"}}},
            "spec.env[0].valueFrom.secretKeyRef.key: 'a/b' is not a secret key; expected "
            "letters, digits, '-', '_' and '.', at most 253",
        ),
        (
            {"name": "A", "valueFrom": {"secretKeyRf": {"name": "hub", "key": "a"}}},
            "spec.env[0].valueFrom: unknown field 'secretKeyRf'; did you mean 'secretKeyRef'?",
        ),
    ],
)
def test_a_variable_that_is_wrong(variable: dict[str, Any], fault: str) -> None:
    assert _of([variable]) == {fault}


def test_a_variable_is_given_once() -> None:
    assert _of([{"name": "A", "value": "1"}, SECRET, {"name": "A", "value": "2"}]) == {
        "spec.env[2].name: 'A' is already the name of another variable"
    }


POD = {
    "containers": [
        {
            "name": "main", "image": "repo/image:1", "command": ["run"], "args": ["--fast"], "workingDir": "/",
            "env": [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, SECRET],
            "ports": [{"containerPort": 8080}], "resources": {"limits": {"cpu": 1, "nvidia.com/gpu": "1"}},
            "livenessProbe": {"httpGet": {"path": "/"}},
        },
    ],
    "tolerations": [{"operator": "Exists"}],
    "nodeSelector": {"disk": "fast"},
}  # fmt: skip


def _pod(spec: Any) -> set[str]:
    return set(map(str, examine(PodTemplate, {"spec": spec}, "template", Context())))


def test_pods_may_hold_what_we_do_not_know() -> None:
    assert _pod(POD) == set()
    container = PodSpec.model_validate(POD).containers[0]
    assert (container.command, container.args) == (("run",), ("--fast",))
    assert container.resources is not None
    assert container.resources.limits == {"cpu": "1", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        ({}, "template.spec.containers: required"),
        ({"containers": []}, "template.spec.containers: must have at least 1 entry"),
        ({"containers": [{}]}, "template.spec.containers[0].name: required"),
        (
            {"containers": [{"name": "a"}, {"name": "a"}]},
            "template.spec.containers[1].name: 'a' is already the name of another container",
        ),
        ({"containers": [{"name": "a", "command": "run"}]}, "template.spec.containers[0].command: must be a list"),
        (
            {"containers": [{"name": "A"}]},
            "template.spec.containers[0].name: 'A' is not a valid name; expected lower-case letters, digits and "
            "'-', at most 63",
        ),
        (
            {"containers": [{"name": "a", "ports": [{"containerPort": 0}]}]},
            "template.spec.containers[0].ports[0].containerPort: must be at least 1, not 0",
        ),
    ],
)
def test_a_pod_that_is_wrong(spec: dict[str, Any], fault: str) -> None:
    assert _pod(spec) == {fault}


def test_images_where_no_containers_run(golden: Golden) -> None:
    pod = PodSpec.model_validate({"containers": [{"name": "a"}, {"name": "b", "image": "i"}]})
    (warning,) = unrunnable_images(pod, "spec", Context(), "it stays not ready")
    golden.check(str(warning))
    assert list(unrunnable_images(pod, "spec", Context(capabilities=frozenset({"containers"})), "")) == []
