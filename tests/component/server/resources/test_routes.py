"""The resource API: every verb, over real HTTP."""

from __future__ import annotations

import hashlib
from typing import Any

import httpx2
import pytest

from mizzen.blobs.file_store import FileBlobs
from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Meta, OwnerReference, Resource
from tests.support.golden import Golden
from tests.support.server.harness import HERE, ROOT, Client, Harness

CONTENT = "content"
DIGEST = f"sha256:{hashlib.sha256(CONTENT.encode()).hexdigest()}"


def model(name: str = "iris", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, **more.pop("metadata", {})}
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": metadata, "spec": {}, **more}


def inference_model(name: str = "iris-1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "metadata": {"name": name},
        "spec": {
            "modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud", "frameworkType": "sklearn", **spec,
        },
    }  # fmt: skip


def model_version(number: str = "1", **spec: Any) -> dict[str, Any]:
    artifact = {"path": "m.joblib", "digest": DIGEST, "size": len(CONTENT)}
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "ModelVersion", "metadata": {"name": f"iris.{number}"},
        "spec": {"modelName": "iris", "version": number, "framework": "sklearn", "artifacts": [artifact], **spec},
    }  # fmt: skip


def make_iris(plane: Harness, admin: httpx2.Client) -> None:
    """The model and the file that `model_version` speaks of."""
    FileBlobs(plane.folder / "blobs").put_bytes(CONTENT.encode())
    assert admin.post(f"{HERE}/models", json=model()).status_code == 201


