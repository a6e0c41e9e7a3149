"""Who owns the fields of what was written without writing objects: through /model, or by deleting a user."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.support.server.harness import HERE, Harness, deploy

APPLY = "application/apply-patch+yaml"


def owned(answer: httpx2.Response) -> dict[tuple[str, str, str], Any]:
    """By manager, operation and subresource."""
    assert answer.status_code == 200, answer.text
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in answer.json()["metadata"].get("managedFields", ())
    }


def apply(
    admin: httpx2.Client, plural: str, kind: str, name: str, labels: dict[str, str] | None = None, **spec: Any
) -> httpx2.Response:
    metadata = {"name": name, **({"labels": labels} if labels else {})}
    body = {"apiVersion": "mizzen.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}
    return admin.patch(
        f"{HERE}/{plural}/{name}", json=body, headers={"content-type": APPLY}, params={"fieldManager": "kubectl"}
    )


def test_what_is_made_through_our_own_paths_is_owned(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "lily", "framework": "onnx", "labels": {"a": "b"}})
    fields = {"f:metadata": {"f:labels": {"f:a": {}}}, "f:spec": {"f:framework": {}}}
    assert owned(admin.get(f"{HERE}/models/lily")) == {("mizzen", "Update", ""): fields}
    server = deploy(plane, admin)
    [(manager, fields)] = owned(admin.get(f"{HERE}/inferencemodels/{server}")).items()
    assert manager == ("mizzen", "Update", "")
    assert {"f:modelName", "f:targetVersion"} <= fields["f:spec"].keys()
    [(manager, fields)] = owned(admin.get(f"{HERE}/modelversions/iris.1")).items()
    assert manager == ("mizzen", "Update", "")
    assert {"f:modelName", "f:version", "f:artifacts"} <= fields["f:spec"].keys()


def test_who_applies_another_alias_than_was_set_is_told(plane: Harness, iris: httpx2.Client) -> None:
    iris.put("/model/iris/alias/prod", json={"version": 1})
    iris.put("/model/iris/alias/test", json={"version": 1})
    refused = apply(iris, "models", "Model", "iris", aliases={"prod": "2"})
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    [cause] = refused.json()["details"]["causes"]
    assert (cause["field"], cause["message"]) == (".spec.aliases.prod", 'conflict with "mizzen"')
    shared = apply(iris, "models", "Model", "iris", aliases={"prod": "1"})
    assert shared.json()["spec"]["aliases"] == {"prod": "1", "test": "1"}


def test_an_alias_that_is_set_is_taken_from_who_applied_it(plane: Harness, iris: httpx2.Client) -> None:
    assert apply(iris, "models", "Model", "iris", aliases={"prod": "1"}).status_code == 200
    iris.put("/model/iris/alias/prod", json={"version": 2})
    assert owned(iris.get(f"{HERE}/models/iris")) == {
        ("mizzen", "Update", ""): {"f:spec": {"f:aliases": {"f:prod": {}}}}
    }
    iris.delete("/model/iris/alias/prod")
    assert owned(iris.get(f"{HERE}/models/iris")) == {("mizzen", "Update", ""): {"f:spec": {}}}


def test_a_decision_owns_what_it_writes_of_the_status(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    deploy(plane, admin, content="two")
    admin.put("/model/iris/alias/prod", json={"version": 1})
    for version in (1, 2):
        assert admin.post("/model/iris/current", json={"version": version}).status_code == 200
    current: Any = {"f:current": {"f:actor": {}, "f:time": {}, "f:version": {}}, "f:previous": {}}
    spec: Any = {"f:spec": {"f:aliases": {"f:prod": {}}}}
    both = {("mizzen", "Update", ""): spec, ("mizzen", "Update", "status"): {"f:status": current}}
    assert owned(admin.get(f"{HERE}/models/iris")) == both
    # It stays with the status, whatever becomes of the rest.
    applied = owned(apply(admin, "models", "Model", "iris", framework="sklearn"))
    assert applied == {**both, ("kubectl", "Apply", ""): {"f:spec": {"f:framework": {}}}}


def test_a_version_that_is_written_out_is_owned_by_who_wrote_it(plane: Harness, iris: httpx2.Client) -> None:
    artifacts = [
        {name: artifact[name] for name in ("path", "digest", "size")}
        for artifact in plane.run(plane.store.get(plane.ref("ModelVersion", "iris.1"))).spec["artifacts"]
    ]
    spec = {"modelName": "iris", "version": "9", "framework": "sklearn", "artifacts": artifacts}
    made = apply(iris, "modelversions", "ModelVersion", "iris.9", labels={"a": "b", "c": "d"}, **spec)
    assert made.status_code == 201, made.text
    again = apply(iris, "modelversions", "ModelVersion", "iris.9", labels={"a": "b"}, **spec)
    assert again.json()["metadata"]["labels"] == {"a": "b"}, "what they applied before and leave out now goes"


@pytest.mark.own_plane
def test_who_left_does_not_come_back_with_a_file(plane: Harness, admin: httpx2.Client) -> None:
    plane.user("ann")
    spec: dict[str, Any] = {"subjects": ["ann", "bob"], "verbs": ["read"], "target": {"namespace": "default"}}
    assert apply(admin, "rolebindings", "RoleBinding", "readers", **spec).status_code == 201
    assert admin.delete("/user/ann").status_code == 200
    refused = apply(admin, "rolebindings", "RoleBinding", "readers", **spec)
    assert (refused.status_code, refused.json()["reason"]) == (409, "Conflict")
    assert apply(admin, "rolebindings", "RoleBinding", "readers", **{**spec, "subjects": ["bob"]}).status_code == 200
