"""Good specs, and single mistakes that can be made in them: where, what, and the one fault that must come of it."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class _Gone:
    def __repr__(self) -> str:
        return "gone"


GONE = _Gone()
"""Planted in place of a value, it takes the field out."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """`at` is set to `value`; `path` is that of the fault, by default the same place. Paths are without `spec.`."""

    at: str
    value: Any
    path: str | None = None
    beside: tuple[str, ...] = ()
    """What else the broken rule speaks of."""

    @property
    def fault_path(self) -> str:
        return ".".join(filter(None, ("spec", self.at if self.path is None else self.path)))

    @property
    def touched(self) -> frozenset[str]:
        return frozenset((self.at, *self.beside))

    def independent_of(self, other: Mistake) -> bool:
        return not any(_under(a, b) or _under(b, a) for a in self.touched for b in other.touched)


def planted(spec: Any, mistakes: Iterable[Mistake]) -> Any:
    spec = copy.deepcopy(spec)
    for mistake in mistakes:
        *way, last = [int(step) if step.isdigit() else step for step in re.findall(r"[^.\[\]]+", mistake.at)]
        holder = spec
        for step in way:
            holder = holder[step]
        if mistake.value is GONE:
            del holder[last]
        else:
            holder[last] = copy.deepcopy(mistake.value)
    return spec


def _under(path: str, top: str) -> bool:
    return path == top or path.startswith((f"{top}.", f"{top}["))


SUM, OTHER_SUM = "ab" * 32, "cd" * 32
POD = {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}

INFERENCE: dict[str, Any] = {
    "modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "targetVersion": "1",
    "manifest": [
        {"version": "1", "downloadURL": "https://example.com/a", "sha256sum": SUM},
        {"version": "2", "downloadURL": "https://example.com/b", "sha256sum": OTHER_SUM},
    ],
    "servingPort": 8501, "replicas": 2, "extraNames": ["a", "b"], "autoScale": {"minReplicas": 1, "maxReplicas": 3},
    "batching": {"batchSize": "auto"}, "timeoutMs": 100, "env": [{"name": "A", "value": "1"}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1]}],
    "defaultOutput": [{"name": "y", "datatype": "FP32", "shape": [1], "data": [0.5]}],
}  # fmt: skip
INFERENCE_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("batching.nonsense", 1, "batching"),
    Mistake("manifest[1].nonsense", 1, "manifest[1]"),
    Mistake("servingPort", "x"), Mistake("replicas", -1), Mistake("env[0].value", 5), Mistake("extraNames[0]", "A B"),
    Mistake("deployToLayer", "moon"), Mistake("env[0].name", GONE), Mistake("modelName", GONE),
    Mistake("manifest[0].downloadURL", GONE), Mistake("autoScale.maxReplicas", GONE),
    Mistake("frameworkType", GONE),
    Mistake("timeoutMs", GONE, "batching.batchSize", ("batching.batchSize",)),
    Mistake("manifest[0].sha256sum", GONE), Mistake("manifest[1].sha256sum", GONE),
    Mistake("targetVersion", "7", beside=("manifest[0].version", "manifest[1].version")),
    Mistake("manifest[1].version", "1", beside=("manifest[0].version",)),
    Mistake("manifest[0].version", GONE, beside=("manifest[1].version", "targetVersion")),
    Mistake("autoScale.minReplicas", 9, beside=("autoScale.maxReplicas",)),
    Mistake("extraNames[1]", "a", beside=("extraNames[0]",)),
    Mistake("defaultOutput[0].data", [1.0, 2.0], beside=("defaultOutput[0].shape",)),
    Mistake("defaultOutput[0].shape", GONE), Mistake("defaultOutput[0].shape[0]", "x"),
    Mistake("outputs[0].name", GONE, beside=("defaultOutput[0].name",)), Mistake("outputs[0].datatype", "FP33"),
)  # fmt: skip

TRAINING: dict[str, Any] = {
    "modelName": "iris", "replicaSpecs": {"Chief": {"replicas": 1, "template": POD}, "Worker": {"replicas": 2}},
    "dataset": {"s3": {"bucket": "data"}}, "successPolicy": "AllWorkers", "backoffLimit": 3, "gpu": 1, "env": [
        {"name": "A", "value": "1"}, {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    ],
    "retention": {"checkpoints": 1},
}  # fmt: skip
TRAINING_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("replicaSpecs.Worker.nonsense", 1, "replicaSpecs.Worker"),
    Mistake("dataset.s3.nonsense", 1, "dataset.s3"),
    Mistake("backoffLimit", -1), Mistake("retention.checkpoints", "1"), Mistake("replicaSpecs.Worker.gpu", "x"),
    Mistake("modelName", GONE), Mistake("dataset.s3.bucket", GONE), Mistake("env[1].valueFrom.secretKeyRef.key", GONE),
    Mistake("env[0].value", GONE, "env[0]"), Mistake("env[0].name", "B", "env[1].name", ("env[1].name",)),
    Mistake("dataset.path", "/x", "dataset"),
    Mistake("replicaSpecs.Worker.replicas", 0, "successPolicy", ("successPolicy",)),
    Mistake("replicaSpecs.Chief.replicas", 2), Mistake("replicaSpecs.Chief.template", GONE, "", ("image", "command")),
    Mistake("replicaSpecs.Chief.template.spec.containers[0].name", GONE),
)  # fmt: skip

GRAPH: dict[str, Any] = {
    "timeoutMs": 100, "headers": ["x-user"],
    "custom": [{"spec": {"containers": [{"name": "box", "image": "x:1"}]}, "replicas": 1}],
    "dag": [
        {"name": "a", "implementation": {"name": "box"}, "route": {"split": {"traffic": {"b": 60, "c": 40}}}},
        {"name": "b", "dependencies": ["a"], "implementation": {"kfservice": "b"},
         "route": {"cascade": {"edge": "d", "cloud": "e", "hardExample": {"name": "Threshold"}}}},
        {"name": "c", "dependencies": ["a"], "implementation": {"svc": "example.com"}, "timeoutMs": 10},
        {"name": "d", "dependencies": ["b"], "implementation": {"kfservice": "d"}},
        {"name": "e", "dependencies": ["b"], "implementation": {"kfservice": "e"}},
        {"name": "m", "dependencies": ["c", "d"], "merge": {"ensemble": {"weights": {"c": 1, "d": 2}}}},
    ],
}  # fmt: skip
GRAPH_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("dag[1].route.cascade.nonsense", 1, "dag[1].route.cascade"),
    Mistake("dag[2].timeoutMs", "x"), Mistake("custom[0].replicas", -1), Mistake("timeoutMs", 0),
    Mistake("dag[4].onError", "explode"), Mistake("dag[5].merge.ensemble.weights.c", "x"),
    Mistake("dag[0].route.split.traffic.b", "x"),
    Mistake("dag[1].route.cascade.hardExample", GONE), Mistake("dag[1].route.cascade.hardExample.name", GONE),
    Mistake("dag[1].route.cascade.edge", GONE), Mistake("custom[0].spec.containers[0].name", 5),
    Mistake("dag[1].route.cascade.cloud", "z", beside=("dag[2].name", "dag[4].name")),
    Mistake("dag[0].route.split.traffic", {"b": 60, "c": 30}), Mistake("dag[0].route.split.traffic", {}),
    Mistake("dag[0].implementation", {"name": "bux"}, "dag[0].implementation.name", ("custom[0].spec",)),
    Mistake("dag[2].implementation", {}), Mistake("dag[3].implementation", GONE, "dag[3]", ("custom[0].spec",)),
    Mistake("dag[4].dependencies", ["b", "b"], "dag[4].dependencies[1]", ("dag[1].name",)),
    Mistake("dag[4].implementation.kfservice", ""), Mistake("headers[0]", "a b"),
    Mistake("dag[5].merge.ensemble.weights", {"c": 1}, beside=("dag[5].dependencies",)),
    Mistake("dag[2].name", GONE, beside=("dag[0].route.split.traffic", "dag[5].dependencies")),
)  # fmt: skip

ROLLOUT: dict[str, Any] = {
    "target": {"kind": "Model", "name": "iris"},
    "steps": [
        {"setWeight": 10}, {"pause": {"duration": "10m"}},
        {"analysis": {"metric": "error-rate", "threshold": 0.1, "count": 3}},
        {"analysis": {"query": "up", "vs": "stable", "tolerance": 0.1, "higherIsBetter": True}}, {"setWeight": 100},
    ],
}  # fmt: skip
ROLLOUT_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("target.nonsense", 1, "target"),
    Mistake("steps[2].analysis.nonsense", 1, "steps[2].analysis"),
    Mistake("steps[0].setWeight", 101), Mistake("steps[1].pause.duration", "soon"),
    Mistake("steps[2].analysis.count", "3"), Mistake("target.name", 5), Mistake("steps[4]", "go"),
    Mistake("target.kind", GONE), Mistake("target.name", GONE), Mistake("target.kind", "Modle"),
    Mistake("steps[2].analysis.threshold", GONE, "steps[2].analysis", ("steps[2].analysis.vs",)),
    Mistake("steps[2].analysis.metric", GONE, "steps[2].analysis", ("steps[2].analysis.threshold",)),
    Mistake("steps[3].analysis.vs", 3), Mistake("steps[4].setWeight", GONE, "steps[4]"),
    Mistake("steps[0].pause", {}, "steps[0]", ("steps[0].setWeight",)),
)  # fmt: skip

BINDING: dict[str, Any] = {
    "subjects": ["ann", "group:team"], "verbs": ["read", "predict"], "target": {"model": "iris", "alias": "prod"}
}  # fmt: skip
BINDING_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("target.nonsense", 1, "target"),
    Mistake("verbs[0]", "wriet"), Mistake("subjects[0]", 5), Mistake("target.namespace", 5),
    Mistake("subjects", GONE), Mistake("verbs", GONE), Mistake("target", GONE),
    Mistake("subjects", []), Mistake("verbs", []), Mistake("subjects[1]", "a b"),
    Mistake("verbs[1]", "read", beside=("verbs[0]",)),
    Mistake("target.alias", "7"), Mistake("target.model", "A B"),
    Mistake("target", {"alias": "prod", "namespace": "default"}, "target.alias"),
)  # fmt: skip

APPLICATION: dict[str, Any] = {
    "components": [
        {"name": "train-it", "type": "tfjob", "properties": {
            "modelVersion": {"modelName": "mymodel"}, "backoffLimit": 1,
            "tfReplicaSpecs": {"Worker": {"replicas": 1, "template": POD}}}},
        {"name": "serve-it", "type": "tfserving", "traits": [{"type": "metrics"}], "properties": {
            "timeout": "10s", "predictors": [
                {"name": "p", "modelVersion": "mymodel-v1", "trafficPercentage": 90,
                 "batching": {"batchSize": "auto"}},
                {"name": "q", "modelVersion": {"modelName": "mymodel", "version": "2"}, "trafficPercentage": 10},
                {"name": "r", "modelVersion": "mymodel-v3", "shadow": True}]}},
    ],
    "policies": [],
    "workflow": {"steps": [
        {"name": "train", "type": "ml-model-training", "properties": {"component": "train-it"}},
        {"name": "save", "type": "ml-model-checkpoint", "properties": {"modelVersion": "mymodel-v2", "from": "train"}},
        {"name": "ask", "type": "suspend", "properties": {"duration": "1h"}, "timeout": "2h", "retry": {"limit": 1}},
        {"name": "serve", "type": "ml-model-serving", "dependsOn": ["ask"],
         "properties": {"component": "serve-it", "env": "dev"}},
    ]},
}  # fmt: skip
_TRAIN, _SERVE, _STEPS = "components[0].properties", "components[1].properties", "workflow.steps"
APPLICATION_MISTAKES = (
    Mistake("nonsense", 1, ""), Mistake("components[0].nonsense", 1, "components[0]"),
    Mistake(f"{_SERVE}.nonsense", 1, _SERVE), Mistake(f"{_STEPS}[3].properties.nonsense", 1, f"{_STEPS}[3].properties"),
    Mistake(f"{_TRAIN}.backoffLimit", "x"), Mistake(f"{_SERVE}.predictors[1].replicas", "x"),
    Mistake(f"{_STEPS}[2].timeout", "soon"), Mistake(f"{_STEPS}[2].retry.limit", -1), Mistake("policies", "keep"),
    Mistake(f"{_STEPS}[2].properties.duration", 5), Mistake(f"{_STEPS}[1].properties.modelVersion", 5),
    Mistake(f"{_TRAIN}.tfReplicaSpecs", GONE), Mistake(f"{_SERVE}.predictors[1].modelVersion.modelName", GONE),
    Mistake(f"{_STEPS}[3].properties.env", GONE), Mistake("components[1].traits[0].type", "metrix"),
    Mistake(f"{_TRAIN}.successPolicy", "AllWorker"),
    Mistake(f"{_SERVE}.timeout", GONE, f"{_SERVE}.predictors[0].batching.batchSize",
            (f"{_SERVE}.predictors[0].batching",)),
    Mistake(f"{_SERVE}.predictors[1].trafficPercentage", 20, f"{_SERVE}.predictors",
            (f"{_SERVE}.predictors[0].trafficPercentage",)),
    Mistake(f"{_SERVE}.predictors[1].trafficPercent", 10, f"{_SERVE}.predictors[1]",
            (f"{_SERVE}.predictors[1].trafficPercentage", f"{_SERVE}.predictors[0].trafficPercentage")),
    Mistake(f"{_SERVE}.predictors[2].trafficPercentage", 5), Mistake(f"{_SERVE}.predictors[0].name", "A B"),
    Mistake(f"{_STEPS}[3].properties.env", "prd"), Mistake(f"{_STEPS}[3].properties.component", "zz"),
    Mistake(f"{_STEPS}[1].properties.from", "yy", beside=(f"{_STEPS}[0]",)),
    Mistake(f"{_STEPS}[3].dependsOn", ["xx"], f"{_STEPS}[3].dependsOn[0]"),
    Mistake(f"{_STEPS}[0].type", GONE), Mistake("components[1].dependsOn", ["ww"], "components[1].dependsOn[0]"),
)  # fmt: skip

KINDS: dict[str, tuple[dict[str, Any], tuple[Mistake, ...]]] = {
    "InferenceModel": (INFERENCE, INFERENCE_MISTAKES),
    "TrainingJob": (TRAINING, TRAINING_MISTAKES),
    "MLGraph": (GRAPH, GRAPH_MISTAKES),
    "Rollout": (ROLLOUT, ROLLOUT_MISTAKES),
    "RoleBinding": (BINDING, BINDING_MISTAKES),
    "Application": (APPLICATION, APPLICATION_MISTAKES),
}
