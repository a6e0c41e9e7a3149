"""Over HTTP: who am I, may I do this, what may I do; as the same policy says that decides when it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from tests.component.server.resources.test_routes import model
from tests.support.server.harness import HERE, TOKEN, Harness, serving
from tests.unit.server.kubernetes.test_protobuf import ACCESS, part, sent

AUTHORIZATION = "/apis/authorization.k8s.io/v1"
REVIEW = f"{AUTHORIZATION}/selfsubjectaccessreviews"
RULES = f"{AUTHORIZATION}/selfsubjectrulesreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
PROTOBUF = "application/vnd.kubernetes.protobuf"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Where nobody reads without a right: ann writes in default, bob only the model iris, cem administers lab."""
    with serving(tmp_path_factory.mktemp("plane"), anonymous=False) as plane:
        plane.permit("ann", "write", subjects=["ann"])
        plane.permit("bob", "write", subjects=["bob"], model="iris")
        plane.permit("cem", "admin", subjects=["cem"], namespace="lab")
        server = {"modelName": "iris", "targetVersion": "1", "deployToLayer": "cloud"}
        plane.run(plane.store.create(Resource("InferenceModel", Meta("iris-1"), server), "admin"))
        yield plane


@pytest.fixture(scope="module")
def people(closed: Harness) -> dict[str, httpx2.Client]:
    tokens = {"admin": TOKEN} | {name: closed.user(name) for name in ("ann", "bob", "cem", "dan")}
    return {name: closed.client(token) for name, token in tokens.items()}


def asked(client: httpx2.Client, verb: str, resource: str = "models", group: str = "mizzen.dev", **more: str) -> Any:
    attributes = {"verb": verb, "resource": resource, "group": group, "namespace": "default", **more}
    answer = client.post(REVIEW, json={"spec": {"resourceAttributes": attributes}})
    assert answer.status_code == 201, answer.text
    status = answer.json()["status"]
    assert status["denied"] is not status["allowed"]
    assert status["reason"]
    return status["allowed"]


@pytest.mark.parametrize(
    ("who", "verb", "more", "allowed"),
    [
        ("admin", "*", {"resource": "*", "group": "*", "namespace": ""}, True),
        ("admin", "delete", {"resource": "namespaces", "group": "", "name": "lab"}, True),
        ("admin", "create", {"resource": "workloads"}, False),
        ("admin", "list", {"resource": "pods", "group": ""}, False),
        ("admin", "models", {}, False),
        ("admin", "get", {"subresource": "exec"}, False),
        ("admin", "patch", {"subresource": "scale"}, False),
        ("admin", "patch", {"subresource": "status"}, True),
        ("admin", "get", {"resource": "namespaces", "group": "", "subresource": "log"}, False),
        ("ann", "get", {}, True),
        ("ann", "create", {}, True),
        ("ann", "deletecollection", {}, True),
        ("ann", "create", {"namespace": "lab"}, False),
        ("ann", "list", {"namespace": ""}, True),
        ("ann", "create", {"namespace": ""}, False),
        ("ann", "create", {"resource": "rolebindings"}, False),
        ("ann", "get", {"resource": "rolebindings"}, True),
        ("ann", "*", {}, False),
        ("ann", "predict", {"name": "iris"}, False),
        ("ann", "update", {"subresource": "status"}, False),
        ("ann", "update", {"resource": "inferencemodels", "subresource": "scale"}, True),
        ("ann", "get", {"resource": "inferencemodels", "subresource": "log"}, True),
        ("ann", "get", {"resource": "namespaces", "group": "", "name": "default"}, True),
        ("ann", "get", {"resource": "namespaces", "group": "", "name": "lab"}, False),
        ("ann", "delete", {"resource": "namespaces", "group": "", "name": "default"}, False),
        ("ann", "create", {"resource": "selfsubjectreviews", "group": "authentication.k8s.io"}, True),
        ("bob", "list", {}, True),
        ("bob", "get", {}, False),
        ("bob", "update", {"name": "iris"}, True),
        ("bob", "update", {"name": "other"}, False),
        ("bob", "update", {"name": "iris-1", "resource": "inferencemodels"}, True),
        ("bob", "update", {"name": "missing", "resource": "inferencemodels"}, False),
        ("cem", "*", {"namespace": "lab"}, True),
        ("cem", "create", {"namespace": "lab", "resource": "rolebindings"}, True),
        ("cem", "delete", {"resource": "namespaces", "group": "", "name": "lab"}, True),
        ("cem", "list", {"resource": "namespaces", "group": ""}, True),
        ("dan", "list", {}, False),
        ("dan", "list", {"resource": "namespaces", "group": ""}, False),
    ],
)
def test_may_i(people: dict[str, httpx2.Client], who: str, verb: str, more: dict[str, str], allowed: bool) -> None:
    assert asked(people[who], verb, **more) is allowed


def test_who_may_not_read_learns_nothing(people: dict[str, httpx2.Client]) -> None:
    def reason(name: str) -> str:
        attributes = {"verb": "get", "group": "mizzen.dev", "resource": "inferencemodels", "namespace": "default"}
        body = {"spec": {"resourceAttributes": {**attributes, "name": name}}}
        return str(people["dan"].post(REVIEW, json=body).json()["status"]["reason"]).replace(name, "")

    assert reason("iris-1") == reason("missing")


