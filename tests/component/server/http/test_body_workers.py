"""What somebody sends must not hold up anybody else: large bodies, selectors without end, names made to mislead."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.http.body_workers import MAX_PER_ACTOR, BodyWorkers
from mizzen.server.http.request_bodies import YAML_LIMIT
from tests.support.server.harness import HERE, Harness


def test_work_apart_is_bounded_for_each_and_does_not_use_the_common_threads() -> None:
    async def main() -> None:
        apart, release = BodyWorkers(), threading.Event()
        slow = [asyncio.ensure_future(apart.run("ana", lambda: release.wait(60))) for _ in range(MAX_PER_ACTOR)]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable, match="large requests of this user"):
            await apart.run("ana", lambda: True)
        slow[-1].cancel()  # leaving makes no room by itself ...
        await asyncio.sleep(0)
        other = asyncio.ensure_future(apart.run("bob", lambda: "his"))
        # As many as the common pool could have: none of them is taken by what waits apart.
        assert await asyncio.gather(*(asyncio.to_thread(int, n) for n in range(50))) == list(range(50))
        assert not other.done()
        release.set()
        assert await other == "his"
        assert await asyncio.gather(*slow[:-1]) == [True] * (MAX_PER_ACTOR - 1)
        while apart._waiting:  # noqa: ASYNC110 - ... the end of the work does
            await asyncio.sleep(0.01)
        assert await apart.run("ana", lambda: "again") == "again"

    asyncio.run(main())


@pytest.fixture
def busy(plane: Harness, iris: httpx2.Client) -> Iterator[httpx2.Client]:
    """There are a model iris and a server of it, and nothing more of the admin's is done beside the rest."""
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    plane.run(plane.store.create(Resource("InferenceModel", Meta("one", plane.namespace), spec), "ann"))
    large = Resource("Model", Meta("large", plane.namespace), {"description": "x" * 40_000})
    plane.run(plane.store.create(large, "ann"))
    release = threading.Event()

    async def occupy() -> None:
        for _ in range(MAX_PER_ACTOR):
            asyncio.ensure_future(plane.app.state.context.body_workers.run("admin", release.wait))  # noqa: RUF006
        await asyncio.sleep(0)

    plane.run(occupy())
    yield iris
    release.set()


@pytest.mark.parametrize(
    "path",
    [
        f"{HERE}/models/iris",
        f"{HERE}/inferencemodels/one/scale",
        f"{HERE}/models/iris/status",
        "/api/v1/namespaces/{namespace}",
    ],
)
def test_what_a_patch_makes_much_of_is_made_beside_the_rest(busy: httpx2.Client, path: str) -> None:
    def patch(media: str, body: Any) -> httpx2.Response:
        query = {"dryRun": "All", "fieldManager": "me"}
        return busy.patch(path, params=query, json=body, headers={"content-type": media})

    steps = "application/json-patch+json"
    grows = patch(steps, [{"op": "copy", "from": "/metadata/name", "path": "/metadata/name"}])
    assert (grows.status_code, "large requests of this user" in grows.text) == (503, True), grows.text
    assert patch(steps, [{"op": "test", "path": "/kind", "value": "none"}]).status_code == 422
    assert patch("application/merge-patch+json", {"metadata": {}}).status_code == 200


def test_a_short_patch_of_a_large_object_is_made_beside_the_rest(busy: httpx2.Client) -> None:
    headers = {"content-type": "application/merge-patch+json"}
    body = {"metadata": {"labels": {"a": "b"}}}
    assert busy.patch(f"{HERE}/models/large", json=body, headers=headers).status_code == 503
    assert busy.patch(f"{HERE}/models/iris", json=body, headers=headers).status_code == 200


def test_what_short_patches_may_make_has_an_end(iris: httpx2.Client) -> None:
    def patch(steps: list[dict[str, Any]]) -> httpx2.Response:
        headers = {"content-type": "application/json-patch+json"}
        return iris.patch(f"{HERE}/models/iris", params={"dryRun": "All"}, json=steps, headers=headers)

    twice: dict[str, Any] = {"op": "copy", "from": "/x", "path": "/x/0"}
    answer = patch([{"op": "add", "path": "/x", "value": ["a"] * 8}, *[twice] * 40])
    assert (answer.status_code, "copies more than" in answer.json()["message"]) == (413, True), answer.text
    once: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/y", "value": {}},
        {"op": "move", "from": "/spec/x", "path": "/spec/y/a"},
        {"op": "move", "from": "/spec/y", "path": "/spec/x"},
    ]
    answer = patch([{"op": "add", "path": "/spec/x", "value": {}}, *once * 3000])
    assert (answer.status_code, answer.json()["message"]) == (422, "the JSON patch produces more than 100 levels")


