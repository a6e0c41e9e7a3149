"""Models and jobs that take all they can get: processes, memory, CPU, and disk by their logs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from mizzen.confinement.cgroups import hierarchies
from tests.support import planes
from tests.support.training import Trainer

MIB = 1 << 20
LOG_BYTES = 4 * MIB
PIDS = 64
GREEDY = """
import os, sys, time
import numpy as np

KEPT = []


def predict(inputs):
    what, size = (int(value) for value in inputs["x"])
    if what == 1:
        return {"x": np.array([bomb()])}
    if what == 2:
        share(size)
    if what == 3:
        flood(size)
    if what == 4:
        end = time.thread_time() + size
        while time.thread_time() < end:
            pass
    return {"x": inputs["x"]}


def bomb():
    # Until the kernel refuses; none of them ends.
    for number in range(100_000):
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError:
            return number
    return -1


def share(size):
    # Not data of one process: memory that children have, each below the limit.
    for _ in range(8):
        if os.fork() == 0:
            KEPT.append(np.ones(size // 4, dtype=np.uint8))
            time.sleep(600)
    os.wait()
    os._exit(9)


def flood(size):
    block = b"all work and no play makes a long log\\n" * 27_000
    for _ in range(size // len(block)):
        os.write(1, block)
"""
FLOOD = """
import os
print("the first line", flush=True)
block = b"all work and no play makes a long log\\n" * 27_000
for _ in range(SIZE // len(block)):
    os.write(1, block)
print("the last line", flush=True)
"""
BOMB = """
import os, time
count = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(600)
    except OSError:
        break
    count += 1
print("forked", count, flush=True)
"""
HOG = """
import os, time
import numpy as np
for _ in range(8):
    if os.fork() == 0:
        kept = np.ones(100 << 20, dtype=np.uint8)
        time.sleep(600)
for _ in range(8):
    _, status = os.wait()
    if status:
        os._exit(9)
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[planes.TestPlane]:
    folder = tmp_path_factory.mktemp("plane") / "data"
    folder.mkdir(mode=0o700)
    (folder / "settings.toml").write_text(f"log_bytes = {LOG_BYTES}\nmodel_pids = {PIDS}\n")
    with planes.running_plane(folder) as running:
        (folder.parent / "greedy.py").write_text(GREEDY)
        (folder.parent / "calm.py").write_text("def predict(inputs):\n    return inputs\n")
        running.cli("deploy", "calm:predict", "--name", "calm", cwd=folder.parent)
        yield running


class Server:
    """One server of the model `greedy`."""

    def __init__(self, plane: planes.TestPlane, name: str) -> None:
        self.plane = plane
        self.name = name
        self._headers = {"authorization": f"Bearer {plane.token()}"}

    def _get(self, path: str) -> Any:
        return httpx2.get(self.plane.control_url + path, headers=self._headers, timeout=60).json()

    def status(self) -> dict[str, Any]:
        at = f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{self.name}"
        found: dict[str, Any] = self._get(at).get("status", {})
        return found

    def events(self) -> list[str]:
        items = self._get("/api/v1/namespaces/default/events")["items"]
        return [item["message"] for item in items if item["involvedObject"]["name"].startswith(self.name)]

    def log(self) -> Path:
        (key,) = [each["key"] for each in self.plane.status()["processes"] if each.get("server") == self.name]
        return self.plane.data_dir / "logs" / f"{key}.log"

    def process(self) -> psutil.Process:
        (pid,) = [each["pid"] for each in self.plane.status()["processes"] if each.get("server") == self.name]
        return psutil.Process(pid)

    def ask(self, what: int, size: int = 0) -> httpx2.Response:
        body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [2], "data": [what, size]}]}
        return httpx2.post(f"{self.plane.inference_url}/v2/models/{self.name}/infer", json=body, timeout=90)

    def is_ready(self) -> bool:
        return any(each["type"] == "Ready" and each["status"] == "True" for each in self.status().get("conditions", ()))


@contextmanager
def serving(plane: planes.TestPlane, **spec: Any) -> Iterator[Server]:
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60) as control:
        if control.get("/model/greedy").status_code == 404:
            plane.cli("deploy", "greedy:predict", "--name", "greedy", cwd=plane.data_dir.parent)
            plane.cli("undeploy", "greedy")
        made = control.post("/model/greedy/serve/1", json={"timeoutMs": 60_000, **spec})
        assert made.status_code == 201, made.text
        server = Server(plane, made.json()["id"])
        planes.wait_until(server.is_ready, "it is ready")
        yield server
        control.delete(f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{server.name}")
        planes.wait_until(lambda: not of_server(plane, server.name), "it is gone")


def of_server(plane: planes.TestPlane, name: str) -> list[dict[str, Any]]:
    return [each for each in plane.status()["processes"] if each.get("server") == name]


def answers(plane: planes.TestPlane) -> None:
    """The other model does."""
    body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [7]}]}
    answer = httpx2.post(f"{plane.inference_url}/v2/models/calm/infer", json=body, timeout=60)
    assert answer.status_code == 200, answer.text


