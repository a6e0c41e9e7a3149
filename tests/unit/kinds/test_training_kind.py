"""TrainingJob."""

# ruff: noqa: E501 - in tables, one example is one line

from __future__ import annotations

from typing import Any

import pytest

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context
from mizzen.kinds.training import TrainingJobSpec
from tests.unit.kinds.examined import faults, warnings

SMALL: dict[str, Any] = {"modelName": "iris", "version": "v2"}
POD = {"spec": {"containers": [{"name": "tensorflow", "image": "tf-mnist-estimator-api:v0.1"}]}}
EVERY_FIELD: dict[str, Any] = SMALL | {
    "deployToLayer": "cloud", "frameworkType": "tensorflow", "nodeSelector": {"disk": "fast"}, "nodeName": "one",
    "image": "repo/train:1", "command": ["python", "train.py"], "hyperparameters": {"rate": 0.1, "layers": [3, 4]},
    "tfReplicaSpecs": {
        "Chief": {"replicas": 1, "restartPolicy": "ExitCode", "gpu": 1, "resources": {"memory": "2Gi"}},
        "Worker": {"replicas": 3, "restartPolicy": "Never", "template": POD}, "PS": {}, "Evaluator": {"replicas": 0},
    },
    "dataset": {"s3": {"bucket": "ml-example", "prefix": "a/", "endpoint": "http://s3:9000", "region": "r", "secret": "s3"}},
    "successPolicy": "AllWorkers", "restartPolicy": "OnFailure", "backoffLimit": 0, "cleanPodPolicy": "None",
    "ttlSecondsAfterFinished": 0, "activeDeadlineSeconds": 60, "suspend": True, "gpu": 0.5, "resources": {"cpu": 2},
    "priority": -5, "retention": {"checkpoints": 3, "logs": "30d"}, "env": [{"name": "A", "value": "1"}],
}  # fmt: skip


def test_every_field_at_once() -> None:
    assert warnings("TrainingJob", EVERY_FIELD) == set()
    unset = {info.alias for info in TrainingJobSpec.model_fields.values()} - set(EVERY_FIELD)
    assert unset == {"replicas", "replicaSpecs", "pytorchReplicaSpecs"}
    assert catalog.find("TrainingModel").name == "TrainingJob"


@pytest.mark.parametrize(
    ("fields", "counts"),
    [
        ({}, {"Worker": 1}),
        ({"replicas": 4}, {"Worker": 4}),
        ({"replicaSpecs": {"Worker": {"replicas": 2}}}, {"Worker": 2}),
        ({"pytorchReplicaSpecs": {"Master": {}, "Worker": {"replicas": 0}}}, {"Master": 1, "Worker": 0}),
        ({"tfReplicaSpecs": {"Chief": {}, "PS": {"replicas": 2}}}, {"Chief": 1, "PS": 2}),
    ],
)
def test_replica_maps_in_every_spelling(fields: dict[str, Any], counts: dict[str, int]) -> None:
    assert faults("TrainingJob", SMALL | fields) == set()
    read = TrainingJobSpec.model_validate(SMALL | fields).replica_map
    assert {type_: replica.replicas for type_, replica in read.items()} == counts


