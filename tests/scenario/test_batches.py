"""Each caller gets exactly its own rows, whatever is malformed, cancelled or failing beside it: with real processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import planes
from tests.support.examples import examples

MODEL = '''
"""Answers each row doubled, so that every answer names its question; refuses any batch that holds a 666."""

import time


def predict(inputs):
    time.sleep(0.004)  # lets other requests queue up, so that batches form
    rows = inputs["x"]
    if (rows == 666).any():
        raise RuntimeError("poisoned")
    return rows * 2
'''

Kind = Literal["good", "short", "long", "ragged", "text", "poison", "garbage", "leaves", "wide"]


@dataclass(frozen=True, slots=True)
class Ask:
    kind: Kind
    seed: int
    rows: int


asks = st.lists(
    st.builds(
        Ask,
        kind=st.sampled_from(
            (
                "good",
                "good",
                "good",
                "good",
                "good",
                "short",
                "long",
                "short",
                "long",
                "ragged",
                "text",
                "poison",
                "garbage",
                "leaves",
                "wide",
            )
        ),
        seed=st.integers(0, 10**6),
        rows=st.integers(1, 5),
    ),
    min_size=8,
    max_size=60,
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("batches")
    with planes.running_plane(folder / "data", "--gateways", "2") as plane:
        (folder / "doubler.py").write_text(MODEL)
        plane.cli("deploy", "doubler:predict", "--name", "doubler", cwd=folder)
        headers = {"authorization": f"Bearer {plane.token()}"}
        made = httpx2.post(
            f"{plane.control_url}/model/doubler/serve/1",
            json={"batching": {"batchSize": 16}},
            headers=headers,
            verify=False,
        )
        assert made.status_code == 201, made.text
        server = made.json()["id"]
        url = f"{plane.inference_url}/v2/models/{server}"
        planes.wait_until(
            lambda: httpx2.get(f"{url}/ready", verify=False).status_code == 200, "the batching server is ready"
        )
        yield f"{url}/infer"


def test_requests_do_share_batches(url: str) -> None:
    """Else the test below would prove nothing."""
    batch = [Ask("good", number, 1) for number in range(60)]

    def shared() -> bool:
        """On a busy machine, requests may arrive so slowly that few of them meet."""
        asyncio.run(ask_all(url, batch))
        return shared_batches(url)

    planes.wait_until(shared, "a batch has more than four requests")


def shared_batches(url: str) -> bool:
    """Do the gateways report a batch of more than four?"""
    counts = {"4": 0.0, "+Inf": 0.0}
    for line in httpx2.get(url.split("/v2/", maxsplit=1)[0] + "/metrics", verify=False).text.splitlines():
        bound = re.fullmatch(r'mizzen_batch_size_bucket\{.*le="([^"]+)".*\} (\S+)', line)
        if bound and bound[1] in counts:
            counts[bound[1]] += float(bound[2])
    return counts["+Inf"] > counts["4"]


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(asks)
def test_each_caller_gets_its_own_rows(url: str, batch: list[Ask]) -> None:
    answers = asyncio.run(ask_all(url, batch))
    for ask, answer in zip(batch, answers, strict=True):
        if ask.kind == "leaves":
            continue
        assert answer is not None
        status, body = answer
        if ask.kind in ("good", "wide"):
            width = 3 if ask.kind == "good" else 4
            numbers = values(ask, width)
            assert status == 200, body
            assert body["id"] == f"r{ask.seed}"
            (output,) = body["outputs"]
            assert output["shape"] == [ask.rows, width]
            assert output["data"] == [2 * number for number in numbers]
        elif ask.kind == "poison":
            assert status == 500
            assert "poisoned" in body["error"]
        else:
            assert status == 400, body
            assert body["error"]


def values(ask: Ask, width: int) -> list[int]:
    return [ask.seed * 100 + 1000 + number for number in range(ask.rows * width)]


def body_of(ask: Ask) -> bytes:
    data: object = values(ask, 3)
    shape = [ask.rows, 3]
    if ask.kind == "wide":
        data, shape = values(ask, 4), [ask.rows, 4]
    elif ask.kind == "short":
        data = values(ask, 3)[:-1]
    elif ask.kind == "long":
        data = [*values(ask, 3), 7]
    elif ask.kind == "ragged":
        data = [values(ask, 3)[:2], *([values(ask, 3)[2:]])]
    elif ask.kind == "text":
        data = ["1,2,3", *values(ask, 3)[1:]]
    elif ask.kind == "poison":
        data = [666, *values(ask, 3)[1:]]
    request = {"id": f"r{ask.seed}", "inputs": [{"name": "x", "datatype": "INT64", "shape": shape, "data": data}]}
    text = json.dumps(request).encode()
    return text[: len(text) // 2] if ask.kind == "garbage" else text


async def ask_all(url: str, batch: list[Ask]) -> list[tuple[int, dict[str, Any]] | None]:
    """All at once over connections that are open already, so that many share a batch."""
    parts = urlsplit(url)
    connections = await asyncio.gather(*(asyncio.open_connection(parts.hostname, parts.port) for _ in batch))
    for ask, (_, writer) in zip(batch, connections, strict=True):
        body = body_of(ask)
        head = f"POST {parts.path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
    try:
        return await asyncio.gather(*(answer_to(ask, *pair) for ask, pair in zip(batch, connections, strict=True)))
    finally:
        for _, writer in connections:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def answer_to(
    ask: Ask, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> tuple[int, dict[str, Any]] | None:
    if ask.kind == "leaves":
        await writer.drain()
        writer.transport.abort()
        return None
    header = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(header.split("content-length: ")[1].split("\r\n")[0])
    answer = json.loads(await reader.readexactly(length))
    return int(header.split()[1]), answer
