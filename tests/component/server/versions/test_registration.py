"""Versions written out in full: the resource API guards them as /model does."""

from __future__ import annotations

import httpx2
import pytest

from mizzen.access.policy import Actor
from mizzen.server.admission import decode
from mizzen.server.versions import registration
from tests.component.server.resources.test_routes import CONTENT, DIGEST, make_iris, model_version
from tests.component.server.sending import causes
from tests.support.server.harness import HERE, Harness


def test_the_plane_says_who_brought_a_version_and_whether_it_is_trusted(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    artifact = {"path": "m.joblib", "digest": DIGEST, "size": len(CONTENT), "trusted": False}
    answer = admin.post(f"{HERE}/modelversions", json=model_version(createdBy="mallory", artifacts=[artifact]))
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["createdBy"] == "admin"
    assert answer.json()["spec"]["artifacts"] == [{**artifact, "trusted": True}]
    claimed = {**answer.json(), "spec": {**answer.json()["spec"], "createdBy": "mallory"}}
    assert admin.put(f"{HERE}/modelversions/iris.1", json=claimed).json()["spec"] == answer.json()["spec"]


def test_whoever_may_not_unpickle_brings_nothing_to_unpickle() -> None:
    kind, body = registration.KIND, model_version(createdBy="admin")
    body["spec"]["artifacts"][0]["trusted"] = True
    draft = decode.decode(kind, body, namespace="default")
    version = registration.build_version(draft, "default", Actor("ann"), trusted=False)
    assert version.spec["createdBy"] == "ann"
    assert [artifact["trusted"] for artifact in version.spec["artifacts"]] == [False]


def test_a_version_needs_a_token(plane: Harness) -> None:
    answer = plane.client(token=None).post(f"{HERE}/modelversions", json=model_version())
    assert answer.status_code == 401
    assert "to write ModelVersion" in answer.json()["message"]


@pytest.mark.own_plane
def test_a_version_needs_its_model_and_its_files(plane: Harness, admin: httpx2.Client) -> None:
    found = causes(admin.post(f"{HERE}/modelversions", json=model_version()))
    assert set(found) == {"spec.modelName", "spec.artifacts[0].digest"}
    assert "'m.joblib'" in found["spec.artifacts[0].digest"]
    make_iris(plane, admin)
    assert admin.post(f"{HERE}/modelversions", json=model_version()).status_code == 201


def test_a_number_given_here_is_counted(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    for version in ("7", "3", "1.0.2"):
        assert admin.post(f"{HERE}/modelversions", json=model_version(version)).status_code == 201
    assert admin.get(f"{HERE}/models/iris").json()["status"]["highestVersion"] == 7
