"""Ids and traces that callers mark their requests with."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest
import uvicorn
from uvicorn.server import ServerState

from mizzen.gateway.http.asgi_app import App
from mizzen.gateway.http.exchange import GatewayConnections
from mizzen.gateway.http.fast_protocol import FastProtocol
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.trace_context import Trace
from mizzen.web.connection_limits import Timeouts
from tests.support.gateway.harness import Gateway, Runtime, body_of, publish, request, table_of
from tests.unit.gateway.request.test_body_budget import Wire, service

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


@pytest.mark.parametrize(
    ("headers", "trace"),
    [
        ([("traceparent", PARENT)], Trace(PARENT, "")),
        ([("traceparent", PARENT), ("tracestate", "a=1"), ("tracestate", "b=2")], Trace(PARENT, "a=1,b=2")),
        ([("traceparent", f"{PARENT[:-2]}00")], Trace(f"{PARENT[:-2]}00", "")),
        ([("traceparent", f"cc{PARENT[2:]}-what-the-future-has")], Trace(f"cc{PARENT[2:]}-what-the-future-has", "")),
        ([("traceparent", PARENT), ("tracestate", "x" * 3000)], Trace(PARENT, "")),
        ([("traceparent", f"{PARENT}-more")], None),
        ([("traceparent", f"ff{PARENT[2:]}")], None),
        ([("traceparent", PARENT.upper())], None),
        ([("traceparent", PARENT.replace(TRACE, "0" * 32))], None),
        ([("traceparent", PARENT.replace("b7ad6b7169203331", "0" * 16))], None),
        ([("traceparent", PARENT), ("traceparent", PARENT)], None),
        ([("traceparent", PARENT[:-1])], None),
        ([("tracestate", "a=1")], None),
    ],
)
def test_a_trace_that_is_not_as_specified_is_ignored(headers: list[tuple[str, str]], trace: Trace | None) -> None:
    assert request_ids.read((name.encode(), value.encode()) for name, value in headers).trace == trace


@pytest.mark.parametrize("path", ["/v2/models/m/infer", "/v2/models/m/infer?by=asgi"])
@pytest.mark.parametrize(
    ("headers", "body_id", "wanted"),
    [
        ({"X-Request-Id": "theirs"}, None, "theirs"),
        ({"X-Request-Id": "theirs", "Mizzen-Request-Id": "ours"}, None, "ours"),
        ({"Mizzen-Request-Id": "ours"}, "mine", "mine"),
        ({"Mizzen-Request-Id": 'with"quote'}, None, 'with"quote'),
    ],
)
def test_a_request_is_called_what_its_caller_calls_it(
    gateway: Gateway, path: str, headers: dict[str, str], body_id: str | None, wanted: str
) -> None:
    body = json.loads(body_of([1.0])) | ({"id": body_id} if body_id else {})
    answer = gateway.ask("POST", path, json.dumps(body).encode(), **headers)
    assert answer.json["id"] == answer.headers["mizzen-request-id"] == wanted


@pytest.mark.parametrize("given", ["x" * 129, "two words", ""])
def test_an_id_that_is_no_id_is_replaced(gateway: Gateway, given: str) -> None:
    answer = gateway.ask("POST", "/v2/models/m/infer", body_of([1.0]), **{"X-Request-Id": given})
    assert len(answer.headers["mizzen-request-id"]) == 32


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "/healthz", b"", 200),
        ("GET", "/nowhere", b"", 404),
        ("GET", "/v2/models/nobody", b"", 404),
        ("POST", "/v2/models/nobody/infer", body_of([1.0]), 404),
        ("PUT", "/v2/models/m/infer", b"", 405),
        ("POST", "/v2/models/m/infer", b"{", 400),
        ("POST", "/v2/models/m/infer?by=asgi", b"{", 400),
        ("POST", "/v1/models/m:predict", b"[]", 400),
        ("POST", "/v2/models/m/infer", b"x" * (2 << 20), 413),
    ],
)
def test_every_answer_has_an_id(gateway: Gateway, method: str, path: str, body: bytes, code: int) -> None:
    plain = gateway.ask(method, path, body)
    assert plain.status == code
    assert len(plain.headers["mizzen-request-id"]) == 32
    assert gateway.ask(method, path, body, **{"X-Request-Id": "mine"}).headers["mizzen-request-id"] == "mine"


def test_one_whose_origin_is_foreign_keeps_its_id(gateway: Gateway) -> None:
    answer = gateway.ask("POST", "/v2/models/m/infer", b"", Origin="http://evil.example", **{"X-Request-Id": "mine"})
    assert (answer.status, answer.headers["mizzen-request-id"]) == (403, "mine")


def test_ids_and_traces_reach_a_runtime_that_takes_them(
    start_runtime: Callable[..., Runtime], start_gateway: Callable[..., Gateway], folder: Path
) -> None:
    runtime = start_runtime(hello={"callers": True})
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway()
    gateway.wait_ready()
    for path in ("/v2/models/m/infer", "/v2/models/m/infer?by=asgi"):
        marked = {"X-Request-Id": "one", "traceparent": PARENT, "tracestate": "a=1"}
        assert gateway.ask("POST", path, body_of([1.0]), **marked).status == 200
        assert runtime.told[-1] == {"ids": b"one", "timed": True, "memory": True, "traces": [[0, PARENT, "a=1"]]}
    big = gateway.ask("POST", "/v2/models/m/infer", body_of([1.0] * 30_000), **{"X-Request-Id": "big"})
    assert big.status == 200
    large = {"ids": b"big", "timed": True, "memory": True}
    assert runtime.told[-1] == large, "a large frame, which is written in pieces, has them too"


def test_a_runtime_that_does_not_say_so_gets_requests_only(gateway: Gateway, runtime: Runtime) -> None:
    assert gateway.ask("POST", "/v2/models/m/infer", body_of([1.0]), traceparent=PARENT).status == 200
    assert len(runtime.batches[-1]) == 1
    assert runtime.told[-1] == {}


def test_marked_heads_push_out_none_that_is_remembered() -> None:
    asyncio.run(_remembered())


async def _remembered() -> None:
    here = service()
    config = uvicorn.Config(App(here, list), interface="asgi3", lifespan="off", ws="none", log_config=None)
    config.load()
    front = GatewayConnections(here, loopback=True, patience=Timeouts(), most=100)
    protocol = FastProtocol(config, ServerState(), {}, front=front)
    protocol.connection_made(Wire())
    protocol.data_received(request("POST", "/v2/models/m/infer", body_of([1.0])))
    assert len(here.heads) == 1
    for mark in (b"traceparent", b"tracestate", b"x-request-id", b"mizzen-request-id"):
        marked = request("POST", "/v2/models/m/infer", body_of([1.0])).replace(b"\r\n\r\n", b"\r\n%b: x\r\n\r\n" % mark)
        protocol.data_received(marked)
    assert len(here.heads) == 1
    protocol.connection_lost(None)
