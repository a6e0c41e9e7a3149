"""Over HTTP: namespaces are made, seen, labelled and deleted, and come with what is made in them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.admission import namespaced_store
from mizzen.stores.sqlite.store import SqliteStore
from tests.component.server.resources.test_representation import KUBECTL as AS_TABLE
from tests.component.server.resources.test_routes import model
from tests.support.server.harness import ROOT, Harness, serving
from tests.unit.server.kubernetes.test_protobuf import KUBECTL

pytestmark = pytest.mark.own_plane

SPACES = "/api/v1/namespaces"
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
APPLY = {"content-type": "application/apply-patch+yaml"}


def space(name: str = "lab", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, **metadata}}


def names(client: httpx2.Client, **query: str) -> list[str]:
    answer = client.get(SPACES, params=query)
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def causes(answer: httpx2.Response) -> set[str]:
    assert answer.status_code == 422, answer.text
    return {cause["field"] for cause in answer.json()["details"]["causes"]}


def test_one_is_made_and_seen(admin: httpx2.Client) -> None:
    made = admin.post(SPACES, json=space(labels={"team": "a"}))
    assert (made.status_code, made.headers["location"]) == (201, f"{SPACES}/lab")
    body = made.json()
    assert (body["apiVersion"], body["kind"], body["status"]) == ("v1", "Namespace", {"phase": "Active"})
    assert body["spec"] == {"finalizers": ["kubernetes"]}
    assert body["metadata"]["labels"] == {"team": "a", "kubernetes.io/metadata.name": "lab"}
    assert not {"namespace", "finalizers"} & set(body["metadata"])
    assert {entry["apiVersion"] for entry in body["metadata"]["managedFields"]} == {"v1"}
    assert admin.get(f"{SPACES}/lab").json() == body
    assert names(admin) == ["default", "lab"]
    assert names(admin, labelSelector="team=a") == names(admin, fieldSelector="metadata.name=lab") == ["lab"]
    again = admin.post(SPACES, json=space())
    assert (again.status_code, again.json()["reason"]) == (409, "AlreadyExists")
    missing = admin.get(f"{SPACES}/none")
    assert (missing.status_code, missing.json()["message"]) == (404, "Namespace/none does not exist")


def test_one_is_made_as_kubectl_sends_it(admin: httpx2.Client) -> None:
    body = bytes.fromhex(KUBECTL["create namespace cap"][0])
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    query = {"fieldManager": "kubectl-create", "fieldValidation": "Strict"}
    tried = admin.post(SPACES, content=body, headers=headers, params={**query, "dryRun": "All"})
    assert (tried.status_code, names(admin)) == (201, ["default"])
    made = admin.post(SPACES, content=body, headers=headers, params=query)
    assert (made.status_code, made.json()["metadata"]["name"]) == (201, "cap")


def test_what_the_path_says_may_be_left_out(admin: httpx2.Client) -> None:
    """Clients with types of their own do."""
    made = admin.post(SPACES, json={"metadata": {"name": "lab"}})
    assert (made.status_code, made.json()["kind"]) == (201, "Namespace")
    assert admin.put(f"{SPACES}/lab", json={"metadata": {"name": "lab", "labels": {"a": "1"}}}).status_code == 200


def test_all_that_is_wrong_is_told(admin: httpx2.Client) -> None:
    wrong = {"metadata": {"name": "No", "namespace": "x", "labels": {"a": 1}}, "spec": {"finalizers": ["x"]}}
    assert causes(admin.post(SPACES, json={"apiVersion": "v2", "kind": "Pod", **wrong})) == {
        "apiVersion", "kind", "metadata.name", "metadata.namespace", "metadata.labels.a", "spec.finalizers",
    }  # fmt: skip
    assert causes(admin.post(SPACES, json=space() | {"extra": 1})) == {""}
    assert admin.post(f"{SPACES}?fieldValidation=Ignore", json=space() | {"extra": 1}).status_code == 201
    warned = admin.post(f"{SPACES}?fieldValidation=Warn", json=space("other") | {"extra": 1})
    assert (warned.status_code, "extra" in warned.headers["warning"]) == (201, True)
    assert admin.post(SPACES, json=[]).status_code == 400
    assert admin.post(f"{SPACES}?nonsense=1", json=space()).status_code == 400
    assert causes(admin.put(f"{SPACES}/lab", json=space("other"))) == {"metadata.name"}


def test_they_are_a_table(plane: Harness, admin: httpx2.Client) -> None:
    table = plane.client(**AS_TABLE).get(SPACES).json()
    assert [definition["name"] for definition in table["columnDefinitions"]] == ["Name", "Status", "Age"]
    assert table["rows"][0]["cells"][:2] == ["default", "Active"]


def test_they_are_watched(admin: httpx2.Client) -> None:
    with admin.stream("GET", SPACES, params={"watch": "true"}) as response:
        events: Iterator[dict[str, Any]] = (json.loads(line) for line in response.iter_lines())
        first = next(events)
        assert (first["type"], first["object"]["apiVersion"]) == ("ADDED", "v1")
        admin.post(SPACES, json=space())
        added = next(events)
        assert (added["type"], added["object"]["metadata"]["name"]) == ("ADDED", "lab")
        admin.delete(f"{SPACES}/lab")
        going = next(events)
        assert (going["type"], going["object"]["status"]["phase"]) == ("MODIFIED", "Terminating")


def test_labels_change(admin: httpx2.Client) -> None:
    made = admin.post(SPACES, json=space(labels={"team": "a"})).json()
    merged = admin.patch(f"{SPACES}/lab", json={"metadata": {"labels": {"team": "b"}}}, headers=MERGE)
    assert merged.json()["metadata"]["labels"] == {"team": "b", "kubernetes.io/metadata.name": "lab"}
    bare = admin.patch(f"{SPACES}/lab", json={"metadata": {"labels": None, "finalizers": None}}, headers=MERGE).json()
    assert bare["metadata"]["labels"] == {"kubernetes.io/metadata.name": "lab"}
    assert bare["spec"] == {"finalizers": ["kubernetes"]}, "what is the server's stays"
    stale = admin.put(f"{SPACES}/lab", json=made)
    assert (stale.status_code, stale.json()["reason"]) == (409, "Conflict")
    put = admin.put(f"{SPACES}/lab", json=bare | {"metadata": {**bare["metadata"], "labels": {"team": "c"}}})
    assert put.json()["metadata"]["labels"]["team"] == "c"
    same = admin.put(f"{SPACES}/lab", json=put.json())
    assert same.json() == put.json()
    patch = [{"op": "replace", "path": "/metadata/labels/team", "value": "d"}]
    json_patch = {"content-type": "application/json-patch+json"}
    assert admin.patch(f"{SPACES}/lab", json=patch, headers=json_patch).json()["metadata"]["labels"]["team"] == "d"
    tried = admin.patch(f"{SPACES}/lab?dryRun=All", json={"metadata": {"labels": {"team": "e"}}}, headers=MERGE)
    assert tried.json()["metadata"]["labels"]["team"] == "e"
    assert admin.get(f"{SPACES}/lab").json()["metadata"]["labels"]["team"] == "d"
    assert admin.patch(f"{SPACES}/none", json={}, headers=MERGE).status_code == 404
    assert admin.patch(f"{SPACES}/lab?force=true", json={}, headers=MERGE).status_code == 400


def test_finalizers_that_are_left_out_are_taken_away(admin: httpx2.Client) -> None:
    admin.post(SPACES, json=space(finalizers=["a.b/c"]))
    labelled = admin.patch(f"{SPACES}/lab", json={"metadata": {"labels": {"team": "a"}}}, headers=MERGE).json()
    assert labelled["metadata"]["finalizers"] == ["a.b/c"]
    assert admin.put(f"{SPACES}/lab", json=labelled).json()["metadata"]["finalizers"] == ["a.b/c"]
    bare = admin.put(f"{SPACES}/lab", json=space()).json()
    assert ("finalizers" in bare["metadata"], bare["spec"]) == (False, {"finalizers": ["kubernetes"]})


@pytest.mark.parametrize(
    ("path", "kind", "name"),
    [
        ("namespaces/none", "namespaces", "none"),
        ("namespaces/events", "namespaces", "events"),
        ("namespaces/default/events/none", "events", "none"),
    ],
)
def test_an_error_says_what_it_is_about(admin: httpx2.Client, path: str, kind: str, name: str) -> None:
    details = admin.get(f"/api/v1/{path}").json()["details"]
    assert (details["kind"], details["name"], "group" in details) == (kind, name, False)


def test_an_error_says_which_one_could_not_be_made(admin: httpx2.Client) -> None:
    admin.post(SPACES, json=space())
    taken = admin.post(SPACES, json=space()).json()
    assert (taken["details"]["kind"], taken["details"]["name"]) == ("namespaces", "lab")
    wrong = admin.post(SPACES, json=space("No_Name")).json()
    assert (wrong["details"]["kind"], wrong["details"]["name"]) == ("Namespace", "No_Name")


def test_a_strategic_patch_adds_to_lists(admin: httpx2.Client) -> None:
    admin.post(SPACES, json=space(finalizers=["a.b/c"]))

    def patched(**metadata: Any) -> Any:
        answer = admin.patch(f"{SPACES}/lab", json={"metadata": metadata}, headers=STRATEGIC)
        assert answer.status_code == 200, answer.text
        return answer.json()["metadata"]

    assert patched(labels={"team": "a"})["labels"]["team"] == "a"
    order = {"$setElementOrder/finalizers": ["a.b/c", "d.e/f"]}
    assert patched(finalizers=["d.e/f"], **order)["finalizers"] == ["a.b/c", "d.e/f"]
    assert patched(**{"$deleteFromPrimitiveList/finalizers": ["a.b/c"]})["finalizers"] == ["d.e/f"]
    strange = admin.patch(f"{SPACES}/lab", json={"metadata": {"$patch": "replace"}}, headers=STRATEGIC)
    assert strange.status_code == 400


def test_one_is_applied(admin: httpx2.Client) -> None:
    def applied(manager: str, team: str | None, *, force: bool = False) -> httpx2.Response:
        labels = {} if team is None else {"team": team}
        query = {"fieldManager": manager, **({"force": "true"} if force else {})}
        return admin.patch(f"{SPACES}/lab", json=space(labels=labels), headers=APPLY, params=query)

    assert applied("one", "a").status_code == 201
    assert applied("one", "b").json()["metadata"]["labels"]["team"] == "b"
    assert applied("two", "c").status_code == 409
    assert applied("two", "c", force=True).json()["metadata"]["labels"]["team"] == "c"
    left = applied("two", None).json()
    assert left["metadata"]["labels"] == {"kubernetes.io/metadata.name": "lab"}
    assert left["spec"] == {"finalizers": ["kubernetes"]}
    assert admin.patch(f"{SPACES}/lab", json=space(), headers=APPLY).status_code == 400


@pytest.mark.parametrize("name", ["default", "another"])
def test_what_is_applied_has_the_name_of_its_path(admin: httpx2.Client, name: str) -> None:
    """Else it would be looked for under the one and made under the other, again and again if that is there."""
    sent = {**space(), "metadata": {"name": name}}
    answer = admin.patch(f"{SPACES}/lab", json=sent, headers=APPLY, params={"fieldManager": "one"})
    assert (answer.status_code, answer.json()["details"]["causes"][0]["field"]) == (422, "metadata.name")
    assert {admin.get(f"{SPACES}/{missing}").status_code for missing in ("lab", "another")} == {404}


def test_the_first_object_makes_it(plane: Harness, admin: httpx2.Client) -> None:
    assert admin.post(f"{ROOT}/namespaces/one/models?dryRun=All", json=model()).status_code == 201
    assert admin.post(f"{ROOT}/namespaces/one/models", json=model(spec={"nonsense": 1})).status_code == 422
    assert names(admin) == ["default"], "what is refused or only tried leaves nothing"
    assert admin.post(f"{ROOT}/namespaces/one/models", json=model()).status_code == 201
    assert admin.post("/model?namespace=two", json={"name": "iris"}).status_code == 201
    assert admin.put("/secret/key?namespace=three", json={"data": {"a": "b"}}).status_code == 201
    query = {"fieldManager": "me"}
    assert admin.patch(f"{ROOT}/namespaces/four/models/iris", json=model(), headers=APPLY, params=query).is_success
    assert names(admin) == ["default", "four", "one", "three", "two"]
    plane.permit("ann", "write", subjects=["ann"], namespace="five")
    ann = plane.client(plane.user("ann"))
    assert ann.post(f"{ROOT}/namespaces/five/models", json=model()).status_code == 201
    by = admin.get(f"{SPACES}/five").json()
    assert by["status"]["phase"] == "Active"


def test_nothing_is_made_in_one_that_goes(plane: Harness, admin: httpx2.Client) -> None:
    admin.post(SPACES, json=space())
    admin.post("/model?namespace=lab", json={"name": "iris"})
    gone = admin.delete(f"{SPACES}/lab", params={"propagationPolicy": "Background"})
    assert (gone.status_code, gone.json()["status"]) == (202, {"phase": "Terminating"})
    assert admin.delete(f"{SPACES}/lab").status_code == 202, "twice is as good as once"
    for answer in (
        admin.post(f"{ROOT}/namespaces/lab/models", json=model("other")),
        admin.post(f"{ROOT}/namespaces/lab/models?dryRun=All", json=model("other")),
        admin.post("/model?namespace=lab", json={"name": "other"}),
        admin.put("/secret/key?namespace=lab", json={"data": {"a": "b"}}),
    ):
        assert answer.status_code == 403, answer.text
    refused = admin.post(f"{ROOT}/namespaces/lab/models", json=model("other")).json()
    assert (refused["reason"], refused["details"]["causes"][0]["reason"]) == ("Forbidden", "NamespaceTerminating")
    assert admin.get("/secret?namespace=lab").json()["items"] == []
    again = admin.post(SPACES, json=space())
    assert (again.status_code, "being deleted" in again.json()["message"]) == (409, True)


def test_default_stays(admin: httpx2.Client) -> None:
    answer = admin.delete(f"{SPACES}/default")
    assert (answer.status_code, answer.json()["reason"]) == (403, "Forbidden")
    assert admin.get(f"{SPACES}/default").json()["status"] == {"phase": "Active"}


def test_deletion_minds_what_it_is_told(admin: httpx2.Client) -> None:
    uid = admin.post(SPACES, json=space()).json()["metadata"]["uid"]
    assert admin.request("DELETE", f"{SPACES}/lab", json={"preconditions": {"uid": "other"}}).status_code == 409
    assert admin.delete(f"{SPACES}/lab?dryRun=All").json()["status"] == {"phase": "Active"}
    assert admin.delete(f"{SPACES}/none").status_code == 404
    assert admin.request("DELETE", f"{SPACES}/lab", json={"preconditions": {"uid": uid}}).status_code == 202


@pytest.mark.parametrize("anonymous", [True, False])
def test_who_may_do_what(tmp_path: Path, anonymous: bool) -> None:
    with serving(tmp_path, anonymous=anonymous) as plane:
        admin, stranger = plane.client(), plane.client(None)
        for name in ("lab", "other", "third"):
            admin.post(SPACES, json=space(name))
        plane.permit("ann", "admin", subjects=["ann"], namespace="lab")
        plane.permit("ann", "admin", subjects=["ann"], namespace="new")
        plane.permit("bob", "predict", subjects=["bob"], namespace="lab", model="iris")
        plane.permit("cem", "write", subjects=["cem"], namespace="other")
        ann, bob, cem, dan = (plane.client(plane.user(name)) for name in ("ann", "bob", "cem", "dan"))
        everything = ["default", "lab", "other", "third"]
        for client, seen in ((ann, ["lab"]), (bob, ["lab"]), (cem, ["other"])):
            assert names(client) == (everything if anonymous else seen)
            code = 200 if anonymous else 403
            assert [client.get(f"{SPACES}/{name}").status_code for name in (*seen, "third")] == [200, code]
        assert dan.get(SPACES).status_code == (200 if anonymous else 403)
        assert stranger.get(SPACES).status_code == (200 if anonymous else 401)
        label = {"metadata": {"labels": {"a": "b"}}}
        for client, name, code in ((ann, "lab", 200), (ann, "other", 403), (bob, "lab", 403), (cem, "other", 403)):
            assert client.patch(f"{SPACES}/{name}", json=label, headers=MERGE).status_code == code
            assert client.put(f"{SPACES}/{name}", json=space(name)).status_code == code
            assert client.delete(f"{SPACES}/{name}?dryRun=All").status_code == code
        for client, code in ((stranger, 401), (bob, 403), (cem, 403), (dan, 403)):
            assert client.post(SPACES, json=space("mine")).status_code == code
            assert client.delete(f"{SPACES}/lab").status_code == code
        assert ann.post(SPACES, json=space("new")).status_code == 201
        assert ann.post(SPACES, json=space("mine")).status_code == 403
        assert ann.delete(f"{SPACES}/lab").status_code == 202


def test_a_watch_shows_what_its_reader_may_see(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        admin = plane.client()
        plane.permit("ann", "read", subjects=["ann"], namespace="lab", model="iris")
        ann = plane.client(plane.user("ann"))
        with ann.stream("GET", SPACES, params={"watch": "true", "timeoutSeconds": "30"}) as response:
            assert response.status_code == 200
            for name in ("other", "lab"):
                admin.post(SPACES, json=space(name))
            assert json.loads(next(response.iter_lines()))["object"]["metadata"]["name"] == "lab"


def test_an_older_data_dir_gets_its_namespaces(plane: Harness) -> None:
    async def fill(store: SqliteStore) -> frozenset[str]:
        for kind, where in (("Model", "one"), ("Model", "two"), ("MLGraph", "one"), ("RoleBinding", "three")):
            await store.create(Resource(kind, Meta("x", where)), "system")
        await store.create(Resource("Event", Meta("x", "none")), "system")
        return await store.namespaces()

    assert plane.run(fill(plane.store)) == {"one", "two", "three"}
    admin = plane.client()
    assert admin.put("/secret/key?namespace=four", json={"data": {"a": "b"}}).status_code == 201
    found = plane.run(plane.store.namespaces())
    assert found == {"one", "two", "three", "four"}
    for _ in range(2):
        plane.run(namespaced_store.create_missing(plane.store, found))
    assert names(admin) == ["default", "four", "one", "three", "two"]
