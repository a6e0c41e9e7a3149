"""The /model API: deleting a model, at once or with all that is its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import uuid
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from mizzen.errors import Unavailable
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.deletion import cascade
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Guard
from tests.component.server.cascades import deletions, end, finishing
from tests.support.golden import Golden
from tests.support.server.harness import HERE, TOKEN, Client, Harness, deploy


def test_a_served_model_stays_and_says_why(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    answer = admin.delete("/model/iris")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"] == [
        {"field": str(plane.ref("InferenceModel", "iris-1")), "message": "serves version 1"}
    ]
    assert "cascade" in answer.json()["details"]["hint"]
    assert admin.get("/model/iris").json()["versions"]


def test_a_model_goes_with_its_versions_and_the_name_is_free_again(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.delete(f"/model/iris/serve/1/{server}")
    plane.release(plane.ref("InferenceModel", server))
    assert admin.delete("/model/iris?wait=true").status_code == 200
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []
    assert admin.post("/model", json={"name": "iris"}).status_code == 201


def test_a_model_with_versions_is_marked_and_goes_later(plane: Harness, admin: httpx2.Client, golden: Golden) -> None:
    admin.post("/model", json={"name": "iris"})

    async def register() -> None:
        for number in range(1, 251):
            spec = {"modelName": "iris", "version": str(number), "framework": "sklearn"}
            await plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}", plane.namespace), spec), "ann")

    plane.run(register())
    answer = admin.delete("/model/iris")
    assert (answer.status_code, answer.json()["deleting"]) == (202, True)
    assert admin.get("/model/iris").json()["versionCount"] == 250, "nobody waits for that"
    again = admin.post("/model", json={"name": "iris"})
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert "is being deleted" in again.json()["message"]
    golden.check(again.json()["details"]["hint"])
    with finishing(plane):
        while admin.get("/model/iris").status_code != 404:
            pass
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []
    assert plane.run(plane.store.history(plane.ref("ModelVersion", "iris.7")))[-1].actor == "admin"


def test_a_cascade_is_202_until_all_is_gone(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    answer = admin.delete("/model/iris?cascade=true")
    assert answer.status_code == 202
    assert answer.json()["deleting"] is True
    for again in (
        admin.post("/model/iris/serve/1"),
        admin.post("/model/iris/version", json={"path": plane.file("m.pkl")}),
        admin.post("/model/iris/current", json={"version": 1}),
    ):
        assert again.status_code == 409
        assert "being deleted" in again.json()["message"]
    assert admin.delete("/model/iris").status_code == 202
    with finishing(plane):
        end(plane, server)
        while (status := admin.delete("/model/iris?cascade=true").status_code) == 202:
            pass
    assert status in (200, 404)
    assert admin.get("/model/iris").status_code == 404
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []


def test_a_cascade_without_servers_is_done_at_once(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    assert admin.delete("/model/iris?cascade=true").status_code == 200


def test_a_cascade_can_be_waited_for(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    answers: list[httpx2.Response] = []
    other = plane.client()
    waiting = threading.Thread(target=lambda: answers.append(other.delete("/model/iris?cascade=true&wait=true")))
    waiting.start()
    while not deletions(plane):
        pass
    assert admin.get("/model/iris").json()["deleting"]
    end(plane, server)
    waiting.join(60)
    assert [answer.status_code for answer in answers] == [200]
    assert deletions(plane) == [("/model/iris", 202)], "on record when it was marked, and once"
    assert admin.get("/model/iris").status_code == 404


def test_who_leaves_while_waiting_is_on_record_once(plane: Harness, admin: Client) -> None:
    server = deploy(plane, admin)
    where = urlsplit(plane.url)
    head = f"DELETE {admin.path('/model/iris?cascade=true&wait=true')} HTTP/1.1"
    asked = f"{head}\r\nhost: {where.netloc}\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    with socket.create_connection((where.hostname or "", where.port or 0)) as leaving:
        leaving.sendall(asked.encode())
        while not deletions(plane):
            pass
    assert deletions(plane) == [("/model/iris", 202)]
    with finishing(plane):
        end(plane, server)
        while admin.get("/model/iris").status_code != 404:
            pass
    assert deletions(plane) == [("/model/iris", 202)]


def test_a_cascade_finishes_without_anybody_asking_and_keeps_its_actor(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    assert admin.delete("/model/iris?cascade=true").status_code == 202
    with finishing(plane) as task:
        end(plane, server)
        while admin.get("/model/iris").status_code != 404:
            assert not task.done()
    deleted = plane.run(plane.store.history(plane.ref("ModelVersion", "iris.1")))[-1]
    assert (deleted.action, deleted.actor) == ("deleted", "admin")


class Troubled(SqliteStore):
    """Cannot delete version 1 of the model `bad` while `trouble` lasts."""

    trouble = True
    tries = 0

    async def delete(self, ref: Ref, by: str, *, uid: str | None = None, guard: Guard | None = None) -> Resource | None:
        if self.trouble and ref.name == "bad.1":
            self.tries += 1
            raise Unavailable("the disk is full")
        return await super().delete(ref, by, uid=uid, guard=guard)


def test_a_removal_that_fails_is_told_once_and_tried_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        store = await Troubled.open(
            tmp_path / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex
        )
        for name in ("bad", "good"):
            marked = Meta(name, finalizers=(cascade.CASCADE_FINALIZER,))
            await store.create(Resource("Model", marked), "ann")
            version = Resource("ModelVersion", Meta(f"{name}.1"), {"modelName": name, "version": "1"})
            await store.create(version, "ann")
            await store.delete(Ref("Model", name), "ann")
        finisher = asyncio.create_task(cascade.finish_cascades(store))
        async with asyncio.timeout(60):
            while store.tries < 3:
                assert not finisher.done()
                await asyncio.sleep(0.01)
            assert [item.meta.name for item in (await store.list("Model")).items] == ["bad"]
            store.trouble = False
            await cascade.until_gone(store, await store.get(Ref("Model", "bad")))
        assert (await store.list("ModelVersion")).items == ()
        assert [record.message for record in caplog.records if "Model/bad" in record.message] == [
            "Model/bad cannot be removed yet: the disk is full; trying again"
        ]
        await store.close()  # a dead watch ends it
        with pytest.raises(Unavailable):
            await asyncio.wait_for(finisher, 60)

    asyncio.run(body())


def test_a_late_step_of_a_cascade_spares_the_next_model_of_that_name(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.delete("/model/iris?cascade=true")
    marked = plane.run(plane.store.get(plane.ref("Model", "iris")))
    plane.release(plane.ref("InferenceModel", server))
    assert admin.delete("/model/iris?wait=true").status_code == 200
    deploy(plane, admin)
    plane.run(cascade.finish_cascade(plane.app.state.context, marked))
    found = admin.get("/model/iris").json()
    assert [version["version"] for version in found["versions"]] == ["1"]
    assert [server["deleting"] for server in found["servers"]] == [False]
