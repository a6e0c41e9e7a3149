"""A 503 says when to ask again, whichever way the request came."""

from __future__ import annotations

import asyncio

import pytest

from mizzen.access.policy import Target
from mizzen.gateway.http.asgi_app import AsgiInference
from mizzen.gateway.http.exchange import Exchange
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.queueing.call import FAILED, UNAVAILABLE
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.request.responses import Answer
from mizzen.gateway.telemetry.counters import Counters


class Connection:
    def advance(self) -> None:
        pass


def begun(inference: Inference) -> None:
    target = Target("default", "Model", "m", models=frozenset({"m"}))
    inference.endpoint = Endpoint(
        "default", "m", "1", None, target, (), lambda call: None, 10.0, b"", Counters(), bytes, V2
    )
    inference.pending = True
    inference.id = b"an-id"
    inference.notes = None
    inference.began = 0.0
    inference.head = RequestHead()


@pytest.mark.parametrize(
    ("code", "retry", "told"), [(UNAVAILABLE, 7, [b"7"]), (UNAVAILABLE, 1, [b"1"]), (FAILED, 1, [])]
)
def test_of_requests_on_either_path(code: int, retry: int, told: list[bytes]) -> None:
    fast = Exchange(Connection(), closes=False)
    begun(fast)
    fast.finish(code, b"full", 1.0, retry)
    head = fast.render(b"", last=False).split(b"\r\n\r\n")[0].split(b"\r\n")
    assert [line.partition(b": ")[2] for line in head if line.startswith(b"retry-after: ")] == told

    async def slow() -> Answer:
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        inference = AsgiInference(answer)
        begun(inference)
        inference.finish(code, b"full", 1.0, retry)
        return await answer

    headers = asyncio.run(slow()).headers
    assert [value for name, value in headers if name == b"retry-after"] == told
