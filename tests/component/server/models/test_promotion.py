"""The /model API: which version is current, and which was before."""

from __future__ import annotations

from dataclasses import replace

import httpx2
import pytest

from mizzen.kinds.parts.signatures import Signature
from mizzen.kinds.schema.resource import Meta, Resource
from tests.component.server.admission.test_decode import causes
from tests.support.server.harness import Harness, deploy


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


def test_what_is_current_can_be_asked(plane: Harness, admin: httpx2.Client) -> None:
    deploy(plane, admin)
    none = admin.get("/model/iris/current")
    assert (none.status_code, none.json()["message"]) == (
        404,
        f"no version of {plane.ref('Model', 'iris')} is current yet",
    )
    moved = admin.post("/model/iris/current", json={"version": 1}).json()
    current = admin.get("/model/iris/current").json()
    assert current == {"name": "iris", "namespace": plane.namespace, **moved["status"]["current"]}
    assert (current["version"], current["actor"]) == ("1", "admin")
    assert admin.get("/model/none/current").status_code == 404


def test_a_version_in_use_says_all_that_is_in_the_way(plane: Harness, admin: httpx2.Client) -> None:
    server = deploy(plane, admin)
    admin.post("/model/iris/current", json={"version": 1})
    refused = admin.delete("/model/iris/version/1")
    assert refused.status_code == 409
    found = {cause["field"]: cause["message"] for cause in refused.json()["details"]["causes"]}
    assert found == {
        str(plane.ref("Model", "iris")): "version 1 is its current version",
        str(plane.ref("InferenceModel", server)): "serves version 1",
    }


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
    assert (last["action"], last["actor"], last["object"]) == ("rolledback", "admin", str(plane.ref("Model", "iris")))
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
    plane.run(plane.store.create(Resource("Model", Meta("lily", plane.namespace), {"aliasOf": "iris"}), "ann"))
    for path, body in (("current", {"version": 1}), ("rollback", {}), ("rollback", {"version": 1})):
        answer = admin.post(f"/model/lily/{path}", json=body)
        assert (answer.status_code, answer.json()["details"]["hint"]) == (409, "use model 'iris' instead")
    refused = admin.post("/model/lily/version", json={"path": plane.file("m.pkl")})
    assert (refused.status_code, "second name" in refused.json()["message"]) == (409, True)


def test_a_version_that_callers_could_not_call_becomes_current_only_by_force(
    plane: Harness, admin: httpx2.Client
) -> None:
    for content, width in (("one", 4), ("two", 5)):
        server = deploy(plane, admin, content=content)
        tensor = {"name": "input", "datatype": "FP64", "shape": [-1, width]}
        plane.make_ready(server, server.rpartition("-")[2], signature=Signature.model_validate({"inputs": [tensor]}))
    assert admin.post("/model/iris/current", json={"version": 1}).status_code == 200
    assert admin.put("/model/iris/alias/prod", json={"version": 1}).status_code == 200
    plane.run(_answered_by(plane, "prod", "1"))
    for refused in (
        admin.post("/model/iris/current", json={"version": 2}),
        admin.post("/model/iris/rollback", json={"version": 2}),
        admin.put("/model/iris/alias/prod", json={"version": 2}),
    ):
        assert refused.status_code == 409
        assert "input 'input' is FP64 [-1, 5], not FP64 [-1, 4]" in refused.json()["message"]
    assert admin.get("/model/iris/current").json()["version"] == "1"
    assert admin.post("/model/iris/current", json={"version": 2, "force": "yes"}).status_code == 422
    assert admin.post("/model/iris/current", json={"version": 2, "force": True}).status_code == 200
    assert admin.put("/model/iris/alias/prod", json={"version": 2, "force": True}).status_code == 200


async def _answered_by(plane: Harness, alias: str, version: str) -> None:
    """As the controller of models would say it."""
    model = await plane.store.get(plane.ref("Model", "iris"))
    await plane.store.update_status(replace(model, status={**model.status, "aliases": {alias: version}}), "system")
