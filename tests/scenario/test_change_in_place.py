"""What is served changes where it is, or loses what it was made of, and callers do not notice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import planes

MODEL = """
import time


def predict(inputs):
    time.sleep(0.3)
    return inputs["x"]
"""
SERVERS = "/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels"


@pytest.fixture
def control(plane: planes.TestPlane, tmp_path: Path) -> Iterator[httpx2.Client]:
    """Each has the model anew, with its file: one of them takes all files away."""
    (tmp_path / "slow.py").write_text(MODEL)
    plane.cli("deploy", "slow:predict", "--name", "slow", cwd=tmp_path)
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, verify=False) as client:
        yield client
    plane.cli("delete", "model/slow", "--cascade")


def test_no_request_fails_while_the_only_replica_is_replaced(plane: planes.TestPlane, control: httpx2.Client) -> None:
    before = plane.pid("runtime")
    with callers(f"{plane.inference_url}/v2/models/slow/infer", 2) as codes:
        planes.wait_until(lambda: len(codes) >= 4, "answers flow")
        server = control.get(f"{SERVERS}/slow-1").json()
        server["spec"]["batching"] = {}
        assert control.put(f"{SERVERS}/slow-1", json=server).status_code == 200
        planes.wait_until(lambda: set(plane.pids("runtime")) - {before}, "a new process")
        answered = len(codes)
        planes.wait_until(lambda: len(codes) >= answered + 6, "answers flow again")
    assert set(codes) == {200}, codes


def test_a_lost_file_is_told_and_stops_nothing_that_runs(plane: planes.TestPlane, control: httpx2.Client) -> None:
    for blob in (plane.data_dir / "blobs" / "sha256").glob("*/*"):
        blob.unlink()
    made = control.post("/model/slow/serve/1", json={}).json()

    def ready() -> dict[str, Any]:
        conditions = control.get(f"{SERVERS}/{made['id']}").json().get("status", {}).get("conditions", ())
        return next((each for each in conditions if each["type"] == "Ready" and each["reason"] != "Starting"), {})

    condition = planes.wait_until(ready, "the reason is told")
    assert (condition["status"], condition["reason"]) == ("False", "LoadFailed")
    assert condition["message"].startswith("no blob sha256:")
    with callers(f"{plane.inference_url}/v2/models/slow/infer", 1) as codes:
        planes.wait_until(lambda: codes, "the first one answers on")
    assert set(codes) == {200}


@contextmanager
def callers(url: str, count: int) -> Iterator[list[int]]:
    """Ask in a loop, and note the codes of the answers."""
    codes: list[int] = []
    end = threading.Event()
    body = {"inputs": [{"name": "x", "datatype": "FP64", "shape": [1], "data": [1]}]}

    def ask() -> None:
        with httpx2.Client(timeout=60, verify=False) as client:
            while not end.is_set():
                codes.append(client.post(url, json=body).status_code)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield codes
    finally:
        end.set()
        for thread in threads:
            thread.join()
