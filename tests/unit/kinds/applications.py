"""Manifests of applications for the tests of these kinds."""

from __future__ import annotations

from typing import Any

from mizzen.kinds import catalog
from mizzen.kinds.schema.findings import Context

ABLE = Context(capabilities=frozenset({"containers", "gpus"}), name="it", namespace="default")

TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "trainer:1"}]}}
TRAINING: dict[str, Any] = {
    "name": "train-it", "type": "tfjob",
    "properties": {
        "modelVersion": {"modelName": "mymodel"}, "tfReplicaSpecs": {"Worker": {"replicas": 1, "template": TEMPLATE}},
    },
}  # fmt: skip
SERVING: dict[str, Any] = {
    "name": "serve-it", "type": "tfserving", "properties": {"predictors": [{"name": "a", "modelVersion": "mymodel-v1"}]}
}  # fmt: skip


def serving(*predictors: dict[str, Any], **properties: Any) -> dict[str, Any]:
    filled = [{"name": f"p{index}", "modelVersion": "mymodel-v1", **one} for index, one in enumerate(predictors)]
    return {"components": [{**SERVING, "properties": {"predictors": filled, **properties}}]}


def component(type_: str, properties: Any, **more: Any) -> dict[str, Any]:
    return {"components": [{"name": "it", "type": type_, "properties": properties, **more}]}


def workflow(*steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"components": [TRAINING, SERVING], "workflow": {"steps": list(steps), **more}}


TRAIN = {"name": "train", "type": "ml-model-training", "properties": {"component": "train-it"}}
SERVE = {"name": "serve", "type": "ml-model-serving", "properties": {"component": "serve-it", "env": "dev"}}


def pause(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "suspend", **more}


def faults(spec: Any, context: Context = ABLE, kind: str = "Application") -> dict[str, str]:
    found = catalog.find(kind).examine("it", spec, context).faults
    assert len({fault.path for fault in found}) == len(found), found
    return {fault.path: fault.message for fault in found}


def warnings(spec: Any, context: Context = ABLE, kind: str = "Application") -> list[str]:
    found = catalog.find(kind).examine("it", spec, context)
    assert found.faults == ()
    return [str(warning) for warning in found.warnings]
