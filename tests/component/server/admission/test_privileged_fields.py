"""Rights beyond `write`: what decides which code runs, and secrets that are lent to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds import catalog
from mizzen.kinds.schema.resource import Ref
from mizzen.server.admission import privileged_fields
from tests.component.server.resources.test_routes import inference_model, model
from tests.support.server.harness import HERE, Harness, serving


def test_variables_and_secrets_are_for_those_who_may_vouch_for_code(tmp_path: Path) -> None:
    with serving(tmp_path, anonymous=False) as closed:
        admin = closed.client()
        admin.post(f"{HERE}/models", json=model("mine"))
        admin.put("/secret/db", json={"data": {"password": "hidden-value"}})
        ana = closed.client(closed.user("ana"))
        closed.permit("ana-writes", "write", subjects=["ana"], model="mine")
        plain = inference_model("mine-1", modelName="mine", env=[{"name": "LD_PRELOAD", "value": "/tmp/mine.so"}])
        secret = {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}}
        lent = inference_model("mine-2", modelName="mine", env=[secret])
        assert ana.post(f"{HERE}/inferencemodels", json=plain).status_code == 403
        closed.permit("ana-admins", "admin", subjects=["ana"], model="mine")
        assert ana.post(f"{HERE}/inferencemodels", json=plain).status_code == 201
        assert ana.post(f"{HERE}/inferencemodels", json=lent).status_code == 403
        assert admin.post(f"{HERE}/inferencemodels", json=lent).status_code == 201


POD = {"containers": [{"name": "main", "image": "a/b:1"}]}
VARIABLE = [{"name": "LD_PRELOAD", "value": "/tmp/mine.so"}]
NODE = {"name": "first", "implementation": {"kfservice": "mine"}}
CHART = {"chart": "oci://example.org/chart"}


def component(type_: str, **properties: Any) -> dict[str, Any]:
    return {"name": "part", "type": type_, "properties": properties}


def serving_component(**predictor: Any) -> dict[str, Any]:
    return component("tfserving", predictors=[{"name": "one", **predictor}])


def template(*components: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {"components": list(components)}}


PLAIN: dict[str, dict[str, Any]] = {
    "Model": {"framework": "sklearn"},
    "TrainingJob": {"modelName": "mine", "version": "1"},
    "InferenceModel": {"modelName": "mine", "deployToLayer": "cloud", "frameworkType": "sklearn"},
    "MLGraph": {"dag": [NODE]},
    "Monitor": {"modelName": "mine", "tool": "scalars"},
    "Application": {"components": [serving_component(modelVersion="mine-v1")]},
}
"""Specs that run nothing of their own: whoever may write sends them."""

RUNNING: list[tuple[str, dict[str, Any]]] = [
    ("Model", {"hooks": [{"on": ["created"], "command": ["/bin/true"]}]}),
    ("TrainingJob", {"command": ["/bin/true"]}),
    ("TrainingJob", {"image": "a/b:1"}),
    ("TrainingJob", {"env": VARIABLE}),
    ("TrainingJob", {"dataset": {"path": "/etc"}}),
    ("TrainingJob", {"dataset": {"s3": {"bucket": "of-the-plane"}}}),
    ("TrainingJob", {"replicaSpecs": {"Worker": {"template": {"spec": POD}}}}),
    ("TrainingJob", {"tfReplicaSpecs": {"Worker": {"template": {"spec": POD}}}}),
    ("TrainingJob", {"pytorchReplicaSpecs": {"Worker": {"template": {"spec": POD}}}}),
    ("InferenceModel", {"env": VARIABLE}),
    ("InferenceModel", {"image": "a/b:1"}),
    ("InferenceModel", {"template": {"spec": POD}}),
    ("InferenceModel", {"manifest": [
        {"version": "1", "downloadURL": "https://example.org/a.tgz", "insecureSkipVerify": True},
    ]}),
    ("MLGraph", {"custom": [{"spec": POD}], "dag": {"name": "main"}}),
    ("MLGraph", {"inline": [{"podspec": POD}], "dag": {"name": "main"}}),
    ("MLGraph", {"dag": {"name": "main", "implementation": {"inline": {"podspec": POD}}}}),
    ("MLGraph", {"dag": [{**NODE, "merge": {"implementation": {"inline": {"podspec": POD}}}}]}),
    ("MLGraph", {"dag": [{**NODE, "merge": {"ensemble": {"implementation": {"inline": {"podspec": POD}}}}}]}),
    ("MLGraph", {"dag": [
        {**NODE, "route": {"implementation": {"inline": {"podspec": POD}}}},
        {**NODE, "name": "second", "dependencies": ["first"]},
    ]}),
    ("Monitor", {"env": VARIABLE}),
    ("Application", {"components": [component("training", cmd=["/bin/true"])]}),
    ("Application", {"components": [component("training", image="a/b:1")]}),
    ("Application", {"components": [
        component("tfjob", tfReplicaSpecs={"Worker": {"template": {"spec": POD}}}),
    ]}),
    ("Application", {"components": [serving_component(modelVersion="mine-v1", template={"spec": POD})]}),
    ("Application", {"components": [serving_component(graph={"name": "mine", "modelUri": "s3://bucket/mine"})]}),
    ("Application", {"components": [component("helm-chart", **CHART)]}),
    ("Application", {"components": [component("s3-bucket", provider="local", bucket="mine")]}),
    ("Initializer", {"appTemplate": template(component("helm-chart", **CHART))}),
]  # fmt: skip


def manifest(kind: str, spec: dict[str, Any], name: str = "own") -> dict[str, Any]:
    return {"apiVersion": "mizzen.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def path(kind: str) -> str:
    return f"{HERE}/{catalog.BY_NAME[kind].plural}"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """Ana may write everything, and administer nothing."""
    with serving(tmp_path_factory.mktemp("plane"), anonymous=False) as plane:
        admin = plane.client()
        admin.post(f"{HERE}/models", json=model("mine"))
        admin.post("/model/mine/version/1", json={"image": "a/b:1", "framework": "sklearn"})
        admin.put("/secret/db", json={"data": {"password": "hidden-value"}})
        plane.permit("ana-writes", "write", "predict", subjects=["ana"])
        yield plane


@pytest.fixture(scope="module")
def admin(closed: Harness) -> httpx2.Client:
    return closed.client()


@pytest.fixture(scope="module")
def ana(closed: Harness) -> httpx2.Client:
    return closed.client(closed.user("ana"))


def test_every_kind_that_decides_what_runs_is_tried() -> None:
    assert {kind for kind, _ in RUNNING} == set(privileged_fields.CODE_FIELDS) - {
        "ModelVersion"
    }  # of which tests/component/server/versions/test_trust


@pytest.mark.parametrize(("kind", "code"), RUNNING)
def test_what_decides_what_runs_is_for_admins(
    closed: Harness, admin: httpx2.Client, ana: httpx2.Client, kind: str, code: dict[str, Any]
) -> None:
    at, plain, running = path(kind), manifest(kind, PLAIN.get(kind, {})), manifest(kind, PLAIN.get(kind, {}) | code)
    refused = ana.post(at, json=running)
    assert refused.status_code == 403, refused.text
    assert "admin" in refused.text
    changes = kind in PLAIN and not catalog.BY_NAME[kind].alternative
    if changes:
        assert (answer := ana.post(at, json=plain)).status_code == 201, answer.text
        assert ana.put(f"{at}/own", json=running).status_code == 403
        assert (answer := admin.put(f"{at}/own", json=running)).status_code == 200, answer.text
    else:
        assert (answer := admin.post(at, json=running)).status_code == 201, answer.text
    labelled = {**running, "metadata": {"name": "own", "labels": {"team": "a"}}}
    assert (answer := ana.put(f"{at}/own", json=labelled)).status_code == 200, "what is vouched for stays so"
    if changes:
        assert (answer := ana.put(f"{at}/own", json=plain)).status_code == 200, "nothing runs without it"
    if "deletionTimestamp" in admin.delete(f"{at}/own").json().get("metadata", {}):
        closed.release(Ref(kind, "own"))


def test_what_we_do_not_read_of_a_pod_is_code_too(admin: httpx2.Client, ana: httpx2.Client) -> None:
    worker = {"template": {"spec": POD}}
    spec = {"modelName": "mine", "replicaSpecs": {"Worker": worker}}
    first = {"initContainers": [{"name": "first", "image": "mine/evil:1"}]}
    other = {"modelName": "mine", "replicaSpecs": {"Worker": {"template": {"spec": POD | first}}}}
    assert ana.post(path("TrainingJob"), json=manifest("TrainingJob", other, "pods")).status_code == 403
    assert admin.post(path("TrainingJob"), json=manifest("TrainingJob", spec, "pods")).status_code == 201
    at = f"{path('TrainingJob')}/pods"
    assert ana.put(at, json=manifest("TrainingJob", {**spec, "priority": 5}, "pods")).status_code == 200
    assert ana.put(at, json=manifest("TrainingJob", other, "pods")).status_code == 422


def test_code_that_was_vouched_for_gets_no_keys_of_the_plane(admin: httpx2.Client, ana: httpx2.Client) -> None:
    def reads(**s3: str) -> dict[str, Any]:
        part = component("training", image="a/b:1", dataset={"s3": {"bucket": "data", **s3}})
        return manifest("Application", {"components": [part]}, "reads")

    at = f"{path('Application')}/reads"
    elsewhere = reads(endpoint="https://objects.example.org")
    assert (answer := admin.post(path("Application"), json=elsewhere)).status_code == 201, answer.text
    assert ana.put(at, json=elsewhere).status_code == 200
    assert ana.put(at, json=reads()).status_code == 403
    assert admin.put(at, json=reads()).status_code == 200


def test_code_does_not_move_to_another_model(closed: Harness, admin: httpx2.Client) -> None:
    closed.permit("eve-admins", "admin", subjects=["eve"], model="eves")
    closed.permit("eve-writes", "write", subjects=["eve"], model="mine")
    assert admin.post(f"{HERE}/models", json=model("eves")).status_code == 201
    eve = closed.client(closed.user("eve"))
    spec = {"modelName": "eves", "command": ["/bin/true"]}
    assert eve.post(path("TrainingJob"), json=manifest("TrainingJob", spec, "moving")).status_code == 201
    moved = manifest("TrainingJob", {**spec, "modelName": "mine"}, "moving")
    assert eve.put(f"{path('TrainingJob')}/moving", json=moved).status_code == 422, "nor does anything else"


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Model", {"hooks": [
            {"on": ["created"], "webhook": {"url": "https://example.org", "secret": {"name": "db", "key": "password"}}},
        ]}),
        ("TrainingJob", {"modelName": "mine", "version": "1", "dataset": {"s3": {"bucket": "abc", "secret": "db"}}}),
        ("Monitor", {"modelName": "mine", "env": [
            {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        ]}),
    ],
)  # fmt: skip
def test_a_secret_is_lent_by_those_who_may_write_it(closed: Harness, kind: str, spec: dict[str, Any]) -> None:
    closed.permit("bob-admins", "admin", subjects=["bob"], model="mine")
    closed.permit("bob-admins-lender", "admin", subjects=["bob"], model="lender")
    try:
        bob = closed.client(closed.user("bob"))
        refused = bob.post(path(kind), json=manifest(kind, spec, "lender"))
        assert (refused.status_code, "Secret/db" in refused.text) == (403, True), refused.text
    finally:
        closed.forbid("bob-admins")
        closed.forbid("bob-admins-lender")


def test_what_only_looks_like_a_secret_is_handed_on(ana: httpx2.Client) -> None:
    spec = {"modelName": "mine", "version": "1", "hyperparameters": {"s3": {"secret": "db"}}}
    assert ana.post(path("TrainingJob"), json=manifest("TrainingJob", spec, "handed-on")).status_code == 201


def test_what_a_graph_calls_already_was_lent_by_somebody_else(tmp_path: Path) -> None:
    def calling(*names: str) -> dict[str, Any]:
        nodes = [{"name": f"n{at}", "implementation": {"kfservice": name}} for at, name in enumerate(names)]
        return manifest("MLGraph", {"dag": nodes})

    with serving(tmp_path, anonymous=False) as plane:
        admin, ana = plane.client(), plane.client(plane.user("ana"))
        plane.permit("ana-writes", "read", "write", "predict", subjects=["ana"], model="own")
        one = f"{path('MLGraph')}/own"
        assert ana.post(path("MLGraph"), json=calling("foreign")).status_code == 403
        assert admin.post(path("MLGraph"), json=calling("foreign")).status_code == 201
        merge = {"content-type": "application/merge-patch+json"}
        labelled = ana.patch(one, json={"metadata": {"labels": {"team": "a"}}}, headers=merge)
        assert labelled.status_code == 200, labelled.text
        more = ana.patch(one, json={"spec": calling("foreign", "other")["spec"]}, headers=merge)
        assert more.status_code == 403, "what is new needs a right of one's own"
        plane.permit("ana-calls", "predict", subjects=["ana"], model="other")
        assert ana.patch(one, json={"spec": calling("foreign", "other")["spec"]}, headers=merge).status_code == 200
        assert ana.delete(one).status_code == 200
