"""What goes out with a call beside its tensors."""

from __future__ import annotations

import random

import pytest

from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.gateway.request.trace_context import Trace
from mizzen.gateway.services.address import ServiceHost, host_of
from mizzen.gateway.services.requests import build_start
from mizzen.gateway.telemetry.trace_recording import TracedRequest, Tracer
from tests.component.gateway.services.world import Reply, World, asked, played

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@played
async def test_headers_of_the_caller_go_on_but_not_what_proves_who_they_are(world: World) -> None:
    server = await world.server()
    call = asked()
    call.headers = (
        (b"x-tenant", b"blue"),
        (b"X-Shade", b"caf\xe9"),
        (b"authorization", b"Bearer secret"),
        (b"Cookie", b"secret"),
        (b"Proxy-Authorization", b"secret"),
        (b"host", b"elsewhere"),
        (b"content-length", b"0"),
        (b"transfer-encoding", b"chunked"),
        (b"MLGraph-Route", b"b"),
        (b"x-split", b"a\r\nx-smuggled: b"),
        (b"x bad", b"b"),
        (b"x-bad\r\n", b"b"),
    )
    assert (await world.ask(world.pool(server.address()), call)).code == 200
    headers = server.requests[0].headers
    assert set(headers) == {
        "host", "user-agent", "accept", "accept-encoding", "content-type", "content-length", "mizzen-request-id",
        "mizzen-timeout-ms", "x-tenant", "x-shade",
    }  # fmt: skip
    assert headers["x-tenant"] == "blue"
    assert headers["x-shade"] == "caf\xe9"
    assert b"secret" not in server.requests[0].body


@played
async def test_what_an_address_says_of_users_is_not_sent(world: World) -> None:
    server = await world.server()
    pool = world.pool(f"http://me:secret@127.0.0.1:{server.port}")
    assert (await world.ask(pool)).code == 200
    assert "authorization" not in server.requests[0].headers
    assert server.requests[0].headers["host"] == f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(("left", "said"), [(1.5, "1500"), (0.0004, "1"), (float("inf"), None)])
@played
async def test_the_rest_of_the_time_is_passed_down(world: World, left: float, said: str | None) -> None:
    server = await world.server()
    call = asked()
    call.deadline = world.now + left
    assert (await world.ask(world.pool(server.address()), call)).code == 200
    assert server.requests[0].headers.get("mizzen-timeout-ms") == said


@played
async def test_a_trace_goes_on_where_it_is(world: World) -> None:
    server = await world.server()
    pool = world.pool(server.address())
    call = asked()
    call.head = EMPTY_HEAD._replace(trace=Trace(PARENT, "a=b"))
    await world.ask(pool, call)
    assert server.requests[0].headers["traceparent"] == PARENT
    assert server.requests[0].headers["tracestate"] == "a=b"


@pytest.mark.parametrize("lost", [False, True])
@played
async def test_a_traced_call_is_a_span_of_its_own(world: World, lost: bool) -> None:
    server = await world.server(*([Reply(closes=True)] if lost else []))
    ended: list[TracedRequest] = []
    tracer = Tracer(ended.append, 1.0, rng=random.Random(3), clock=lambda: world.now, wall=lambda: 0.0)
    call = asked()
    call.head = tracer.start(EMPTY_HEAD)
    await world.ask(world.pool(server.address()), call)
    trace = call.head.trace
    assert trace is not None
    assert trace.recording is not None
    (run,) = trace.recording.attempts
    assert server.requests[0].headers["traceparent"] == f"00-{trace.id}-{run.id.hex()}-01"
    assert run.server == "default/g/scorer"
    assert run.ended == world.now
    assert run.fault == ("the process was lost" if lost else None)


@pytest.mark.parametrize(
    ("address", "host", "header"),
    [
        ("http://scorer:8080", ServiceHost("scorer", 8080, False), "scorer:8080"),
        ("http://scorer", ServiceHost("scorer", 80, False), "scorer"),
        ("https://scorer", ServiceHost("scorer", 443, True), "scorer"),
        ("https://scorer:80", ServiceHost("scorer", 80, True), "scorer:80"),
        ("http://[::1]:9000", ServiceHost("::1", 9000, False), "[::1]:9000"),
        ("http://[fe80::1%25eth0]", ServiceHost("fe80::1%25eth0", 80, False), "[fe80::1]"),
    ],
)
def test_addresses(address: str, host: ServiceHost, header: str) -> None:
    assert host_of(address) == host
    assert host.header == header


@pytest.mark.parametrize(
    "address", ["", "scorer:80", "ftp://scorer", "http://", "http://a b", "http://a:x", "http://a:99999", "http://é"]
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        host_of(address)


def test_a_path_is_one_word() -> None:
    start = build_start(ServiceHost("h", 80, False), "v2/models/a b\r\nX: é%20/infer?x=1")
    assert start.split(b"\r\n")[0] == b"POST /v2/models/a%20b%0D%0AX:%20%C3%A9%20/infer?x=1 HTTP/1.1"
