"""What a replica may use: it is told how many threads, and ended when it takes more memory than it is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx2

from tests.support import planes

MODEL = """
import os
import numpy as np


def predict(inputs):
    size = int(inputs["x"][0])
    taken = np.ones(size, dtype=np.uint8)
    return {"taken": np.array([taken.size]), "threads": np.array([int(os.environ["MIZZEN_THREADS"])])}
"""
MIB = 1 << 20


def test_a_replica_that_takes_too_much_memory_is_ended_and_says_so(plane: planes.TestPlane, tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(MODEL)
    plane.cli("deploy", "greedy:predict", "--name", "greedy", "--no-wait", cwd=tmp_path)
    headers = {"authorization": f"Bearer {plane.token()}"}
    with httpx2.Client(base_url=plane.control_url, headers=headers, timeout=60, verify=False) as control:
        made = control.post("/model/greedy/serve/1", json={"resources": {"memory": "1Gi", "threads": 3, "cpu": "500m"}})
        server = made.json()["id"]
        path = f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{server}"

        def conditions() -> dict[str, Any]:
            found = control.get(path).json().get("status", {}).get("conditions", ())
            return {each["type"]: each for each in found}

        planes.wait_until(lambda: conditions().get("Ready", {}).get("status") == "True", "it answers")
        url = f"{plane.inference_url}/v2/models/{server}/infer"
        assert ask(url, 100 * MIB) == (200, {"taken": [100 * MIB], "threads": [3]})
        code, said = ask(url, 2048 * MIB)
        assert code == 500, said
        assert "ran out of memory with this request, which is not sent again" in said["error"]

        def reasons() -> list[tuple[str, str]]:
            items = control.get("/api/v1/namespaces/default/events").json()["items"]
            return [(item["reason"], item["message"]) for item in items]

        planes.wait_until(
            lambda: any("out of memory: spec.resources.memory allows 1024 Mi" in message for _, message in reasons()),
            "what happened is told",
        )
        assert ask(url, 100 * MIB)[0] == 200, "and it is there again"
        metrics = httpx2.get(f"{plane.inference_url}/metrics", timeout=60, verify=False).text
        retried = [line for line in metrics.splitlines() if line.startswith("mizzen_retried_total{") and server in line]
        assert [line.rpartition(" ")[2] for line in retried] in (["0"], ["0.0"]), "the request ended one process only"


def ask(url: str, size: int) -> tuple[int, Any]:
    body = {"inputs": [{"name": "x", "datatype": "INT64", "shape": [1], "data": [size]}]}
    answer = httpx2.post(url, json=body, timeout=60, verify=False)
    if answer.status_code != 200:
        return answer.status_code, answer.json()
    return 200, {output["name"]: output["data"] for output in answer.json()["outputs"]}
