"""Callers of every protocol, with few rows and many, who leave, have little time or ask wrongly, while replicas are
killed: whoever gets an answer gets exactly the rows that they asked about.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from tests.support import planes

CALLERS, KILLS, BETWEEN = 24, 4, 200
SERVER = "doubler-1"
WIDTH = 3
MODEL = """
import time


class Doubler:
    inputs = ({"name": "x", "datatype": "INT64", "shape": [-1, 3]},)
    outputs = ({"name": "twice", "datatype": "INT64", "shape": [-1, 3]},)

    def predict(self, inputs):
        time.sleep(0.004)  # lets other requests queue up, so that batches form
        return {"twice": inputs["x"] * 2}
"""
STYLES = ("flat", "nested", "raw", "raw both ways", "json to raw", "rows", "columns")
Rows = list[list[int]]


@dataclass(frozen=True, slots=True)
class Asked:
    style: str
    rows: Rows
    manner: str
    """How: plain, hasty (little time), wrong, or leaving before the answer."""
    id: str

    def wire(self) -> bytes:
        rows = [*self.rows[:-1], self.rows[-1][:-1]] if self.manner == "wrong" else self.rows
        body, headers = self._body(rows)
        path = f"/v1/models/{SERVER}:predict" if self.style in ("rows", "columns") else f"/v2/models/{SERVER}/infer"
        if self.manner == "hasty":
            headers["mizzen-timeout-ms"] = str(1 + len(self.id) % 8)
        lines = [f"POST {path} HTTP/1.1", "host: 127.0.0.1", f"content-length: {len(body)}"]
        return "\r\n".join([*lines, *(f"{name}: {value}" for name, value in headers.items()), "", ""]).encode() + body

    def _body(self, rows: Rows) -> tuple[bytes, dict[str, str]]:
        if self.style in ("rows", "columns"):
            return json.dumps({"instances" if self.style == "rows" else "inputs": rows}).encode(), {}
        flat = [number for row in rows for number in row]
        tensor: dict[str, Any] = {"name": "x", "datatype": "INT64", "shape": [len(rows), WIDTH]}
        said: dict[str, Any] = {"id": self.id, "inputs": [tensor]}
        if self.style in ("raw both ways", "json to raw"):
            said["parameters"] = {"binary_data_output": True}
        if not self.style.startswith("raw"):
            tensor["data"] = rows if self.style == "nested" else flat
            return json.dumps(said).encode(), {}
        data = np.array(flat, "<i8").tobytes()
        tensor["parameters"] = {"binary_data_size": len(data)}
        head = json.dumps(said).encode()
        return head + data, {"inference-header-content-length": str(len(head))}

    def check(self, code: int, headers: dict[str, str], body: bytes) -> None:
        if self.manner == "wrong":
            assert code == 400, (self, body)
        elif self.manner == "hasty" and code in (503, 504):
            assert json.loads(body)["error"]
        else:
            assert code == 200, (self, code, body[:300])
            assert self._answered(headers, body) == [[2 * number for number in row] for row in self.rows]

    def _answered(self, headers: dict[str, str], body: bytes) -> Any:
        if self.style in ("rows", "columns"):
            return json.loads(body)["predictions" if self.style == "rows" else "outputs"]
        length = int(headers.get("inference-header-content-length", len(body)))
        said = json.loads(body[:length])
        [output] = said["outputs"]
        assert (said["id"], headers["mizzen-request-id"]) == (self.id, self.id)
        assert output["shape"] == [len(self.rows), WIDTH]
        data = np.frombuffer(body[length:], "<i8") if length < len(body) else np.array(output["data"])
        return data.reshape(-1, WIDTH).tolist()


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data", "--gateways", "2") as running:
        (tmp_path / "doubler.py").write_text(MODEL)
        running.cli("deploy", "doubler:Doubler", "--name", "doubler", cwd=tmp_path)
        running.cli("undeploy", "doubler")
        spec = {"replicas": 2, "timeoutMs": 30_000, "batching": {"batchSize": "auto", "timeoutSeconds": 0.002}}
        headers = {"authorization": f"Bearer {running.token()}"}
        made = httpx2.post(f"{running.control_url}/model/doubler/serve/1", json=spec, headers=headers, verify=False)
        assert made.status_code == 201, made.text
        yield running


def test_each_answer_is_about_the_callers_own_rows(plane: planes.TestPlane) -> None:
    planes.wait_until(lambda: both(plane), "both replicas are ready")
    seen = asyncio.run(ask_and_kill(plane))
    assert {"plain 200", "wrong 400", "leaving 0"} <= seen.keys()
    assert any(each.startswith("hasty") for each in seen), "whether in time or not says how busy the machine is"
    assert all(seen[style] for style in STYLES), seen


async def ask_and_kill(plane: planes.TestPlane) -> Counter[str]:
    port = int(plane.inference_url.rpartition(":")[2])
    done = asyncio.Event()
    seen: Counter[str] = Counter()
    callers = [asyncio.create_task(call(port, random.Random(number), seen, done)) for number in range(CALLERS)]

    async def more() -> None:
        least = seen["plain 200"] + BETWEEN
        while seen["plain 200"] < least:
            for caller in callers:
                if caller.done():
                    caller.result()
            await asyncio.sleep(0.01)

    try:
        for _ in range(KILLS):
            await more()
            os.kill(plane.pids("runtime")[0], signal.SIGKILL)
            await asyncio.to_thread(planes.wait_until, lambda: both(plane), "both replicas are back")
        await more()
    finally:
        done.set()
        await asyncio.gather(*callers)
    return seen


async def call(port: int, rng: random.Random, seen: Counter[str], done: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not done.is_set():
        asked = some(rng)
        writer.write(asked.wire())
        if asked.manner == "leaving":
            await asyncio.sleep(rng.choice([0, 0.001, 0.01]))
            writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            seen["leaving 0"] += 1
            continue
        code, headers, body = await answer(reader)
        asked.check(code, headers, body)
        seen[f"{asked.manner} {code}"] += 1
        seen[asked.style] += 1
    writer.close()
    await writer.wait_closed()


def some(rng: random.Random) -> Asked:
    count = rng.choice([1, 1, 1, 2, 3, 5, 40, 4000])  # the last has more than 64 kB
    first = rng.randrange(10**9)
    rows = [[first + row, row, rng.randrange(1000)] for row in range(count)]
    manner = rng.choice(["plain"] * 6 + ["hasty", "wrong", "leaving"])
    return Asked(rng.choice(STYLES), rows, manner, f"id-{first}")


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


def both(plane: planes.TestPlane) -> bool:
    headers = {"authorization": f"Bearer {plane.token()}"}
    at = f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{SERVER}"
    status = httpx2.get(plane.control_url + at, headers=headers, verify=False).json().get("status", {})
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions", ()))
    return ready and bool(status.get("readyReplicas") == 2) and len(plane.pids("runtime")) == 2
