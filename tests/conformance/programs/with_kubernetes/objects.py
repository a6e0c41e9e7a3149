"""The official client creates, reads, lists, replaces and patches objects, and is told what is wrong."""

from __future__ import annotations

from kubernetes.client import ApiextensionsV1Api, ApisApi, CoreApi, CoreV1Api, VersionApi

from tests.conformance.programs.with_kubernetes.session import (
    APPLY,
    JSON,
    MERGE,
    api,
    at,
    custom,
    model,
    names,
    refused,
    server,
    until,
)


def it_learns_what_there_is(_namespace: str) -> None:
    with api() as ours:
        assert VersionApi(ours).get_code().major == "1"
        assert CoreApi(ours).get_api_versions().versions == ["v1"]
        assert "mizzen.dev" in {group.name for group in ApisApi(ours).get_api_versions().groups}
        assert {"namespaces", "events"} <= {one.name for one in CoreV1Api(ours).get_api_resources().resources}
        found = {one.name: one for one in custom().get_api_resources("mizzen.dev", "v1alpha1").resources}
        assert found["models"].short_names == ["mz"]
        assert "inferencemodels/scale" in found
        definitions = ApiextensionsV1Api(ours)
        defined = {one.spec.names.kind: one for one in definitions.list_custom_resource_definition().items}
        assert defined["Model"].spec.versions[0].schema.open_apiv3_schema.properties["spec"].properties
        one = definitions.read_custom_resource_definition("models.mizzen.dev")
        assert (one.spec.scope, one.status.accepted_names.plural) == ("Namespaced", "models")


def an_object_is_created_and_read(namespace: str) -> None:
    objects = custom()
    made = objects.create_namespaced_custom_object(**at(namespace), body=model("iris"), field_manager="me")
    assert made["metadata"]["managedFields"][0]["manager"] == "me"
    read = objects.get_namespaced_custom_object(**at(namespace), name="iris")
    assert (read["metadata"]["uid"], read["spec"]) == (made["metadata"]["uid"], {"framework": "sklearn"})
    tried = objects.create_namespaced_custom_object(**at(namespace), body=model("wine"), dry_run="All")
    assert tried["metadata"]["name"] == "wine"
    assert names(objects.list_namespaced_custom_object(**at(namespace))) == ["iris"]


def lists_are_selected_and_come_in_pages(namespace: str) -> None:
    objects = custom()
    for number in range(5):
        labels = {"odd": "yes"} if number % 2 else {}
        objects.create_namespaced_custom_object(**at(namespace), body=model(f"m-{number}", labels))
    listed = objects.list_namespaced_custom_object
    assert names(listed(**at(namespace), label_selector="odd=yes")) == ["m-1", "m-3"]
    assert names(listed(**at(namespace), label_selector="odd notin (yes)")) == ["m-0", "m-2", "m-4"]
    assert names(listed(**at(namespace), field_selector="metadata.name=m-2")) == ["m-2"]
    assert names(listed(**at(namespace), field_selector="metadata.name!=m-2", label_selector="!odd")) == ["m-0", "m-4"]
    first = listed(**at(namespace), limit=2)
    second = listed(**at(namespace), limit=2, _continue=first["metadata"]["continue"])
    third = listed(**at(namespace), limit=2, _continue=second["metadata"]["continue"])
    assert names(first) + names(second) + names(third) == [f"m-{number}" for number in range(5)]
    assert not third["metadata"].get("continue")
    everywhere = objects.list_cluster_custom_object("mizzen.dev", "v1alpha1", "models")
    assert namespace in {item["metadata"]["namespace"] for item in everywhere["items"]}


def an_object_is_replaced_unless_it_changed(namespace: str) -> None:
    objects = custom()
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris"))
    one = {**at(namespace), "name": "iris"}
    read = until(lambda: _accepted(objects.get_namespaced_custom_object(**one)), "its controller has seen it")
    new = objects.replace_namespaced_custom_object(**one, body={**read, "spec": {"framework": "onnx"}})
    assert (new["spec"], new["metadata"]["generation"]) == ({"framework": "onnx"}, 2)
    assert refused(409, lambda: objects.replace_namespaced_custom_object(**one, body=read))["reason"] == "Conflict"


