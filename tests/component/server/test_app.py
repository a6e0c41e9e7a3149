"""What stands at the root of the control API."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

import mizzen
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref
from mizzen.server.app import begin_stop
from tests.support.server.harness import INFERENCE, Harness, deploy

pytestmark = pytest.mark.own_plane


def test_the_root_leads_on(admin: httpx2.Client) -> None:
    root = admin.get("/").json()
    assert root["inference"] == INFERENCE
    assert set(root["links"]["resources"]) == {kind.plural for kind in catalog.KINDS}
    links = [link for link in root["links"].values() if isinstance(link, str)]
    for link in links + list(root["links"]["resources"].values()):
        assert admin.get(link).status_code == 200


def test_health_and_version(plane: Harness) -> None:
    anonymous = plane.client(token=None)
    assert anonymous.get("/healthz").json() == anonymous.get("/livez").json() == {"live": True}
    assert anonymous.get("/readyz").json() == {"ready": True}
    assert anonymous.get("/version").json()["version"] == mizzen.__version__


def test_an_acknowledged_write_is_in_the_store(plane: Harness, admin: httpx2.Client) -> None:

    version = admin.post("/model", json={"name": "iris"})
    assert version.status_code == 201
    assert plane.run(plane.store.get(Ref("Model", "iris"))).meta.name == "iris"


def test_who_waits_is_let_go_when_the_plane_stops(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)

    async def ask_then_stop() -> httpx2.Response:
        async with httpx2.AsyncClient(
            base_url=plane.url, headers=admin.headers, trust_env=False, verify=False
        ) as client:
            path = f"/model/iris/serve/1/{server}"
            waiting = asyncio.create_task(client.delete(path, params={"wait": "true"}))
            while not (await client.get(path)).json()["deleting"]:
                pass
            begin_stop(plane.app)
            return await waiting

    answer = plane.run(ask_then_stop())
    assert answer.status_code == 503
    assert "retry-after" in answer.headers
