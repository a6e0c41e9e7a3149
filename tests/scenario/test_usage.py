"""What is told of use: two gateways under load, processes that are killed, and a log that is followed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.support import planes
from tests.support.load import steady_load
from tests.support.models import save_weigher
from tests.support.planes import TestPlane, wait_until

RATE = 100
TALKS = """
count = 0

def predict(inputs):
    global count
    count += 1
    print(f"call {count}", flush=True)
    return {"output": inputs["input"]}
"""


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestPlane]:
    folder = tmp_path_factory.mktemp("plane")
    with planes.running_plane(folder / "data", "--gateways", "2") as running:
        running.cli("deploy", str(save_weigher(folder / "weigher.joblib")), "--name", "weigher")
        yield running


def usage(plane: TestPlane) -> dict[str, Any]:
    told: dict[str, Any] = httpx2.get(f"{plane.control_url}/usage", trust_env=False, verify=False).json()
    return told


def weigher(plane: TestPlane) -> dict[str, Any]:
    """A plane that has just come back knows of no model for a moment."""
    found = [model for model in usage(plane)["models"] if model["name"] == "weigher"]
    return dict(found[0]) if found else {"requestsPerSecond": -1}


def about(rate: float) -> bool:
    """That of both gateways together, and not twice. A busy machine holds some calls up and makes up for them later."""
    return 0.7 * RATE < rate < 1.5 * RATE


def test_the_load_of_both_gateways_is_told_and_survives_their_ends(plane: TestPlane) -> None:
    names = {process["name"] for process in usage(plane)["processes"]}
    assert names == {"plane", "supervisor", "gateway-0", "gateway-1"}
    with steady_load(f"{plane.inference_url}/v2/models/weigher/infer", RATE) as load:
        wait_until(lambda: about(weigher(plane)["requestsPerSecond"]), "the rate is that of the load")
        found = weigher(plane)
        assert 0 < found["p50"] <= found["p95"] <= found["p99"]
        assert (found["replicasReady"], found["replicasWanted"], found["servers"]) == (1, 1, ["weigher-1"])
        assert found["memoryBytes"] > 10_000_000
        assert found["callsPerBatch"] >= 1
        table = plane.cli("top").stdout.splitlines()
        assert table[1].split()[:2] == ["weigher", "1"]
        os.kill(plane.pid("gateway-0"), signal.SIGKILL)
        wait_until(lambda: len(plane.pids("gateway-0")) == 1, "it is back")
        wait_until(lambda: _restarts(plane, "gateway-0") == 1, "its restart is told")
        os.kill(plane.pid("plane"), signal.SIGKILL)
        wait_until(lambda: _answers(plane), "the plane is back")
        wait_until(lambda: about(weigher(plane)["requestsPerSecond"]), "it counts on")
    wait_until(lambda: weigher(plane)["requestsPerSecond"] == 0, "the load has ended")
    assert load.report.wrong == []
    history = httpx2.get(f"{plane.control_url}/usage/history?name=weigher", trust_env=False, verify=False).json()
    rates = [point[1] for series in history["series"] for point in series["points"]]
    assert min(rates) == 0
    assert any(map(about, rates))


def test_a_scrape_of_both_ports_is_one_of_the_whole_plane(plane: TestPlane) -> None:
    control = httpx2.get(f"{plane.control_url}/metrics", trust_env=False, verify=False).text
    assert (
        'mizzen_replica_resident_memory_bytes{server="default/weigher-1",namespace="default",model="weigher"' in control
    )
    assert 'process_cpu_seconds_total{process="gateway-1"}' in control
    assert 'mizzen_resources{kind="InferenceModel"}' in control
    wait_until(
        lambda: all(
            f'process_start_time_seconds{{gateway="gateway-{number}"}}'
            in httpx2.get(f"{plane.inference_url}/metrics", trust_env=False, verify=False).text
            for number in (0, 1)
        ),
        "each gateway tells of both",
    )


def test_a_log_is_followed_through_the_end_of_the_plane(plane: TestPlane, tmp_path: Path) -> None:
    (tmp_path / "talks.py").write_text(TALKS)
    plane.cli("deploy", "talks:predict", "--name", "talks", cwd=tmp_path)

    def call() -> None:
        plane.cli("predict", "talks", "-d", json.dumps({"input": [[1.0]]}))

    call()
    environ = {**os.environ, "MIZZEN_DATA_DIR": str(plane.data_dir), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", "-m", "mizzen.cli.main", "logs", "talks", "-f"]
    following = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ, cwd=tmp_path
    )
    lines: list[str] = []
    assert following.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(following.stdout or ()))
    reader.start()
    try:
        wait_until(lambda: "call 1\n" in lines, "the first call is told")
        os.kill(plane.pid("plane"), signal.SIGKILL)
        call()  # while nobody tells what is printed
        wait_until(lambda: "call 2\n" in lines, "what was printed meanwhile is told")
        call()
        wait_until(lambda: "call 3\n" in lines, "it goes on")
        plane.cli("undeploy", "talks")
        assert following.wait(60) == 0  # nothing is left to follow
    finally:
        if following.poll() is None:
            following.kill()
        following.wait()
        reader.join()
        assert following.stderr is not None
        told = following.stderr.read()
        following.stdout.close()
        following.stderr.close()
    assert [line for line in lines if line.startswith("call")] == ["call 1\n", "call 2\n", "call 3\n"]
    assert told == "model 'talks' is served by talks-1, whose output follows:\n"


def _restarts(plane: TestPlane, name: str) -> int:
    return next((int(each["restarts"]) for each in usage(plane)["processes"] if each["name"] == name), 0)


def _answers(plane: TestPlane) -> bool:
    try:
        return bool(httpx2.get(f"{plane.control_url}/readyz", trust_env=False, timeout=2, verify=False).is_success)
    except httpx2.HTTPError:
        return False
