"""How long heads and bodies may be, how long they may take, and how much may be unanswered."""

from __future__ import annotations

import logging
import select
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mizzen.web.connection_limits import Timeouts
from mizzen.web.http_connection import MAX_NON_BODY_BYTES
from tests.support.gateway.harness import (
    LIMITS,
    Client,
    Gateway,
    Runtime,
    body_of,
    infer_request,
    publish,
    request,
    table_of,
    until,
)

INFER = "/v2/models/m/infer"

Limited = Callable[..., Gateway]


@pytest.fixture
def limited(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> Limited:
    """A gateway with other limits."""

    def start(**limits: Any) -> Gateway:
        publish(folder / "table.json", table_of(runtime.address))
        gateway = start_gateway(replace(LIMITS, **limits))
        gateway.wait_ready()
        return gateway

    return start


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1", "/v2"])
def test_a_body_too_large_is_refused_before_it_is_sent(gateway: Gateway, path: str) -> None:
    with gateway.client() as client:
        client.send(request("POST", path, Content_Length=str(LIMITS.max_body_bytes + 1), Expect="100-continue"))
        answer = client.answer()
        assert answer.status == 413
        assert "1048576" in answer.error
        assert answer.headers["connection"] == "close"
        assert answer.headers["mizzen-request-id"]


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
def test_a_body_too_large_in_chunks_is_refused_on_the_way(gateway: Gateway, path: str) -> None:
    with gateway.client() as client:
        client.send(request("POST", path, Content_Length="", Transfer_Encoding="chunked"))
        chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(17):
            client.send(chunk)
        assert client.answer().status == 413


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
@pytest.mark.parametrize(
    "start", [b"1;", b"1\r\n \r\n0\r\nX-Long: ", b"1\r\n \r\n0\r\n"], ids=["said", "trailer", "trailers"]
)
def test_what_stands_between_chunks_has_an_end(gateway: Gateway, path: str, start: bytes) -> None:
    more = b"a: b\r\n" * 500 if start.endswith(b"0\r\n") else b"a" * 3000
    with gateway.client() as client:
        client.send(request("POST", path, Content_Length="", Transfer_Encoding="chunked") + start)
        sent = 0
        while not select.select([client.socket], [], [], 0.01)[0]:
            assert sent < 64 * MAX_NON_BODY_BYTES
            client.send(more)
            sent += len(more)
        answer = client.answer()
        assert answer.status == 400
        assert "16384" in answer.error
        assert sent > MAX_NON_BODY_BYTES // 2


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
def test_a_few_small_chunks_may_be_more_about_chunks_than_body(gateway: Gateway, path: str) -> None:
    with gateway.client() as client:
        client.send(request("POST", path, Content_Length="", Transfer_Encoding="chunked") + tiny_chunks(300))
        assert client.answer().sums == [300.0]


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
def test_many_small_chunks_are_refused(gateway: Gateway, path: str) -> None:
    with gateway.client() as client:
        client.send(request("POST", path, Content_Length="", Transfer_Encoding="chunked") + tiny_chunks(20_000))
        answer = client.answer()
        assert answer.status == 400
        assert "too small" in answer.error
        assert client.closed()


def tiny_chunks(numbers: int) -> bytes:
    body = body_of([1.0] * numbers)
    return b"".join(b"1;%b\r\n%c\r\n" % (b"a" * 20, byte) for byte in body) + b"0\r\n\r\n"


def test_the_refusal_reaches_a_client_that_goes_on_sending(gateway: Gateway) -> None:
    size = 4 * LIMITS.max_body_bytes
    with gateway.client() as client:
        client.send(request("POST", INFER, Content_Length=str(size)))
        client.send(b" " * size)
        assert client.answer().status == 413


def test_a_head_too_long_is_refused(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.send(b"POST " + INFER.encode() + b" HTTP/1.1\r\nHost: localhost\r\nX-Long: ")
        for _ in range(40):
            client.send(b"a" * 8192)
        answer = client.answer()
        assert answer.status == 431
        assert "65536" in answer.error


def test_requests_before_a_head_do_not_count_as_its_length(gateway: Gateway) -> None:
    """However the bytes are cut, which is not in our hands: so several times."""
    one = infer_request([1.0] * 2000)
    with gateway.client() as client:
        for _ in range(10):
            client.send(one * 20 + one[:30])
            client.send(one[30:])
            assert [client.answer().status for _ in range(21)] == [200] * 21


def test_an_idle_connection_is_closed(runtime: Runtime, limited: Limited) -> None:
    gateway = limited(patience=Timeouts(idle=0.1))
    runtime.held = True
    with gateway.client() as other, gateway.client() as busy, gateway.client() as silent:
        busy.send(infer_request([1.0]))
        until(lambda: runtime.items == 1)
        other.send(request("GET", "/v2/health/live"))
        assert other.answer().status == 200
        assert other.closed()
        assert silent.closed()
        runtime.release()
        assert busy.answer().sums == [1.0]
        assert busy.closed()


@pytest.mark.parametrize("query", ["", "?by=asgi"])
@pytest.mark.parametrize("sent", [20, -5], ids=["head", "body"])
def test_a_request_that_does_not_come_to_its_end_is_refused(limited: Limited, sent: int, query: str) -> None:
    gateway = limited(patience=Timeouts(stalled=0.1))
    with gateway.client() as client:
        client.send(infer_request([1.0]) + request("POST", INFER + query, body_of([2.0]))[:sent])
        assert client.answer().sums == [1.0]
        answer = client.answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert "too long" in answer.error
        assert client.closed()


@pytest.mark.parametrize("query", ["", "?by=asgi"])
@pytest.mark.parametrize("patience", [Timeouts(stalled=1.0), Timeouts(request=1.0)], ids=["head", "body"])
def test_a_request_that_comes_in_drops_is_refused_in_the_end(limited: Limited, patience: Timeouts, query: str) -> None:
    """A head has little time, however steadily it grows; a body has as much as it needs, up to a point."""
    gateway = limited(patience=patience)
    body = patience.request == 1.0
    with gateway.client() as client:
        client.send(request("POST", INFER + query, Content_Length="100000") if body else b"GET /v2 HTTP/1.1\r\nX: ")
        while not select.select([client.socket], [], [], 0.02)[0]:
            client.send(b" ")
        assert client.answer().status == 408


def test_a_body_that_goes_on_growing_is_waited_for(limited: Limited) -> None:
    gateway = limited(patience=Timeouts(stalled=2.0))
    asked = infer_request([1.0] * 150)
    began = time.monotonic()
    with gateway.client() as client:
        client.send(asked[:-200])
        for byte in asked[-200:]:
            client.send(bytes([byte]))
            if time.monotonic() - began < 3.5:  # a look later than all of it may take without a pause
                time.sleep(0.05)
        assert client.answer().sums == [150.0]


def test_a_request_that_we_hold_up_is_not_over_its_time(runtime: Runtime, limited: Limited) -> None:
    gateway = limited(patience=Timeouts(stalled=1.5))
    runtime.held = True
    body = body_of([2.0])
    with gateway.client() as waits, gateway.client() as other:
        waits.send(infer_request([1.0]) + request("POST", INFER, Content_Length=str(len(body)), Expect="100-continue"))
        until(lambda: runtime.items == 1)
        other.send(request("GET", "/v2")[:-2])
        assert other.answer().status == 408
        runtime.release()
        assert waits.answer().sums == [1.0]
        assert waits.answer().status == 100
        waits.send(body)
        assert waits.answer().sums == [2.0]


def test_reading_stops_when_too_much_is_unanswered(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    one = infer_request([1.0] * 2000)
    with gateway.client() as client:
        client.socket.setblocking(False)
        sent = _send_until_stuck(client, one)
        client.socket.setblocking(True)
        runtime.release()
        for _ in range(sent // len(one)):
            assert client.answer().sums == [2000.0]


def test_connections_beyond_the_most_are_closed_at_once(limited: Limited, caplog: pytest.LogCaptureFixture) -> None:
    gateway = limited(connections=20)
    with ExitStack() as stack, caplog.at_level(logging.WARNING, "mizzen.web.connection_limits"):
        within = [stack.enter_context(gateway.client()) for _ in range(20)]
        beyond = [stack.enter_context(gateway.client()) for _ in range(5)]
        assert all(client.closed() for client in beyond)
        within[-1].send(infer_request([1.0]))
        assert within[-1].answer().sums == [1.0]
        assert [record.message for record in caplog.records if "which is the limit" in record.message] == [
            "20 connections are open, which is the limit; further connections are closed at once"
        ]
        within[0].socket.close()
        until(lambda: _answers(gateway))


def _answers(gateway: Gateway) -> bool:
    try:
        return gateway.infer([2.0]).sums == [2.0]
    except (EOFError, ConnectionResetError):
        return False


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
def test_bodies_that_do_not_come_to_their_end_are_refused_beyond_a_bound(limited: Limited, path: str) -> None:
    """Whoever sends so much that there is too much on its way gets 503, and may try again later."""
    gateway = limited(queue_bytes=1 << 20)
    half = b" " * (600 << 10)
    head = request("POST", path, Content_Length=str(1 << 20))
    with gateway.client() as first, gateway.client() as second:
        first.send(head + half)
        while not select.select([second.socket], [], [], 0.02)[0]:
            second.socket.close()
            second.socket = socket.create_connection(("127.0.0.1", gateway.port), timeout=60)
            second.send(head + half)  # until the first one's has been taken before it
        answer = second.answer()
        assert (answer.status, answer.headers["retry-after"], answer.headers["connection"]) == (503, "1", "close")
        assert "too much" in answer.error
        assert gateway.infer([1.0]).sums == [1.0]  # what comes in one piece is not kept
        first.send(b" " * ((1 << 20) - len(half)))
        assert first.answer().status == 400
    whole = body_of([1.0] * 100_000)
    assert gateway.ask("POST", path, whole).sums == [100_000.0]


def test_a_body_alone_may_be_larger_than_the_bound(limited: Limited) -> None:
    gateway = limited(queue_bytes=1 << 10)
    assert gateway.infer([1.0] * 100_000).sums == [100_000.0]


def _send_until_stuck(client: Client, one: bytes) -> int:
    """Send copies of `one` until the other side has taken nothing for a while; the bytes it took."""
    sent = 0
    while sent < 64 << 20:
        part = one[sent % len(one) :]
        if not select.select([], [client.socket], [], 1.0)[1]:
            return sent
        sent += client.socket.send(part)
    raise AssertionError("it reads without end")
