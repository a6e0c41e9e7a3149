"""What is in the way of deleting a model or a version, and what goes with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import httpx2
import pytest

from mizzen.access.policy import Actor
from mizzen.errors import Conflict
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.deletion import cascade, guards
from mizzen.stores.sqlite.reader_pool import Snapshot
from mizzen.stores.store import EVERYTHING, Guard, Listing, Present, Where
from tests.component.server.cascades import end, finishing
from tests.support.reconcile import virtual
from tests.support.reconcile.memory import CountingStore
from tests.support.server.harness import HERE, Harness, deploy

JOB = Resource("TrainingJob", Meta("run"), {"modelName": "iris", "version": "v1"})
MONITOR = Resource("Monitor", Meta("board"), {"modelName": "iris"})
ROLLOUT = Resource("Rollout", Meta("slowly"), {"target": {"kind": "Model", "name": "iris"}})
LILY = Resource("Model", Meta("lily"), {"aliasOf": "iris"})
FIXED = Resource("Model", Meta("fixed"), {"aliasOf": "iris:v1"})


def put(plane: Harness, resource: Resource, **status: Any) -> None:
    meta = replace(resource.meta, namespace=plane.namespace)
    stored = plane.run(plane.store.create(replace(resource, meta=meta), "ann"))
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
        str(plane.ref("InferenceModel", "iris-1")): "serves version 1",
        str(plane.ref("TrainingJob", "run")): "trains version 1",
        str(plane.ref("Monitor", "board")): "monitors it",
        str(plane.ref("Rollout", "slowly")): "rolls it out",
        str(plane.ref("Model", "lily")): "is a second name of 'iris'",
        str(plane.ref("Model", "fixed")): "is a second name of 'iris:v1'",
    }
    assert iris.get("/model/iris").json()["deleting"] is False


def test_what_ended_or_is_another_models_is_not_in_the_way(plane: Harness, iris: httpx2.Client) -> None:
    put(plane, JOB, **ended("Succeeded"))
    put(plane, replace(JOB, meta=Meta("failed")), **ended("Failed"))
    put(plane, replace(MONITOR, spec={"modelName": "rose"}))
    put(plane, replace(ROLLOUT, spec={"target": {"kind": "MLGraph", "name": "iris"}}))
    put(plane, replace(LILY, spec={"aliasOf": "rose"}))
    assert iris.delete("/model/iris?wait=true").status_code == 200
    assert iris.get(f"{HERE}/trainingjobs").json()["items"] == [], "records of jobs go with their model"
    assert len(iris.get(f"{HERE}/monitors").json()["items"]) == 1


def test_a_cascade_ends_what_is_the_models_own(plane: Harness, iris: httpx2.Client) -> None:
    iris.post("/model/iris/serve/1")
    for resource in (JOB, MONITOR, ROLLOUT):
        put(plane, resource)
    assert iris.delete("/model/iris?cascade=true").status_code == 202
    with finishing(plane):
        for plural in ("trainingjobs", "monitors", "rollouts"):
            while iris.get(f"{HERE}/{plural}").json()["items"]:
                pass
        assert plane.run(plane.store.history(plane.ref("TrainingJob", "run")))[-1].actor == "admin"
        assert iris.get("/model/iris").json()["versionCount"] == 2
        end(plane, "iris-1")
        while iris.get("/model/iris").status_code != 404:
            pass
    assert iris.get("/model/iris/history").json()["items"][-1]["action"] == "deleted"


@pytest.mark.parametrize("name", [LILY, FIXED], ids=["of the model", "of a version"])
def test_a_cascade_leaves_second_names_to_their_owners(plane: Harness, iris: httpx2.Client, name: Resource) -> None:
    put(plane, name)
    put(plane, JOB)
    answer = iris.delete("/model/iris?cascade=true")
    assert set(in_the_way(answer)) == {str(plane.ref("Model", name.meta.name))}
    assert "delete these names first" in answer.json()["details"]["hint"]
    assert plane.run(plane.store.get(plane.ref("TrainingJob", "run"))), "nothing was touched"
    assert iris.delete(f"/model/{name.meta.name}").status_code == 200
    assert iris.delete("/model/iris?cascade=true&wait=true").status_code == 200


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (JOB, "trains version 1"),
        (ROLLOUT, "rolls it out"),
        (FIXED, "is a second name of 'iris:v1'"),
        (replace(FIXED, spec={"aliasOf": "iris:01"}), "is a second name of 'iris:01'"),
    ],
)
def test_a_version_that_is_needed_stays(plane: Harness, iris: httpx2.Client, resource: Resource, message: str) -> None:
    put(plane, resource)
    ref = plane.ref(resource.kind, resource.meta.name)
    assert in_the_way(iris.delete("/model/iris/version/1")) == {str(ref): message}
    assert in_the_way(iris.delete(f"{HERE}/modelversions/iris.1")) == {str(ref): message}
    plane.run(plane.store.delete(ref, "ann"))
    assert iris.delete("/model/iris/version/1").status_code == 200


def test_a_version_that_is_needed_no_more_goes(plane: Harness, iris: httpx2.Client) -> None:
    put(plane, JOB, **ended("Failed"))
    put(plane, LILY)
    put(plane, replace(FIXED, spec={"aliasOf": "iris:2"}))
    put(plane, replace(FIXED, meta=Meta("odd"), spec={"aliasOf": "iris:1:1"}))
    assert iris.delete("/model/iris/version/1").status_code == 200


def test_what_a_deletion_asks_does_not_grow_with_the_versions(plane: Harness, iris: httpx2.Client) -> None:
    """It is asked in the thread that writes, while everybody else waits."""
    version = plane.run(plane.store.get(plane.ref("ModelVersion", "iris.1")))
    wanted = (
        guards.require_removable(plane.ref("Model", "iris")),
        guards.require_unused_version(version),
    )
    before = [asked(plane, guard) for guard in wanted]
    for number in range(3, 13):
        put(
            plane,
            Resource(
                "ModelVersion", Meta(f"iris.{number}", plane.namespace), {"modelName": "iris", "version": str(number)}
            ),
        )
    assert [asked(plane, guard) for guard in wanted] == before
    assert all(counted.objects <= 2 for counted in before)


def asked(plane: Harness, guard: Guard) -> Counted:
    counted = Counted(None)

    def through(now: Present) -> None:
        counted.now = now
        guard(counted)

    async def check() -> None:
        async with plane.store.snapshot() as moment:
            await moment.check(through)

    plane.run(check())
    return replace(counted, now=None)


@dataclass
class Counted:
    """What is read through it, in questions and in objects."""

    now: Present | None
    questions: int = 0
    objects: int = 0

    def get(self, ref: Ref) -> Resource:
        assert self.now is not None
        self.questions, self.objects = self.questions + 1, self.objects + 1
        return self.now.get(ref)

    def list(self, kind: str, where: Where = EVERYTHING) -> tuple[Resource, ...]:
        assert self.now is not None
        found = self.now.list(kind, where)
        self.questions, self.objects = self.questions + 1, self.objects + len(found)
        return found

    def newest(self, kind: str, model: Ref, most: int) -> tuple[Resource, ...]:
        assert self.now is not None
        found = self.now.newest(kind, model, most)
        self.questions, self.objects = self.questions + 1, self.objects + len(found)
        return found

    def count(self, kind: str, model: Ref) -> int:
        assert self.now is not None
        self.questions += 1
        return self.now.count(kind, model)


def test_the_right_to_delete_one_object_is_none_to_delete_the_next_of_its_name(
    plane: Harness, iris: httpx2.Client
) -> None:
    put(plane, MONITOR)
    admin = Actor("admin")
    for ref in (plane.ref("Model", "iris"), plane.ref("ModelVersion", "iris.1"), plane.ref("Monitor", "board")):
        with pytest.raises(Conflict, match="has the uid"):
            plane.run(cascade.remove_object(plane.store, ref, admin, uid="of-another-one", cascade=True))
        kept = plane.run(plane.store.get(ref))
        assert not kept.deleting
        assert not kept.meta.finalizers
        left = plane.run(cascade.remove_object(plane.store, ref, admin, uid=kept.meta.uid, cascade=True))
        assert (left is not None) == (ref.kind == "Model")


@pytest.mark.own_plane
def test_who_deletes_is_read_from_history_once(
    plane: Harness, admin: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many steps it takes: a model's history may be long."""
    servers = [deploy(plane, admin) for _ in range(4)]
    read: list[str] = []
    listing = Snapshot.list

    async def counted(moment: Snapshot, kind: str, where: Where = EVERYTHING, **page: Any) -> Listing:
        read.append(kind)
        return await listing(moment, kind, where, **page)

    monkeypatch.setattr(Snapshot, "list", counted)
    with finishing(plane):
        assert admin.delete("/model/iris?cascade=true").status_code == 202
        for server in servers:
            end(plane, server)
        while admin.get("/model/iris").status_code != 404:
            pass
    assert read.count("Revision") == 1


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


