"""`Idempotency-Key`: calls that are repeated because their answer was lost."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mizzen.kinds.schema.resource import ACTOR_ANNOTATION, Meta, Ref, Resource
from mizzen.kinds.training import IDEMPOTENCY_ANNOTATION
from mizzen.server.admission import idempotency
from tests.component.server.trained import TRAIN, code
from tests.support.server.harness import HERE, Harness, serving

JOBS = f"{HERE}/trainingjobs"


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    """A client, and a model whose version 1 is code to be trained."""
    code(plane, admin)
    return admin


def keyed(client: httpx2.Client, key: str, path: str = TRAIN, **spec: Any) -> httpx2.Response:
    return client.post(path, json=spec, headers={"Idempotency-Key": key})


def test_a_call_that_is_repeated_gets_the_first_answer(iris: httpx2.Client) -> None:
    first = keyed(iris, "k", hyperparameters={"a": 1})
    again = keyed(iris, "k", "/model/iris/train/v1", hyperparameters={"a": 1})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == first.json()
    assert keyed(iris, "l", hyperparameters={"a": 1}).json()["id"] != first.json()["id"]
    assert len(iris.get(TRAIN).json()["items"]) == 2


def test_a_key_stands_for_one_call(iris: httpx2.Client) -> None:
    first = keyed(iris, "k", priority=1).json()["id"]
    other = keyed(iris, "k", priority=2)
    assert other.status_code == 409
    assert first in other.json()["message"]
    assert "new key" in other.json()["details"]["hint"]
    assert [item["id"] for item in iris.get(TRAIN).json()["items"]] == [first]


@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb"])
def test_what_can_be_no_key_is_refused(iris: httpx2.Client, key: str) -> None:
    assert keyed(iris, key).status_code == 400


def test_keys_of_others_and_of_other_paths_are_others(plane: Harness, iris: httpx2.Client) -> None:
    code(plane, iris)
    plane.permit("ana-writes", "write", subjects=["ana"], model="iris")
    ana = plane.client(plane.user("ana"))
    ids = {keyed(iris, "k").json()["id"], keyed(ana, "k").json()["id"]}
    ids.add(keyed(iris, "k", "/model/iris/train/2").json()["id"])
    assert len(ids) == 3


def test_calls_with_one_key_at_the_same_time_make_one_job_set(plane: Harness, iris: httpx2.Client) -> None:
    found: list[tuple[int, str]] = []

    def call() -> None:
        answer = keyed(plane.client(), "k")
        found.append((answer.status_code, answer.json()["id"]))

    threads = [threading.Thread(target=call) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(code for code, _ in found) == [200] * 7 + [201]
    assert len({id_ for _, id_ in found}) == 1
    assert len(iris.get(TRAIN).json()["items"]) == 1


def test_a_key_is_forgotten_after_a_day_and_not_before(tmp_path: Path) -> None:
    later = timedelta()
    with serving(tmp_path, now=lambda: datetime.now(UTC) + later) as plane:
        admin = plane.client()
        code(plane, admin)
        first = keyed(admin, "k").json()["id"]
        later = timedelta(hours=23, minutes=59)
        assert keyed(admin, "k").json()["id"] == first
        later = timedelta(hours=24, minutes=1)
        second = keyed(admin, "k", priority=3)
        assert second.status_code == 201
        assert second.json()["id"] != first


def test_a_repeat_is_answered_although_the_job_set_has_gone_by_age(plane: Harness, iris: httpx2.Client) -> None:
    first = keyed(iris, "k", priority=1).json()["id"]
    iris.delete(f"{HERE}/trainingjobs/{first}")
    plane.release(plane.ref("TrainingJob", first))
    assert iris.get(f"{TRAIN}/{first}").status_code == 404
    again = keyed(iris, "k", priority=1)
    assert (again.status_code, again.json()["id"]) == (200, first)
    assert keyed(iris, "k", priority=2).status_code == 409
    assert iris.get(f"{TRAIN}?state=all").json()["items"] == []


def marks(client: httpx2.Client, job: str) -> str | None:
    found = client.get(f"{JOBS}/{job}").json()["metadata"]["annotations"].get(IDEMPOTENCY_ANNOTATION)
    return None if found is None else str(found)


def test_only_the_call_itself_says_which_call_it_was(iris: httpx2.Client) -> None:
    first = keyed(iris, "k").json()["id"]
    mark = marks(iris, first)
    assert mark is not None
    forged: dict[str, Any] = {
        "apiVersion": "mizzen.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "forged", "annotations": {IDEMPOTENCY_ANNOTATION: mark}},
        "spec": {"modelName": "iris", "version": "1"},
    }  # fmt: skip
    assert iris.post(JOBS, json=forged).status_code == 201
    assert marks(iris, "forged") is None
    applied = {**forged, "metadata": {**forged["metadata"], "name": "applied"}}
    headers = {"content-type": "application/apply-patch+yaml"}
    assert iris.patch(f"{JOBS}/applied?fieldManager=x", json=applied, headers=headers).status_code == 201
    assert marks(iris, "applied") is None
    merge = {"content-type": "application/merge-patch+json"}
    for job, text, kept in (("forged", mark, None), (first, "other", mark), (first, None, mark)):
        change = {"metadata": {"annotations": {IDEMPOTENCY_ANNOTATION: text}}}
        assert iris.patch(f"{JOBS}/{job}", json=change, headers=merge).status_code == 200
        assert marks(iris, job) == kept
    assert keyed(iris, "k").json()["id"] == first


@pytest.mark.parametrize("gone", [False, True])
def test_a_job_set_of_another_is_nobodys_answer(plane: Harness, iris: httpx2.Client, gone: bool) -> None:
    """Even one that says of itself that it is."""
    plane.permit("ana-writes", "write", subjects=["ana"], model="iris")
    ana = plane.client(plane.user("ana"))
    spec = {"modelName": "iris", "version": "1"}
    key = idempotency.IdempotencyKey.of("ana", "k", "default/iris/train/1", spec)
    name = next(idempotency.job_names("iris", "1", key))
    meta = Meta(name, plane.namespace, annotations={IDEMPOTENCY_ANNOTATION: key.mark, ACTOR_ANNOTATION: "ana"})
    theirs = plane.run(plane.store.create(Resource("TrainingJob", meta, spec), "eve"))
    if gone:
        plane.run(plane.store.delete(theirs.ref, "eve"))
    answer = keyed(ana, "k")
    assert answer.status_code == 201
    made = plane.run(plane.store.get(Ref("TrainingJob", answer.json()["id"], plane.namespace)))
    assert made.meta.uid != theirs.meta.uid


def test_the_answer_stays_as_somebody_else_changes_the_job_set(plane: Harness, iris: httpx2.Client) -> None:
    plane.permit("ana-writes", "write", subjects=["ana"], model="iris")
    ana = plane.client(plane.user("ana"))
    first = keyed(ana, "k").json()["id"]
    assert iris.post(f"{TRAIN}/{first}/suspend").status_code == 200
    assert keyed(ana, "k").json()["id"] == first


def test_names_that_another_key_was_given_are_passed_over() -> None:
    key = idempotency.IdempotencyKey.of("ana", "k", "here", {})
    names = idempotency.job_names("iris", "1", key)
    first, second = next(names), next(names)
    assert first != second
    assert [first, second] == [name for name, _ in zip(idempotency.job_names("iris", "1", key), range(2), strict=False)]
