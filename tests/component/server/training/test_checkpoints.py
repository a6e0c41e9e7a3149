"""The /model API: checkpoints, and serving from them."""

from __future__ import annotations

import io
import tarfile
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from mizzen.runs.checkpoints import Checkpoint
from tests.component.server import trained
from tests.component.server.admission.test_decode import causes
from tests.component.server.sending import writer
from tests.component.server.trained import TRAIN, code, save, start, tell
from tests.support.server.harness import HERE, Harness

SERVE = "/model/iris/serve/1"


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model whose version 1 is code to be trained."""
    code(plane, admin)
    return admin


@pytest.fixture
def job(iris: httpx2.Client) -> str:
    return start(iris)


def spec_of(client: httpx2.Client, server: str) -> dict[str, Any]:
    return dict(client.get(f"{HERE}/inferencemodels/{server}").json()["spec"])


def test_a_list_newest_first_that_is_empty_before_the_first(plane: Harness, iris: httpx2.Client, job: str) -> None:
    assert iris.get(f"{TRAIN}/{job}/checkpoint").json() == {"items": [], "metadata": {"continue": ""}}
    old = save(plane, job, "b-step-1", step=1, metrics={"loss": 0.5}, created=10.0)
    new = save(plane, job, "a-step-2", step=2, created=20.0)
    tie = save(plane, job, "c-step-3", step=3, created=20.0)
    items = iris.get(f"{TRAIN}/{job}/checkpoint").json()["items"]
    assert [item["checkpoint_id"] for item in items] == [tie.id, new.id, old.id], "by time, then by step"
    last = items[-1]
    assert (last["step"], last["metrics"], last["sha256"]) == (1, {"loss": 0.5}, old.sha256)
    assert (last["name"], last["created"], last["size"]) == ("b-step-1", "1970-01-01T00:00:10.000000Z", old.size)
    assert last["uri"].startswith("file:///")
    assert last["uri"].endswith(old.files[0].digest.removeprefix("sha256:"))
    assert last["served_by"] == []
    assert iris.get(f"{TRAIN}/{job}/checkpoint/{old.id}").json() == last


def test_of_several_files_the_manifest_is_pointed_at(plane: Harness, iris: httpx2.Client, job: str) -> None:
    one = save(plane, job, "folder", {"a.bin": b"a", "b/c.bin": b"bc"})
    shown = iris.get(f"{TRAIN}/{job}/checkpoint/{one.id}").json()
    assert shown["uri"].endswith(f"/{one.id}.json")
    assert [(file["path"], file["size"]) for file in shown["files"]] == [("a.bin", 1), ("b/c.bin", 2)]


def test_those_of_other_jobs_are_not_among_them(plane: Harness, iris: httpx2.Client, job: str) -> None:
    other = start(iris)
    theirs = save(plane, other)
    assert iris.get(f"{TRAIN}/{job}/checkpoint").json()["items"] == []
    for id_ in (theirs.id, "nothing", "..%2Fother", "x" * 300):
        assert iris.get(f"{TRAIN}/{job}/checkpoint/{id_}").status_code == 404
        assert iris.delete(f"{TRAIN}/{job}/checkpoint/{id_}").status_code == 404
        assert iris.get(f"{TRAIN}/{job}/checkpoint/{id_}/files").status_code == 404


def test_they_stay_when_the_object_of_their_job_goes(plane: Harness, iris: httpx2.Client, job: str) -> None:
    one = save(plane, job)
    tell(plane, job, "Succeeded")
    empty = start(iris)
    for name in (job, empty):
        iris.delete(f"{HERE}/trainingjobs/{name}")
        plane.release(plane.ref("TrainingJob", name))
    assert iris.get(f"{TRAIN}/{job}").status_code == 404
    assert [item["checkpoint_id"] for item in iris.get(f"{TRAIN}/{job}/checkpoint").json()["items"]] == [one.id]
    assert iris.get(f"{TRAIN}/{job}/checkpoint/{one.id}/files").status_code == 200
    assert iris.get(f"{TRAIN}/{empty}/checkpoint").json()["items"] == []
    assert iris.get(f"{TRAIN}/iris-1-never/checkpoint").status_code == 404
    assert iris.post(SERVE).json()["checkpoint_id"] == one.id


def test_all_files_come_as_one_archive(plane: Harness, iris: httpx2.Client, job: str) -> None:
    large = bytes(range(256)) * 9000
    files = {"a.bin": b"", "b/c.bin": large, "n" * 150 + "/" + "é" * 60 + ".txt": b"x"}
    one = save(plane, job, "folder", files)
    answer = iris.get(f"{TRAIN}/{job}/checkpoint/{one.id}/files")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(answer.content)
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        held = {member.name: archive.extractfile(member) for member in archive.getmembers()}
        assert {name: file.read() for name, file in held.items() if file is not None} == files


def test_one_that_nobody_serves_is_removed(plane: Harness, iris: httpx2.Client, job: str) -> None:
    old, new = save(plane, job, "one", created=1.0), save(plane, job, "two", created=2.0)
    server = iris.post(SERVE, json={"checkpoint_id": old.id}).json()["id"]
    refused = iris.delete(f"{TRAIN}/{job}/checkpoint/{old.id}")
    assert refused.status_code == 409
    assert refused.json()["details"]["causes"] == [
        {"field": f"InferenceModel/{server}", "message": f"serves checkpoint {old.id}"}
    ]
    assert iris.get(f"{TRAIN}/{job}/checkpoint/{old.id}").json()["served_by"] == [server]
    assert iris.delete(f"{TRAIN}/{job}/checkpoint/{new.id}").json() == {"checkpoint_id": new.id, "deleted": True}
    assert [item["checkpoint_id"] for item in iris.get(f"{TRAIN}/{job}/checkpoint").json()["items"]] == [old.id]
    assert iris.delete(f"{TRAIN}/{job}/checkpoint/{new.id}").status_code == 404
    stranger = plane.client(None)
    assert stranger.delete(f"{TRAIN}/{job}/checkpoint/{old.id}").status_code == 401


def test_one_that_was_chosen_by_a_controller_counts_as_served(plane: Harness, iris: httpx2.Client, job: str) -> None:
    meant, answers = save(plane, job, "one", created=1.0), save(plane, job, "two", created=2.0)
    sent = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": "by-hand"},
        "spec": {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn"},
    }  # fmt: skip
    iris.post(f"{HERE}/inferencemodels", json=sent)

    async def choose() -> None:
        found = await plane.store.get(plane.ref("InferenceModel", "by-hand"))
        status = {"checkpoint": meant.id, "servingCheckpoint": answers.id}
        await plane.store.update_status(type(found)(found.kind, found.meta, found.spec, status), "system")

    plane.run(choose())
    for one in (meant, answers):
        assert iris.delete(f"{TRAIN}/{job}/checkpoint/{one.id}").status_code == 409
    shown = iris.get(f"{SERVE}/by-hand").json()
    assert (shown["checkpoint_id"], shown["parent_job"]) == (meant.id, job)


def test_its_files_are_not_for_strangers(plane: Harness, iris: httpx2.Client, job: str) -> None:
    one = save(plane, job)
    at = f"{TRAIN}/{job}/checkpoint/{one.id}"
    stranger = plane.client(None)
    assert stranger.get(at).status_code == 200, "this plane is open to be read"
    assert stranger.get(f"{at}/files").status_code == 401
    assert plane.client(plane.user("ben")).get(f"{at}/files").status_code == 403
    assert writer(plane, "ann", "read").get(f"{at}/files").status_code == 200


def test_who_may_vouch_for_code_vouches_for_what_others_saved(plane: Harness, iris: httpx2.Client, job: str) -> None:
    one, other = save(plane, job, "one"), save(plane, job, "two")
    at = f"{TRAIN}/{job}/checkpoint/{one.id}"
    ann, bob = writer(plane), writer(plane, "bob", "admin")
    assert ann.post(f"{at}/trust").status_code == 403
    assert trained.shelf(plane).find(plane.namespace, "iris", "1", one.id) == one
    for _ in range(2):
        answer = bob.post(f"{at}/trust")
        assert answer.status_code == 200, answer.text
        assert answer.json() == ann.get(at).json()
        assert answer.json()["trusted"] is True
    assert trained.shelf(plane).find(plane.namespace, "iris", "1", one.id) == replace(one, trusted=True)
    assert trained.shelf(plane).find(plane.namespace, "iris", "1", other.id) == other, "of one, not of all"
    assert bob.post(f"{TRAIN}/{job}/checkpoint/nothing/trust").status_code == 404
    assert [entry.allowed for entry in plane.audited(actor="bob") if entry.path == f"{at}/trust"] == [True, True]
    assert [entry.allowed for entry in plane.audited(actor="ann") if entry.path == f"{at}/trust"] == [False]


# Serving


def test_the_newest_is_served_unless_another_is_named(plane: Harness, iris: httpx2.Client, job: str) -> None:
    failed = start(iris)
    tell(plane, failed, "Failed")
    old = save(plane, job, "zz-last-by-name", created=10.0)
    new = save(plane, failed, "aa", created=20.0)
    answer = iris.post(SERVE, json={"replicas": 2})
    assert answer.status_code == 201, answer.text
    server = answer.json()
    assert (server["checkpoint_id"], server["parent_job"]) == (new.id, failed), "however its job ended"
    assert spec_of(iris, server["id"])["checkpoint"] == new.id
    named = iris.post(SERVE, json={"checkpoint_id": old.id}).json()
    assert (named["checkpoint_id"], named["version"]) == (old.id, "1")
    assert "checkpoint_id" not in spec_of(iris, named["id"])
    assert iris.post(SERVE, json={"checkpoint": old.id}).json()["checkpoint_id"] == old.id
    assert {item["checkpoint_id"] for item in iris.get(SERVE).json()["items"]} == {old.id, new.id}


def test_what_is_served_does_not_move_as_training_goes_on(plane: Harness, iris: httpx2.Client, job: str) -> None:
    first = save(plane, job, "one", created=1.0)
    server = iris.post(SERVE).json()["id"]
    save(plane, job, "two", created=2.0)
    assert iris.get(f"{SERVE}/{server}").json()["checkpoint_id"] == first.id


def test_one_that_is_not_of_the_version_is_not_found(plane: Harness, iris: httpx2.Client, job: str) -> None:
    code(plane, iris)
    save(plane, job)
    theirs = save(plane, start(iris, "/model/iris/train/2"))
    for id_ in (theirs.id, "nothing", "../2/x"):
        answer = iris.post(SERVE, json={"checkpoint_id": id_})
        assert answer.status_code == 404, answer.text
        assert "mizzen train" in answer.json()["details"]["hint"]
    assert iris.get(SERVE).json()["items"] == []


def test_an_earlier_version_of_the_same_name_leaves_nothing(plane: Harness, iris: httpx2.Client, job: str) -> None:
    old = save(plane, job)
    stranger = save(plane, job, "other", version_uid="of-an-earlier-one")
    assert iris.post(SERVE).json()["checkpoint_id"] == old.id
    assert iris.post(SERVE, json={"checkpoint_id": stranger.id}).status_code == 404


@pytest.mark.parametrize(
    "body", [{"checkpoint_id": 3}, {"checkpoint_id": ""}, {"checkpoint_id": "a", "checkpoint": "b"}]
)
def test_what_can_be_no_id_is_refused(iris: httpx2.Client, body: dict[str, Any]) -> None:
    answer = iris.post(SERVE, json=body)
    assert (answer.status_code, set(causes(answer))) == (422, {"checkpoint_id"})


def test_with_nothing_to_serve_it_is_said_what_to_do(plane: Harness, iris: httpx2.Client) -> None:
    assert "mizzen train start iris 1" in _refused(iris)
    job = start(iris)
    assert f"{job} is training it" in _refused(iris)
    tell(plane, job, "Failed")
    assert "mizzen train start iris 1" in _refused(iris)
    done = start(iris)
    ended = tell(plane, done, "Succeeded")
    none = {"type": "NoCheckpoint", "status": "True", "reason": "NothingSaved"}

    async def add() -> None:
        status = {**ended.status, "conditions": [*ended.status["conditions"], none]}
        await plane.store.update_status(type(ended)(ended.kind, ended.meta, ended.spec, status), "system")

    plane.run(add())
    assert f"NoCheckpoint: {done}" in _refused(iris)


def _refused(client: httpx2.Client) -> str:
    answer = client.post(SERVE)
    assert answer.status_code == 409, answer.text
    return str(answer.json()["details"]["hint"])


def test_without_a_checkpoint_a_version_that_can_be_loaded_is_served_as_ever(
    plane: Harness, admin: httpx2.Client
) -> None:
    admin.post("/model", json={"name": "iris"})
    admin.post("/model/iris/version", json={"path": plane.file("m.pkl")})
    server = admin.post(SERVE).json()
    assert (server["checkpoint_id"], server["parent_job"]) == (None, None)
    assert "checkpoint" not in spec_of(admin, server["id"])
    one = save(plane, start(admin))
    assert admin.post(SERVE).json()["checkpoint_id"] == one.id


def test_what_loads_it_is_what_it_is(plane: Harness, iris: httpx2.Client) -> None:
    """The framework of a server has to be said, and comes from what is served."""
    version = code(plane, iris, framework="python")
    at = f"/model/iris/train/{version}"
    save(plane, start(iris, at), framework="onnx", entrypoint="model.onnx")
    server = iris.post(f"/model/iris/serve/{version}").json()["id"]
    assert spec_of(iris, server)["frameworkType"] == "onnx"
    own = iris.post("/model/iris/version", json={
        "path": str(plane.files / "iris-code"), "framework": "python", "entrypoint": "train:Model",
    }).json()["version"]  # fmt: skip
    save(plane, start(iris, f"/model/iris/train/{own}"))
    server = iris.post(f"/model/iris/serve/{own}").json()["id"]
    assert spec_of(iris, server)["frameworkType"] == "python", "its code loads what was saved"


def test_one_that_is_removed_while_it_is_chosen_is_not_served(
    plane: Harness, iris: httpx2.Client, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As retention does it in the same moment: the next newest is served, and no server is left without files."""
    old, new = save(plane, job, "one", created=1.0), save(plane, job, "two", created=2.0)
    shelf = trained.shelf(plane)
    create = plane.store.create

    async def removed_first(*args: Any, **more: Any) -> Any:
        shelf.remove(new)
        return await create(*args, **more)

    monkeypatch.setattr(plane.store, "create", removed_first)
    assert iris.post(SERVE).json()["checkpoint_id"] == old.id
    living = [item for item in iris.get(SERVE).json()["items"] if not item["deleting"]]
    assert [item["checkpoint_id"] for item in living] == [old.id]


def test_one_that_is_served_while_it_is_removed_is_put_back(
    plane: Harness, iris: httpx2.Client, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = save(plane, job)
    shelf, client = trained.shelf(plane), plane.client()
    remove, served = type(shelf).remove, []

    def serve_first(self: Any, checkpoint: Checkpoint) -> bool:
        served.append(client.post(SERVE).status_code)
        return remove(self, checkpoint)

    monkeypatch.setattr(type(shelf), "remove", serve_first)
    assert iris.delete(f"{TRAIN}/{job}/checkpoint/{one.id}").status_code == 409
    assert served == [201]
    assert shelf.find(plane.namespace, "iris", "1", one.id) == one
