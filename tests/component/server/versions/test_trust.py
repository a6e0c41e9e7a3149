"""A version that somebody brought who may not vouch for code, and somebody else vouches for."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import Ref
from tests.component.server.sending import causes, writer
from tests.support.blobs.packing import tarred
from tests.support.server.harness import HERE, Client, Harness

FILES = {"model.py": b"import os\ndef predict(x): return x\n", "weights.pkl": b"x"}
TGZ = {"content-type": "application/gzip"}
PREDICT = "framework=python&entrypoint=model:predict"


def post(client: httpx2.Client, query: str = PREDICT, path: str = "/version/1") -> httpx2.Response:
    return client.post(f"/model/iris{path}?{query}", content=tarred(FILES), headers=TGZ)


def trusted(body: dict[str, Any]) -> list[bool]:
    return [artifact["trusted"] for artifact in body["artifacts"]]


def revisions(admin: Client) -> list[tuple[str, str]]:
    """(who, what) of all changes to the version."""
    version = str(Ref("ModelVersion", "iris.1", admin.namespace))
    items = admin.get("/model/iris/history").json()["items"]
    return [(item["actor"], item["action"]) for item in items if item["object"] == version]


@pytest.fixture
def ann(plane: Harness, admin: Client) -> httpx2.Client:
    """Somebody who may write the model, and has added version 1."""
    assert admin.post("/model", json={"name": "iris"}).status_code == 201
    client = writer(plane)
    answer = post(client)
    assert answer.status_code == 201, answer.text
    assert trusted(answer.json()) == [False, False]
    return client


def test_who_may_vouch_does_so_by_name(plane: Harness, admin: Client, ann: httpx2.Client) -> None:
    bob = writer(plane, "bob", "admin")
    refused = ann.post("/model/iris/version/1/trust")
    assert refused.status_code == 403, refused.text
    before = revisions(admin)
    answer = bob.post("/model/iris/version/v1/trust")
    assert answer.status_code == 200, answer.text
    assert trusted(answer.json()) == [True, True]
    assert answer.json()["createdBy"] == "ann"
    assert trusted(ann.get("/model/iris/version/1").json()) == [True, True]
    assert [who for who, _ in revisions(admin)] == [*(who for who, _ in before), "bob"]
    assert bob.post("/model/iris/version/1/trust").status_code == 200
    assert len(revisions(admin)) == len(before) + 1, "nothing is changed twice"
    entries = plane.audited(actor="bob", namespace=plane.namespace)
    assert [entry.allowed for entry in entries if entry.path.endswith("/trust")] == [True, True]
    assert [
        entry.allowed
        for entry in plane.audited(actor="ann", namespace=plane.namespace)
        if entry.path.endswith("/trust")
    ] == [False]


def test_who_may_vouch_does_so_by_adding_the_same(plane: Harness, admin: Client, ann: httpx2.Client) -> None:
    bob = writer(plane, "bob", "admin")
    again = post(ann)
    assert (again.status_code, trusted(again.json())) == (200, [False, False])
    answer = post(bob)
    assert (answer.status_code, trusted(answer.json())) == (200, [True, True])
    assert answer.json()["createdBy"] == "ann"
    assert revisions(admin)[-1][0] == "bob"
    changes = len(revisions(admin))
    assert (post(ann).status_code, post(bob).status_code) == (200, 200)
    assert len(revisions(admin)) == changes
    assert trusted(ann.get("/model/iris/version/1").json()) == [True, True]


def test_who_brought_it_may_serve_it_though_it_will_not_load(ann: httpx2.Client) -> None:
    answer = ann.post("/model/iris/serve/1", json={})
    assert answer.status_code == 201, answer.text
    assert answer.json()["id"] == "iris-1"


def test_equal_files_do_not_vouch_for_another_entrypoint(admin: Client, ann: httpx2.Client) -> None:
    """The files are theirs; what of them is called was chosen by somebody else."""
    evil = post(ann, "framework=python&entrypoint=model:os.system", "/version/2")
    assert evil.status_code == 201
    answer = post(admin, PREDICT, "/version/2")
    assert answer.status_code == 409
    assert "differs in entrypoint" in answer.json()["message"]
    assert trusted(admin.get("/model/iris/version/2").json()) == [False, False]


def test_what_was_found_out_must_be_the_same_too(admin: Client, ann: httpx2.Client) -> None:
    def lone(client: httpx2.Client, query: str) -> httpx2.Response:
        return client.post(f"/model/iris/version/2{query}", content=tarred({"m.pkl": b"x"}), headers=TGZ)

    assert lone(ann, "?framework=python&entrypoint=m.pkl").status_code == 201
    answer = lone(admin, "")
    assert answer.status_code == 409, "for them it would be scikit-learn's"
    assert "differs in framework" in answer.json()["message"]
    assert trusted(admin.get("/model/iris/version/2").json()) == [False]


def test_an_update_neither_gives_nor_takes_trust(admin: Client, ann: httpx2.Client) -> None:
    old = ann.get(f"{HERE}/modelversions/iris.1").json()
    claimed = {**old, "spec": {**old["spec"], "artifacts": [{**a, "trusted": True} for a in old["spec"]["artifacts"]]}}
    assert trusted(ann.put(f"{HERE}/modelversions/iris.1", json=claimed).json()["spec"]) == [False, False]
    admin.post("/model/iris/version/1/trust")
    del old["metadata"]["resourceVersion"]
    assert trusted(ann.put(f"{HERE}/modelversions/iris.1", json=old).json()["spec"]) == [True, True]


def test_what_cannot_be_vouched_for(admin: Client, ann: httpx2.Client) -> None:
    assert admin.post("/model/iris/version/7/trust").status_code == 404
    assert admin.post("/model/none/version/1/trust").status_code == 404
    assert "namespac" in causes_or_message(admin.post("/model/iris/version/1/trust?namespac=x"))
    body = {"image": "a/b:1", "framework": "python"}
    assert ann.post("/model/iris/version/3", json=body).status_code == 403, "nobody could vouch for it afterwards"
    assert admin.post("/model/iris/version/3", json=body).status_code == 201
    answer = admin.post("/model/iris/version/3/trust")
    assert answer.status_code == 409
    assert "has no files" in answer.json()["message"]
    assert admin.post("/model/iris/version/3", json=body).status_code == 200


def causes_or_message(answer: httpx2.Response) -> str:
    return str(causes(answer)) if answer.status_code == 422 else str(answer.json()["message"])
