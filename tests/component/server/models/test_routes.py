"""The /model API: models, and what is told of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from tests.component.server.admission.test_decode import causes
from tests.support.golden import Golden
from tests.support.server.harness import INFERENCE, Client, Harness, deploy, serving


def test_create_describe_list_delete(admin: Client) -> None:
    body = {"name": "iris", "framework": "sklearn", "labels": {"team": "a"}, "annotations": {"note": "x y"}}
    created = admin.post("/model", json=body)
    assert created.status_code == 201
    assert created.headers["location"] == admin.path("/model/iris")
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


@pytest.mark.own_plane
def test_what_is_not_there_is_answered_with_where_to_look(admin: httpx2.Client, golden: Golden) -> None:
    def hint(path: str) -> str:
        answer = admin.get(path)
        assert answer.status_code == 404
        return str(answer.json()["details"]["hint"])

    assert hint("/model/none") == hint("/model/none/history") == "'mizzen get models' lists those that exist"
    golden.check(hint("/model/none?namespace=team"))
    admin.post("/model", json={"name": "iris"})
    golden.check(hint("/model/iris/version/9"))
    golden.check(hint("/model/iris/version/latest"))


def test_a_name_is_taken_once(admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    answer = admin.post("/model", json={"name": "iris"})
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")


def test_faults_of_a_model_have_the_paths_of_the_body(admin: httpx2.Client, golden: Golden) -> None:
    sent = {"name": "No_Good", "framework": "Sci Kit", "labels": {"a": 1}, "anotations": {}}
    found = causes(admin.post("/model", json=sent))
    assert set(found) == {"name", "framework", "labels.a", ""}
    golden.check(found[""])
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


@pytest.mark.own_plane
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
        Resource("TrainingJob", Meta("run", plane.namespace), {"modelName": "iris", "version": "v1"}),
        Resource("TrainingJob", Meta("other", plane.namespace), {"modelName": "rose", "version": "1"}),
        Resource("Monitor", Meta("board", plane.namespace), {"modelName": "iris", "tool": "tensorboard"}),
        Resource("Model", Meta("lily", plane.namespace), {"aliasOf": "iris"}),
        Resource("Model", Meta("fixed", plane.namespace), {"aliasOf": "iris:v1"}),
        Resource("Rollout", Meta("slowly", plane.namespace), {"target": {"kind": "Model", "name": "iris"}}),
    ):
        plane.run(plane.store.create(resource, "ann"))
    ended = plane.run(
        plane.store.create(Resource("TrainingJob", Meta("done", plane.namespace), {"modelName": "iris"}), "ann")
    )
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
            await plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}", plane.namespace), spec), "ann")

    plane.run(register())
    found = admin.get("/model/iris").json()
    assert found["versionCount"] == 105
    assert [version["version"] for version in found["versions"]] == [str(number) for number in range(6, 106)]