def test_cascades_are_finished_whenever_they_begin(plane: Harness, admin: httpx2.Client) -> None:
    """Those from before its start, and later ones, several at once."""
    servers = {name: deploy(plane, admin, name) for name in ("early", "late", "later")}
    admin.delete("/model/early?cascade=true")
    with finishing(plane) as task:
        for name in ("late", "later"):
            assert admin.delete(f"/model/{name}?cascade=true").status_code == 202
        for server in reversed(servers.values()):
            end(plane, server)
        while admin.get("/model").json()["items"]:
            assert not task.done()
        deploy(plane, admin, "early")
        assert admin.get("/model/early").json()["deleting"] is False


def test_marked_models_are_found_a_page_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cascade, "PAGE", 3)

    async def main() -> None:
        store = CountingStore()
        for number in range(7):
            finalizers = (cascade.CASCADE_FINALIZER,) if number in (0, 6) else ()
            await store.create(Resource("Model", Meta(f"m{number}", finalizers=finalizers)), "ann")
        for name in ("m0", "m6"):
            await store.delete(Ref("Model", name), "ann")
        marked = cascade._MarkedModels(store)
        await marked.reload()
        assert {ref.name for ref in marked.models} == {"m0", "m6"}
        assert marked.since == str(store.version)
        assert store.reads == {"lists": 3, "listed": 7}

    virtual.run(main())
