"""Users and their tokens: made by admins, shown once, good until they expire or are revoked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mizzen.kinds.schema.resource import Meta, Ref, Resource
from mizzen.server.auth import tokens
from tests.support.server.harness import HERE, ROOT, Harness, deploy, serving

pytestmark = pytest.mark.own_plane

WATCH = f"{HERE}/rolebindings?watch=true"


class Clock:
    def __init__(self) -> None:
        self.time = datetime.now(UTC)

    def __call__(self) -> datetime:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def closed(tmp_path: Path, clock: Clock) -> Iterator[Harness]:
    """A plane where nobody may do anything without a right of their own."""
    with serving(tmp_path, anonymous=False, now=clock) as harness:
        yield harness


def test_a_token_opens_what_its_user_may(closed: Harness) -> None:
    ann = closed.client(closed.user("ann"))
    assert ann.get(f"{HERE}/rolebindings").status_code == 403
    closed.permit("team", "read", subjects=["ann"])
    assert ann.get(f"{HERE}/rolebindings").status_code == 200
    assert ann.post(f"{HERE}/models", json={}).status_code == 403
    closed.forbid("team")
    assert ann.get(f"{HERE}/rolebindings").status_code == 403


def test_a_token_is_shown_once_and_only_its_hash_is_kept(closed: Harness) -> None:
    admin = closed.client()
    assert admin.post("/user", json={"name": "ann"}).headers["location"] == "/user/ann"
    answer = admin.post("/user/ann/token", json={"expiresIn": "30d", "note": "laptop"})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    made = answer.json()
    assert made["user"] == "ann"
    assert made["token"].startswith("mzn_")
    assert len(made["token"]) == 4 + 43
    (listed,) = admin.get("/user/ann/token").json()["items"]
    assert (listed["id"], listed["note"], listed["valid"]) == (made["id"], "laptop", True)
    assert listed["expires"] == made["expires"]
    (kept,) = closed.run(closed.store.identities.tokens("ann"))
    assert kept.digest == hashlib.sha256(made["token"].encode()).hexdigest()
    secret = made["token"].removeprefix("mzn_")
    for text in (repr(kept), admin.get("/user/ann/token").text, admin.get("/audit").text):
        assert secret not in text
        assert kept.digest not in text
    for file in closed.folder.rglob("*"):
        assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_two_tokens_are_never_alike() -> None:
    assert len({tokens.new_token() for _ in range(1000)}) == 1000


@pytest.mark.parametrize("why", ["revoked", "expired", "unknown", "cut", "user removed"])
def test_a_token_that_is_no_longer_good_is_refused_with_its_reason(closed: Harness, clock: Clock, why: str) -> None:
    admin = closed.client()
    admin.post("/user", json={"name": "ann"})
    made = admin.post("/user/ann/token", json={"expiresIn": "1h"}).json()
    token, said = made["token"], why
    if why == "revoked":
        assert admin.delete(f"/user/ann/token/{made['id']}").json()["valid"] is False
        assert admin.delete(f"/user/ann/token/{made['id']}").status_code == 200
    elif why == "expired":
        clock.time += timedelta(hours=1)
    elif why == "user removed":
        assert admin.delete("/user/ann").status_code == 200
        admin.post("/user", json={"name": "ann"})  # somebody else of the same name
        said = "revoked"
    else:
        token = token[:-1] if why == "cut" else tokens.new_token()
        said = "not known"
    client = closed.client(token)
    for path in ("/whoami", "/healthz", "/model"):
        answer = client.get(path)
        assert answer.status_code == 401
        assert said in answer.json()["message"]
        assert token not in answer.text
    assert answer.headers["www-authenticate"].startswith("Bearer")
    entries = closed.audited(allowed=False)
    assert len(entries) == 3
    assert {(entry.verb, entry.code, entry.actor) for entry in entries} == {("authenticate", 401, "anonymous")}
    assert said in entries[0].reason


def test_users_look_after_their_own_tokens_and_nothing_else(closed: Harness) -> None:
    ann, bob = closed.client(closed.user("ann")), closed.client(closed.user("bob"))
    mine, theirs = (closed.run(closed.store.identities.tokens(name))[0].id for name in ("ann", "bob"))
    assert [item["id"] for item in ann.get("/user/ann/token").json()["items"]] == [mine]
    assert ann.get("/user/ann").json()["name"] == "ann"
    for method, path in (
        ("GET", "/user"), ("POST", "/user"), ("GET", "/user/bob"), ("DELETE", "/user/bob"), ("DELETE", "/user/ann"),
        ("POST", "/user/ann/token"), ("POST", "/user/bob/token"), ("GET", "/user/bob/token"),
        ("DELETE", f"/user/bob/token/{theirs}"), ("GET", "/user/nobody"),
    ):  # fmt: skip
        assert ann.request(method, path).status_code == 403, (method, path)
    assert ann.delete(f"/user/ann/token/{theirs}").status_code == 404  # not by the back door either
    assert bob.get("/whoami").status_code == 200
    assert ann.delete(f"/user/ann/token/{mine}").status_code == 200
    assert ann.get("/user/ann").status_code == 401


def test_users_can_be_listed_and_removed(closed: Harness) -> None:
    admin = closed.client()
    for name in ("bob", "ann", "eve@lab.example"):
        assert admin.post("/user", json={"name": name}).status_code == 201
    assert admin.post("/user", json={"name": "ann"}).status_code == 409
    assert [user["name"] for user in admin.get("/user").json()["items"]] == ["ann", "bob", "eve@lab.example"]
    closed.permit("team", "read", subjects=["ann", "bob"])
    closed.permit("alone", "write", subjects=["ann"])
    closed.permit("group", "write", subjects=["group:ann"])
    gone = admin.delete("/user/ann").json()
    assert [binding["name"] for binding in gone["bindings"]] == ["alone", "team"]
    left = {item["metadata"]["name"]: item for item in admin.get(f"{HERE}/rolebindings").json()["items"]}
    assert {name: item["spec"]["subjects"] for name, item in left.items()} == {"group": ["group:ann"], "team": ["bob"]}
    assert left["team"]["metadata"]["annotations"]["mizzen.dev/actor"] == "admin"
    past = closed.run(closed.store.history(Ref("RoleBinding", "alone")))
    assert [(entry.action, entry.actor) for entry in past] == [("created", "admin"), ("deleted", "admin")]
    assert admin.get("/user/ann").status_code == 404
    assert admin.delete("/user/ann").status_code == 404
    assert admin.post("/user/ann/token").status_code == 404


@pytest.mark.parametrize(
    ("body", "path", "part"),
    [
        ({}, "name", "required"),
        ({"name": 7}, "name", "must be a text"),
        ({"name": "admin"}, "name", "reserved"),
        ({"name": "anonymous"}, "name", "reserved"),
        ({"name": "system"}, "name", "reserved"),
        ({"name": "oidc:ann"}, "name", "is not a valid user name"),
        ({"name": "group:lab"}, "name", "is not a valid user name"),
        ({"name": "*"}, "name", "is not a valid user name"),
        ({"name": "Ann"}, "name", "is not a valid user name"),
        ({"name": "ann@"}, "name", "is not a valid user name"),
        ({"name": "a@b@c"}, "name", "is not a valid user name"),
        ({"name": "a" * 300}, "name", "is not a valid user name"),
        ({"name": "ann", "admin": True}, "", "unknown field 'admin'"),
    ],
)
def test_bad_names_are_refused(shared_admin: httpx2.Client, body: dict[str, object], path: str, part: str) -> None:
    answer = shared_admin.post("/user", json=body)
    assert answer.status_code == 422
    (cause,) = answer.json()["details"]["causes"]
    assert cause["field"] == path
    assert part in cause["message"]


@given(st.text(max_size=40))
def test_a_name_holds_nothing_that_has_a_meaning_elsewhere(name: str) -> None:
    if tokens.name_fault(name) is None:
        assert not set(name) & set(":*,/ \n")
        assert name not in ("admin", "anonymous", "system")
        assert name.isascii()


@pytest.mark.parametrize("span", ["", "5", "d", "-1d", "0s", "1y", "99999999d", 5, True, ["1d"], "1d 2h"])
def test_a_span_that_is_none_is_refused(shared_admin: httpx2.Client, span: object) -> None:
    shared_admin.post("/user", json={"name": "spanish"})
    answer = shared_admin.post("/user/spanish/token", json={"expiresIn": span, "nota": "x"})
    assert answer.status_code == 422
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["", "expiresIn"]
    assert shared_admin.get("/user/spanish/token").json()["items"] == []


def test_a_new_user_whom_bindings_name_already_is_warned_of(closed: Harness) -> None:
    admin = closed.client()
    closed.permit("team", "write", subjects=["ann"])
    closed.permit("prod", "predict", subjects=["ann", "*"], model="iris", alias="prod")
    told = admin.post("/user", json={"name": "ann"}).headers.get_list("warning")
    assert told == [
        f"299 - \"RoleBinding default/{name} already named 'ann', so they may now {what}\""
        for name, what in (("prod", "predict iris@prod"), ("team", "write namespace/default"))
    ]
    assert closed.client(closed.user("ann")).get("/whoami").json()["open"] is False
    assert admin.delete("/user/ann").status_code == 200
    assert "warning" not in admin.post("/user", json={"name": "ann"}).headers


def test_whoami(plane: Harness) -> None:
    ann = plane.client(plane.user("ann"))
    plane.permit("team", "write", "predict", subjects=["ann"], model="iris")
    plane.permit("others", "admin", subjects=["bob"])
    plane.permit("all", "read", subjects=["*"], namespace="lab")
    assert ann.get("/whoami").json() == {
        "name": "ann", "groups": [], "admin": False,
        "bindings": [
            {"name": "team", "verbs": ["predict", "write"], "target": {"namespace": "default", "model": "iris"}},
            {"name": "all", "verbs": ["read"], "target": {"namespace": "lab"}},
        ],
        "open": True,
    }  # fmt: skip
    assert plane.client().get("/whoami").json()["admin"] is True
    assert plane.client(token=None).get("/whoami").json()["name"] == "anonymous"


@pytest.mark.parametrize("end", ["binding", "token"])
def test_a_stream_ends_with_the_right_to_read_it(closed: Harness, end: str) -> None:
    ann = closed.client(closed.user("ann"))
    closed.permit("team", "read", subjects=["ann"])
    with ann.stream("GET", WATCH) as answer:
        lines = answer.iter_lines()
        assert '"team"' in next(lines)
        if end == "binding":
            closed.forbid("team")
        else:
            (token,) = closed.run(closed.store.identities.tokens("ann"))
            closed.client().delete(f"/user/ann/token/{token.id}")
        closed.permit("private", "read", subjects=["bob"])
        assert list(lines) == []


@pytest.mark.parametrize("end", ["binding", "token"])
@pytest.mark.parametrize("of", ["watch", "log"])
def test_a_silent_stream_ends_with_the_right_to_read_it(closed: Harness, of: str, end: str) -> None:
    """A model that prints nothing, and objects that do not change."""
    ann = closed.client(closed.user("ann"))
    closed.permit("team", "read", "write", subjects=["ann"])
    server = deploy(closed, closed.client())
    owner = closed.run(closed.store.get(Ref("InferenceModel", server, "default"))).as_owner
    closed.run(closed.store.create(Resource("Workload", Meta("w", owners=(owner,))), "system"))
    path, first = {
        "watch": ("models?watch=true", '"iris"'),
        "log": (f"inferencemodels/{server}/log?follow=true&tail=1", "w line 0"),
    }[of]
    with ann.stream("GET", f"{HERE}/{path}") as answer:
        lines = answer.iter_lines()
        assert first in next(lines)
        if end == "binding":
            closed.forbid("team")
        else:
            (token,) = closed.run(closed.store.identities.tokens("ann"))
            closed.client().delete(f"/user/ann/token/{token.id}")
        assert list(lines) == []


def test_a_stream_goes_on_while_nothing_that_allows_it_changes(closed: Harness) -> None:
    ann = closed.client(closed.user("ann"))
    closed.permit("team", "read", subjects=["ann"])
    with ann.stream("GET", f"{WATCH}&timeoutSeconds=20") as answer:
        lines = answer.iter_lines()
        assert '"team"' in next(lines)
        closed.permit("others", "read", subjects=["bob"])
        assert '"others"' in next(lines)


def test_lists_show_what_one_may_read(closed: Harness) -> None:
    admin, ann = closed.client(), closed.client(closed.user("ann"))
    for name in ("iris", "rose"):
        assert admin.post(f"{HERE}/models", json=manifest(name)).status_code == 201
    closed.permit("team", "read", subjects=["ann"], model="iris")
    for path in (f"{HERE}/models", f"{ROOT}/models"):
        assert [item["metadata"]["name"] for item in ann.get(path).json()["items"]] == ["iris"]
    assert ann.get(f"{HERE}/models/iris").status_code == 200
    assert ann.get(f"{HERE}/models/rose").status_code == 403


def manifest(name: str) -> dict[str, object]:
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": "Model", "metadata": {"name": name}, "spec": {}}
