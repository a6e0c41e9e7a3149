"""What all programs of the official client begin with: clients of some people, and where our kinds are."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from kubernetes import client, config
from kubernetes.client import ApiClient, ApiException, CustomObjectsApi

API_VERSION = "mizzen.dev/v1alpha1"
MERGE, JSON, APPLY = "application/merge-patch+json", "application/json-patch+json", "application/apply-patch+yaml"


def api(who: str = "") -> ApiClient:
    file = os.environ["KUBECONFIG"] + (f"-{who}" if who else "")
    settings = client.Configuration()
    config.load_kube_config(file, client_configuration=settings)
    return ApiClient(settings)


def custom(who: str = "") -> CustomObjectsApi:
    return CustomObjectsApi(api(who))


def at(namespace: str, plural: str = "models") -> dict[str, str]:
    return {"group": "mizzen.dev", "version": "v1alpha1", "namespace": namespace, "plural": plural}


def model(name: str, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    return {"apiVersion": API_VERSION, "kind": "Model", "metadata": metadata, "spec": spec or {"framework": "sklearn"}}


def server(name: str) -> dict[str, Any]:
    """It needs no model, and never becomes ready here: nothing runs its image."""
    spec = {"modelName": "iris", "deployToLayer": "cloud", "frameworkType": "sklearn", "image": "example.com/iris:1"}
    return {"apiVersion": API_VERSION, "kind": "InferenceModel", "metadata": {"name": name}, "spec": spec}


def refused(code: int, act: Callable[[], Any]) -> dict[str, Any]:
    """The Status that says why."""
    try:
        answer = act()
    except ApiException as error:
        assert error.status == code, error
        status: dict[str, Any] = json.loads(error.body)
        assert (status["kind"], status["code"]) == ("Status", code)
        return status
    raise AssertionError(f"not refused with {code}, but answered {answer}")


def names(listing: Any) -> list[str]:
    return [item["metadata"]["name"] for item in listing["items"]]


def until(condition: Callable[[], Any], what: str) -> Any:
    end = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < end, f"not within 30 s: {what}"
        time.sleep(0.02)
    return value
