"""The official client deletes objects, one or many."""

from __future__ import annotations

from kubernetes.client import V1DeleteOptions, V1Preconditions

from tests.conformance.programs.with_kubernetes.session import at, custom, model, names, refused, server, until


def an_object_is_deleted(namespace: str) -> None:
    objects = custom()
    uid = objects.create_namespaced_custom_object(**at(namespace), body=model("iris"))["metadata"]["uid"]
    one = {**at(namespace), "name": "iris"}
    another = V1DeleteOptions(preconditions=V1Preconditions(uid="another"))
    assert refused(409, lambda: objects.delete_namespaced_custom_object(**one, body=another))["reason"] == "Conflict"
    assert objects.delete_namespaced_custom_object(**one, dry_run="All")["metadata"]["uid"] == uid
    told = objects.delete_namespaced_custom_object(**one, body=V1DeleteOptions(propagation_policy="Background"))
    assert (told["status"], told["details"]["uid"]) == ("Success", uid)
    assert refused(404, lambda: objects.delete_namespaced_custom_object(**one))["reason"] == "NotFound"


def what_is_in_use_goes_in_the_foreground_only(namespace: str) -> None:
    objects = custom()
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris"))
    objects.create_namespaced_custom_object(**at(namespace, "inferencemodels"), body=server("one"))
    one = {**at(namespace), "name": "iris"}
    status = refused(409, lambda: objects.delete_namespaced_custom_object(**one, propagation_policy="Background"))
    assert "is in use" in status["message"]
    marked = objects.delete_namespaced_custom_object(**one, propagation_policy="Foreground")
    assert marked["metadata"]["deletionTimestamp"], "it is told what is left"
    until(lambda: not names(objects.list_namespaced_custom_object(**at(namespace))), "the server goes, then the model")
    assert names(objects.list_namespaced_custom_object(**at(namespace, "inferencemodels"))) == []


def a_finalizer_holds_an_object(namespace: str) -> None:
    objects = custom()
    body = model("iris")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    objects.create_namespaced_custom_object(**at(namespace), body=body)
    one = {**at(namespace), "name": "iris"}
    held = objects.delete_namespaced_custom_object(**one)["metadata"]
    assert held["deletionTimestamp"]
    assert "example.com/hold" in held["finalizers"]
    objects.patch_namespaced_custom_object(**one, body={"metadata": {"finalizers": None}})
    until(lambda: not names(objects.list_namespaced_custom_object(**at(namespace))), "nothing holds it any more")


def objects_are_deleted_by_their_labels(namespace: str) -> None:
    objects = custom()
    for name, labels in (("a", {"set": "1"}), ("b", {"set": "1"}), ("c", {})):
        objects.create_namespaced_custom_object(**at(namespace), body=model(name, labels))
    gone = objects.delete_collection_namespaced_custom_object(**at(namespace), label_selector="set=1")
    assert names(gone) == ["a", "b"]
    assert names(objects.list_namespaced_custom_object(**at(namespace))) == ["c"]
    objects.delete_collection_namespaced_custom_object(**at(namespace), body=V1DeleteOptions())
    assert names(objects.list_namespaced_custom_object(**at(namespace))) == []
