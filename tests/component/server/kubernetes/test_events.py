"""Events at the door: found, shown and watched as kubectl asks for them, by those who may read what they tell of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.controllers.events import EventRecorder
from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.kinds.workload import MODEL_LABEL
from mizzen.reconcile.recorder import EventNote
from mizzen.server.auth import targets
from tests.support.server.harness import Harness, serving

pytestmark = pytest.mark.own_plane

EVERYWHERE = "/api/v1/events"
HERE = "/api/v1/namespaces/default/events"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

MODEL = Resource("Model", Meta("iris"))
SERVER = Resource("InferenceModel", Meta("face"), {"modelName": "iris", "targetVersion": "1"})
WORKLOAD = Resource("Workload", Meta("face.1", labels={MODEL_LABEL: "iris"}), {"command": ["x"]})
LAB = Resource("Namespace", Meta("lab", ""))
OTHER = Resource("Model", Meta("rose", "lab"))
BINDING = Resource(
    "RoleBinding", Meta("team"), {"subjects": ["zoe"], "verbs": ["read"], "target": {"model": "iris"}}
)  # fmt: skip


def record(plane: Harness, *what: tuple[Resource, str]) -> None:
    """As a plane does: the object is there, and something happens to it."""

    async def write() -> None:
        store = plane.store
        happenings = EventRecorder(
            store, lambda one: min(targets.of(one).models, default=""), now=plane.app.state.context.now
        )
        for resource, reason in what:
            happenings.record_note(
                await store.get(resource.ref), EventNote(reason, f"it {reason}", warning=reason == "Failed")
            )
        await happenings.write()

    plane.run(write())


def fill(plane: Harness) -> None:
    for resource in (MODEL, SERVER, WORKLOAD, LAB, OTHER, BINDING):
        plane.run(plane.store.create(resource, "admin"))
    record(
        plane, (MODEL, "Promoted"), (SERVER, "Switched"), (SERVER, "Failed"), (WORKLOAD, "Created"),
        (OTHER, "Promoted"), (BINDING, "Deleted"),
    )  # fmt: skip


def test_what_is_no_namespace_has_none(shared_admin: httpx2.Client) -> None:
    """An empty list would be the answer for one that nobody uses."""
    for path in ("/api/v1/namespaces/No_Name/events", "/api/v1/namespaces/No_Name/events/iris.1"):
        answer = shared_admin.get(path)
        assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


@pytest.fixture(scope="module")
def filled(shared_plane: Harness) -> Harness:
    fill(shared_plane)
    return shared_plane


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path, anonymous=False) as harness:
        fill(harness)
        yield harness


def seen(client: httpx2.Client, path: str = EVERYWHERE, **query: str) -> set[str]:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return {f"{one['involvedObject']['kind']} {one['reason']}" for one in answer.json()["items"]}


def test_an_event_has_the_form_of_kubernetes(filled: Harness) -> None:
    admin = filled.client()
    listed = admin.get(HERE, params={"fieldSelector": "reason=Switched"}).json()
    assert (listed["kind"], listed["apiVersion"]) == ("EventList", "v1")
    [event] = listed["items"]
    server = filled.run(filled.store.get(SERVER.ref))
    assert event["involvedObject"] == {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "InferenceModel", "namespace": "default", "name": "face",
        "uid": server.meta.uid, "resourceVersion": server.meta.resource_version,
    }  # fmt: skip
    assert (event["kind"], event["apiVersion"], event["metadata"]["namespace"]) == ("Event", "v1", "default")
    assert (event["type"], event["reason"], event["message"]) == ("Normal", "Switched", "it Switched")
    assert (event["count"], event["eventTime"], event["source"]) == (1, None, {"component": "mizzen"})
    assert event["firstTimestamp"] == event["lastTimestamp"]
    assert not {"spec", "status"} & set(event)
    assert admin.get(f"{HERE}/{event['metadata']['name']}").json() == event
    missing = admin.get(f"{HERE}/nothing")
    assert (missing.status_code, missing.json()["reason"]) == (404, "NotFound")
    assert "kubectl get events" in missing.json()["details"]["hint"]


def test_they_are_found_as_kubectl_looks_for_them(filled: Harness) -> None:
    admin = filled.client()
    server = filled.run(filled.store.get(SERVER.ref))
    described = {
        "involvedObject.name": "face", "involvedObject.namespace": "default",
        "involvedObject.kind": "InferenceModel", "involvedObject.uid": server.meta.uid,
    }  # fmt: skip
    for_it = {"involvedObject.kind": "Model", "involvedObject.apiVersion": "mizzen.dev/v1alpha1"}
    for fields, path, found in (
        (described, HERE, {"InferenceModel Switched", "InferenceModel Failed"}),
        (for_it, EVERYWHERE, {"Model Promoted"}),
        ({"type": "Warning"}, EVERYWHERE, {"InferenceModel Failed"}),
        ({"metadata.namespace": "lab"}, EVERYWHERE, {"Model Promoted"}),
        ({"metadata.namespace": "lab"}, HERE, set[str]()),
        (described | {"involvedObject.uid": "another"}, HERE, set[str]()),
    ):
        selector = ",".join(f"{path_}={value}" for path_, value in fields.items())
        assert seen(admin, path, fieldSelector=selector) == found
    quiet = seen(admin, HERE, fieldSelector="type!=Warning,involvedObject.kind=InferenceModel")
    assert quiet == {"InferenceModel Switched"}
    of_model = seen(admin, labelSelector="mizzen.dev/model=iris")
    assert of_model == {
        "Model Promoted", "InferenceModel Switched", "InferenceModel Failed", "Workload Created", "RoleBinding Deleted",
    }  # fmt: skip
    odd = admin.get(EVERYWHERE, params={"fieldSelector": "spec.reason=Failed"})
    assert odd.status_code == 400
    assert "involvedObject.name" in odd.json()["details"]["hint"]


def test_they_come_in_pages_and_as_tables(filled: Harness) -> None:
    admin = filled.client()
    pages: list[dict[str, Any]] = []
    token = ""
    while not pages or token:
        answer = admin.get(EVERYWHERE, params={"limit": "4", **({"continue": token} if token else {})})
        pages.append(answer.json())
        token = pages[-1]["metadata"]["continue"]
    assert [len(page["items"]) for page in pages] == [4, 2]
    table = admin.get(HERE, params={"fieldSelector": "type=Warning"}, headers={"accept": TABLE}).json()
    names = [column["name"] for column in table["columnDefinitions"]]
    [row] = table["rows"]
    cells = dict(zip(names, row["cells"], strict=True))
    assert (cells["Type"], cells["Reason"], cells["Object"], cells["Message"]) == (
        "Warning", "Failed", "inferencemodel/face", "it Failed",
    )  # fmt: skip
    single = admin.get(f"{HERE}/{row['object']['metadata']['name']}", headers={"accept": TABLE}).json()
    assert (single["kind"], len(single["rows"])) == ("Table", 1)


def test_a_watch_tells_of_new_ones_and_of_their_counts(plane: Harness) -> None:
    fill(plane)
    admin = plane.client()
    query = {"watch": "true", "fieldSelector": "involvedObject.name=face", "timeoutSeconds": "60"}
    with admin.stream("GET", HERE, params=query) as stream:
        lines = stream.iter_lines()
        first = [json.loads(next(lines)) for _ in range(2)]
        assert {(line["type"], line["object"]["reason"]) for line in first} == {
            ("ADDED", "Switched"), ("ADDED", "Failed"),
        }  # fmt: skip
        record(plane, (MODEL, "Switched"), (SERVER, "Failed"))
        again = json.loads(next(lines))
        assert (again["type"], again["object"]["apiVersion"], again["object"]["count"]) == ("MODIFIED", "v1", 2)
    version = again["object"]["metadata"]["resourceVersion"]
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "60"}
    with admin.stream("GET", HERE, params=query, headers={"accept": TABLE}) as stream:
        record(plane, (SERVER, "Created"))
        line = json.loads(next(stream.iter_lines()))
        assert (line["type"], line["object"]["kind"]) == ("ADDED", "Table")
        assert "Created" in line["object"]["rows"][0]["cells"]


def test_strangers_see_what_happened_to_what_they_see(filled: Harness) -> None:
    stranger = filled.client(token=None)
    assert seen(stranger) == {"Model Promoted", "InferenceModel Switched", "InferenceModel Failed"}
    hidden = f"{HERE}/{name_of(filled, 'Workload')}"
    assert filled.client().get(hidden).status_code == 200
    answer = stranger.get(hidden)
    assert answer.status_code == 404
    assert answer.json()["message"] == f"Event/{name_of(filled, 'Workload')} does not exist"


def test_who_may_read_a_model_reads_what_happened_to_all_of_it(closed: Harness) -> None:
    assert closed.client(token=None).get(EVERYWHERE).status_code == 401
    ann, bob, eve = (closed.client(closed.user(name)) for name in ("ann", "bob", "eve"))
    closed.permit("ann", "read", subjects=["ann"], model="iris")
    closed.permit("bob", "write", subjects=["bob"], namespace="lab")
    closed.permit("eve", "read", subjects=["eve"], model="face")
    assert seen(ann) == {
        "Model Promoted", "InferenceModel Switched", "InferenceModel Failed", "Workload Created", "RoleBinding Deleted",
    }  # fmt: skip
    assert seen(ann, HERE) == seen(ann)
    assert seen(bob) == seen(bob, "/api/v1/namespaces/lab/events") == {"Model Promoted"}
    assert bob.get(HERE).status_code == 403
    assert seen(eve) == {"InferenceModel Switched", "InferenceModel Failed"}, "by the name it is called"
    assert ann.get(f"{HERE}/{name_of(closed, 'Workload')}").status_code == 200
    assert eve.get(f"{HERE}/{name_of(closed, 'Workload')}").status_code == 404
    mallory = closed.client(closed.user("mallory"))
    assert mallory.get(EVERYWHERE).status_code == 403
    assert mallory.get(f"{HERE}/{name_of(closed, 'Model')}").status_code == 403


def test_nobody_writes_them(filled: Harness) -> None:
    admin = filled.client()
    assert admin.post(HERE, json={}).status_code == 405
    assert admin.delete(f"{HERE}/{name_of(filled, 'Model')}").status_code == 405
    assert admin.get("/apis/mizzen.dev/v1alpha1/events").status_code == 404


def name_of(plane: Harness, kind: str) -> str:
    """Of an Event about an object of this kind."""
    items = plane.client().get(HERE, params={"fieldSelector": f"involvedObject.kind={kind}"}).json()["items"]
    return str(items[0]["metadata"]["name"])


def test_a_plane_without_events_answers_with_none(plane: Harness) -> None:
    assert seen(plane.client()) == set()
    assert plane.run(plane.store.history(Ref("Event", "x"))) == ()
