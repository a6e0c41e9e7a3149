"""What is in the way of deleting a model or a version, and what goes with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from mizzen.kinds.meta import Meta, Ref, Resource
from mizzen.server import removal
from tests.unit.server.harness import HERE, Harness
from tests.unit.server.test_models import deploy

JOB = Resource("TrainingJob", Meta("run"), {"modelName": "iris", "version": "v1"})
MONITOR = Resource("Monitor", Meta("board"), {"modelName": "iris"})
ROLLOUT = Resource("Rollout", Meta("slowly"), {"target": {"kind": "Model", "name": "iris"}})
LILY = Resource("Model", Meta("lily"), {"aliasOf": "iris"})
FIXED = Resource("Model", Meta("fixed"), {"aliasOf": "iris:v1"})


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model with versions 1 and 2."""
    admin.post("/model", json={"name": "iris"})
    for content in ("one", "two"):
        answer = admin.post("/model/iris/version", json={"path": plane.file("m.pkl", content)})
        assert answer.status_code == 201
    return admin


def put(plane: Harness, resource: Resource, **status: Any) -> None:
    stored = plane.run(plane.store.create(resource, "ann"))
    if status:
        plane.run(plane.store.update_status(replace(stored, status=status), "ann"))


def in_the_way(answer: httpx2.Response) -> dict[str, str]:
    assert answer.status_code == 409, answer.text
    return {cause["field"]: cause["message"] for cause in answer.json()["details"]["causes"]}


def ended(word: str) -> dict[str, Any]:
    return {"conditions": [{"type": word, "status": "True", "reason": "Done"}]}


def test_all_that_is_in_the_way_is_named(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1")
    for resource in (JOB, MONITOR, ROLLOUT, LILY, FIXED):
        put(plane, resource)
    assert in_the_way(iris.delete("/model/iris")) == {
        "InferenceModel/iris-1": "serves version 1",
        "TrainingJob/run": "trains version 1",
        "Monitor/board": "monitors it",
        "Rollout/slowly": "rolls it out",
        "Model/lily": "is a second name of 'iris'",
        "Model/fixed": "is a second name of 'iris:v1'",
    }
    assert iris.get("/model/iris").json()["deleting"] is False


def test_what_ended_or_is_another_models_is_not_in_the_way(plane: Harness, iris: httpx2.Client) -> None:
    put(plane, JOB, **ended("Succeeded"))
    put(plane, replace(JOB, meta=Meta("failed")), **ended("Failed"))
    put(plane, replace(MONITOR, spec={"modelName": "rose"}))
    put(plane, replace(ROLLOUT, spec={"target": {"kind": "MLGraph", "name": "iris"}}))
    put(plane, replace(LILY, spec={"aliasOf": "rose"}))
    assert iris.delete("/model/iris").status_code == 200
    assert iris.get(f"{HERE}/trainingjobs").json()["items"] == [], "records of jobs go with their model"
    assert len(iris.get(f"{HERE}/monitors").json()["items"]) == 1


def test_a_cascade_ends_what_is_the_models_own(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1")
    for resource in (JOB, MONITOR, ROLLOUT):
        put(plane, resource)
    assert iris.delete("/model/iris?cascade=true").status_code == 202
    for plural in ("trainingjobs", "monitors", "rollouts"):
        assert iris.get(f"{HERE}/{plural}").json()["items"] == []
    assert plane.run(plane.store.history(JOB.ref))[-1].actor == "admin"
    plane.release(Ref("InferenceModel", "iris-1"))
    assert iris.delete("/model/iris").status_code == 200
    assert iris.get("/model/iris/history").json()["items"][-1]["action"] == "deleted"


@pytest.mark.parametrize("name", [LILY, FIXED], ids=["of the model", "of a version"])
def test_a_cascade_leaves_second_names_to_their_owners(plane: Harness, iris: httpx2.Client, name: Resource) -> None:
    put(plane, name)
    put(plane, JOB)
    answer = iris.delete("/model/iris?cascade=true")
    assert set(in_the_way(answer)) == {str(name.ref)}
    assert "delete these names first" in answer.json()["details"]["hint"]
    assert plane.run(plane.store.get(JOB.ref)), "nothing was touched"
    assert iris.delete(f"/model/{name.meta.name}").status_code == 200
    assert iris.delete("/model/iris?cascade=true").status_code == 200


@pytest.mark.parametrize(
    ("resource", "message"),
    [(JOB, "trains version 1"), (ROLLOUT, "rolls it out"), (FIXED, "is a second name of 'iris:v1'")],
)
def test_a_version_that_is_needed_stays(plane: Harness, iris: httpx2.Client, resource: Resource, message: str) -> None:
    put(plane, resource)
    assert in_the_way(iris.delete("/model/iris/version/1")) == {str(resource.ref): message}
    assert in_the_way(iris.delete(f"{HERE}/modelversions/iris.1")) == {str(resource.ref): message}
    plane.run(plane.store.delete(resource.ref, "ann"))
    assert iris.delete("/model/iris/version/1").status_code == 200


def test_a_version_that_is_needed_no_more_goes(plane: Harness, iris: httpx2.Client) -> None:
    put(plane, JOB, **ended("Failed"))
    put(plane, LILY)
    assert iris.delete("/model/iris/version/1").status_code == 200


def test_nothing_is_added_to_a_model_that_goes(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1")
    assert iris.delete("/model/iris?cascade=true").status_code == 202
    for resource in (JOB, LILY, FIXED, MONITOR):
        plural = f"{resource.kind.lower()}s"
        sent = {**resource.wire(), "spec": dict(resource.spec)}
        answer = iris.post(f"{HERE}/{plural}", json={name: sent[name] for name in ("apiVersion", "kind", "spec")} | {
            "metadata": {"name": resource.meta.name}
        })  # fmt: skip
        assert answer.status_code == 409, answer.text
        assert "being deleted" in answer.json()["message"]
    assert iris.put("/model/iris/alias/prod", json={"version": 1}).status_code == 409
    assert iris.post("/model/iris/rollback", json={"version": 1}).status_code == 409


@contextmanager
def finishing(plane: Harness) -> Iterator[asyncio.Task[None]]:
    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(removal.finish_cascades(plane.store))

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()

    task = plane.run(start())
    try:
        yield task
    finally:
        plane.run(stop(task))


def test_cascades_are_finished_whenever_they_begin(plane: Harness, admin: httpx2.Client) -> None:
    """Those from before its start, and later ones, several at once."""
    servers = {name: deploy(plane, admin, name) for name in ("early", "late", "later")}
    admin.delete("/model/early?cascade=true")
    with finishing(plane) as task:
        for name in ("late", "later"):
            assert admin.delete(f"/model/{name}?cascade=true").status_code == 202
        for server in reversed(servers.values()):
            plane.release(Ref("InferenceModel", server))
        while admin.get("/model").json()["items"]:
            assert not task.done()
        deploy(plane, admin, "early")
        assert admin.get("/model/early").json()["deleting"] is False