def test_it_holds_what_is_answered(closed: Harness, people: dict[str, httpx2.Client]) -> None:
    """Not a second policy: who is told yes gets through, and who is told no does not."""
    for who, client in people.items():
        for name in ("iris", "other"):
            said = asked(client, "create", name=name)
            tried = client.post(f"{HERE}/models?dryRun=All", json=model(name))
            assert (tried.status_code == 201) is said, (who, name, tried.text)


@pytest.mark.parametrize(
    ("who", "path", "verb", "allowed"),
    [
        ("dan", "/healthz", "get", True),
        ("dan", "/version", "get", False),
        ("bob", "/version", "get", True),
        ("bob", "/openapi/v3", "get", True),
        ("bob", "/version", "post", False),
        ("bob", "/anything", "get", False),
        ("admin", "/anything", "delete", True),
    ],
)
def test_paths(people: dict[str, httpx2.Client], who: str, path: str, verb: str, allowed: bool) -> None:
    body = {"spec": {"nonResourceAttributes": {"path": path, "verb": verb}}}
    assert people[who].post(REVIEW, json=body).json()["status"]["allowed"] is allowed


def test_protobuf_says_the_same(people: dict[str, httpx2.Client]) -> None:
    attributes = part(1, "default") + part(2, "create") + part(3, "mizzen.dev") + part(5, "models")
    body = sent(ACCESS, part(2, part(1, attributes)))
    for who, allowed in (("ann", True), ("dan", False)):
        answer = people[who].post(REVIEW, content=body, headers={"content-type": PROTOBUF})
        assert (answer.status_code, answer.json()["status"]["allowed"]) == (201, allowed)
        assert answer.headers["content-type"] == "application/json"
    broken = people["ann"].post(REVIEW, content=b"k8s\0\xff", headers={"content-type": PROTOBUF})
    assert broken.status_code == 400


def rules_of(client: httpx2.Client, namespace: str = "default") -> Any:
    answer = client.post(RULES, json={"spec": {"namespace": namespace}})
    assert answer.status_code == 201, answer.text
    return answer.json()["status"]


def verbs(status: Any, resource: str, name: str | None = None) -> set[str]:
    found = [rule for rule in status["resourceRules"] if resource in rule["resources"]]
    return {verb for rule in found for verb in rule["verbs"] if rule.get("resourceNames") == ([name] if name else None)}


def test_all_that_i_may_do(people: dict[str, httpx2.Client]) -> None:
    writing = {"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}
    assert verbs(rules_of(people["admin"]), "*") == {"*"}
    ann = rules_of(people["ann"])
    assert verbs(ann, "models") == writing
    assert verbs(ann, "rolebindings") == verbs(ann, "workloads") == verbs(ann, "namespaces") == {"get", "list", "watch"}
    assert ann["incomplete"] is False
    assert verbs(rules_of(people["ann"], "lab"), "models") == set()
    bob = rules_of(people["bob"])
    assert (verbs(bob, "models"), verbs(bob, "models", "iris")) == (set(), writing)
    assert bob["incomplete"] is True
    cem = rules_of(people["cem"], "lab")
    assert verbs(cem, "models") == {*writing, "predict"}
    assert verbs(cem, "rolebindings") == writing
    assert verbs(cem, "namespaces") == writing - {"deletecollection"}
    assert verbs(rules_of(people["dan"]), "selfsubjectrulesreviews") == {"create"}


def test_who_am_i(people: dict[str, httpx2.Client]) -> None:
    for who, client in people.items():
        info = client.post(SELF, json={}).json()["status"]["userInfo"]
        assert info["username"] == who
        assert ("extra" in info) is (who == "admin")


def test_strangers_ask_where_the_plane_is_open(tmp_path: Path, closed: Harness) -> None:
    with serving(tmp_path) as plane:
        stranger = plane.client(None)
        assert asked(stranger, "get")
        assert not asked(stranger, "get", "rolebindings")
        assert not asked(stranger, "get", "*", "*")
        assert not asked(stranger, "create")
        assert stranger.post(SELF, json={}).json()["status"]["userInfo"]["username"] == "anonymous"
    for path in (REVIEW, RULES, SELF):
        assert closed.client(None).post(path, json={}).status_code == 401


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        (REVIEW, {}, "resourceAttributes"),
        (REVIEW, {"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}, "one of"),
        (REVIEW, {"spec": {"resourceAttributes": {"verb": 1}}}, "resourceAttributes.verb"),
        (REVIEW, {"spec": {"resourceAttributes": {"verbs": "get"}}}, "verbs"),
        (REVIEW, {"spec": {"user": "ann"}}, "user"),
        (REVIEW, {"spec": []}, "spec"),
        (REVIEW, {"kind": "SubjectAccessReview"}, "kind"),
        (RULES, {"spec": {}}, "spec.namespace"),
        (RULES, {"spec": {"namespace": 1}}, "spec.namespace"),
        (SELF, {"metadata": 1}, "metadata"),
    ],
)
def test_what_makes_no_sense_is_refused(people: dict[str, httpx2.Client], path: str, body: Any, said: str) -> None:
    answer = people["ann"].post(path, json=body)
    assert answer.status_code == 422, answer.text
    assert said in answer.json()["message"]


def test_no_is_no_refusal(closed: Harness, people: dict[str, httpx2.Client]) -> None:
    before = closed.audited()
    assert not asked(people["dan"], "create")
    assert closed.audited() == before


@pytest.mark.parametrize("said", [{"dryRun": "Some"}, {"fieldValidation": "Hardly"}])
def test_what_is_said_beside_it_must_make_sense(people: dict[str, httpx2.Client], said: dict[str, str]) -> None:
    assert people["ann"].post(SELF, params=said, json={}).status_code == 400
