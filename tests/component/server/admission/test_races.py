"""Adding to a model and deleting it at the same moment: one of both is refused, and nothing is left over."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx2
import pytest

from mizzen.errors import Conflict, NotFound
from mizzen.server.admission import create_guards
from tests.component.server.resources.test_routes import inference_model
from tests.support.server.harness import HERE, Harness, deploy

PAIRS = 25

Call = Callable[[httpx2.Client, str], httpx2.Response]


def delete_model(client: httpx2.Client, name: str) -> httpx2.Response:
    return client.delete(f"/model/{name}?wait=true")


def delete_version(client: httpx2.Client, name: str) -> httpx2.Response:
    return client.delete(f"/model/{name}/version/1")


def serve(client: httpx2.Client, name: str) -> httpx2.Response:
    return client.post(f"/model/{name}/serve/1")


@pytest.fixture
def models(plane: Harness, admin: httpx2.Client) -> list[str]:
    """Names of models, each with a version 1."""
    body = {"path": plane.file("m.pkl")}
    names = [f"m{number}" for number in range(PAIRS)]
    for name in names:
        admin.post("/model", json={"name": name})
        assert admin.post(f"/model/{name}/version", json=body).status_code == 201
    return names


def both_at_once(plane: Harness, one: Call, other: Call, name: str) -> tuple[int, int]:
    client, start = plane.client(), threading.Barrier(2)

    def call(which: Call) -> int:
        start.wait()
        return which(client, name).status_code

    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(call, (one, other))
    return first, second


@pytest.mark.parametrize("delete", [delete_model, delete_version])
def test_of_deleting_and_serving_one_is_refused(
    plane: Harness, admin: httpx2.Client, models: list[str], delete: Call
) -> None:
    for name in models:
        deleted, served = both_at_once(plane, delete, serve, name)
        assert (deleted, served) in {(200, 404), (200, 409), (409, 201)}
        left = admin.get(f"{HERE}/modelversions/{name}.1").status_code
        assert left == (404 if deleted == 200 else 200)
    served_models = {item["spec"]["modelName"] for item in admin.get(f"{HERE}/inferencemodels").json()["items"]}
    kept = {item["spec"]["modelName"] for item in admin.get(f"{HERE}/modelversions").json()["items"]}
    assert served_models == kept


def test_a_version_never_outlives_its_model(plane: Harness, admin: httpx2.Client, models: list[str]) -> None:
    body = {"path": plane.file("m.pkl")}

    def register(client: httpx2.Client, name: str) -> httpx2.Response:
        return client.post(f"/model/{name}/version/auto", json=body)

    for name in models:
        deleted, registered = both_at_once(plane, delete_model, register, name)
        assert deleted == 200
        assert registered in (201, 404, 409)
    assert admin.get(f"{HERE}/models").json()["items"] == []
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []


def test_a_version_that_went_meanwhile_is_not_made_current(plane: Harness, admin: httpx2.Client) -> None:
    """The promotion has looked already when the version goes: it is the write that must find out."""
    server = deploy(plane, admin)
    ref = plane.ref("Model", "iris")
    guard = create_guards.require_answering(ref, "1")

    async def promote() -> None:
        model = await plane.store.get(ref)
        await plane.store.update_status(replace(model, status={"current": {"version": "1"}}), "ann", guard=guard)

    admin.delete(f"/model/iris/serve/1/{server}")
    with pytest.raises(Conflict, match="is ready"):
        plane.run(promote())
    plane.release(plane.ref("InferenceModel", server))
    assert admin.delete("/model/iris/version/1").status_code == 200
    with pytest.raises(NotFound, match=r"iris\.1"):
        plane.run(promote())


def test_an_alias_never_points_at_a_version_that_went(plane: Harness, admin: httpx2.Client, models: list[str]) -> None:
    def point(client: httpx2.Client, name: str) -> httpx2.Response:
        return client.put(f"/model/{name}/alias/prod", json={"version": 1})

    for name in models:
        deleted, pointed = both_at_once(plane, delete_version, point, name)
        assert (deleted, pointed) in {(200, 422), (409, 200)}
        left = admin.get(f"{HERE}/modelversions/{name}.1").status_code
        assert (left, admin.get(f"/model/{name}").json()["aliases"]) in [(404, {}), (200, {"prod": "1"})]


def test_an_alias_and_a_version_never_get_one_name(plane: Harness, admin: httpx2.Client, models: list[str]) -> None:
    body = {"path": plane.file("n.pkl", "other")}

    def register(client: httpx2.Client, name: str) -> httpx2.Response:
        return client.post(f"/model/{name}/version/prod", json=body)

    def point(client: httpx2.Client, name: str) -> httpx2.Response:
        return client.put(f"/model/{name}/alias/prod", json={"version": 1})

    for name in models:
        assert both_at_once(plane, register, point, name) in {(201, 422), (409, 200)}


def test_a_second_name_and_its_model_do_not_miss_each_other(
    plane: Harness, admin: httpx2.Client, models: list[str]
) -> None:
    def second(client: httpx2.Client, name: str) -> httpx2.Response:
        manifest = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": f"{name}-too"}}
        return client.post(f"{HERE}/models", json=manifest | {"spec": {"aliasOf": f"{name}:1"}})

    for name in models:
        deleted, made = both_at_once(plane, delete_model, second, name)
        # A name for what is gone is as good as one for what is yet to come; a name for what is going is refused.
        assert (deleted, made) in {(200, 409), (409, 201), (200, 201)}
        if (deleted, made) == (200, 201):
            assert admin.get(f"/model/{name}").status_code == 404


def test_two_who_write_aliases_at_once_both_get_theirs(plane: Harness, admin: httpx2.Client, models: list[str]) -> None:
    def pointing(alias: str) -> Call:
        return lambda client, name: client.put(f"/model/{name}/alias/{alias}", json={"version": 1})

    for name in models:
        assert both_at_once(plane, pointing("prod"), pointing("test"), name) == (200, 200)
        assert admin.get(f"/model/{name}").json()["aliases"] == {"prod": "1", "test": "1"}


def test_the_resource_api_adds_no_server_to_a_model_that_goes(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    assert admin.delete("/model/iris?cascade=true").status_code == 202
    answer = admin.post(f"{HERE}/inferencemodels", json=inference_model("late"))
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