needs_groups = pytest.mark.skipif(hierarchies.detect().missing != (), reason="this machine limits no groups")


@needs_groups
def test_a_model_that_forks_to_its_limit_harms_no_other(plane: planes.TestPlane) -> None:
    with serving(plane) as server:
        process = server.process()
        answer = server.ask(1)
        assert answer.status_code == 200, answer.text
        (forked,) = answer.json()["outputs"][0]["data"]
        assert 0 < forked < PIDS
        assert len(process.children(recursive=True)) <= PIDS
        answers(plane)
        children = process.children(recursive=True)
        plane.cli("undeploy", "greedy", check=False)
    planes.wait_until(lambda: not any(each.is_running() for each in children), "all of them are gone")


@needs_groups
def test_a_job_that_forks_to_its_limit_ends_with_all_of_it(plane: planes.TestPlane) -> None:
    job = Trainer(plane, "bomb").script(BOMB)
    assert job.ended()["state"] == "Succeeded"
    (line,) = [each for each in job.printed() if each.startswith("forked")]
    assert 0 < int(line.split()[1]) < PIDS
    answers(plane)


@needs_groups
def test_memory_of_all_processes_of_a_model_counts_and_the_reason_says_so(plane: planes.TestPlane) -> None:
    with serving(plane, resources={"memory": "400Mi"}) as server:
        assert server.ask(2, 400 * MIB).status_code >= 500
        planes.wait_until(
            lambda: any("more than its limit of 419,430,400 bytes" in each for each in server.events()), "it is told"
        )
        answers(plane)


@needs_groups
def test_memory_of_all_processes_of_a_job_counts_and_the_reason_says_so(plane: planes.TestPlane) -> None:
    job = Trainer(plane, "hog").script(HOG, resources={"memory": "400Mi"})
    reason, message = job.why()
    assert reason == "OutOfMemory", (reason, message)
    assert "spec.resources.memory" in message


@needs_groups
def test_a_model_with_a_cpu_limit_gets_no_more(plane: planes.TestPlane) -> None:
    """Half a CPU is 50 ms in each period of 100 ms: two seconds of work take forty, however busy the machine."""
    with serving(plane, resources={"cpu": "500m"}) as server:
        assert server.ask(4, 2).status_code == 200
        (periods,) = [
            int(line.split()[1])
            for folder in Path(hierarchies.detect().limits["cpu"]).glob("mizzen-*")
            for line in (folder / "cpu.stat").read_text().splitlines()
            if line.startswith("nr_periods") and str(server.process().pid) in (folder / "cgroup.procs").read_text()
        ]
        assert periods > 35


def test_a_flood_of_output_of_a_model_stays_within_its_bounds(plane: planes.TestPlane) -> None:
    with serving(plane) as server:
        log = server.log()
        with sampled(log.parent, log.name) as most:
            assert server.ask(3, 1 << 30).status_code == 200
            answers(plane)
        sizes = [path.stat().st_size for path in log.parent.glob(f"{log.name}*")]
        assert max(sizes) <= LOG_BYTES
        assert most[0] <= 2 * LOG_BYTES
        plane.cli("status")


def test_a_flood_of_output_of_a_job_stays_within_its_bounds(plane: planes.TestPlane) -> None:
    trainer = Trainer(plane, "flood")
    with sampled(plane.data_dir / "work", "*.log") as work, sampled(plane.data_dir / "blobs", "*") as blobs:
        job = trainer.script(FLOOD.replace("SIZE", str(1 << 30)))
        assert job.ended()["state"] == "Succeeded"
        answers(plane)
    lines = job.printed()
    assert (lines[0], lines[-1]) == ("the first line", "the last line")
    assert any("are left out here" in line for line in lines)
    assert work[0] <= LOG_BYTES
    assert blobs[0] <= LOG_BYTES + 2 * MIB, "the code of the job, and its log"


@contextmanager
def sampled(folder: Path, pattern: str) -> Iterator[list[int]]:
    """Yields the largest size so far of all files of this name together."""
    most, ended = [0], threading.Event()

    def sample() -> None:
        while not ended.wait(0.02):
            most[0] = max(most[0], sum(_size(path) for path in folder.rglob(pattern)))

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield most
    finally:
        ended.set()
        thread.join()


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size if path.is_file() else 0
    except OSError:
        return 0
