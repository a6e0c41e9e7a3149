"""Whatever others send, drop or break at the same moment: each caller gets exactly the answer to its own rows."""

from __future__ import annotations

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.gateway.harness import Gateway, Runtime, publish, request, table_of

CALLERS, ROUNDS = 24, 12
PATHS = ("/v2/models/m/infer", "/v2/models/m/versions/1/infer", "/v2/models/m/infer?by=asgi")

Expected = tuple[int, list[float]]
"""The status, and the sums when it is 200."""


def make(rng: random.Random) -> tuple[bytes, Expected]:
    """One request and what must come back."""
    rows, columns = rng.choice([(1, 4), (1, 4), (rng.randint(1, 60), rng.randint(1, 60))])
    values = [rng.randint(-1000, 1000) for _ in range(rows * columns)]
    tensor = {"name": "x", "shape": [rows, columns], "datatype": "FP64", "data": values}
    body = json.dumps({"inputs": [tensor]}).encode()
    sums = [float(sum(values[row * columns : (row + 1) * columns])) for row in range(rows)]
    path = rng.choice(PATHS)
    match rng.randint(0, 11):
        case 0:
            return request("POST", path, body[:-5]), (400, [])
        case 1:  # one value more than the shape says: must not shift the neighbours' rows
            return request("POST", path, body.replace(b'"data": [', b'"data": [7, ')), (400, [])
        case 2:
            return request("POST", "/v2/models/nobody/infer", body), (404, [])
        case 3:
            cut = rng.randint(1, len(body) - 1)
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:cut], body[cut:]))
            head = request("POST", path, Content_Length="", Transfer_Encoding="chunked")
            return head + chunks + b"0\r\n\r\n", (200, sums)
    return request("POST", path, body), (200, sums)


async def read(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    length = next(int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length"))
    return int(head.split()[1]), await reader.readexactly(length)


async def call(port: int, seed: int) -> int:
    """One caller's life; the number of answers it has checked."""
    rng = random.Random(seed)
    checked = 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for _ in range(ROUNDS):
        asked = [make(rng) for _ in range(rng.choice([1, 1, 1, 3, 8]))]
        data = b"".join(bytes_ for bytes_, _ in asked)
        cut = rng.randint(0, len(data))
        writer.write(data[:cut])
        await asyncio.sleep(0)
        if rng.random() < 0.15:  # changes its mind, in the middle of whatever it is
            writer.transport.abort()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        writer.write(data[cut:])
        for _, (status, sums) in asked:
            got, body = await read(reader)
            assert got == status, body
            if status == 200:
                [output] = json.loads(body)["outputs"]
                assert output["data"] == sums
            checked += 1
    writer.close()
    await writer.wait_closed()
    return checked


async def call_all(port: int, seed: int) -> int:
    return sum(await asyncio.gather(*(call(port, seed * 1000 + number) for number in range(CALLERS))))


@pytest.mark.parametrize("seed", range(3))
def test_with_replicas_that_come_and_go(
    seed: int, start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    steady, shaky = start_runtime("a"), start_runtime("b")
    publish(folder / "table.json", table_of(steady.address, shaky.address, batch_size=16))
    gateway = start_gateway()
    gateway.wait_ready()

    async def shake(done: asyncio.Event) -> None:
        while not done.is_set():
            await asyncio.to_thread(shaky.drain)
            await asyncio.to_thread(shaky.up)
            await asyncio.sleep(0.02)

    async def run() -> int:
        done = asyncio.Event()
        shaking = asyncio.create_task(shake(done))
        try:
            return await call_all(gateway.port, seed)
        finally:
            done.set()
            await shaking

    assert asyncio.run(run()) > CALLERS * ROUNDS / 2
    assert max(len(batch) for batch in steady.batches) > 1, "nothing was ever batched"


@pytest.fixture
def real_runtime(folder: Path) -> Iterator[str]:
    """The runtime that we ship, with a function that sums rows."""
    (folder / "rows.py").write_text(
        "def predict(inputs):\n    [rows] = inputs.values()\n    return {'sum': rows.sum(axis=1)}\n"
    )
    path = str(folder / "real.sock")
    process = subprocess.Popen(
        [sys.executable, "-m", "mizzen.runtime", "--framework", "python", "--trusted", "--entrypoint", "rows:predict"],
        env=os.environ | {"MIZZEN_SOCKET": path, "MIZZEN_ARTIFACTS": str(folder)},
    )
    try:
        yield path
    finally:
        process.kill()
        process.wait()


def test_with_the_real_runtime(real_runtime: str, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(f"unix:{real_runtime}"))
    gateway = start_gateway()
    gateway.wait_ready()
    assert asyncio.run(call_all(gateway.port, 7)) > CALLERS * ROUNDS / 2
