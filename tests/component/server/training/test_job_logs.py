"""What job sets print, over the /model API. `tests/unit/runs` has the order, the ends and the sizes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2
import pytest

from tests.component.server.trained import TRAIN, code, prints, start, tell
from tests.support.server.harness import HERE, Harness


@pytest.fixture
def iris(plane: Harness, admin: httpx2.Client) -> httpx2.Client:
    code(plane, admin)
    return admin


@pytest.fixture
def job(plane: Harness, iris: httpx2.Client) -> str:
    """Of two replicas, which printed in turns in the last minutes."""
    job, now = start(iris, replicas=2), datetime.now(UTC).timestamp()
    prints(plane, job, "worker-0", [(now - 300, "one"), (now - 200, "three")])
    prints(plane, job, "worker-1", [(now - 250, "two"), (now - 100, "four")])
    return job


ALL = ["[worker-0] one", "[worker-1] two", "[worker-0] three", "[worker-1] four"]


def test_all_replicas_in_the_order_of_time(iris: httpx2.Client, job: str) -> None:
    answer = iris.get(f"{TRAIN}/{job}/logs")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.text.splitlines() == ALL


def test_less_of_it(iris: httpx2.Client, job: str) -> None:
    def lines(query: str) -> list[str]:
        return iris.get(f"{TRAIN}/{job}/logs?{query}").text.splitlines()

    assert lines("tail=2") == ALL[2:]
    assert lines("replica=worker-1") == [ALL[1], ALL[3]]
    assert lines("since=150") == lines("since=2m30s") == ALL[3:]
    since = datetime.fromtimestamp(datetime.now(UTC).timestamp() - 220, UTC)
    assert lines(f"since={since:%Y-%m-%dT%H:%M:%SZ}") == ALL[2:]
    assert lines("tail=0") == []


@pytest.mark.parametrize(
    ("query", "code"),
    [("since=yesterday", 400), ("tail=-1", 400), ("replica=..%2Fx", 400), ("replica=worker-7", 404), ("lines=3", 400)],
)
def test_what_makes_no_sense_is_refused(iris: httpx2.Client, job: str, query: str, code: int) -> None:
    assert iris.get(f"{TRAIN}/{job}/logs?{query}").status_code == code


def test_before_anything_was_printed_there_is_nothing(iris: httpx2.Client) -> None:
    answer = iris.get(f"{TRAIN}/{start(iris)}/logs")
    assert (answer.status_code, answer.text) == (200, "")


def test_they_stay_when_the_object_of_the_job_goes(plane: Harness, iris: httpx2.Client, job: str) -> None:
    iris.delete(f"{HERE}/trainingjobs/{job}")
    plane.release(plane.ref("TrainingJob", job))
    assert iris.get(f"{TRAIN}/{job}/logs").text.splitlines() == ALL
    assert iris.get(f"{TRAIN}/{job}/logs?follow=true").text.splitlines() == ALL, "nothing more will come"


def test_who_follows_gets_what_comes_until_the_job_has_ended(plane: Harness, iris: httpx2.Client, job: str) -> None:
    tell(plane, job, "Running")
    with plane.client().stream("GET", f"{TRAIN}/{job}/logs?follow=true&tail=1") as answer:
        lines: Iterator[str] = answer.iter_lines()
        assert next(lines) == ALL[3]
        prints(plane, job, "worker-0", [(datetime.now(UTC).timestamp(), "five")])
        assert next(lines) == "[worker-0] five"
        prints(plane, job, "worker-0", [(datetime.now(UTC).timestamp(), "six")])
        tell(plane, job, "Succeeded")
        assert list(lines) == ["[worker-0] six"], "the last words, and then the end"
