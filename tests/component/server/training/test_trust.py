"""Whose job sets save what may be unpickled: only those of whoever may vouch for code, and nobody else can say so."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from mizzen.kinds.training import TRUSTED_ANNOTATION
from tests.component.server.sending import causes
from tests.component.server.trained import TRAIN, code, start
from tests.support.server.harness import HERE, Harness

JOBS = f"{HERE}/trainingjobs"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}
FORGED = {TRUSTED_ANNOTATION: "true"}


@pytest.fixture
def closed(closed: Harness) -> Harness:
    """With ana, who may write all there is, and ada, who may vouch for the code of iris as well."""
    code(closed, closed.client())
    closed.permit("writes", "read", "write", subjects=["ana", "ada"])
    closed.permit("admins", "admin", subjects=["ada"], model="iris")
    return closed


@pytest.fixture
def ana(closed: Harness) -> httpx2.Client:
    return closed.client(closed.user("ana"))


@pytest.fixture
def ada(closed: Harness) -> httpx2.Client:
    return closed.client(closed.user("ada"))


def manifest(name: str, annotations: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, **({"annotations": annotations} if annotations else {})},
        "spec": {"modelName": "iris", "version": "1", **spec},
    }  # fmt: skip


def mark(client: httpx2.Client, job: str) -> str | None:
    annotations = client.get(f"{JOBS}/{job}").json()["metadata"]["annotations"]
    return None if TRUSTED_ANNOTATION not in annotations else str(annotations[TRUSTED_ANNOTATION])


def test_who_may_vouch_for_code_vouches_for_what_their_jobs_save(ana: httpx2.Client, ada: httpx2.Client) -> None:
    assert mark(ada, start(ada)) == "true"
    assert mark(ada, start(ana)) is None
    for name, client, marked in (("posted-by-ana", ana, None), ("posted-by-ada", ada, "true")):
        assert client.post(JOBS, json=manifest(name)).status_code == 201
        assert mark(ada, name) == marked
    for name, client, marked in (("applied-by-ana", ana, None), ("applied-by-ada", ada, "true")):
        sent = client.patch(f"{JOBS}/{name}?fieldManager=x", json=manifest(name), headers=APPLY)
        assert sent.status_code == 201, sent.text
        assert mark(ada, name) == marked


def test_nobody_says_so_themselves(ana: httpx2.Client, ada: httpx2.Client) -> None:
    assert ana.post(JOBS, json=manifest("posted", FORGED)).status_code == 201
    assert mark(ada, "posted") is None
    sent = ana.patch(f"{JOBS}/applied?fieldManager=x", json=manifest("applied", FORGED), headers=APPLY)
    assert sent.status_code == 201
    assert mark(ada, "applied") is None
    job = start(ana)
    forged = {"metadata": {"annotations": FORGED}}
    assert ana.patch(f"{JOBS}/{job}", json=forged, headers=MERGE).status_code == 200
    assert mark(ada, job) is None
    assert ada.patch(f"{JOBS}/{job}", json=forged, headers=MERGE).status_code == 200
    assert mark(ada, job) is None, "it is about who started it"
    assert ana.put(f"{JOBS}/{job}", json=manifest(job, FORGED)).status_code == 200
    assert mark(ada, job) is None
    whole = ana.patch(f"{JOBS}/{job}?fieldManager=y&force=true", json=manifest(job, FORGED), headers=APPLY)
    assert whole.status_code == 200, whole.text
    assert mark(ada, job) is None


@pytest.mark.parametrize(
    "change",
    [
        {"priority": 5},
        {"suspend": True, "ttlSecondsAfterFinished": 5, "activeDeadlineSeconds": 9},
        {"retention": {"checkpoints": 2}, "cleanPodPolicy": "All", "backoffLimit": 1},
    ],
)
def test_it_stays_as_somebody_else_says_when_it_runs(
    ana: httpx2.Client, ada: httpx2.Client, change: dict[str, Any]
) -> None:
    job = start(ada, hyperparameters={"rate": 0.5})
    assert ana.patch(f"{JOBS}/{job}", json={"spec": change}, headers=MERGE).status_code == 200
    assert mark(ada, job) == "true"


@pytest.mark.parametrize(
    "change",
    [
        {"hyperparameters": {"rate": 1}},
        {"dataset": {"http": {"url": "https://example.org/mine", "sha256sum": "0" * 64}}},
        {"replicas": 2},
        {"restartPolicy": "Always"},
        {"resources": {"cpu": 1}},
        {"version": "2"},
    ],
)
def test_how_it_was_trained_never_changes(ana: httpx2.Client, ada: httpx2.Client, change: dict[str, Any]) -> None:
    job = start(ada, hyperparameters={"rate": 0.5})
    (field,) = change
    for client in (ana, ada):
        refused = client.patch(f"{JOBS}/{job}", json={"spec": change}, headers=MERGE)
        assert causes(refused) == {f"spec.{field}": "cannot be changed; start another job"}
        whole = client.patch(f"{JOBS}/{job}?fieldManager=y&force=true", json=manifest(job, **change), headers=APPLY)
        assert whole.status_code == 422, whole.text
    spec = ada.get(f"{JOBS}/{job}").json()["spec"]
    assert spec == {"modelName": "iris", "version": "1", "hyperparameters": {"rate": 0.5}}
    assert mark(ada, job) == "true"


def test_a_file_that_is_applied_again_is_no_change(ada: httpx2.Client) -> None:
    sent = manifest("again", replicas=1, resources={"cpu": "500m"}, hyperparameters={"a": [1, 2.0, None]}, gpu=None)
    answers = [ada.patch(f"{JOBS}/again?fieldManager=x", content=json.dumps(sent), headers=APPLY) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 200], answers[-1].text
    versions = {answer.json()["metadata"]["resourceVersion"] for answer in answers}
    assert len(versions) == 1


def test_who_sends_the_file_again_takes_nothing_away(ana: httpx2.Client, ada: httpx2.Client) -> None:
    assert ada.post(JOBS, json=manifest("again")).status_code == 201
    assert ana.put(f"{JOBS}/again", json=manifest("again")).status_code == 200
    assert mark(ada, "again") == "true"
    stored = ada.get(f"{JOBS}/again").json()
    assert stored["metadata"]["annotations"]["mizzen.dev/actor"] == "ada", "nothing was changed by it"
    assert ana.post(f"{TRAIN}/again/suspend").status_code == 200
    assert mark(ada, "again") == "true"


def test_files_of_the_machine_are_for_those_who_may_vouch_for_code(ana: httpx2.Client, ada: httpx2.Client) -> None:
    for body in ({"dataset": {"path": "/etc"}}, {"command": ["true"]}, {"env": [{"name": "A", "value": "b"}]}):
        assert ana.post(TRAIN, json=body).status_code == 403
        assert ada.post(TRAIN, json=body).status_code == 201


def test_the_keys_of_the_plane_are_for_those_who_may_vouch_for_code(
    closed: Harness, ana: httpx2.Client, ada: httpx2.Client
) -> None:
    own: dict[str, Any] = {"dataset": {"s3": {"bucket": "everything"}}}
    assert ana.post(TRAIN, json=own).status_code == 403
    assert ana.post(JOBS, json=manifest("posted", **own)).status_code == 403
    applied = ana.patch(f"{JOBS}/applied?fieldManager=x", json=manifest("applied", **own), headers=APPLY)
    assert applied.status_code == 403
    assert ana.post(TRAIN, json={"dataset": {"s3": {"bucket": "everything", "secret": None}}}).status_code == 403
    assert ada.post(TRAIN, json=own).status_code == 201
    elsewhere = {"dataset": {"s3": {"bucket": "mine", "endpoint": "https://objects.example.org"}}}
    assert ana.post(TRAIN, json=elsewhere).status_code == 201
    lent = {"dataset": {"s3": {"bucket": "mine", "secret": "keys"}}}
    assert ana.post(TRAIN, json=lent).status_code == 201, "she may write all there is, secrets too"
    closed.permit("bob-writes", "write", subjects=["bob"], model="iris")
    assert closed.client(closed.user("bob")).post(TRAIN, json=lent).status_code == 403
