"""A namespace of a real plane: it comes with a model, and goes with its processes, whatever happens to the plane."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import httpx2

from tests.support import planes

SPACES = "/api/v1/namespaces"


def test_it_comes_with_a_model_and_goes_with_its_processes(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "double.py").write_text("def predict(inputs):\n    return inputs['x'] * 2\n")
    plane.cli("deploy", "double:predict", "--name", "double", "--namespace", "lab", cwd=tmp_path)
    plane.cli("deploy", "double:predict", "--name", "double", cwd=tmp_path)
    with asking(plane) as admin:
        assert phases(admin) == {"default": "Active", "lab": "Active"}
        (workload,) = workloads(admin, "lab")
        assert plane.pids(f"{workload}.0")
        assert admin.delete(f"{SPACES}/lab").json()["status"] == {"phase": "Terminating"}
        os.kill(plane.pid("plane"), signal.SIGKILL)
        planes.wait_until(lambda: phases(admin) == {"default": "Active"}, "the namespace is gone")
        assert workloads(admin, "lab") == []
        assert planes.wait_until(lambda: not plane.pids(f"{workload}.0"), "its process has ended")
        assert len(workloads(admin, "default")) == 1
    answer = json.loads(plane.cli("predict", "double", "--data", '{"x": [1]}', "-o", "json").stdout)
    assert answer["outputs"][0]["data"] == [2]


def asking(plane: planes.TestPlane) -> httpx2.Client:
    headers = {"authorization": f"Bearer {plane.token()}"}
    transport = httpx2.HTTPTransport(retries=3)
    return httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, trust_env=False, transport=transport)


def phases(client: httpx2.Client) -> dict[str, str]:
    try:
        items: list[dict[str, Any]] = client.get(SPACES).raise_for_status().json()["items"]
    except httpx2.HTTPError:
        return {}  # of the plane that was killed
    return {item["metadata"]["name"]: item["status"]["phase"] for item in items}


def workloads(client: httpx2.Client, namespace: str) -> list[str]:
    items = client.get(f"/apis/mizzen.dev/v1alpha1/namespaces/{namespace}/workloads").raise_for_status().json()["items"]
    return [item["metadata"]["uid"] for item in items]
