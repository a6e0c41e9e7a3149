"""The /model API: models, their current version and their history."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest

from mizzen.errors import Unavailable
from mizzen.kinds.meta import Meta, Ref, Resource
from mizzen.server import removal
from mizzen.stores.sqlite import SqliteStore
from mizzen.stores.store import Guard
from tests.unit.server.harness import HERE, INFERENCE, Harness, serving
from tests.unit.server.test_admission import causes
from tests.unit.server.test_resources import inference_model


def deploy(
    plane: Harness, admin: httpx2.Client, name: str = "iris", content: str = "one", *, ready: bool = True
) -> str:
    """A model with one more version, served. The id of its server."""
    admin.post("/model", json={"name": name})
    path = plane.file("model.joblib", content)
    version = admin.post(f"/model/{name}/version", json={"path": path}).json()["version"]
    server = str(admin.post(f"/model/{name}/serve/{version}").json()["id"])
    if ready:
        plane.make_ready(server, version)
    return server


def test_create_describe_list_delete(admin: httpx2.Client) -> None:
    body = {"name": "iris", "framework": "sklearn", "labels": {"team": "a"}, "annotations": {"note": "x y"}}
    created = admin.post("/model", json=body)
    assert created.status_code == 201
    assert created.headers["location"] == "/model/iris"
    found = created.json()
    assert (found["name"], found["framework"], found["labels"]) == ("iris", "sklearn", {"team": "a"})
    assert created.json()["annotations"] == {"note": "x y", "mizzen.dev/actor": "admin"}
    assert created.json()["status"]["conditions"] == []

    found = admin.get("/model/iris").json()
    assert (found["current"], found["versions"], found["servers"]) == (None, [], [])
    assert found["lastChanged"]["actor"] == "admin"
    assert datetime.fromisoformat(found["lastChanged"]["time"]).tzinfo is not None

    assert [item["name"] for item in admin.get("/model").json()["items"]] == ["iris"]
    assert admin.delete("/model/iris").json() == {"name": "iris", "deleted": True}
    assert admin.get("/model/iris").status_code == 404
    assert admin.delete("/model/iris").status_code == 404


def test_what_is_not_there_is_answered_with_where_to_look(admin: httpx2.Client) -> None:
    def hint(path: str) -> str:
        answer = admin.get(path)
        assert answer.status_code == 404
        return str(answer.json()["details"]["hint"])

    assert hint("/model/none") == hint("/model/none/history") == "'mizzen get models' lists what there is"
    assert hint("/model/none?namespace=team") == "'mizzen get models -n team' lists what there is"
    admin.post("/model", json={"name": "iris"})
    assert hint("/model/iris/version/9") == "'mizzen get modelversions' lists what there is"
    assert hint("/model/iris/version/latest") == "'mizzen version list iris' lists those it has"


def test_a_name_is_taken_once(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    answer = admin.post("/model", json={"name": "iris"})
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")


def test_faults_of_a_model_have_the_paths_of_the_body(admin: httpx2.Client) -> None:
    sent = {"name": "No_Good", "framework": "Sci Kit", "labels": {"a": 1}, "anotations": {}}
    found = causes(admin.post("/model", json=sent))
    assert set(found) == {"name", "framework", "labels.a", ""}
    assert found[""] == "unknown field 'anotations'; did you mean 'annotations'?"
    assert causes(admin.post("/model", json={})) == {"name": "required"}


def test_namespaces_are_apart(admin: httpx2.Client) -> None:
    created = admin.post("/model?namespace=other", json={"name": "iris"})
    assert created.status_code == 201
    assert admin.get(created.headers["location"]).json()["namespace"] == "other"
    assert admin.get("/model").json()["items"] == []
    assert admin.get("/model/iris").status_code == 404
    assert admin.get("/model/iris?namespace=other").status_code == 200
    assert admin.get("/model?namespace=No_Good").status_code == 422
    assert admin.get("/model?namspace=other").status_code == 400


def test_pages_of_models(admin: httpx2.Client) -> None:
    for name in ("a", "b", "c"):
        admin.post("/model", json={"name": name, "labels": {"which": name}})
    first = admin.get("/model?limit=2").json()
    rest = admin.get("/model", params={"limit": 2, "continue": first["metadata"]["continue"]}).json()
    assert [item["name"] for item in first["items"] + rest["items"]] == ["a", "b", "c"]
    assert rest["metadata"]["continue"] == ""
    assert [item["name"] for item in admin.get("/model?labelSelector=which=b").json()["items"]] == ["b"]
    some = admin.get("/model", params={"labelSelector": "which in (a, c), which"}).json()["items"]
    assert [item["name"] for item in some] == ["a", "c"]
    assert admin.get("/model", params={"labelSelector": "which in a"}).status_code == 400
    assert admin.get("/model", params={"continue": "x"}).status_code == 400


def test_a_page_that_is_asked_for_too_late_is_410(tmp_path: Path) -> None:
    with serving(tmp_path, keep_events=5) as plane:
        admin = plane.client()
        for number in range(4):
            admin.post("/model", json={"name": f"m{number}"})
        token = admin.get("/model?limit=2").json()["metadata"]["continue"]
        for number in range(20):
            admin.post("/model", json={"name": f"n{number}"})
        late = admin.get("/model", params={"limit": 2, "continue": token})
        assert (late.status_code, late.json()["reason"]) == (410, "Expired")


def test_who_may_read_one_model_lists_that_one(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        admin, ann = plane.client(), plane.client(plane.user("ann"))
        for name in ("iris", "lily"):
            admin.post("/model", json={"name": name})
        assert ann.get("/model").status_code == 403
        plane.permit("ann", "write", subjects=["ann"], model="iris")
        assert [item["name"] for item in ann.get("/model").json()["items"]] == ["iris"]
        assert ann.get("/model/lily").status_code == 403
        assert ann.post("/model", json={"name": "rose"}).status_code == 403
        assert admin.delete("/model/iris").status_code == 200
        assert ann.post("/model", json={"name": "iris"}).status_code == 201


def test_a_description_tells_versions_and_servers(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    deploy(plane, admin, content="two", ready=False)
    found = admin.get("/model/iris").json()
    assert [version["version"] for version in found["versions"]] == ["1", "2"]
    assert [(server["id"], server["ready"], server["url"]) for server in found["servers"]] == [
        ("iris-1", True, f"{INFERENCE}/v2/models/iris-1"),
        ("iris-2", False, f"{INFERENCE}/v2/models/iris-2"),
    ]
    assert found["status"]["highestVersion"] == 2
    assert (found["versionCount"], found["jobs"], found["monitor"], found["secondNames"]) == (2, [], None, [])


def test_a_description_tells_jobs_monitor_aliases_and_second_names(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    admin.put("/model/iris/alias/prod", json={"version": 1})
    for resource in (
        Resource("TrainingJob", Meta("run"), {"modelName": "iris", "version": "v1"}),
        Resource("TrainingJob", Meta("other"), {"modelName": "rose", "version": "1"}),
        Resource("Monitor", Meta("board"), {"modelName": "iris", "tool": "tensorboard"}),
        Resource("Model", Meta("lily"), {"aliasOf": "iris"}),
        Resource("Model", Meta("fixed"), {"aliasOf": "iris:v1"}),
        Resource("Rollout", Meta("slowly"), {"target": {"kind": "Model", "name": "iris"}}),
    ):
        plane.run(plane.store.create(resource, "ann"))
    ended = plane.run(plane.store.create(Resource("TrainingJob", Meta("done"), {"modelName": "iris"}), "ann"))
    status = {"conditions": [{"type": "Succeeded", "status": "True", "reason": "Done"}]}
    plane.run(plane.store.update_status(replace(ended, status=status), "ann"))
    found = admin.get("/model/iris").json()
    assert [(job["id"], job["version"]) for job in found["jobs"]] == [("run", "1")]
    assert (found["monitor"]["name"], found["monitor"]["tool"]) == ("board", "tensorboard")
    assert (found["aliases"], found["secondNames"], found["rollouts"]) == ({"prod": "1"}, ["fixed", "lily"], ["slowly"])
    assert admin.get("/model/lily").json()["aliasOf"] == "iris"
    assert found["lastChanged"]["actor"] == "ann"


def test_a_description_holds_the_newest_versions_only(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})

    async def register() -> None:
        for number in range(1, 106):
            spec = {"modelName": "iris", "version": str(number), "framework": "sklearn"}
            await plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}"), spec), "ann")

    plane.run(register())
    found = admin.get("/model/iris").json()
    assert found["versionCount"] == 105
    assert [version["version"] for version in found["versions"]] == [str(number) for number in range(6, 106)]


def test_promote_moves_current_and_keeps_the_one_before(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    deploy(plane, admin, content="two")
    assert admin.post("/model/iris/current", json={"version": "v1"}).json()["current"] == "1"
    moved = admin.post("/model/iris/current", json={"version": 2}).json()
    assert (moved["current"], moved["previous"]) == ("2", "1")
    assert moved["status"]["current"]["actor"] == "admin"
    assert moved["status"]["highestVersion"] == 2
    before = admin.get("/model/iris/history").json()
    assert admin.post("/model/iris/current", json={"version": 2}).status_code == 200
    assert admin.get("/model/iris/history").json() == before


def test_only_what_answers_can_be_promoted(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin, ready=False)
    answer = admin.post("/model/iris/current", json={"version": 1})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert admin.post("/model/iris/current", json={"version": 9}).status_code == 404
    assert admin.post("/model/none/current", json={"version": 1}).status_code == 404
    plane.make_ready(server, "1")
    admin.delete(f"/model/iris/serve/1/{server}")
    assert admin.post("/model/iris/current", json={"version": 1}).status_code == 409
    assert admin.get("/model/iris").json()["current"] is None


@pytest.mark.parametrize("body", [{}, {"version": True}, {"version": "auto"}, {"version": 0}, {"version": [1]}])
def test_a_promotion_that_cannot_be_read_is_422(plane: Harness, admin: httpx2.Client, body: dict[str, object]) -> None:
    admin.post("/model", json={"name": "iris"})
    assert "version" in causes(admin.post("/model/iris/current", json=body))


def test_a_rollback_goes_to_the_version_that_was_current_before(plane: Harness, admin: httpx2.Client) -> None:
    for content in ("one", "two", "three"):
        deploy(plane, admin, content=content)
    for version in (1, 3):
        admin.post("/model/iris/current", json={"version": version})
    back = admin.post("/model/iris/rollback", json={})
    assert (back.status_code, back.json()["current"], back.json()["previous"]) == (200, "1", "3")
    last = admin.get("/model/iris/history").json()["items"][-1]
    assert (last["action"], last["actor"], last["object"]) == ("rolledback", "admin", "Model/iris")
    assert (last["before"]["current"]["version"], last["after"]["current"]["version"]) == ("3", "1")
    assert admin.post("/model/iris/rollback", json={"version": "v2"}).json()["current"] == "2"
    assert admin.post("/model/iris/rollback").json()["current"] == "1", "without a body, too"


def test_a_rollback_that_cannot_be_changes_nothing(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    deploy(plane, admin, content="two")
    admin.post("/model/iris/current", json={"version": 1})
    never = admin.post("/model/iris/rollback", json={})
    assert (never.status_code, "mizzen rollback iris --to 1" in never.json()["details"]["hint"]) == (409, True)
    admin.post("/model/iris/current", json={"version": 2})
    before = admin.get("/model/iris/history").json()
    assert admin.post("/model/iris/rollback", json={"version": 9}).status_code == 404
    assert admin.post("/model/none/rollback", json={}).status_code == 404
    assert "version" in causes(admin.post("/model/iris/rollback", json={"version": "latest"}))
    assert causes(admin.post("/model/iris/rollback", json={"versoin": 1})).keys() >= {""}
    admin.delete(f"/model/iris/serve/1/{server}")
    dead = admin.post("/model/iris/rollback", json={})
    assert (dead.status_code, "serve it first" in dead.json()["details"]["hint"]) == (409, True)
    kept = [item for item in admin.get("/model/iris/history").json()["items"] if item["object"] == "Model/iris"]
    assert kept == [item for item in before["items"] if item["object"] == "Model/iris"]
    assert admin.get("/model/iris").json()["current"] == "2"


def test_a_second_name_has_no_current_version_of_its_own(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    plane.run(plane.store.create(Resource("Model", Meta("lily"), {"aliasOf": "iris"}), "ann"))
    for path, body in (("current", {"version": 1}), ("rollback", {}), ("rollback", {"version": 1})):
        answer = admin.post(f"/model/lily/{path}", json=body)
        assert (answer.status_code, answer.json()["details"]["hint"]) == (409, "ask for it at model 'iris'")
    refused = admin.post("/model/lily/version", json={"path": plane.file("m.pkl")})
    assert (refused.status_code, "second name" in refused.json()["message"]) == (409, True)


def test_history_tells_who_did_what_in_order(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    admin.post("/model/iris/current", json={"version": 1})
    items = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"], item["actor"]) for item in items] == [
        ("created", "Model/iris", "admin"),
        ("created", "ModelVersion/iris.1", "admin"),
        ("created", "InferenceModel/iris-1", "admin"),
        ("promoted", "Model/iris", "admin"),
    ]
    assert [item["time"] for item in items] == sorted(item["time"] for item in items)
    promoted = items[-1]
    assert promoted["number"] == 2
    assert "current" not in promoted["before"]
    assert promoted["after"]["current"]["version"] == "1"
    assert admin.get("/model/none/history").status_code == 404


def test_history_outlives_the_model(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    admin.delete("/model/iris")
    items = admin.get("/model/iris/history").json()["items"]
    assert [item["action"] for item in items] == ["created", "deleted"]


def test_history_tells_of_what_is_gone(plane: Harness, admin: httpx2.Client) -> None:
    """Versions and servers too, by whatever name they went."""
    deploy(plane, admin, "iris-2")  # begins like a server of iris, and is none
    server = deploy(plane, admin)
    admin.post(f"{HERE}/inferencemodels", json=inference_model("other"))
    for name in (server, "other"):
        admin.delete(f"{HERE}/inferencemodels/{name}")
        plane.release(Ref("InferenceModel", name))
    assert admin.delete("/model/iris/version/1").status_code == 200
    gone = [
        ("created", "Model/iris"), ("created", "ModelVersion/iris.1"), ("created", "InferenceModel/iris-1"),
        ("created", "InferenceModel/other"), ("deleted", "InferenceModel/iris-1"),
        ("deleted", "InferenceModel/other"), ("deleted", "ModelVersion/iris.1"),
    ]  # fmt: skip
    history = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"]) for item in history] == gone
    assert admin.get("/model/iris").json()["lastChanged"]["time"] == history[-1]["time"]
    admin.delete("/model/iris")
    history = admin.get("/model/iris/history").json()["items"]
    assert [(item["action"], item["object"]) for item in history] == [*gone, ("deleted", "Model/iris")]


def test_a_served_model_stays_and_says_why(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    answer = admin.delete("/model/iris")
    assert answer.status_code == 409
    assert answer.json()["details"]["causes"] == [{"field": "InferenceModel/iris-1", "message": "serves version 1"}]
    assert "cascade" in answer.json()["details"]["hint"]
    assert admin.get("/model/iris").json()["versions"]


def test_a_model_goes_with_its_versions_and_the_name_is_free_again(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.delete(f"/model/iris/serve/1/{server}")
    plane.release(Ref("InferenceModel", server))
    assert admin.delete("/model/iris?wait=true").status_code == 200
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []
    assert admin.post("/model", json={"name": "iris"}).status_code == 201


def test_a_model_with_versions_is_marked_and_goes_later(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})

    async def register() -> None:
        for number in range(1, 251):
            spec = {"modelName": "iris", "version": str(number), "framework": "sklearn"}
            await plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}"), spec), "ann")

    plane.run(register())
    answer = admin.delete("/model/iris")
    assert (answer.status_code, answer.json()["deleting"]) == (202, True)
    assert admin.get("/model/iris").json()["versionCount"] == 250, "nobody waits for that"
    again = admin.post("/model", json={"name": "iris"})
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    assert "is being deleted" in again.json()["message"]
    assert again.json()["details"]["hint"] == "wait until it is gone"
    with finishing(plane):
        while admin.get("/model/iris").status_code != 404:
            pass
    assert admin.get(f"{HERE}/modelversions").json()["items"] == []
    assert plane.run(plane.store.history(Ref("ModelVersion", "iris.7")))[-1].actor == "admin"


@contextmanager
def finishing(plane: Harness) -> Iterator[asyncio.Task[None]]:
    """As assembly does: one root task beside the API."""

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(removal.finish_cascades(plane.store))

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()

    task = plane.run(start())
    try:
        yield task
    finally:
        plane.run(stop(task))


def deletions(plane: Harness) -> list[tuple[str, int]]:
    """As the audit has them."""
    return [(entry.path, entry.code) for entry in plane.audited() if entry.method == "DELETE"]


def end(plane: Harness, server: str) -> None:
    """As a controller would, when somebody has deleted it."""
    while not plane.run(plane.store.get(Ref("InferenceModel", server))).deleting:
        pass
    plane.release(Ref("InferenceModel", server))


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
    waiting.join(20)
    assert [answer.status_code for answer in answers] == [200]
    assert deletions(plane) == [("/model/iris", 202)], "on record when it was marked, and once"
    assert admin.get("/model/iris").status_code == 404


def test_who_leaves_while_waiting_is_on_record_once(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    with pytest.raises(httpx2.ReadTimeout):
        plane.client().delete("/model/iris?cascade=true&wait=true", timeout=1)
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
    deleted = plane.run(plane.store.history(Ref("ModelVersion", "iris.1")))[-1]
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
            marked = Meta(name, finalizers=(removal.CASCADE_FINALIZER,))
            await store.create(Resource("Model", marked), "ann")
            version = Resource("ModelVersion", Meta(f"{name}.1"), {"modelName": name, "version": "1"})
            await store.create(version, "ann")
            await store.delete(Ref("Model", name), "ann")
        finisher = asyncio.create_task(removal.finish_cascades(store))
        async with asyncio.timeout(30):
            while store.tries < 3:
                assert not finisher.done()
                await asyncio.sleep(0.01)
            assert [item.meta.name for item in (await store.list("Model")).items] == ["bad"]
            store.trouble = False
            await removal.until_gone(store, await store.get(Ref("Model", "bad")))
        assert (await store.list("ModelVersion")).items == ()
        assert [record.message for record in caplog.records if "Model/bad" in record.message] == [
            "Model/bad cannot be removed yet: the disk is full; trying again"
        ]
        await store.close()  # a dead watch ends it
        with pytest.raises(Unavailable):
            await asyncio.wait_for(finisher, 30)

    asyncio.run(body())


def test_a_late_step_of_a_cascade_spares_the_next_model_of_that_name(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.delete("/model/iris?cascade=true")
    marked = plane.run(plane.store.get(Ref("Model", "iris")))
    plane.release(Ref("InferenceModel", server))
    assert admin.delete("/model/iris?wait=true").status_code == 200
    deploy(plane, admin)
    plane.run(removal.finish_cascade(plane.store, marked))
    found = admin.get("/model/iris").json()
    assert [version["version"] for version in found["versions"]] == ["1"]
    assert [server["deleting"] for server in found["servers"]] == [False]