def test_create_read_list_replace_delete(admin: Client) -> None:
    created = admin.post(f"{HERE}/models", json=model(metadata={"labels": {"team": "a"}}, status={"current": "mine"}))
    assert created.status_code == 201, created.text
    assert created.headers["location"] == admin.path(f"{HERE}/models/iris")
    stored = created.json()
    assert stored["metadata"]["annotations"] == {"mizzen.dev/actor": "admin"}
    assert stored["metadata"]["generation"] == 1
    assert stored["status"] == {}

    assert admin.get(f"{HERE}/models/iris").json() == stored
    listing = admin.get(f"{HERE}/models").json()
    assert (listing["kind"], listing["items"]) == ("ModelList", [stored])
    assert listing["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
    assert listing["metadata"]["continue"] == ""

    stored["spec"] = {"framework": "sklearn"}
    replaced = admin.put(f"{HERE}/models/iris", json=stored)
    assert replaced.status_code == 200, replaced.text
    assert replaced.json()["metadata"]["generation"] == 2

    deleted = admin.delete(f"{HERE}/models/iris")
    assert deleted.status_code == 200
    assert deleted.json()["status"] == "Success"
    assert admin.get(f"{HERE}/models/iris").status_code == 404
    assert admin.delete(f"{HERE}/models/iris").status_code == 404
    assert admin.put(f"{HERE}/models/iris", json=model()).status_code == 404


def test_the_stored_spec_is_what_was_written(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    admin.post(f"{HERE}/inferencemodels", json=inference_model(cache=None, targetVersion="v1"))
    stored = admin.get(f"{HERE}/inferencemodels/iris-1").json()
    assert stored["spec"] == inference_model(cache=None, targetVersion="v1")["spec"]


def test_a_duplicate_is_409(admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model())
    answer = admin.post(f"{HERE}/models", json=model())
    assert (answer.status_code, answer.json()["reason"]) == (409, "AlreadyExists")


def test_a_stale_resource_version_is_409_and_an_absent_one_no_check(admin: httpx2.Client) -> None:
    stored = admin.post(f"{HERE}/models", json=model()).json()
    stale = {**stored, "spec": {"framework": "python"}}
    assert admin.put(f"{HERE}/models/iris", json=model(spec={"framework": "sklearn"})).status_code == 200
    answer = admin.put(f"{HERE}/models/iris", json=stale)
    assert (answer.status_code, answer.json()["reason"]) == (409, "Conflict")
    assert admin.get(f"{HERE}/models/iris").json()["spec"] == {"framework": "sklearn"}


def test_sending_the_same_again_changes_nothing(admin: httpx2.Client) -> None:
    stored = admin.post(f"{HERE}/models", json=model(metadata={"labels": {"a": "b"}})).json()
    again = admin.put(f"{HERE}/models/iris", json=model(metadata={"labels": {"a": "b"}}))
    assert again.json() == stored


def test_finalizers_hold_an_object_and_cannot_be_written(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    stored = admin.post(f"{HERE}/inferencemodels", json=inference_model()).json()
    assert stored["metadata"]["finalizers"] == ["mizzen.dev/children"]
    stored["metadata"]["finalizers"] = []
    assert admin.put(f"{HERE}/inferencemodels/iris-1", json=stored).json()["metadata"]["finalizers"]

    answer = admin.delete(f"{HERE}/inferencemodels/iris-1")
    assert answer.status_code == 200, "some of Kubernetes' clients read nothing of a 202"
    assert answer.json()["metadata"]["deletionTimestamp"]
    assert admin.get(f"{HERE}/inferencemodels/iris-1").status_code == 200
    plane.release(plane.ref("InferenceModel", "iris-1"))
    assert admin.get(f"{HERE}/inferencemodels/iris-1").status_code == 404


def test_internal_kinds_are_read_only(shared_admin: httpx2.Client) -> None:
    assert shared_admin.get(f"{HERE}/workloads").json()["items"] == []
    for answer in (
        shared_admin.post(f"{HERE}/workloads", json={}),
        shared_admin.put(f"{HERE}/workloads/x", json={}),
        shared_admin.delete(f"{HERE}/workloads/x"),
    ):
        assert answer.status_code == 403
        assert "controllers" in answer.json()["message"]


def test_immutable_kinds_keep_their_spec_but_not_their_labels(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    stored = admin.post(f"{HERE}/modelversions", json=model_version())
    assert stored.status_code == 201, stored.text
    answer = admin.put(f"{HERE}/modelversions/iris.1", json=model_version(framework="python", entrypoint="a:b"))
    assert answer.status_code == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["spec.entrypoint", "spec.framework"]
    labelled = model_version()
    labelled["metadata"]["labels"] = {"tier": "gold"}
    again = admin.put(f"{HERE}/modelversions/iris.1", json=labelled)
    assert again.status_code == 200, again.text
    assert again.json()["spec"] == stored.json()["spec"]


def test_a_version_is_guarded_at_this_door_too(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    admin.post(f"{HERE}/modelversions", json=model_version())
    admin.post(f"{HERE}/inferencemodels", json=inference_model(targetVersion="v1"))
    for path in (f"{HERE}/modelversions/iris.1", f"{HERE}/models/iris"):
        answer = admin.delete(path)
        assert answer.status_code == 409
        assert str(plane.ref("InferenceModel", "iris-1")) in answer.json()["message"]


@pytest.mark.own_plane
def test_pages_and_selectors(admin: httpx2.Client) -> None:
    for number in range(5):
        admin.post(f"{HERE}/models", json=model(f"m{number}", metadata={"labels": {"odd": str(number % 2)}}))
    admin.post(f"{ROOT}/namespaces/other/models", json=model("elsewhere"))
    names, token = [], ""
    for _ in range(3):
        page = admin.get(f"{HERE}/models", params={"limit": 2, "continue": token} if token else {"limit": 2}).json()
        names += [item["metadata"]["name"] for item in page["items"]]
        token = page["metadata"]["continue"]
    assert names == ["m0", "m1", "m2", "m3", "m4"]
    assert token == ""

    odd = admin.get(f"{HERE}/models", params={"labelSelector": "odd==1"}).json()["items"]
    assert [item["metadata"]["name"] for item in odd] == ["m1", "m3"]
    assert len(admin.get(f"{ROOT}/models").json()["items"]) == 6
    assert len(admin.get(f"{ROOT}/namespaces/other/models").json()["items"]) == 1


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=-1", "limit=x", "limit=1&limit=2", "continue=junk", "labelSelector=a+b", "labelSelector=a!!b",
     "labelSelector=a+in+b", "labelSelector=!!a", "watch=perhaps", "dryRun=All", "fieldSelector=spec.framework=x",
     "fieldSelector=metadata.name", "fieldSelector=spec.framework!=x", "fieldSelector=metadata.name=x,metadata.name=y",
     "sendInitialEvents=null", "allowWatchBookmarks=maybe", "timeoutSeconds=0", "timeoutSeconds=86401"],
)  # fmt: skip
def test_a_query_that_cannot_be_meant_is_400(shared_admin: httpx2.Client, query: str) -> None:
    answer = shared_admin.get(f"{HERE}/models?{query}")
    assert (answer.status_code, answer.json()["reason"]) == (400, "BadRequest")


def test_a_query_parameter_nearly_right_is_told(shared_admin: httpx2.Client) -> None:
    assert (
        shared_admin.get(f"{HERE}/models?labelSelecter=a=b").json()["message"].endswith("did you mean 'labelSelector'?")
    )


def test_logs_come_from_the_workloads_of_the_server(plane: Harness, admin: httpx2.Client, golden: Golden) -> None:
    make_iris(plane, admin)
    server = admin.post(f"{HERE}/inferencemodels", json=inference_model()).json()
    owner = OwnerReference("InferenceModel", "iris-1", server["metadata"]["uid"])
    plane.run(plane.store.create(Resource("Workload", Meta("iris-1-w", plane.namespace, owners=(owner,))), "system"))
    plane.run(plane.store.create(Resource("Workload", Meta("stranger", plane.namespace)), "system"))

    answer = admin.get(f"{HERE}/inferencemodels/iris-1/log", params={"tail": 2})
    assert answer.headers["content-type"].startswith("text/plain")
    golden.check(answer.text)
    with admin.stream("GET", f"{HERE}/inferencemodels/iris-1/log", params={"follow": "true"}) as stream:
        lines = stream.iter_lines()
        assert [next(lines) for _ in range(3)][-1] == "iris-1-w line 2"
    assert admin.get(f"{HERE}/inferencemodels/none/log").status_code == 404
    assert admin.get(f"{HERE}/models/iris/log").status_code == 404


def test_a_log_that_broke_off_is_gone_on_with(plane: Harness, admin: httpx2.Client, golden: Golden) -> None:
    make_iris(plane, admin)
    server = admin.post(f"{HERE}/inferencemodels", json=inference_model()).json()
    owner = OwnerReference("InferenceModel", "iris-1", server["metadata"]["uid"])
    made = plane.run(plane.store.create(Resource("Workload", Meta("w", plane.namespace, owners=(owner,))), "system"))
    url, uid = f"{HERE}/inferencemodels/iris-1/log", made.meta.uid
    assert admin.get(url, params={"places": "true", "tail": 2}).text == (
        f"w line 0\n\0place {uid}:0=1-0\nw line 1\n\0place {uid}:0=2-0\n"
    )
    assert admin.get(url, params={"after": f"{uid}:0=2-0", "tail": 0}).text == "w line 2\n"
    assert admin.get(url, params={"after": f"{uid}:0=3-0", "places": "true"}).text == ""
    gone = "0" * 32
    golden.check(admin.get(url, params={"after": f"{gone}:0=2-0"}).text)
    for bad in ("x", f"{uid}:", f"{uid}:0=x", f"{uid}:0=1", f"{uid}:0=1-0,", f"{uid}:-1=1-0", uid.upper() + "!"):
        assert admin.get(url, params={"after": bad}).status_code == 400, bad


def test_every_form_of_selector(admin: httpx2.Client) -> None:
    for number in range(4):
        labels = {"n": str(number)} | ({"even": ""} if number % 2 == 0 else {})
        admin.post(f"{HERE}/models", json=model(f"m{number}", metadata={"labels": labels}))

    def found(**params: str) -> list[str]:
        return [item["metadata"]["name"] for item in admin.get(f"{HERE}/models", params=params).json()["items"]]

    assert found(labelSelector="n in (1, 3)") == ["m1", "m3"]
    assert found(labelSelector="even,n!=2") == ["m0"]
    assert found(labelSelector="!even") == ["m1", "m3"]
    assert found(labelSelector="n notin (0,1),even") == ["m2"]
    assert found(fieldSelector="metadata.name=m2") == ["m2"]
    assert found(fieldSelector="metadata.name=m2", labelSelector="!even") == []
    assert found(fieldSelector="metadata.name!=m2") == ["m0", "m1", "m3"]
    assert found(fieldSelector="metadata.name != m2, metadata.name!=m1, metadata.namespace!=other") == ["m0", "m3"]
    assert found(fieldSelector="metadata.name!=m2,metadata.name=m2") == []


def test_a_dry_run_says_what_would_be_and_writes_nothing(admin: httpx2.Client) -> None:
    tried = admin.post(f"{HERE}/models?dryRun=All", json=model())
    assert (tried.status_code, tried.json()["metadata"]["name"]) == (201, "iris")
    assert admin.get(f"{HERE}/models/iris").status_code == 404

    stored = admin.post(f"{HERE}/models", json=model()).json()
    assert admin.post(f"{HERE}/models?dryRun=All", json=model()).status_code == 409
    tried = admin.put(f"{HERE}/models/iris?dryRun=All", json=model(spec={"framework": "python"}))
    assert (tried.status_code, tried.json()["spec"]) == (200, {"framework": "python"})
    assert admin.delete(f"{HERE}/models/iris?dryRun=All").json() == stored
    assert admin.get(f"{HERE}/models/iris").json() == stored
    assert admin.put(f"{HERE}/models/iris?dryRun=Some", json=model()).status_code == 400


def test_what_is_odd_comes_as_warnings(admin: httpx2.Client) -> None:
    answer = admin.post(f"{HERE}/models", json=model(spec={"framework": "sklaern", "aliases": {"prod": "3"}}))
    assert answer.status_code == 201, answer.text
    told = answer.headers.get_list("warning")
    assert all(text.startswith('299 - "spec.') and text.endswith('"') for text in told), told
    assert any("did you mean 'sklearn'?" in text for text in told)
    assert any("spec.aliases.prod: there is no version 3 yet" in text for text in told)


def test_a_server_of_a_model_that_nobody_registered_is_refused_with_the_three_ways(admin: httpx2.Client) -> None:
    answer = admin.post(f"{HERE}/inferencemodels", json=inference_model())
    assert answer.status_code == 422
    [cause] = answer.json()["details"]["causes"]
    assert cause["field"] == "spec.modelName"
    assert all(way in cause["message"] for way in ("mizzen version add", "spec.manifest", "spec.image"))


def test_every_kind_can_be_listed_and_read(shared_admin: httpx2.Client) -> None:
    for kind in catalog.KINDS:
        listing = shared_admin.get(f"{HERE}/{kind.plural}")
        assert (listing.status_code, listing.json()["kind"]) == (200, f"{kind.name}List"), listing.text
        assert shared_admin.get(f"{HERE}/{kind.plural}/none").status_code == 404


def test_history_can_be_read_as_objects(admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model())
    admin.put(f"{HERE}/models/iris", json=model(spec={"framework": "python"}))
    found = admin.get(f"{HERE}/revisions", params={"fieldSelector": "spec.kind=Model,spec.name=iris"}).json()["items"]
    assert [(item["metadata"]["name"], item["spec"]["action"], item["spec"]["actor"]) for item in found] == [
        ("model.iris.1", "created", "admin"),
        ("model.iris.2", "updated", "admin"),
    ]
    assert found[1]["spec"]["before"] == {}
    assert found[1]["spec"]["after"] == {"framework": "python"}
    assert admin.get(f"{HERE}/revisions/model.iris.2").json() == found[1]
    for answer in (
        admin.put(f"{HERE}/revisions/model.iris.2", json={}),
        admin.delete(f"{HERE}/revisions/model.iris.2"),
        admin.post(f"{HERE}/revisions", json={}),
    ):
        assert answer.status_code == 403
