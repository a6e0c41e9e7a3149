"""A namespace that was deleted: all in it goes, others keep theirs, and it is gone when nothing is left."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import httpx2
import pytest

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.admission import namespaced_store
from mizzen.server.deletion import cascade
from mizzen.server.deletion.namespaces import keep_emptying
from mizzen.stores.records.vault import Vault
from mizzen.stores.store import Where
from tests.component.server.resources.test_routes import model
from tests.support.server.harness import ROOT, Harness

pytestmark = pytest.mark.own_plane

SPACES = "/api/v1/namespaces"


@contextmanager
def emptying(plane: Harness) -> Iterator[None]:
    """What a plane runs beside its API."""
    vault = plane.app.state.context.vault
    assert isinstance(vault, Vault)

    async def start() -> list[asyncio.Task[None]]:
        return [
            asyncio.create_task(keep_emptying(plane.store, vault)),
            asyncio.create_task(cascade.finish_cascades(plane.store)),
        ]

    async def stop(tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    tasks = plane.run(start())
    try:
        yield
    finally:
        plane.run(stop(tasks))


def until_gone(plane: Harness, name: str) -> None:
    async def wait() -> None:
        with suppress(NotFound):
            await cascade.until_gone(plane.store, await plane.store.get(namespaced_store.ref_of(name)))

    plane.run(wait())


def left_in(plane: Harness, name: str) -> list[str]:
    async def look() -> list[str]:
        return [
            str(item.ref)
            for kind in (*namespaced_store.NAMESPACED_KINDS, "Event")
            for item in (await plane.store.list(kind, Where(namespace=name))).items
        ]

    return plane.run(look())


def fill(plane: Harness, admin: httpx2.Client, name: str) -> None:
    here = f"{ROOT}/namespaces/{name}"
    assert admin.post(f"{here}/models", json=model()).status_code == 201
    assert admin.post(f"{here}/models", json=model("second", spec={"aliasOf": "iris"})).status_code == 201
    assert admin.put(f"/secret/key?namespace={name}", json={"data": {"a": "b"}}).status_code == 201
    plane.permit("ann", "admin", subjects=["ann"], namespace=name)
    for kind, object_name, spec in (
        ("ModelVersion", "iris.1", {"modelName": "iris", "version": "1"}),
        ("ModelVersion", "lost.1", {"modelName": "lost", "version": "1"}),
        ("InferenceModel", "iris-1", {"modelName": "iris", "targetVersion": "1"}),
        ("TrainingJob", "nightly", {"modelName": "iris", "version": "2"}),
        ("MLGraph", "graph", {}),
        ("Event", "iris.1", {}),
    ):
        plane.run(plane.store.create(Resource(kind, Meta(object_name, name), spec), "admin"))


def test_all_in_it_goes_and_nothing_else(plane: Harness, admin: httpx2.Client) -> None:
    fill(plane, admin, "lab")
    fill(plane, admin, "kept")
    before = left_in(plane, "kept")
    with emptying(plane):
        ann = plane.client(plane.user("ann"))
        assert ann.delete(f"{SPACES}/lab").status_code == 202
        until_gone(plane, "lab")
    assert left_in(plane, "lab") == []
    assert admin.get("/secret?namespace=lab").json()["items"] == []
    assert left_in(plane, "kept") == before
    assert len(admin.get("/secret?namespace=kept").json()["items"]) == 1
    by = {entry.actor for entry in plane.run(plane.store.history(Ref("Model", "iris", "lab"))) if entry.after is None}
    assert by == {"ann"}, "by the hand of who deleted the namespace"
    assert admin.post(f"{ROOT}/namespaces/lab/models", json=model()).status_code == 201, "and it may come again"


def test_the_next_plane_goes_on(plane: Harness, admin: httpx2.Client) -> None:
    fill(plane, admin, "lab")
    admin.delete(f"{SPACES}/lab")
    assert left_in(plane, "lab") != []
    with emptying(plane):
        until_gone(plane, "lab")
    assert left_in(plane, "lab") == []


def test_what_others_hold_is_waited_for(plane: Harness, admin: httpx2.Client) -> None:
    here = f"{ROOT}/namespaces/lab/mlgraphs"
    held = Resource("MLGraph", Meta("held", "lab", finalizers=("example.com/mine",)))
    plane.run(plane.store.create(held, "admin"))
    plane.permit("ann", "read", subjects=["ann"], namespace="lab")
    admin.post(SPACES, json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}})
    admin.post(SPACES, json={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    with emptying(plane):
        admin.delete(f"{SPACES}/lab")
        admin.delete(f"{SPACES}/other")
        until_gone(plane, "other")
        status = admin.get(f"{SPACES}/lab").json()["status"]
        assert status["phase"] == "Terminating"
        assert {one["type"]: one["message"].partition(": ")[2] for one in status["conditions"]} == {
            "NamespaceContentRemaining": "mlgraphs.mizzen.dev has 1 resource instances, "
            "rolebindings.mizzen.dev has 1 resource instances",
            "NamespaceFinalizersRemaining": "example.com/mine in 1 resource instances",
        }
        assert left_in(plane, "lab") == ["MLGraph/lab/held", "RoleBinding/lab/ann"], "rights go last"
        assert admin.get(f"{here}/held").json()["metadata"]["deletionTimestamp"]
        plane.release(held.ref)
        until_gone(plane, "lab")
    assert left_in(plane, "lab") == []


def test_a_finalizer_of_somebody_else_holds_the_namespace_itself(plane: Harness, admin: httpx2.Client) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab", "finalizers": ["example.com/mine"]}}
    admin.post(SPACES, json=body)
    fill(plane, admin, "lab")
    with emptying(plane):
        with admin.stream("GET", f"{SPACES}?watch=true&fieldSelector=metadata.name=lab") as response:
            admin.delete(f"{SPACES}/lab")
            assert any('"spec":{}' in line for line in response.iter_lines())
        there = admin.get(f"{SPACES}/lab").json()
        assert (there["status"], there["metadata"]["finalizers"]) == ({"phase": "Terminating"}, ["example.com/mine"])
        assert left_in(plane, "lab") == []
        headers = {"content-type": "application/merge-patch+json"}
        assert admin.patch(f"{SPACES}/lab", json={"metadata": {"finalizers": []}}, headers=headers).status_code == 200
        until_gone(plane, "lab")
    assert admin.get(f"{SPACES}/lab").status_code == 404
