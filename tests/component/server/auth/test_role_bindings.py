"""RoleBindings: what they grant over HTTP is what the slow reference says, at once and not a request longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.access.policy import VERBS, Actor, Binding, Target, Verb
from mizzen.kinds.schema.resource import Condition, Meta, Ref, Resource
from mizzen.server.auth.role_bindings import binding_of, target_of
from tests.support.access.reference import may
from tests.support.server.harness import HERE, ROOT, Harness, serving

API = "mizzen.dev/v1alpha1"


def role_binding(name: str = "team", *, namespace: str = "default", status: Any = None, **spec: Any) -> Resource:
    said = {"subjects": ["ann"], "verbs": ["read"], "target": {"namespace": namespace}} | spec
    return Resource("RoleBinding", Meta(name, namespace, generation=1), said, status or {})


def accepted(status: str, generation: int = 1) -> dict[str, Any]:
    condition = Condition(type="Accepted", status=status, reason="x", observed_generation=generation)  # type: ignore[arg-type]
    return {"conditions": [condition.wire()]}


def test_a_binding_says_who_may_do_what_with_what() -> None:
    found = binding_of(role_binding(subjects=["ann", "group:lab", "*"], verbs=["write"], target={"model": "iris"}))
    assert found == Binding("team", "default", frozenset({"ann", "group:lab", "*"}), frozenset({"write"}), "iris")
    found = binding_of(role_binding(namespace="lab", target={"model": "iris", "alias": "prod"}))
    assert found == Binding("team", "lab", frozenset({"ann"}), frozenset({"read"}), "iris", "prod")


@pytest.mark.parametrize(
    "resource",
    [
        role_binding(subjects=None),
        role_binding(subjects="ann"),
        role_binding(subjects=[]),
        role_binding(verbs=["everything"]),
        role_binding(verbs=[]),
        role_binding(target={}),
        role_binding(target=None),
        role_binding(target={"alias": "prod"}),
        role_binding(target={"namespace": "another"}),
        role_binding(target={"model": "Not A Name"}),
        role_binding(status=accepted("False")),
        Resource("RoleBinding", Meta("empty", "default")),
    ],
    ids=lambda resource: str(resource.spec or "empty"),
)
def test_one_that_makes_no_sense_grants_nothing(resource: Resource) -> None:
    assert binding_of(resource) is None
    # Whoever mends or removes it must be admin of all that it might have been about.
    assert target_of(resource).namespace == "default"


def test_an_old_refusal_is_no_refusal() -> None:
    assert binding_of(role_binding(status=accepted("False", generation=0))) is not None
    assert binding_of(role_binding(status=accepted("True"))) is not None


def test_to_write_one_is_to_administer_what_it_is_about() -> None:
    assert target_of(role_binding()) == Target("default", "RoleBinding", "team")
    of_a_model = target_of(role_binding(target={"model": "iris", "alias": "prod"}))
    assert (of_a_model.models, of_a_model.alias) == (frozenset({"iris"}), "prod")
    assert target_of(role_binding(target={"model": ["?"]})) == Target("default", "RoleBinding", "team")


def test_a_binding_that_is_going_grants_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        ann = plane.client(plane.user("ann"))
        held = Resource("RoleBinding", Meta("team", finalizers=("test/hold",)), role_binding().spec)
        plane.run(plane.store.create(held, "admin"))
        assert ann.get(f"{HERE}/models").status_code == 200
        plane.forbid("team")  # marked; its finalizer keeps it
        assert plane.run(plane.store.get(Ref("RoleBinding", "team"))).deleting
        assert ann.get(f"{HERE}/models").status_code == 403


def test_who_administers_a_model_may_grant_it_and_nothing_more(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as plane:
        ann, bob = plane.client(plane.user("ann")), plane.client(plane.user("bob"))
        plane.permit("chief", "admin", subjects=["ann"], model="iris")
        plane.client().post(f"{HERE}/models", json=manifest("Model", "iris", {}))

        def grant(name: str, target: dict[str, str]) -> int:
            spec = {"subjects": ["bob"], "verbs": ["read"], "target": target}
            return ann.post(f"{HERE}/rolebindings", json=manifest("RoleBinding", name, spec)).status_code

        assert grant("all", {"namespace": "default"}) == 403
        assert grant("other", {"model": "rose"}) == 403
        assert bob.get(f"{HERE}/models/iris").status_code == 403
        assert grant("mine", {"model": "iris"}) == 201
        assert bob.get(f"{HERE}/models/iris").status_code == 200
        assert bob.delete(f"{HERE}/rolebindings/mine").status_code == 403
        # Neither may they turn a binding of theirs into one of something else.
        wider = {"subjects": ["bob"], "verbs": ["admin"], "target": {"namespace": "default"}}
        path = f"{HERE}/rolebindings/mine"
        assert ann.put(path, json=manifest("RoleBinding", "mine", wider)).status_code == 403
        assert plane.run(plane.store.get(Ref("RoleBinding", "mine"))).spec["target"] == {"model": "iris"}


def manifest(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


# The matrix: real requests with real tokens, against the reference.

WHO = ("ann", "bob")
MODELS = ("iris", "rose")


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, dict[str, httpx2.Client]]]:
    with serving(tmp_path_factory.mktemp("matrix"), anonymous=False) as plane:
        admin = plane.client()
        for namespace in ("default", "lab"):
            for name in MODELS:
                path = f"{ROOT}/namespaces/{namespace}/models"
                assert admin.post(path, json=manifest("Model", name, {})).status_code == 201
            assert admin.put(f"/secret/db?namespace={namespace}", json={"data": {"k": "v"}}).status_code == 201
        yield plane, {name: plane.client(plane.user(name)) for name in WHO}


given_bindings = st.lists(
    st.builds(
        Binding,
        name=st.just(""),
        namespace=st.sampled_from(["default", "lab"]),
        subjects=st.sets(st.sampled_from([*WHO, "*"]), min_size=1).map(frozenset),
        verbs=st.sets(st.sampled_from(VERBS), min_size=1).map(frozenset),
        model=st.sampled_from(["", *MODELS]),
    ),
    max_size=4,
)


@settings(max_examples=25, deadline=None)
@given(given_bindings)
def test_the_matrix_of_rights(matrix: tuple[Harness, dict[str, httpx2.Client]], bindings: list[Binding]) -> None:
    plane, clients = matrix
    names = [f"b{number}" for number in range(len(bindings))]
    for name, binding in zip(names, bindings, strict=True):
        target = {"model": binding.model} if binding.model else {}
        plane.permit(
            name, *sorted(binding.verbs), subjects=sorted(binding.subjects), namespace=binding.namespace, **target
        )
    try:
        for who in WHO:
            for namespace in ("default", "lab"):
                _demand_rights(clients[who], Actor(who), namespace, bindings)
    finally:
        for name, binding in zip(names, bindings, strict=True):
            plane.forbid(name, binding.namespace)


def _demand_rights(client: httpx2.Client, actor: Actor, namespace: str, bindings: list[Binding]) -> None:
    def right(verb: Verb, target: Target) -> bool:
        return may(actor, verb, target, bindings, anonymous=False)

    here = f"{ROOT}/namespaces/{namespace}/models"
    targets = {name: Target(namespace, "Model", name, models=frozenset({name})) for name in MODELS}
    readable = [name for name in MODELS if right("read", targets[name])]
    listing = client.get(here)
    whole = right("read", Target(namespace, "Model"))
    if readable or whole:
        assert [item["metadata"]["name"] for item in listing.json()["items"]] == readable
    else:
        assert listing.status_code == 403
    for name, target in targets.items():
        assert (client.get(f"{here}/{name}").status_code == 200) is (name in readable)
        # Refused before the body is looked at: so an empty one tells a right to write from none.
        answer = client.put(f"{here}/{name}", json={})
        assert answer.status_code == (422 if right("write", target) else 403), answer.text
    secrets = client.get(f"/secret?namespace={namespace}").status_code
    assert secrets == (200 if right("write", Target(namespace, "Secret")) else 403)
    audit = client.get(f"/audit?namespace={namespace}").status_code
    assert audit == (200 if right("admin", Target(namespace, "AuditEntry")) else 403)
    assert client.get("/user").status_code == 403
