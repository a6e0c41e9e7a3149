"""How many processes answer: given, or within limits; and what is said while a call waits for the first one."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.answers import Asked
from tests.support.cli.command import Plane, commanding
from tests.support.golden import Golden

IRIS = "/v2/models/iris"
ANSWER = {"outputs": [{"name": "predict", "datatype": "INT64", "shape": [2], "data": [0, 2]}]}


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[Plane]:
    with commanding(tmp_path) as plane:
        inputs = [{"name": "x", "datatype": "FP64", "shape": [-1]}]
        plane.inference.give["GET", IRIS] = (200, {"inputs": inputs})
        yield plane


def spec(plane: Plane) -> dict[str, object]:
    found: dict[str, object] = json.loads(plane("get", "inferencemodel", "iris-1", "-o", "json").stdout)["spec"]
    return found


def test_limits_are_given_changed_and_taken_away(plane: Plane, golden: Golden) -> None:
    plane.control.file("model.joblib")
    plane("deploy", "model.joblib", "--name", "iris", "--no-wait")
    done = plane("scale", "iris-1", "0-3", "--quiet", "60", "--no-wait")
    golden.check(done.stdout)
    plane("scale", "iris-1", "1-5", "--target", "8", "--standby", "1", "--no-wait")
    assert spec(plane)["autoScale"] == {
        "minReplicas": 1, "maxReplicas": 5, "quietSeconds": 60.0, "target": 8, "standby": 1,
    }  # fmt: skip
    refused = plane("scale", "iris-1", "2", "--no-wait", check=False)
    assert (refused.returncode, "is set by autoscaling" in refused.stderr, "--fixed" in refused.stderr) == (
        1,
        True,
        True,
    )
    golden.check(plane("scale", "iris-1", "2", "--fixed", "--no-wait").stdout)
    assert (spec(plane)["replicas"], "autoScale" in spec(plane)) == (2, False)


def test_what_is_neither_a_number_nor_limits_is_refused(plane: Plane) -> None:
    for words in (("x",), ("3-",), ("-1",), ("2", "--target", "4"), ("1-3", "--fixed")):
        assert plane("scale", "iris-1", *words, check=False).returncode == 2, words
    assert plane("scale", "iris-1", "3-1", check=False).returncode == 1


def test_whoever_waits_for_an_answer_is_told_what_for(plane: Plane) -> None:
    told = threading.Event()

    def ready(_asked: Asked) -> tuple[int, object]:
        told.set()
        return 200, {"name": "iris", "ready": True, "reason": "one is starting"}

    def infer(_asked: Asked) -> tuple[int, object]:
        assert told.wait(30)
        return 200, ANSWER

    plane.inference.give |= {("GET", f"{IRIS}/ready"): ready, ("POST", f"{IRIS}/infer"): infer}
    done = plane("predict", "iris", "--data", "[1, 2]")
    assert "… waking iris: one is starting" in done.stderr
    assert done.stdout.startswith("predict: [0, 2]")