def test_yaml_has_a_limit_of_its_own(admin: httpx2.Client) -> None:
    body = b"a: [" + b"b," * (YAML_LIMIT // 2) + b"b]"
    answer = admin.post(f"{HERE}/models", content=body, headers={"content-type": "application/yaml"})
    assert answer.status_code == 413
    assert "or send JSON" in answer.json()["details"]["hint"]


def test_large_bodies_are_read(admin: httpx2.Client) -> None:
    annotations = {f"note-{number}": "x" * 1000 for number in range(60)}
    made = {
        "apiVersion": "mizzen.dev/v1alpha1",
        "kind": "Model",
        "metadata": {"name": "big", "annotations": annotations},
    }
    assert admin.post(f"{HERE}/models", json=made).status_code == 201


@pytest.mark.parametrize(
    "query",
    [
        {"fieldSelector": "a=" + " " * 60_000 + "("},
        {"labelSelector": "a in (" + "a," * 2000 + " " * 2000},
        {"labelSelector": ",".join(f"!a{number}" for number in range(101))},
        {"labelSelector": "a" * 5000},
    ],
)
def test_selectors_have_an_end(admin: httpx2.Client, query: dict[str, str]) -> None:
    answer = admin.get(f"{HERE}/models", params=query)
    assert (answer.status_code, "at most" in answer.json()["message"]) == (400, True), answer.text


@pytest.mark.parametrize("path", ["/model/iris/history?at=", "/audit?since="])
@pytest.mark.parametrize("time", ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00%2B23:59"])
def test_times_out_of_the_calendar_are_refused(iris: httpx2.Client, path: str, time: str) -> None:
    answer = iris.get(path + time)
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest"), answer.text


def test_no_name_can_forge_a_line_of_the_audit_or_leave_a_token_there(closed: Harness) -> None:
    token = closed.user("ana")
    ana = closed.client(token)
    refused = ana.delete("/model/a%0a2026-01-01%20INFO%20forged%00%e2%80%ae")
    assert refused.json()["message"].isprintable()
    assert token not in ana.get(f"/user/{token}").text
    entries = closed.audited(actor="ana")
    assert all(f"{entry.name}{entry.path}{entry.reason}".isprintable() for entry in entries)
    assert all(token not in f"{entry.name}{entry.path}{entry.reason}" for entry in entries)
    assert {entry.name for entry in entries} == {r"a\n2026-01-01 INFO forged\x00\u202e", "mzn_..."}


def test_whoever_may_point_one_alias_learns_no_more_of_the_model(closed: Harness) -> None:
    admin = closed.client()
    admin.post("/model", json={"name": "iris", "labels": {"team": "hidden"}})
    admin.post("/model/iris/version", json={"path": closed.file("m.joblib")})
    alia = closed.client(closed.user("alia"))
    closed.permit("alia", "write", "predict", subjects=["alia"], model="iris", alias="prod")
    answer = alia.put("/model/iris/alias/prod", json={"version": "1"})
    assert (answer.status_code, answer.json()) == (
        200, {"name": "iris", "namespace": closed.namespace, "aliases": {"prod": "1"}},
    )  # fmt: skip
    assert alia.delete("/model/iris/alias/prod").json()["aliases"] == {}


def test_a_model_cannot_be_made_under_a_name_that_another_models_server_answers_to(
    plane: Harness, iris: httpx2.Client
) -> None:
    spec = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"}
    server: dict[str, Any] = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "spec": spec}
    for name in ("iris-pay", "lily"):
        assert iris.post(f"{HERE}/inferencemodels", json={**server, "metadata": {"name": name}}).status_code == 201
        refused = iris.post("/model", json={"name": name})
        assert (refused.status_code, refused.json()["reason"]) == (409, "AlreadyExists")
        assert f"{plane.ref('InferenceModel', name)} of model 'iris' answers to it" in refused.json()["message"]
    own = Resource("InferenceModel", Meta("rose", plane.namespace), {**spec, "modelName": "rose"})
    plane.run(plane.store.create(own, "ann"))
    assert iris.post("/model", json={"name": "rose"}).status_code == 201


def test_a_change_meant_for_an_object_that_was_made_anew_is_refused(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    read = admin.get(f"{HERE}/models/iris").json()
    del read["metadata"]["resourceVersion"]
    assert admin.put(f"{HERE}/models/iris", json=read).status_code == 200
    read["metadata"]["uid"] = "of another"
    assert admin.put(f"{HERE}/models/iris", json=read).status_code == 409
