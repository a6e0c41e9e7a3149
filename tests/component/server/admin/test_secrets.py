"""Secrets over HTTP: they go in and never come out."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import httpx2
import pytest

from mizzen.stores.records.vault import Vault
from tests.support.server.harness import HERE, Harness

VALUE = "sesame-open-87431"


def test_a_secret_is_set_listed_replaced_and_removed(plane: Harness) -> None:
    admin = plane.client()
    first = admin.put("/secret/db", json={"data": {"user": "ann", "password": VALUE}})
    assert first.status_code == 201
    assert first.headers["cache-control"] == "no-store"
    view = first.json()
    assert (view["name"], view["namespace"], view["keys"], view["updatedBy"]) == (
        "db", plane.namespace, ["password", "user"], "admin",
    )  # fmt: skip
    assert admin.get("/secret").json()["items"] == [view]
    assert admin.get("/secret/db").json() == view
    assert admin.get("/secret?namespace=lab").json()["items"] == []
    assert admin.put("/secret/db", json={"data": {"password": "new"}}).status_code == 200
    assert admin.get("/secret/db").json()["keys"] == ["password"]
    assert plane.run(_vault(plane).reveal(plane.namespace, "db", "password")) == "new"
    assert admin.delete("/secret/db").json() == {"name": "db", "namespace": plane.namespace, "deleted": True}
    assert admin.get("/secret/db").status_code == admin.delete("/secret/db").status_code == 404


def test_some_values_of_a_secret_are_changed_and_the_others_stay(plane: Harness) -> None:
    admin = plane.client()
    made = admin.patch("/secret/db", json={"data": {"user": "ann", "password": VALUE}})
    assert (made.status_code, made.json()["keys"]) == (201, ["password", "user"])
    changed = admin.patch("/secret/db", json={"data": {"user": "bob", "host": "h"}})
    assert (changed.status_code, changed.json()["keys"]) == (200, ["host", "password", "user"])
    assert VALUE not in made.text + changed.text
    for key, value in (("user", "bob"), ("password", VALUE), ("host", "h")):
        assert plane.run(_vault(plane).reveal(plane.namespace, "db", key)) == value
    many = admin.patch("/secret/db", json={"data": {f"k{number}": "x" for number in range(62)}})
    assert (many.status_code, "at most 64 keys, not 65" in many.text) == (422, True)
    assert admin.patch("/secret/db", json={"data": {}}).status_code == 422
    assert plane.client(plane.user("bob")).patch("/secret/db", json={"data": {"k": "v"}}).status_code == 403
    assert plane.client(token=None).patch("/secret/db", json={"data": {"k": "v"}}).status_code == 401


def test_who_may_write_in_a_namespace_has_its_secrets(plane: Harness) -> None:
    ann, bob = plane.client(plane.user("ann")), plane.client(plane.user("bob"))
    plane.permit("writer", "write", subjects=["ann"])
    plane.permit("reader", "read", subjects=["bob"])
    plane.permit("of-a-model", "admin", subjects=["bob"], model="iris")
    assert ann.put("/secret/db", json={"data": {"key": VALUE}}).status_code == 201
    for client, code in ((ann, 200), (bob, 403), (plane.client(token=None), 401)):
        assert client.get("/secret").status_code == code
        assert client.get("/secret/db").status_code == code
    assert bob.delete("/secret/db").status_code == 403
    assert ann.get("/secret?namespace=lab").status_code == 403


@pytest.mark.parametrize(
    ("name", "body", "path", "part"),
    [
        ("Not-A-Name", {"data": {"k": VALUE}}, "name", "is not a valid name"),
        ("db", {}, "data", "required"),
        ("db", {"data": {}}, "data", "required"),
        ("db", {"data": [VALUE]}, "data", "required"),
        ("db", {"data": {"k": VALUE}, "dat": {"k": VALUE}}, "", "unknown field 'dat'"),
        ("db", {"data": {"k": 87431}}, "data.k", "must be a text"),
        ("db", {"data": {"k": None}}, "data.k", "must be a text"),
        ("db", {"data": {"a b": VALUE}}, "data", "is not a valid key"),
        ("db", {"data": {"k" * 254: VALUE}}, "data", "is not a valid key"),
        ("db", {"data": {"k": VALUE + "x" * (64 << 10)}}, "data.k", "at most 65536 bytes"),
        ("db", {"data": {"k": VALUE + "\0"}}, "data.k", "NUL"),
        ("db", {"data": {f"k{number}": VALUE for number in range(65)}}, "data", "at most 64 keys, not 65"),
    ],
)
def test_a_bad_secret_is_refused_without_showing_it(
    shared_plane: Harness, name: str, body: Any, path: str, part: str
) -> None:
    answer = shared_plane.client().put(f"/secret/{name}", json=body)
    assert answer.status_code == 422
    (cause,) = answer.json()["details"]["causes"]
    assert (cause["field"], part in cause["message"]) == (path, True), cause
    assert "87431" not in answer.text


@pytest.mark.parametrize(
    ("content", "media_type", "code"),
    [
        (b'{"data": {"k": "' + VALUE.encode(), "application/json", 400),
        (b'{"data": {"k": "' + VALUE.encode() + b'"}, "data": {}}', "application/json", 400),
        (f'"{VALUE}"'.encode(), "application/json", 400),
        (b"\xff" + VALUE.encode(), "application/json", 400),
        (f"data: {{k: {VALUE}: {VALUE}".encode(), "application/yaml", 415),
        (VALUE.encode(), "text/plain", 415),
        (json.dumps({"data": {"k": VALUE * (1 << 19)}}).encode(), "application/json", 413),
    ],
)
def test_an_unreadable_body_is_not_repeated(
    shared_plane: Harness, content: bytes, media_type: str, code: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="mizzen")
    answer = shared_plane.client().put("/secret/db", content=content, headers={"content-type": media_type})
    assert answer.status_code == code
    assert "87431" not in answer.text + caplog.text


def test_who_still_names_a_secret_is_told_when_it_goes(plane: Harness) -> None:
    admin = plane.client()
    variable = {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "k"}}}
    job = {"modelName": "net", "image": "trainer"}
    for name, spec in (("job", {**job, "env": [variable]}), ("other", job)):
        sent = {"apiVersion": "mizzen.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}, "spec": spec}
        answer = admin.post(f"{HERE}/trainingjobs", json=sent)
        assert answer.status_code == 201, answer.text
        told = ["there is no secret 'db' yet: mizzen secret set db k" in text for text in _warnings(answer)]
        assert any(told) is (name == "job")
    for name in ("db", "unused"):
        admin.put(f"/secret/{name}", json={"data": {"k": "v"}})
    holder = plane.ref("TrainingJob", "job")
    assert _warnings(admin.delete("/secret/db")) == [f"299 - \"{holder} still refers to secret 'db'\""]
    assert _warnings(admin.delete("/secret/unused")) == []


def _warnings(answer: httpx2.Response) -> list[str]:
    return answer.headers.get_list("warning")


@pytest.mark.own_plane
def test_a_secret_shows_nowhere(plane: Harness, caplog: pytest.LogCaptureFixture) -> None:
    """Set, replaced, listed, damaged, with the key lost: in no answer, log, audit or file is its value ever found."""
    caplog.set_level(logging.DEBUG)
    admin, answers = plane.client(), list[httpx2.Response]()

    def ask(method: str, path: str, **more: Any) -> httpx2.Response:
        answers.append(admin.request(method, path, **more))
        return answers[-1]

    ask("PUT", "/secret/db", json={"data": {"password": VALUE}})
    ask("PUT", "/secret/db", json={"data": {"password": VALUE, "other": VALUE[::-1]}})
    ask("PUT", "/secret/db", json={"data": {"password": [VALUE]}})
    ask("PUT", f"/secret/db?namespace={VALUE.upper()}", json={"data": {"password": VALUE}})
    plane.client(token=None).put("/secret/db", json={"data": {"password": VALUE}})
    for path in ("/secret", "/secret/db", "/audit", "/whoami", "/"):
        ask("GET", path)
    file = plane.folder / "secret-key"
    key = file.read_text().strip()
    file.unlink()
    lost = Vault(plane.store.secrets, file)
    plane.app.state.context = _with_vault(plane, lost)
    for path in ("/secret/db", "/secret/new"):
        answer = ask("PUT", path, json={"data": {"password": VALUE}})
        assert answer.status_code == 500
        assert "secret-key does not exist" in answer.json()["message"]
    assert not file.exists()
    said = "".join(answer.text + str(answer.headers) for answer in answers) + caplog.text + repr(plane.audited())
    for value in (VALUE, VALUE[::-1], key):
        assert value not in said
        for kept in plane.folder.rglob("*"):
            assert not kept.is_file() or value.encode() not in kept.read_bytes(), kept
    assert any(kept.name == "mizzen.db-wal" for kept in plane.folder.iterdir())


def _vault(plane: Harness) -> Vault:
    vault = plane.app.state.context.vault
    assert isinstance(vault, Vault)
    return vault


def _with_vault(plane: Harness, vault: Vault) -> Any:
    return replace(plane.app.state.context, vault=vault)
