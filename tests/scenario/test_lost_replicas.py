"""Replicas are killed, one after the other, while callers ask: each gets exactly one answer, and to its own rows."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tests.support import planes

CALLERS, KILLS = 24, 4
SERVER = "doubler-1"

MODEL = """
import time


def predict(inputs):
    time.sleep(0.004)  # lets other requests queue up, so that batches form
    return inputs["x"] * 2
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[planes.TestPlane]:
    with planes.running_plane(tmp_path / "data", "--gateways", "2") as running:
        (tmp_path / "doubler.py").write_text(MODEL)
        running.cli("deploy", "doubler:predict", "--name", "doubler", cwd=tmp_path)
        running.cli("undeploy", "doubler")
        batching = {"batchSize": "auto", "timeoutSeconds": 0.002}
        spec = {"replicas": 2, "timeoutMs": 20_000, "batching": batching}
        headers = {"authorization": f"Bearer {running.token()}"}
        made = httpx2.post(f"{running.control_url}/model/doubler/serve/1", json=spec, headers=headers)
        assert made.status_code == 201, made.text
        assert made.json()["id"] == SERVER
        yield running


def test_each_caller_gets_its_own_rows_whoever_is_killed(plane: planes.TestPlane) -> None:
    url = f"{plane.inference_url}/v2/models/{SERVER}/infer"
    planes.wait_until(lambda: both(plane), "both replicas are ready in both gateways")
    answered = asyncio.run(ask_and_kill(plane, url))
    assert answered > 100 * KILLS


async def ask_and_kill(plane: planes.TestPlane, url: str) -> int:
    done = asyncio.Event()
    counts = [0] * CALLERS
    callers = [asyncio.create_task(call(url, number, counts, done)) for number in range(CALLERS)]

    async def enough() -> None:
        least = sum(counts) + 100
        while sum(counts) < least:
            for caller in callers:
                if caller.done():
                    caller.result()
            await asyncio.sleep(0.01)

    try:
        for _ in range(KILLS):
            await enough()
            os.kill(plane.pids("runtime")[0], signal.SIGKILL)
            await asyncio.to_thread(planes.wait_until, lambda: both(plane), "both replicas are back")
        await enough()
    finally:
        done.set()
        await asyncio.gather(*callers)
    return sum(counts)


async def call(url: str, number: int, counts: list[int], done: asyncio.Event) -> None:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    while not done.is_set():
        row = [number, counts[number], 1]
        tensor = {"name": "x", "datatype": "INT64", "shape": [1, 3], "data": row}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        answer = json.loads(await reader.readexactly(int(header.split("content-length: ")[1].split("\r\n")[0])))
        assert header.split()[1] == "200", answer
        assert answer["outputs"][0]["data"] == [2 * value for value in row]
        counts[number] += 1
    writer.close()
    await writer.wait_closed()


def both(plane: planes.TestPlane) -> bool:
    headers = {"authorization": f"Bearer {plane.token()}"}
    at = f"/apis/mizzen.dev/v1alpha1/namespaces/default/inferencemodels/{SERVER}"
    status = httpx2.get(plane.control_url + at, headers=headers).json().get("status", {})
    return bool(status.get("readyReplicas") == 2) and len(plane.pids("runtime")) == 2
