"""The official client watches, goes on where it was, is told when that is too long ago, and keeps a cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

from kubernetes.client import ApiException, CoreV1Api, CustomObjectsApi, V1Namespace, V1ObjectMeta
from kubernetes.dynamic import DynamicClient
from kubernetes.informer import ADDED, DELETED, SharedInformer
from kubernetes.watch import Watch

from tests.conformance.programs.with_kubernetes.session import API_VERSION, api, at, custom, model, until

KEPT = 100
"""Changes that the plane of these tests keeps."""


def changes_are_told_in_their_order(namespace: str) -> None:
    objects = custom()
    _settled(objects, namespace)
    seen = _watched(objects, namespace)
    assert _told(next(seen)) == ("ADDED", "iris")
    _label(objects, namespace, "1")
    changed = next(seen)
    assert (changed["type"], changed["object"]["metadata"]["labels"]) == ("MODIFIED", {"at": "1"})
    objects.delete_namespaced_custom_object(**at(namespace), name="iris")
    assert ("DELETED", "iris") in map(_told, seen)


def a_watch_goes_on_from_a_version(namespace: str) -> None:
    objects = custom()
    version = _settled(objects, namespace)
    for value in ("1", "2"):
        _label(objects, namespace, value)
    seen = islice(_watched(objects, namespace, resource_version=version), 2)
    assert [event["object"]["metadata"]["labels"]["at"] for event in seen] == ["1", "2"]


def a_watch_ends_when_its_time_is_over(namespace: str) -> None:
    objects = custom()
    version = _settled(objects, namespace)
    assert list(_watched(objects, namespace, resource_version=version, timeout_seconds=1)) == []


def an_answer_that_ends_is_taken_up_again(namespace: str) -> None:
    """For longer than an answer lasts, each change is told once. A client that names no time itself goes on."""
    objects = custom()
    watch = Watch(return_type="object")  # it cannot see that of a function of ours, and would not know where it is

    def listed(**options: Any) -> Any:
        return objects.list_namespaced_custom_object(**at(namespace), timeout_seconds=1, **options)

    seen = watch.stream(listed, resource_version=_settled(objects, namespace))
    versions: list[int] = []
    begun, number = time.monotonic(), 0
    while time.monotonic() < begun + 1.5:
        number += 1
        _label(objects, namespace, str(number))
        for event in seen:
            metadata = event["raw_object"]["metadata"]
            versions.append(int(metadata["resourceVersion"]))
            if metadata["labels"]["at"] == str(number):
                break
    watch.stop()
    assert versions == sorted(set(versions))


def only_what_is_selected_is_told(namespace: str) -> None:
    objects = custom()
    _settled(objects, namespace)
    objects.create_namespaced_custom_object(**at(namespace), body=model("wine", {"at": "0"}))
    seen = _watched(objects, namespace, label_selector="at=0")
    assert _told(next(seen)) == ("ADDED", "wine")
    _label(objects, namespace, "0")
    assert ("ADDED", "iris") in map(_told, seen)
    _label(objects, namespace, "1")
    assert ("DELETED", "iris") in map(_told, seen), "it is not among them any more"


def a_bookmark_ends_what_there_is(namespace: str) -> None:
    objects = custom()
    _settled(objects, namespace)
    models = DynamicClient(api()).resources.get(api_version=API_VERSION, kind="Model")
    watcher = Watch()
    seen = models.watch(
        namespace=namespace, watcher=watcher, allow_watch_bookmarks=True, send_initial_events=True,
        resource_version_match="NotOlderThan",
    )  # fmt: skip
    assert next(seen)["type"] == "ADDED"
    mark = next(seen)
    assert mark["type"] == "BOOKMARK"
    assert mark["raw_object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    seen.close()
    _label(objects, namespace, "1")
    after = models.watch(namespace=namespace, resource_version=mark["raw_object"]["metadata"]["resourceVersion"])
    assert next(after)["object"].metadata.labels["at"] == "1", "a watch goes on from a bookmark"


def what_is_too_long_ago_is_gone(namespace: str) -> None:
    objects = custom()
    old = _settled(objects, namespace)
    for number in range(KEPT + 1):
        _label(objects, namespace, str(number))
    for options in ({}, {"timeout_seconds": 10}):
        try:
            next(_watched(objects, namespace, resource_version=old, **options))
        except ApiException as error:
            assert error.status == 410
            assert error.reason.startswith("Expired: ")
        else:
            raise AssertionError("what is not kept cannot be told")
    listing = objects.list_namespaced_custom_object(**at(namespace))
    _label(objects, namespace, "again")
    (event,) = islice(_watched(objects, namespace, resource_version=listing["metadata"]["resourceVersion"]), 1)
    assert event["object"]["metadata"]["labels"] == {"at": "again"}


def an_informer_keeps_a_cache(namespace: str) -> None:
    core = CoreV1Api(api())
    told: list[tuple[str, str]] = []
    informer = SharedInformer(core.list_namespace, label_selector="informer=1")
    for kind in (ADDED, DELETED):
        informer.add_event_handler(kind, lambda one, kind=kind: told.append((kind, one.metadata.name)))
    informer.start()
    try:
        body = V1Namespace(metadata=V1ObjectMeta(name=namespace, labels={"informer": "1"}))
        core.create_namespace(body)
        until(lambda: told == [(ADDED, namespace)], "the informer saw it come")
        assert [one.metadata.name for one in informer.cache.list()] == [namespace]
        core.delete_namespace(namespace)
        until(lambda: told[-1] == (DELETED, namespace), "the informer saw it go")
        assert informer.cache.list() == []
    finally:
        informer.stop()


def _watched(objects: CustomObjectsApi, namespace: str, **options: Any) -> Iterator[dict[str, Any]]:
    seen: Iterator[dict[str, Any]] = Watch().stream(objects.list_namespaced_custom_object, **at(namespace), **options)
    return seen


def _settled(objects: CustomObjectsApi, namespace: str) -> str:
    """Makes a model, and returns a version after which nobody but us changes it."""
    objects.create_namespaced_custom_object(**at(namespace), body=model("iris", {"at": ""}))
    for event in _watched(objects, namespace):
        if "Accepted" in str(event["object"].get("status")):
            break
    return str(objects.list_namespaced_custom_object(**at(namespace))["metadata"]["resourceVersion"])


def _label(objects: CustomObjectsApi, namespace: str, value: str) -> None:
    patch = {"metadata": {"labels": {"at": value}}}
    objects.patch_namespaced_custom_object(**at(namespace), name="iris", body=patch)


def _told(event: dict[str, Any]) -> tuple[str, str]:
    return event["type"], event["object"]["metadata"]["name"]
