"""What those who may see little can find out: of objects, of their history, and from refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.kinds.workload import MODEL_LABEL
from tests.support.server.harness import HERE, ROOT, Harness, serving

pytestmark = pytest.mark.own_plane


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[Harness]:
    with serving(tmp_path, anonymous=False) as harness:
        yield harness


def fill(plane: Harness) -> None:
    """A model with a server of another name, its workload, a version, a job, a binding and a rollout."""
    of_model = {"modelName": "secret-project"}
    for resource in (
        Resource("Model", Meta("secret-project")),
        Resource("ModelVersion", Meta("secret-project.1"), of_model | {"version": "1", "framework": "sklearn"}),
        Resource("InferenceModel", Meta("public-face"), of_model | {"targetVersion": "1"}),
        Resource("Workload", Meta("public-face.1", labels={MODEL_LABEL: "secret-project"}), {"command": ["x"]}),
        Resource("TrainingJob", Meta("nightly"), of_model),
        Resource("Rollout", Meta("forward"), {"target": {"name": "secret-project"}}),
        Resource(
            "RoleBinding", Meta("team"),
            {"subjects": ["zoe"], "verbs": ["read"], "target": {"model": "secret-project"}},
        ),
    ):  # fmt: skip
        plane.run(plane.store.create(resource, "admin"))


THERE = {
    "models": "secret-project", "modelversions": "secret-project.1", "inferencemodels": "public-face",
    "workloads": "public-face.1", "trainingjobs": "nightly", "rollouts": "forward", "rolebindings": "team",
    "revisions": "rolebinding.team.1",
}  # fmt: skip


@pytest.mark.parametrize("rights", [("mine", "write"), ("", "predict"), ("none", "")])
def test_what_may_not_be_seen_is_answered_like_what_is_not_there(closed: Harness, rights: tuple[str, str]) -> None:
    fill(closed)
    ann = closed.client(closed.user("ann"))
    model, verb = rights
    if verb:
        closed.permit("ann", verb, subjects=["ann"], **({"model": model} if model else {}))
    for client, code in ((ann, 403), (closed.client(token=None), 401)):
        for plural, name in THERE.items():
            missing = name.replace("public-face", "xxx").replace("secret-project", "xxx")
            missing = missing.replace("nightly", "xxx").replace("forward", "xxx").replace("team", "xxx")
            for method, end in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("GET", "/log")):
                if end and plural != "inferencemodels":
                    continue
                one, other = (
                    client.request(method, f"{HERE}/{plural}/{asked}{end}", json={} if method == "PUT" else None)
                    for asked in (name, missing)
                )
                assert (one.status_code, other.status_code) == (code, code), (method, plural, one.text, other.text)
                asked, text = name.removesuffix(".1"), one.json()["message"]
                hidden = "xxx" if plural != "revisions" else "rolebinding.xxx"
                assert text == other.json()["message"].replace(hidden, asked), (method, plural)
                if "secret-project" not in name:
                    assert "secret-project" not in one.text


def test_who_may_read_it_is_told_what_it_belongs_to(closed: Harness) -> None:
    fill(closed)
    closed.permit("ann", "read", subjects=["ann"], model="secret-project")
    closed.permit("mine", "write", subjects=["ann"], model="mine")
    ann = closed.client(closed.user("ann"))
    answer = ann.delete(f"{HERE}/inferencemodels/public-face")
    assert answer.status_code == 403
    assert "mizzen permit ann write secret-project" in answer.json()["message"]


def names(client: httpx2.Client, plural: str) -> list[str]:
    answer = client.get(f"{ROOT}/{plural}")
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["name"] for item in answer.json()["items"]]


def watched(client: httpx2.Client, plural: str) -> list[str]:
    with client.stream("GET", f"{ROOT}/{plural}?watch=true&timeoutSeconds=1") as answer:
        assert answer.status_code == 200
        return [json.loads(line)["object"]["metadata"]["name"] for line in answer.iter_lines()]


def test_strangers_see_neither_rights_nor_processes_nor_their_history(plane: Harness) -> None:
    fill(plane)
    stranger, ann = plane.client(token=None), plane.client(plane.user("ann"))
    for client, code in ((stranger, 401), (ann, 403)):
        for plural in ("rolebindings", "workloads"):
            for path in (f"{ROOT}/{plural}", f"{ROOT}/{plural}?watch=true", f"{HERE}/{plural}/{THERE[plural]}"):
                assert client.get(path).status_code == code
        for revision in ("rolebinding.team.1", "workload.public-face.1.1", "rolebinding.none.1"):
            assert client.get(f"{HERE}/revisions/{revision}").status_code == code
        assert client.get(f"{HERE}/revisions/model.secret-project.1").status_code == 200
        assert client.get(f"{HERE}/revisions/model.none.1").status_code == 404
        told = ["inferencemodel.public-face.1", "model.secret-project.1", "modelversion.secret-project.1.1",
                "namespace.default.1", "rollout.forward.1", "trainingjob.nightly.1"]  # fmt: skip
        assert sorted(names(client, "revisions")) == told
        assert sorted(watched(client, "revisions")) == told


def test_who_has_rights_sees_the_history_they_are_about(plane: Harness) -> None:
    fill(plane)
    plane.permit("ann", "read", subjects=["ann"])
    ann = plane.client(plane.user("ann"))
    assert {"rolebinding.team.1", "rolebinding.ann.1", "workload.public-face.1.1"} < set(names(ann, "revisions"))
    assert names(ann, "workloads") == ["public-face.1"]
    assert {"team", "ann"} == set(names(ann, "rolebindings"))


def test_readers_of_a_model_read_its_workloads(closed: Harness) -> None:
    fill(closed)
    other = Resource("Workload", Meta("other.1", labels={MODEL_LABEL: "other"}), {"command": ["x"]})
    closed.run(closed.store.create(other, "system"))
    closed.run(closed.store.create(Resource("Workload", Meta("old.1"), {"command": ["x"]}), "system"))
    closed.permit("ann", "read", subjects=["ann"], model="secret-project")
    ann = closed.client(closed.user("ann"))
    assert names(ann, "workloads") == watched(ann, "workloads") == ["public-face.1"]
    assert ann.get(f"{HERE}/workloads/public-face.1").status_code == 200
    for name in ("other.1", "old.1", "none.1"):
        assert ann.get(f"{HERE}/workloads/{name}").status_code == 403