@pytest.mark.parametrize(
    "spec",
    [
        {"modelName": "iris", "image": "repo/train"},
        {"modelName": "iris", "command": ["true"]},
        {"modelName": "iris", "replicaSpecs": {"Worker": {"template": POD}}},
        SMALL | {"dataset": {"path": "/data"}},
        SMALL | {"dataset": {"http": {"url": "https://h/d.zip", "sha256sum": 64 * "0"}}},
    ],
)
def test_what_is_fine(spec: dict[str, Any]) -> None:
    assert warnings("TrainingJob", spec) == set()


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"version": ""}, "spec: has nothing to run: set version, image, command, or templates in replicaSpecs"),
        ({"version": "0"}, "spec.version: version numbers start at 1"),
        ({"deployToLayer": "egde"}, "spec.deployToLayer: 'egde' is not a valid value; did you mean 'edge'?"),
        ({"replicas": 0}, "spec.replicas: has no replicas; at least 1 is needed"),
        ({"replicas": -1}, "spec.replicas: must be at least 0, not -1"),
        ({"replicaSpecs": {}}, "spec.replicaSpecs: has no replicas; at least 1 is needed"),
        ({"tfReplicaSpecs": {"Worker": {"replicas": 0}, "PS": {"replicas": 0}}}, "spec.tfReplicaSpecs: has no "
        "replicas; at least 1 is needed"),
        ({"tfReplicaSpecs": {"Wroker": {}}}, "spec.tfReplicaSpecs: unknown replica type 'Wroker'; did you mean "
        "'Worker'?"),
        ({"tfReplicaSpecs": {"worker": {}}}, "spec.tfReplicaSpecs: unknown replica type 'worker'; did you mean "
        "'Worker'?"),
        ({"tfReplicaSpecs": {"Boss": {}}}, "spec.tfReplicaSpecs: unknown replica type 'Boss'; types are Chief, "
        "Master, Worker, PS, Evaluator"),
        ({"replicaSpecs": {"Chief": {}, "Master": {}}}, "spec.replicaSpecs: has both Chief and Master, which are two "
        "names of the same type"),
        ({"replicaSpecs": {"Chief": {"replicas": 2}}}, "spec.replicaSpecs.Chief.replicas: must be at most 1, not 2"),
        ({"replicaSpecs": {"PS": {}}}, "spec.replicaSpecs: needs a Chief, Master or Worker, which decides whether the "
        "job succeeds"),
        ({"replicaSpecs": {"Worker": {"replicas": -1}}}, "spec.replicaSpecs.Worker.replicas: must be at least 0, not "
        "-1"),
        ({"replicaSpecs": {"Worker": {"restartPolicy": "Sometimes"}}}, "spec.replicaSpecs.Worker.restartPolicy: "
        "'Sometimes' is not a valid value; values are Never, OnFailure, Always, ExitCode"),
        ({"replicaSpecs": {"Worker": {"template": {"spec": {"containers": []}}}}}, "spec.replicaSpecs.Worker.template.spec.containers: must have at least 1 entry"),
        ({"replicaSpecs": {"Worker": {"replcas": 1}}}, "spec.replicaSpecs.Worker: unknown field 'replcas'; did you "
        "mean 'replicas'?"),
        ({"replicas": 1, "tfReplicaSpecs": {"Worker": {}}}, "spec: tfReplicaSpecs and replicas have the same meaning; "
        "set only one of them"),
        ({"replicaSpecs": {"Worker": {}}, "tfReplicaSpecs": {"Worker": {}}}, "spec: replicaSpecs and tfReplicaSpecs "
        "have the same meaning; set only one of them"),
        ({"successPolicy": "AllWorkers", "replicaSpecs": {"Chief": {}}}, "spec.successPolicy: AllWorkers needs at "
        "least one Worker"),
        ({"dataset": {}}, "spec.dataset: one of s3, http, path is required"),
        ({"dataset": {"path": "/d", "s3": {"bucket": "abc"}}}, "spec.dataset: only one of s3, http, path may be set, "
        "not s3 and path"),
        ({"dataset": {"path": "data"}}, "spec.dataset.path: 'data' is not an absolute path"),
        ({"dataset": {"s3": {}}}, "spec.dataset.s3.bucket: required"),
        ({"dataset": {"s3": {"bucket": "A"}}}, "spec.dataset.s3.bucket: 'A' is not a bucket name; expected 3 to 63 "
        "lower-case letters, digits, '-' and '.', with a letter or digit at both ends"),
        ({"dataset": {"http": {"url": "s3://b/k"}}}, "spec.dataset.http.url: is not a valid URL; expected http:// or "
        "https://"),
        ({"backoffLimit": -1}, "spec.backoffLimit: must be at least 0, not -1"),
        ({"cleanPodPolicy": "Nothing"}, "spec.cleanPodPolicy: 'Nothing' is not a valid value; values are Running, All, None"),
        ({"ttlSecondsAfterFinished": -1}, "spec.ttlSecondsAfterFinished: must be at least 0, not -1"),
        ({"activeDeadlineSeconds": 0}, "spec.activeDeadlineSeconds: must be at least 1, not 0"),
        ({"suspend": "true"}, "spec.suspend: must be true or false, not 'true'"),
        ({"retention": {"checkpoints": 0}}, "spec.retention.checkpoints: must be at least 1, not 0"),
        ({"hyperparameters": [1]}, "spec.hyperparameters: must be an object"),
        ({"env": [{"name": "A", "value": "1"}] * 2}, "spec.env[1].name: 'A' is already the name of another variable"),
    ],
)  # fmt: skip
def test_what_is_wrong(fields: dict[str, Any], fault: str) -> None:
    assert faults("TrainingJob", SMALL | fields) == {fault}


def test_what_is_odd() -> None:
    spec = SMALL | {
        "image": "repo/train", "gpu": 1, "frameworkType": "cobolt", "dataset": {"http": {"url": "http://h/d"}},
        "replicaSpecs": {"Worker": {"template": POD, "gpu": 0.5}},
    }  # fmt: skip
    assert warnings("TrainingJob", spec, Context()) == {
        "spec.image: this engine runs no container images; the job cannot run here",
        "spec.gpu: this engine has no GPUs; it stays not ready",
        "spec.frameworkType: unknown framework 'cobolt'; known are sklearn, xgboost, lightgbm, onnx, tensorflow, "
        "pytorch, mlflow, python",
        "spec.dataset.http: has no sha256sum, so the download is not verified",
        "spec.replicaSpecs.Worker.template.spec.containers[0].image: this engine runs no container images; the job "
        "cannot run here",
        "spec.replicaSpecs.Worker.gpu: this engine has no GPUs; it stays not ready",
    }


def test_all_faults_at_once() -> None:
    spec = {"replicaSpecs": {"Boss": {}, "Chief": {"replicas": 2}}, "modelName": "iris", "suspend": 1, "dataset": {}}
    assert faults("TrainingJob", spec | {"command": ["x"]}) == {
        "spec.suspend: must be true or false, not 1",
        "spec.dataset: one of s3, http, path is required",
        "spec.replicaSpecs: unknown replica type 'Boss'; types are Chief, Master, Worker, PS, Evaluator",
        "spec.replicaSpecs.Chief.replicas: must be at most 1, not 2",
    }