def an_object_is_patched(namespace: str) -> None:
    objects = custom()
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris", {"a": "1"}))
    one = {**at(namespace), "name": "iris"}
    merged = objects.patch_namespaced_custom_object(**one, body={"metadata": {"labels": {"a": None, "b": "2"}}})
    assert merged["metadata"]["labels"] == {"b": "2"}
    added = [{"op": "add", "path": "/metadata/labels/c", "value": "3"}]
    patched = objects.patch_namespaced_custom_object(**one, body=added, _content_type=JSON)
    assert patched["metadata"]["labels"] == {"b": "2", "c": "3"}


def who_applies_owns_what_they_applied(namespace: str) -> None:
    objects = custom()
    one = {**at(namespace), "name": "iris", "_content_type": APPLY}
    objects.patch_namespaced_custom_object(**one, body=model("iris"), field_manager="first")
    other = model("iris", framework="onnx")
    status = refused(409, lambda: objects.patch_namespaced_custom_object(**one, body=other, field_manager="second"))
    (cause,) = status["details"]["causes"]
    assert (cause["reason"], cause["field"]) == ("FieldManagerConflict", ".spec.framework")
    taken = objects.patch_namespaced_custom_object(**one, body=other, field_manager="second", force=True)
    assert taken["spec"] == {"framework": "onnx"}
    assert "fieldManager" in refused(400, lambda: objects.patch_namespaced_custom_object(**one, body=other))["message"]


def a_status_is_read_and_changed(namespace: str) -> None:
    objects = custom()
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris"))
    one = {**at(namespace), "name": "iris"}
    until(lambda: _accepted(objects.get_namespaced_custom_object_status(**one)), "its controller has seen it")
    patch = {"spec": {"framework": "onnx"}, "status": {"observedGeneration": 7}}
    after = objects.patch_namespaced_custom_object_status(**one, body=patch, _content_type=MERGE)
    assert (after["status"]["observedGeneration"], after["spec"]) == (7, {"framework": "sklearn"})


def a_server_is_scaled(namespace: str) -> None:
    objects = custom()
    objects.create_namespaced_custom_object(**at(namespace, "inferencemodels"), body=server("one"))
    one = {**at(namespace, "inferencemodels"), "name": "one"}
    scale = objects.get_namespaced_custom_object_scale(**one)
    assert (scale["kind"], scale["spec"], scale["status"]["replicas"]) == ("Scale", {"replicas": 1}, 0)
    patch = {"spec": {"replicas": 3}}
    assert objects.patch_namespaced_custom_object_scale(**one, body=patch, _content_type=MERGE)["spec"] == patch["spec"]
    replaced = {**scale, "metadata": {"name": "one", "namespace": namespace}, "spec": {"replicas": 2}}
    assert objects.replace_namespaced_custom_object_scale(**one, body=replaced)["spec"] == {"replicas": 2}
    assert objects.get_namespaced_custom_object(**one)["spec"]["replicas"] == 2


def what_is_wrong_is_told(namespace: str) -> None:
    objects = custom()
    status = refused(404, lambda: objects.get_namespaced_custom_object(**at(namespace), name="none"))
    assert (status["reason"], status["details"]["name"]) == ("NotFound", "none")
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris"))
    status = refused(409, lambda: objects.create_namespaced_custom_object(**at(namespace), body=model("iris")))
    assert status["reason"] == "AlreadyExists"
    wrong = model("wine", framework=3)
    status = refused(422, lambda: objects.create_namespaced_custom_object(**at(namespace), body=wrong))
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.framework"]


def _accepted(read: dict[str, object]) -> dict[str, object] | None:
    return read if "Accepted" in str(read.get("status")) else None
