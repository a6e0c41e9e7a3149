"""Loading and unloading, as gateways ask for it on behalf of Triton's clients."""

from __future__ import annotations

import threading
from collections.abc import Callable

import httpx2
import pytest

from mizzen.kinds.schema.resource import Condition, Ref
from mizzen.kinds.serving import InferenceModelStatus
from mizzen.server.models import triton_repository
from tests.support.gateway.harness import until
from tests.support.server.harness import HERE, Harness, deploy

pytestmark = pytest.mark.own_plane

LOAD, UNLOAD = "/v2/repository/models/iris/load", "/v2/repository/models/iris/unload"


def stopped(plane: Harness, server: str, reason: str = "NoReplicas", message: str = "") -> None:
    """What controllers would report of a server without processes."""
    condition = Condition(
        type="Ready", status="False", reason=reason, message=message, last_transition_time="2026-01-01T00:00:00Z"
    )

    async def write() -> None:
        resource = await plane.store.get(Ref("InferenceModel", server))
        await plane.store.update_status(
            resource.with_status(InferenceModelStatus(conditions=(condition,), serving_version="1")), "system"
        )

    plane.run(write())


def meanwhile(ask: Callable[[], httpx2.Response], do: Callable[[], None]) -> httpx2.Response:
    """The answer to what waits until something else is done."""
    answers: list[httpx2.Response] = []
    thread = threading.Thread(target=lambda: answers.append(ask()))
    thread.start()
    do()
    thread.join(30)
    return answers[0]


def replicas(admin: httpx2.Client, server: str) -> int:
    return int(admin.get(f"{HERE}/inferencemodels/{server}").json()["spec"].get("replicas", 1))


def test_as_many_come_back_as_there_were(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.patch(
        f"{HERE}/inferencemodels/{server}",
        json={"spec": {"replicas": 3}},
        headers={"content-type": "application/merge-patch+json"},
    ).raise_for_status()

    def end() -> None:
        until(lambda: replicas(admin, server) == 0)
        stopped(plane, server)

    unloaded = meanwhile(lambda: plane.client().post(UNLOAD), end)
    assert (unloaded.status_code, unloaded.json()) == (200, {"name": "iris", "servers": [server]})
    assert admin.post(UNLOAD).status_code == 200, "once more is no fault"

    def start() -> None:
        until(lambda: replicas(admin, server) == 3)
        plane.make_ready(server, "1")

    loaded = meanwhile(lambda: plane.client().post(LOAD), start)
    assert (loaded.status_code, loaded.json()) == (200, {"name": "iris", "servers": [server]})
    stored = admin.get(f"{HERE}/inferencemodels/{server}").json()
    assert triton_repository.REPLICAS_ANNOTATION not in stored["metadata"]["annotations"]
    assert admin.post(LOAD).status_code == 200
    assert replicas(admin, server) == 3


def test_a_model_without_servers_gets_one(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    assert admin.post(LOAD).status_code == 404
    admin.post("/model/iris/version", json={"path": plane.file("m.joblib")})

    def start() -> None:
        until(lambda: admin.get("/model/iris/serve/1").json()["items"])
        plane.make_ready("iris-1", "1")

    assert meanwhile(lambda: plane.client().post(LOAD), start).json()["servers"] == ["iris-1"]


def test_one_that_cannot_be_loaded(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin, ready=False)
    stopped(plane, server, "LoadFailed", "no module named 'x'")
    answer = admin.post(LOAD)
    assert answer.status_code == 409
    assert "no module named 'x'" in answer.json()["message"]


def test_one_that_takes_too_long(plane: Harness, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    deploy(plane, admin, ready=False)
    monkeypatch.setattr(triton_repository, "WAIT_SECONDS", 0.1)
    assert admin.post(LOAD).status_code == 504


def test_a_server_by_its_own_name(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    answer = admin.post(f"/v2/repository/models/{server}/load")
    assert (answer.status_code, answer.json()["servers"]) == (200, [server])
    assert admin.post("/v2/repository/models/nobody/load").status_code == 404


def test_who_may(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    token = plane.user("ann")
    ann = plane.client(token)
    assert plane.client(None).post(LOAD).status_code == 401
    plane.permit("ann", "read", "predict", subjects=["ann"])
    assert ann.post(LOAD).status_code == 403
    assert ann.post("/v2/repository/models/nobody/unload").status_code == 403
    plane.permit("more", "write", subjects=["ann"], model="iris")
    assert ann.post(LOAD).status_code == 200
    assert ann.post("/v2/repository/models/other/load").status_code == 403
    entries = plane.audited(actor="ann", name="iris")
    assert {(entry.verb, entry.allowed) for entry in entries} >= {("write", False), ("write", True)}
