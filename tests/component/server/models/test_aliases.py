"""The /model API: aliases."""

from __future__ import annotations

from pathlib import Path

import httpx2

from mizzen.kinds.schema.resource import Meta, Resource
from tests.component.server.admission.test_decode import causes
from tests.support.golden import Golden
from tests.support.server.harness import Harness, deploy, serving


def test_an_alias_is_a_change_of_the_spec_and_history_has_it(plane: Harness, iris: httpx2.Client) -> None:
    pointed = iris.put("/model/iris/alias/prod", json={"version": "v1"})
    assert (pointed.status_code, pointed.json()["aliases"]) == (200, {"prod": "1"})
    iris.put("/model/iris/alias/test", json={"version": 2})
    assert iris.put("/model/iris/alias/prod", json={"version": 2}).json()["aliases"] == {"prod": "2", "test": "2"}
    assert iris.delete("/model/iris/alias/test").json()["aliases"] == {"prod": "2"}
    stored = plane.run(plane.store.get(plane.ref("Model", "iris")))
    assert (stored.spec, stored.meta.generation) == ({"aliases": {"prod": "2"}}, 5)
    assert stored.status["highestVersion"] == 2
    own = plane.run(plane.store.history(plane.ref("Model", "iris")))
    assert [(entry.action, entry.actor, (entry.after or {}).get("aliases")) for entry in own[1:]] == [
        ("updated", "admin", {"prod": "1"}),
        ("updated", "admin", {"prod": "1", "test": "2"}),
        ("updated", "admin", {"prod": "2", "test": "2"}),
        ("updated", "admin", {"prod": "2"}),
    ]


def test_pointing_at_the_same_version_again_changes_nothing(plane: Harness, iris: httpx2.Client) -> None:
    iris.put("/model/iris/alias/prod", json={"version": 1})
    before = plane.run(plane.store.get(plane.ref("Model", "iris")))
    assert iris.put("/model/iris/alias/prod", json={"version": "001"}).status_code == 200
    assert plane.run(plane.store.get(plane.ref("Model", "iris"))) == before
    assert iris.delete("/model/iris/alias/prod").json()["aliases"] == {}
    assert plane.run(plane.store.get(plane.ref("Model", "iris"))).spec == {}


def test_what_cannot_be_an_alias(plane: Harness, iris: httpx2.Client, golden: Golden) -> None:
    missing = iris.put("/model/iris/alias/prod", json={"version": 9})
    assert causes(missing) == {"version": f"{plane.ref('Model', 'iris')} has no version 9"}
    golden.check(missing.json()["details"]["hint"])
    for name in ("v7", "7", "latest", "Prod", "a.b", "a_b"):
        assert set(causes(iris.put(f"/model/iris/alias/{name}", json={"version": 1}))) == {"alias"}
    iris.post("/model/iris/version/beta", json={"path": plane.file("m.pkl", "three")})
    assert "is a version" in causes(iris.put("/model/iris/alias/beta", json={"version": 1}))["alias"]
    assert "version" in causes(iris.put("/model/iris/alias/prod", json={}))
    assert iris.put("/model/none/alias/prod", json={"version": 1}).status_code == 404
    plane.run(plane.store.create(Resource("Model", Meta("lily", plane.namespace), {"aliasOf": "iris"}), "ann"))
    assert iris.put("/model/lily/alias/prod", json={"version": 1}).status_code == 409
    assert iris.get("/model/iris").json()["aliases"] == {}


def test_a_version_cannot_take_the_name_of_an_alias(plane: Harness, iris: httpx2.Client) -> None:
    iris.put("/model/iris/alias/prod", json={"version": 1})
    answer = iris.post("/model/iris/version/prod", json={"path": plane.file("m.pkl", "three")})
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert "alias" in answer.json()["message"]


def test_of_many_versions_a_few_are_told(plane: Harness, iris: httpx2.Client, golden: Golden) -> None:
    iris.post("/model", json={"name": "bare"})
    bare = iris.put("/model/bare/alias/prod", json={"version": 1}).json()["details"]["hint"]
    golden.check(bare)
    for number in range(3, 23):
        spec = {"modelName": "iris", "version": str(number)}
        plane.run(plane.store.create(Resource("ModelVersion", Meta(f"iris.{number}", plane.namespace), spec), "ann"))
    hint = iris.put("/model/iris/alias/prod", json={"version": 99}).json()["details"]["hint"]
    assert hint == "its versions are … 22 in total: " + ", ".join(map(str, range(3, 23)))


def test_removing_an_alias_that_is_not_there(iris: httpx2.Client, golden: Golden) -> None:
    none = iris.delete("/model/iris/alias/prod")
    assert (none.status_code, none.json()["details"]["hint"]) == (404, "it has no aliases")
    iris.put("/model/iris/alias/prod", json={"version": 1})
    golden.check(iris.delete("/model/iris/alias/prd").json()["details"]["hint"])
    assert iris.delete("/model/none/alias/prod").status_code == 404


def test_an_aliased_version_stays(plane: Harness, iris: httpx2.Client) -> None:
    iris.put("/model/iris/alias/prod", json={"version": 1})
    refused = iris.delete("/model/iris/version/1")
    assert refused.status_code == 409
    assert refused.json()["details"]["causes"] == [
        {"field": f"{plane.ref('Model', 'iris')}@prod", "message": "alias 'prod' names version 1"}
    ]
    assert iris.delete("/model/iris/version/2").status_code == 200
    iris.delete("/model/iris/alias/prod")
    assert iris.delete("/model/iris/version/1").status_code == 200


def test_a_version_that_still_answers_for_an_alias_stays(plane: Harness, iris: httpx2.Client) -> None:
    iris.put("/model/iris/alias/prod", json={"version": 2})

    async def as_a_controller_would() -> None:
        model = await plane.store.get(plane.ref("Model", "iris"))
        status = {**model.status, "aliases": {"prod": "1"}}
        await plane.store.update_status(Resource("Model", model.meta, model.spec, status), "system")

    plane.run(as_a_controller_would())
    for version in (1, 2):
        assert iris.delete(f"/model/iris/version/{version}").status_code == 409


def test_who_may_write_one_alias_may_point_that_one_only(tmp_path: Path) -> None:
    with serving(tmp_path) as plane:
        admin = plane.client()
        deploy(plane, admin)
        ann = plane.client(plane.user("ann"))
        plane.permit("release", "write", subjects=["ann"], model="iris", alias="prod")
        assert ann.put("/model/iris/alias/prod", json={"version": 1}).status_code == 200
        assert ann.put("/model/iris/alias/test", json={"version": 1}).status_code == 403
        assert ann.post("/model/iris/current", json={"version": 1}).status_code == 403
        assert ann.delete("/model/iris/alias/prod").status_code == 200
        assert plane.client(token=None).put("/model/iris/alias/prod", json={"version": 1}).status_code == 401
