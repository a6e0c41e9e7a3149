"""A whole plane tells what happened: a model that works, a switch, a crash, and one that cannot be loaded."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx2

from tests.support import planes

ANSWER = "def one(inputs):\n    return [1]\n\n\ndef two(inputs):\n    return [2]\n"
BROKEN = "import surely_not_installed\n\n\ndef predict(inputs):\n    return 1\n"


def test_events_tell_the_story_of_deploys(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text(ANSWER)
    (tmp_path / "broken.py").write_text(BROKEN)
    plane.cli("deploy", "answer:one", "--name", "answer", cwd=tmp_path)
    plane.cli("deploy", "answer:two", "--name", "answer", "--no-promote", cwd=tmp_path)
    plane.cli("deploy", "broken:predict", "--name", "broken", cwd=tmp_path, check=False)
    server = f"{plane.control_url}/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/answer-1"
    with httpx2.Client(
        headers={"authorization": f"Bearer {plane.token()}"}, timeout=60, trust_env=False, verify=False
    ) as client:
        switch = {"spec": {"targetVersion": "2"}}
        answer = client.patch(server, json=switch, headers={"content-type": "application/merge-patch+json"})
        assert answer.status_code == 200, answer.text
        planes.wait_until(lambda: "Switched" in reasons(plane, "answer-1"), "the switch is told")
        os.kill(replica(client, plane, "answer-1.2"), signal.SIGKILL)
        planes.wait_until(lambda: "ReplicaEnded" in reasons(plane, "answer-1"), "the crash is told")

    told = {(one["reason"], one["message"]) for one in events(plane, "answer-1")}
    assert told >= {
        ("Created", "created Workload answer-1.1"), ("Serving", "version 1 is serving"),
        ("Created", "created Workload answer-1.2"), ("Switched", "switched from version 1 to version 2"),
        ("Deleted", "deleted Workload answer-1.1"),
    }  # fmt: skip
    assert {(one["reason"], one["message"]) for one in events(plane, "answer")} >= {
        ("Served", "admin serves version 1 as answer-1"), ("Promoted", "version 1 became current"),
    }  # fmt: skip
    [failed] = [one for one in events(plane, "broken-1") if one["type"] == "Warning"]
    assert failed["reason"] == "LoadFailed"
    assert "surely_not_installed" in failed["message"]
    assert {one["type"] for one in events(plane, "answer-2")} == {"Normal"}

    names = {one["metadata"]["name"] for one in events(plane, "answer-1")}
    os.kill(plane.pid("plane"), signal.SIGKILL)
    assert {one["metadata"]["name"] for one in events(plane, "answer-1")} >= names, "the next plane has them, too"


def test_events_tell_how_replicas_follow_what_is_asked(plane: planes.TestPlane, tmp_path: Path) -> None:
    """Down to none and back; a plane that is killed meanwhile finds who waits. `tests/faults` does it under load."""
    (tmp_path / "echo.py").write_text("def predict(inputs):\n    return inputs['input']\n")
    plane.cli("deploy", "echo:predict", "--name", "echo", cwd=tmp_path)
    plane.cli("scale", "echo", "0-2", "--quiet", "1")
    ready = f"{plane.inference_url}/v2/models/echo/ready"
    planes.wait_until(lambda: "scaled to zero" in httpx2.get(ready).text, "it is scaled to zero")
    os.kill(plane.pid("plane"), signal.SIGKILL)
    tensor = {"name": "input", "datatype": "FP64", "shape": [1], "data": [7]}
    answer = httpx2.post(ready.replace("ready", "infer"), json={"inputs": [tensor]}, timeout=70)
    assert (answer.status_code, answer.json()["outputs"][0]["data"]) == (200, [7.0])

    def told() -> list[str]:
        return [one["message"] for one in events(plane, "echo-1") if one["reason"] == "Scaled"]

    planes.wait_until(lambda: any(text.startswith("from 0 to 1 replicas: ") for text in told()), "the story is told")


def events(plane: planes.TestPlane, name: str) -> list[dict[str, Any]]:
    """As a stranger asks."""
    query = {"fieldSelector": f"involvedObject.name={name}"}
    answer = httpx2.get(f"{plane.control_url}/api/v1/namespaces/default/events", params=query, timeout=60, verify=False)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def reasons(plane: planes.TestPlane, name: str) -> set[str]:
    return {one["reason"] for one in events(plane, name)}


def replica(client: httpx2.Client, plane: planes.TestPlane, workload: str) -> int:
    path = f"{plane.control_url}/apis/mizzen.dev/v1alpha1/namespaces/default/workloads/{workload}"
    return int(client.get(path).json()["status"]["replicas"][0]["pid"])
