"""Where a version comes from: said by the plane of what it fetched, and by nobody else."""

from __future__ import annotations

import subprocess
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.server.versions import ingest
from tests.component.server.resources.test_routes import CONTENT, DIGEST, make_iris, model_version
from tests.component.server.sending import causes
from tests.support.server.harness import HERE, Harness

COMMIT = "0" * 40
ZEROS = "sha256:" + "0" * 64
GIT = {"repo": "https://example.org/big/corp", "commit": COMMIT}


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"code": {"git": GIT}}, "spec.code.git"),
        ({"code": {"git": {**GIT, "digest": ZEROS}}}, "spec.code.git"),
        ({"code": {"digest": ZEROS}}, "spec.code.digest"),
        ({"code": {"digest": ZEROS}, "artifacts": [], "image": "a/b:1"}, "spec.code.digest"),
        ({"code": {"digest": DIGEST}}, "spec.code.digest"),
        ({"source": {"url": "https://good.example/x"}}, "spec.source"),
        ({"parentJob": "train-7"}, "spec.parentJob"),
    ],
    ids=["git", "git and digest", "digest", "digest of nothing", "digest of no code", "source", "job"],
)
def test_nobody_says_it_themselves(plane: Harness, admin: httpx2.Client, said: dict[str, Any], field: str) -> None:
    make_iris(plane, admin)
    for query in ("", "?dryRun=All"):
        found = causes(admin.post(f"{HERE}/modelversions{query}", json=model_version(**said)))
        assert set(found) == {field}
        assert "POST /model/iris/version registers files" in found[field]
    assert admin.get("/model/iris/version").json()["items"] == []


def test_a_digest_that_its_files_show_may_be_said(plane: Harness, admin: httpx2.Client) -> None:
    make_iris(plane, admin)
    artifacts = [{"path": "model.py", "digest": DIGEST, "size": len(CONTENT)}]
    digest = ingest.code_digest(ingest.entries_of({"artifacts": artifacts}))
    body = model_version(artifacts=artifacts, framework="python", entrypoint="model:f", code={"digest": digest})
    answer = admin.post(f"{HERE}/modelversions", json=body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["spec"]["code"] == {"digest": digest}


def test_what_the_plane_said_can_be_sent_back(plane: Harness, admin: httpx2.Client) -> None:
    admin.post("/model", json={"name": "iris"})
    repo = plane.files / "repo"
    plane.file("repo/model.py", "def predict(x): return x\n")
    identity = ("-c", "user.name=a", "-c", "user.email=a@b")
    for command in (("init", "-q"), ("add", "-A"), (*identity, "commit", "-q", "-m", "x")):
        subprocess.run(["git", *command], cwd=repo, check=True, capture_output=True)
    body = {"git": {"repo": f"file://{repo}"}, "entrypoint": "model:predict"}
    assert admin.post("/model/iris/version", json=body).status_code == 201
    there = admin.get(f"{HERE}/modelversions/iris.1").json()
    assert set(there["spec"]["code"]["git"]) == {"repo", "ref", "commit", "digest"}
    sent = admin.put(f"{HERE}/modelversions/iris.1", json=there)
    assert (sent.status_code, sent.json()) == (200, there)
    forged = {**there, "spec": {**there["spec"], "code": {"git": GIT}}}
    assert set(causes(admin.put(f"{HERE}/modelversions/iris.1", json=forged))) == {"spec.code"}


def test_a_job_must_be_one_of_the_model(plane: Harness, admin: httpx2.Client) -> None:
    for name in ("iris", "roses"):
        admin.post("/model", json={"name": name})
        job = Resource("TrainingJob", Meta(f"{name}-job", plane.namespace), {"modelName": name, "version": "1"})
        plane.run(plane.store.create(job, "somebody"))
    body = {"path": plane.file("m.joblib")}
    for job_name in ("none", "roses-job", "../x"):
        found = causes(admin.post("/model/iris/version", json={**body, "parentJob": job_name}))
        assert found == {"parentJob": f"{plane.ref('Model', 'iris')} has no TrainingJob '{job_name}'"}
    answer = admin.post("/model/iris/version", json={**body, "parentJob": "iris-job"})
    assert (answer.status_code, answer.json()["parentJob"]) == (201, "iris-job")


def test_a_signature_is_not_recorded(plane: Harness, admin: httpx2.Client) -> None:
    """Also not when it is told what differs."""
    admin.post("/model", json={"name": "iris"})
    url = f"{plane.url}/version?X-Signature=s3cret&part=1"
    answer = admin.post(
        "/model/iris/version",
        json={"downloadURL": url, "insecureSkipVerify": True, "framework": "sklearn", "entrypoint": "version"},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["source"]["url"] == f"{plane.url}/version?X-Signature=***&part=***"
    assert "s3cret" not in admin.get(f"{HERE}/modelversions/iris.1").text
    wrong = admin.post("/model/iris/version", json={"downloadURL": url, "sha256sum": "0" * 64})
    assert wrong.status_code == 422
    assert "s3cret" not in wrong.text
