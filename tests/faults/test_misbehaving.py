"""A model that raises, hangs, ends its process, leaks or is killed, under 500 requests a second.

Only those who ask for the trouble have it, and those that were in the same process with them when it came to a stop.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import load, planes, run_folder
from tests.support.caller import COEFFICIENTS

SERVER = "moody-1"
BATCH = 64
RAISE, HANG, EXIT, LEAK = -1.0, -2.0, -3.0, -4.0
"""The last value of a row that asks for trouble."""

MODEL = f"""
import os
import time
from pathlib import Path

import numpy as np

KEPT = []


def predict(inputs):
    rows = inputs["input"]
    time.sleep(0.003)  # lets other requests queue up, so that they share batches
    for mark in rows[:, 3][rows[:, 3] < 0]:
        trouble(mark)
    return rows @ np.array({COEFFICIENTS})


def trouble(mark):
    if mark == {RAISE}:
        raise RuntimeError("one of these rows is bad")
    if mark == {HANG}:
        Path("HERE", "stuck").write_text(str(os.getpid()))
        time.sleep(3600)
    if mark == {EXIT}:
        os._exit(3)
    if mark == {LEAK}:
        KEPT.append(np.empty(64 << 20, dtype=np.uint8))
"""


class Moody:
    """The model, served by two replicas."""

    def __init__(self, plane: planes.TestPlane, notes: Path) -> None:
        self.plane = plane
        self.notes = notes
        self.url = f"{plane.inference_url}/v2/models/{SERVER}/infer"
        self._headers = {"authorization": f"Bearer {plane.token()}"}

    def ask(self, mark: float, **headers: str) -> httpx2.Response:
        tensor = {"name": "input", "datatype": "FP64", "shape": [1, 4], "data": [5.0, 0.0, 0.0, mark]}
        return httpx2.post(self.url, json={"inputs": [tensor]}, headers=headers, timeout=90)

    def control(self, path: str) -> Any:
        return httpx2.get(self.plane.control_url + path, headers=self._headers, timeout=30).json()

    def both(self) -> bool:
        at = f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{SERVER}"
        status = self.control(at).get("status", {})
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
        return ready and bool(status.get("readyReplicas") == 2) and len(self.plane.pids("runtime")) == 2

    def until_both(self) -> None:
        planes.wait_until(self.both, "both replicas are ready")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Moody]:
    here, notes = tmp_path_factory.mktemp("moody"), run_folder.shared("moody")
    with planes.running_plane(here / "data") as plane:
        (here / "moody.py").write_text(MODEL.replace("HERE", str(notes)))
        plane.cli("deploy", "moody:predict", "--name", "moody", cwd=here)
        plane.cli("undeploy", "moody")
        spec = {"replicas": 2, "timeoutMs": 20_000, "batching": {"batchSize": BATCH}, "resources": {"memory": "1Gi"}}
        headers = {"authorization": f"Bearer {plane.token()}"}
        made = httpx2.post(f"{plane.control_url}/model/moody/serve/1", json=spec, headers=headers)
        assert made.status_code == 201, made.text
        assert made.json()["id"] == SERVER
        yield Moody(plane, notes)


@pytest.fixture
def moody(served: Moody) -> Moody:
    served.until_both()
    return served


def flowing(running: load.Load) -> None:
    served = running.report.right
    planes.wait_until(lambda: running.report.right > served + 250, "answers flow")


def all_right(running: load.Load) -> None:
    report = running.report
    assert report.wrong == []
    assert report.failures == []
    assert report.right == report.sent


def test_raises(moody: Moody) -> None:
    with load.steady_load(moody.url) as running:
        flowing(running)
        with ThreadPoolExecutor(4) as threads:
            answers = list(threads.map(lambda _: moody.ask(RAISE), range(40)))
        flowing(running)
    assert {answer.status_code for answer in answers} == {500}
    assert {answer.json()["error"] for answer in answers} == {"RuntimeError: one of these rows is bad"}
    all_right(running)


def test_exits(moody: Moody) -> None:
    """A row that ends every process it is sent to is sent to two of them, and to no third one."""
    with load.steady_load(moody.url) as running:
        for _ in range(2):
            flowing(running)
            before = set(moody.plane.pids("runtime"))
            assert moody.ask(EXIT).status_code == 502
            moody.until_both()
            assert before.isdisjoint(moody.plane.pids("runtime"))
        flowing(running)
    all_right(running)


def test_leaks(moody: Moody) -> None:
    before = out_of_memory(moody)
    with load.steady_load(moody.url) as running:
        flowing(running)
        answers = []
        while out_of_memory(moody) == before:
            answers.append(moody.ask(LEAK))
            assert len(answers) < 100, "twice as much as both may take, and more"
        moody.until_both()
        flowing(running)
    # 500: it was alone when memory ran out. 502: it did not fit into what was left of either process.
    assert {answer.status_code for answer in answers} <= {200, 500, 502}
    assert answers[0].json()["outputs"][0]["data"] == [5.0 + LEAK * COEFFICIENTS[3]]
    all_right(running)


def test_is_killed_in_the_middle_of_a_batch(moody: Moody) -> None:
    with load.steady_load(moody.url) as running:
        for number in range(4):
            flowing(running)
            os.kill(moody.plane.pids("runtime")[number % 2], signal.SIGKILL)
            moody.until_both()
        flowing(running)
    all_right(running)


def test_hangs(moody: Moody) -> None:
    """The other replica answers. What shared a batch with the row that hangs waits until that process is ended."""
    with load.steady_load(moody.url) as running:
        for _ in range(2):
            flowing(running)
            assert moody.ask(HANG, **{"mizzen-timeout-ms": "1000"}).status_code == 504
            flowing(running)
            # As the runtime does itself, after longer than anybody waits.
            os.kill(int((moody.notes / "stuck").read_text()), signal.SIGKILL)
            moody.until_both()
        flowing(running)
    all_right(running)


def out_of_memory(moody: Moody) -> int:
    """How often a replica ended for it, as people are told."""
    items = moody.control("/api/v1/namespaces/default/events")["items"]
    return sum(item.get("count") or 1 for item in items if "out of memory: spec.resources.memory" in item["message"])
