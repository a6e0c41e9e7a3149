"""The official client's other way: kinds are found by asking the server, and objects are read by their fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kubernetes.dynamic import DynamicClient, EagerDiscoverer
from kubernetes.dynamic.exceptions import ConflictError, NotFoundError, ResourceNotFoundError, UnprocessibleEntityError

from tests.conformance.programs.with_kubernetes.session import API_VERSION, JSON, MERGE, api, model, server, until


def kinds_are_found(_namespace: str) -> None:
    ours = DynamicClient(api())
    assert ours.version["kubernetes"]["major"] == "1"
    models = ours.resources.get(api_version=API_VERSION, kind="Model")
    assert (models.name, models.namespaced, set(models.subresources)) == ("models", True, {"status"})
    assert ours.resources.get(api_version=API_VERSION, short_names=["im"]).kind == "InferenceModel"
    assert {"mizzen.dev", "authorization.k8s.io"} <= set(ours.resources.api_groups)
    try:
        ours.resources.get(api_version="v1", kind="Pod")
    except ResourceNotFoundError:
        pass
    else:
        raise AssertionError("there are no pods here")
    with TemporaryDirectory() as folder:
        cache = str(Path(folder) / "kinds.json")
        for _ in ("asked", "read from the cache"):
            eager = DynamicClient(api(), cache_file=cache, discoverer=EagerDiscoverer)
            assert eager.resources.get(api_version="v1", kind="Namespace").name == "namespaces"


def objects_are_written_and_read(namespace: str) -> None:
    models = DynamicClient(api()).resources.get(api_version=API_VERSION, kind="Model")
    made = models.create(body=model("iris", {"a": "1"}), namespace=namespace)
    assert models.get(name="iris", namespace=namespace).metadata.uid == made.metadata.uid
    models.create(body=model("wine"), namespace=namespace)
    first = models.get(namespace=namespace, limit=1)
    second = models.get(namespace=namespace, limit=1, _continue=first.metadata["continue"])
    assert [one.metadata.name for one in (*first["items"], *second["items"])] == ["iris", "wine"]
    read = until(
        lambda: [
            one for one in models.get(namespace=namespace, label_selector="a=1")["items"] if one.status.conditions
        ],
        "its controller has seen it",
    )[0]
    read.spec.framework = "onnx"
    assert models.replace(body=read, namespace=namespace).spec.framework == "onnx"
    patch = {"metadata": {"name": "iris", "labels": {"a": None, "b": "2"}}}
    assert models.patch(body=patch, namespace=namespace, content_type=MERGE).metadata.labels.to_dict() == {"b": "2"}
    removed = [{"op": "remove", "path": "/metadata/labels/b"}]
    assert not models.patch(name="iris", body=removed, namespace=namespace, content_type=JSON).metadata.labels
    models.delete(namespace=namespace, label_selector="!x")
    assert models.get(namespace=namespace)["items"] == []


def who_applies_owns_what_they_applied(namespace: str) -> None:
    models = DynamicClient(api()).resources.get(api_version=API_VERSION, kind="Model")
    models.server_side_apply(body=model("iris"), namespace=namespace, field_manager="first")
    other = model("iris", framework="onnx")
    try:
        models.server_side_apply(body=other, namespace=namespace, field_manager="second")
    except ConflictError as error:
        assert error.summary() == 'Apply failed with 1 conflict: conflict with "first": .spec.framework'
    else:
        raise AssertionError("no conflict")
    taken = models.server_side_apply(body=other, namespace=namespace, field_manager="second", force_conflicts=True)
    assert taken.spec.framework == "onnx"


def parts_of_objects_have_paths_of_their_own(namespace: str) -> None:
    servers = DynamicClient(api()).resources.get(api_version=API_VERSION, kind="InferenceModel")
    servers.create(body=server("one"), namespace=namespace)
    scaled = servers.scale.patch(name="one", body={"spec": {"replicas": 2}}, namespace=namespace, content_type=MERGE)
    assert (scaled.kind, scaled.spec.replicas) == ("Scale", 2)
    until(lambda: servers.status.get(name="one", namespace=namespace).status.conditions, "its controller has seen it")
    written = servers.status.patch(
        name="one", body={"status": {"readyReplicas": 1}}, namespace=namespace, content_type=MERGE
    )
    assert written.status.readyReplicas == 1
    told = servers.delete(name="one", namespace=namespace, propagation_policy="Foreground")
    assert told.metadata.deletionTimestamp


def what_is_wrong_is_told(namespace: str) -> None:
    models = DynamicClient(api()).resources.get(api_version=API_VERSION, kind="Model")
    acts: dict[type[Any], Callable[[], Any]] = {
        NotFoundError: lambda: models.get(name="none", namespace=namespace),
        UnprocessibleEntityError: lambda: models.create(body=model("iris", framework=3), namespace=namespace),
    }
    for wanted, act in acts.items():
        try:
            act()
        except wanted as error:
            assert error.summary()
        else:
            raise AssertionError(f"no {wanted.__name__}")
