"""Changing what is there, through the resource API: what other objects forbid, and who may."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.component.server.resources.test_routes import inference_model, make_iris, model, model_version
from tests.support.server.harness import HERE, Harness


def put(client: httpx2.Client, name: str, **spec: Any) -> httpx2.Response:
    return client.put(f"{HERE}/models/{name}", json=model(name, spec=spec))


def test_aliases_never_chain_whichever_comes_first(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    for name in ("x", "z"):
        assert admin.post(f"{HERE}/models", json=model(name)).status_code == 201
    assert put(admin, "z", aliasOf="x").status_code == 200
    chained = put(admin, "x", aliasOf="iris")
    assert (chained.status_code, "aliases never chain" in chained.json()["message"]) == (409, True)
    assert put(admin, "z", aliasOf="iris").status_code == 200
    assert put(admin, "x", aliasOf="iris").status_code == 200
    assert put(admin, "x", aliasOf="z").status_code == 422


def test_a_model_with_versions_is_no_second_name(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    admin.post(f"{HERE}/modelversions", json=model_version())
    admin.post(f"{HERE}/models", json=model("other"))
    for query in ("", "?dryRun=All"):
        answer = admin.put(f"{HERE}/models/iris{query}", json=model(spec={"aliasOf": "other"}))
        assert (answer.status_code, "of its own" in answer.json()["message"]) == (409, True)


def test_an_alias_has_no_versions_name(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    admin.post(f"{HERE}/modelversions", json=model_version("stable"))
    answer = put(admin, "iris", aliases={"stable": "stable"})
    assert [cause["field"] for cause in answer.json()["details"]["causes"]] == ["spec.aliases.stable"]


def test_a_dry_deletion_says_what_the_real_one_would(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    admin.post(f"{HERE}/modelversions", json=model_version())
    assert admin.post(f"{HERE}/inferencemodels", json=inference_model()).status_code == 201
    for path in ("models/iris", "modelversions/iris.1"):
        for query in ("", "?dryRun=All"):
            assert admin.delete(f"{HERE}/{path}{query}").status_code == 409


def test_a_dry_change_tells_the_generation_it_would_get(admin: httpx2.Client) -> None:
    admin.post(f"{HERE}/models", json=model())
    tried = admin.put(f"{HERE}/models/iris?dryRun=All", json=model(spec={"framework": "python"}))
    assert tried.json()["metadata"]["generation"] == 2
    assert admin.put(f"{HERE}/models/iris?dryRun=All", json=model()).json()["metadata"]["generation"] == 1


def test_who_tries_a_batch_says_what_comes_before(admin: httpx2.Client) -> None:
    path = f"{HERE}/inferencemodels"
    assert admin.post(f"{path}?dryRun=All", json=inference_model()).status_code == 422
    assert admin.post(f"{path}?dryRun=All&assume=Model/iris", json=inference_model()).status_code == 201
    assert admin.post(f"{path}?assume=Model/iris", json=inference_model()).status_code == 400
    assert admin.post(f"{path}?dryRun=All&assume=iris", json=inference_model()).status_code == 400


def binding(name: str, **target: str) -> dict[str, Any]:
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "RoleBinding", "metadata": {"name": name},
        "spec": {"subjects": ["bob"], "verbs": ["read"], "target": target},
    }  # fmt: skip


def test_a_models_admin_grants_sees_changes_and_takes_back(closed: Harness) -> None:
    closed.client().post(f"{HERE}/models", json=model())
    ana = closed.client(closed.user("ana"))
    closed.permit("ana-admin", "admin", subjects=["ana"], model="iris")
    bindings = f"{HERE}/rolebindings"
    assert ana.post(bindings, json=binding("bob-iris", model="iris")).status_code == 201
    assert ana.get(f"{bindings}/bob-iris").status_code == 200
    assert "bob-iris" in [item["metadata"]["name"] for item in ana.get(bindings).json()["items"]]
    elsewhere = ana.put(f"{bindings}/bob-iris", json=binding("bob-iris", model="yours"))
    assert elsewhere.status_code == 403
    assert ana.post(bindings, json=binding("all", namespace="default")).status_code == 403
    assert ana.delete(f"{bindings}/bob-iris").status_code == 200
    rollout = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "Rollout", "metadata": {"name": "slowly"},
        "spec": {"target": {"kind": "Model", "name": "iris"}, "steps": [{"setWeight": 10}]},
    }  # fmt: skip
    assert ana.post(f"{HERE}/rollouts", json=rollout).status_code == 201


def test_nobody_takes_the_calls_of_anothers_model(closed: Harness) -> None:
    admin = closed.client()
    for name in ("mine", "yours"):
        assert admin.post(f"{HERE}/models", json=model(name)).status_code == 201
    ana = closed.client(closed.user("ana"))
    closed.permit("ana-write", "write", subjects=["ana"], model="mine")
    own = inference_model("mine-1", modelName="mine")
    assert ana.post(f"{HERE}/inferencemodels", json=own).status_code == 201
    for taking in (
        inference_model("yours", modelName="mine"),
        inference_model("payments", modelName="mine"),
        inference_model("mine-2", modelName="mine", extraNames=["yours"]),
    ):
        assert ana.post(f"{HERE}/inferencemodels", json=taking).status_code == 403
    extra = {"spec": {**own["spec"], "extraNames": ["yours"]}}
    assert ana.put(f"{HERE}/inferencemodels/mine-1", json={**own, **extra}).status_code == 403
    for called in ({"aliasOf": "yours"},):
        assert ana.put(f"{HERE}/models/mine", json=model("mine", spec=called)).status_code == 403
