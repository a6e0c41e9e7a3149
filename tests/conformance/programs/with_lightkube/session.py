"""What all programs of lightkube begin with: clients of some people, and our kinds as its generic resources."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from lightkube import ApiError, AsyncClient, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta

GROUP, VERSION = "mizzen.dev", "v1alpha1"
MANAGER = "lightkube-tests"

Model = create_namespaced_resource(GROUP, VERSION, "Model", "models")
InferenceModel = create_namespaced_resource(GROUP, VERSION, "InferenceModel", "inferencemodels")


def client(namespace: str, *, who: str = "") -> Client:
    return Client(config=_config(who), namespace=namespace, field_manager=MANAGER)


def async_client(namespace: str) -> AsyncClient:
    return AsyncClient(config=_config(""), namespace=namespace, field_manager=MANAGER)


def model(name: str, labels: dict[str, str] | None = None, **spec: Any) -> Any:
    return Model(metadata=ObjectMeta(name=name, labels=labels), spec=spec or {"framework": "sklearn"})


def server(name: str) -> Any:
    """It needs no model, and never becomes ready here: nothing runs its image."""
    spec = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "image": "example.com/iris:1"}
    return InferenceModel(metadata=ObjectMeta(name=name), spec=spec)


def refused(code: int, act: Callable[[], Any]) -> Any:
    """The Status that says why."""
    try:
        answer = act()
    except ApiError as error:
        assert error.status.code == code, error.status
        return error.status
    raise AssertionError(f"not refused with {code}, but answered {answer}")


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, f"not within 30 s: {what}"
        time.sleep(0.02)
    return value


def _config(who: str) -> KubeConfig:
    return KubeConfig.from_file(os.environ["KUBECONFIG"] + (f"-{who}" if who else ""))
