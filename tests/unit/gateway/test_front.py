"""HTTP on one connection: order, ends, limits, and who may ask."""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mizzen.gateway import front
from tests.unit.gateway.harness import (
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


def test_answers_one_request(gateway: Gateway) -> None:
    answer = gateway.infer([1.0, 2.0])
    assert answer.status == 200
    assert answer.json == {
        "model_name": "m",
        "model_version": "1",
        "id": answer.headers["mizzen-request-id"],
        "outputs": [{"name": "sum", "shape": [1], "datatype": "FP64", "data": [3.0]}],
    }
    assert "date" in answer.headers
    assert answer.headers["content-type"] == "application/json"


def test_a_connection_serves_many_requests_of_every_size(gateway: Gateway) -> None:
    with gateway.client() as client:
        for size in (1, 2, 3, 1, 500, 2, 20_000, 1):
            client.send(infer_request([1.0] * size))
            assert client.answer().sums == [size]


def test_pipelined_requests_are_answered_in_order(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.send(b"".join(infer_request([float(n)]) for n in range(100)))
        assert [client.answer().sums for _ in range(100)] == [[n] for n in range(100)]


def test_hot_and_other_requests_keep_their_order(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    slow = request("POST", f"{INFER}?slow=1", body_of([7.0]))
    with gateway.client() as client:
        client.send(
            request("GET", "/v2/health/live")
            + infer_request([1.0])
            + request("GET", "/v2")
            + slow
            + infer_request([2.0])
            + request("GET", "/nowhere")
            + infer_request([3.0])
        )
        assert client.answer().json == {"live": True}
        until(lambda: runtime.items, "the first inference is out")
        runtime.release()
        assert client.answer().sums == [1.0]
        assert client.answer().json["name"] == "mizzen"
        assert client.answer().sums == [7.0]
        assert client.answer().sums == [2.0]
        assert client.answer().status == 404
        assert client.answer().sums == [3.0]
        client.send(infer_request([4.0]))
        assert client.answer().sums == [4.0]


def test_requests_may_come_in_single_bytes(gateway: Gateway) -> None:
    with gateway.client() as client:
        for _ in range(2):  # the second time the head is a known one
            for byte in infer_request([1.0, 2.0]):
                client.send(bytes([byte]))
            assert client.answer().sums == [3.0]


def test_a_known_head_followed_by_another_request(gateway: Gateway) -> None:
    one, two = infer_request([1.0]), infer_request([2.0])
    with gateway.client() as client:
        for _ in range(2):
            client.send(one)
            assert client.answer().sums == [1.0]
            client.send(one + two[:30])
            assert client.answer().sums == [1.0]
            client.send(two[30:] + request("GET", "/v2/health/live"))
            assert client.answer().sums == [2.0]
            assert client.answer().json == {"live": True}


def test_chunked_body(gateway: Gateway) -> None:
    body = body_of([1.0, 2.0, 3.0])
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:10], body[10:11], body[11:]))
    head = request("POST", INFER, Content_Length="", Transfer_Encoding="chunked")
    with gateway.client() as client:
        for _ in range(2):
            client.send(head + chunks + b"0\r\nX-Trailer: 1\r\n\r\n")
            assert client.answer().sums == [6.0]
        client.send(infer_request([1.0]))
        assert client.answer().sums == [1.0]


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
def test_expect_100_continue(gateway: Gateway, path: str) -> None:
    body = body_of([1.0])
    with gateway.client() as client:
        for _ in range(2):
            client.send(request("POST", path, Content_Length=str(len(body)), Expect="100-continue"))
            assert client.answer().status == 100
            client.send(body)
            assert client.answer().sums == [1.0]


def test_100_continue_waits_for_its_turn(gateway: Gateway, runtime: Runtime) -> None:
    runtime.held = True
    body = body_of([2.0])
    with gateway.client() as client:
        client.send(infer_request([1.0]) + request("POST", INFER, Content_Length=str(len(body)), Expect="100-continue"))
        until(lambda: runtime.items == 1)
        runtime.release()
        assert client.answer().sums == [1.0]
        assert client.answer().status == 100
        client.send(body)
        assert client.answer().sums == [2.0]


@pytest.mark.parametrize("path", [INFER, f"{INFER}?slow=1"])
@pytest.mark.parametrize(
    ("version", "connection"), [("1.1", "close"), ("1.0", ""), ("1.0", "keep-alive"), ("1.1", "Close, TE")]
)
def test_the_connection_is_closed_when_asked(gateway: Gateway, path: str, version: str, connection: str) -> None:
    asked = request("POST", path, body_of([1.0]), version=version, Connection=connection)
    with gateway.client() as client:
        client.send(asked + infer_request([2.0]))  # what follows is not answered
        answer = client.answer()
        assert answer.sums == [1.0]
        assert answer.headers["connection"] == "close"
        assert client.closed()


def test_an_upgrade_is_not_taken_but_answered(gateway: Gateway) -> None:
    with gateway.client() as client:
        asking = infer_request([1.0], Connection="Upgrade, HTTP2-Settings", Upgrade="h2c")
        client.send(asking * 30 + asking[:-3])
        for _ in range(30):
            assert client.answer().sums == [1.0]
        client.send(asking[-3:] + infer_request([2.0]))
        assert client.answer().sums == [1.0]
        assert client.answer().sums == [2.0]


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


@pytest.mark.parametrize("garbage", [b"\x16\x03\x01\x02\x00", b"BREW / HTTP/1.1\r\n\r\n", b"GET /a\xff HTTP/1.1\r\n"])
def test_what_is_not_http_is_400(gateway: Gateway, garbage: bytes) -> None:
    with gateway.client() as client:
        client.send(infer_request([1.0]) + garbage + b"Host: localhost\r\n\r\n")
        assert client.answer().sums == [1.0]
        answer = client.answer()
        assert answer.status == 400
        assert answer.error
        assert client.closed()


@pytest.mark.parametrize("path", [INFER, "/v2/health/live"])
@pytest.mark.parametrize(
    ("host", "origin", "status"),
    [
        ("localhost", "", 200),
        ("LOCALHOST:8471", "", 200),
        ("127.0.0.1:1", "http://localhost:3000", 200),
        ("[::1]:8471", "https://[::1]", 200),
        ("evil.example", "", 403),
        ("127.0.0.1.evil.example", "", 403),
        ("127.0.0.1@evil.example", "", 403),
        ("", "", 403),
        ("", "http://localhost", 403),
        ("localhost", "http://evil.example", 403),
        ("localhost", "null", 403),
        ("localhost", "http://localhost.evil.example", 403),
    ],
)
def test_only_loopback_may_ask(gateway: Gateway, path: str, host: str, origin: str, status: int) -> None:
    method, body = ("POST", body_of([1.0])) if path == INFER else ("GET", b"")
    with gateway.client() as client:
        for _ in range(2):
            client.send(request(method, path, body, Origin=origin, Host=host))
            answer = client.answer()
            assert answer.status == status
            assert status == 200 or "loopback" in answer.error
        client.send(infer_request([1.0]))  # the connection is still good
        assert client.answer().status == 200


def test_two_hosts_do_not_make_one_good_one(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.send(infer_request([1.0]).replace(b"Host: 127.0.0.1", b"Host: evil.example\r\nHost: 127.0.0.1"))
        assert client.answer().status == 403


def test_an_idle_connection_is_closed(runtime: Runtime, start_gateway: Callable[..., Gateway], folder: Path) -> None:
    publish(folder / "table.json", table_of(runtime.address))
    gateway = start_gateway(replace(LIMITS, keep_alive_seconds=0.1))
    gateway.wait_ready()
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


@pytest.mark.parametrize("sent", [20, -5], ids=["head", "body"])
def test_a_request_that_does_not_come_to_its_end_is_refused(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, sent: int
) -> None:
    monkeypatch.setattr(front, "STALLED_SECONDS", 0.1)
    with gateway.client() as client:
        client.send(infer_request([1.0]) + infer_request([2.0])[:sent])
        assert client.answer().sums == [1.0]
        answer = client.answer()
        assert answer.status == 408
        assert answer.headers["connection"] == "close"
        assert "too long" in answer.error
        assert client.closed()


@pytest.mark.parametrize("constant", ["STALLED_SECONDS", "REQUEST_SECONDS"])
def test_a_request_that_comes_in_drops_is_refused_in_the_end(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, constant: str
) -> None:
    """A head has little time, however steadily it grows; a body has as much as it needs, up to a point."""
    monkeypatch.setattr(front, constant, 1.0)
    body = constant == "REQUEST_SECONDS"
    with gateway.client() as client:
        client.send(request("POST", INFER, Content_Length="100000") if body else b"GET /v2 HTTP/1.1\r\nX: ")
        drops = 0
        while not select.select([client.socket], [], [], 0.02)[0]:
            client.send(b" ")
            drops += 1
        assert client.answer().status == 408
        assert drops > 10


def test_a_body_that_goes_on_growing_is_waited_for(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "STALLED_SECONDS", 2.0)
    asked = infer_request([1.0] * 150)
    began = time.monotonic()
    with gateway.client() as client:
        client.send(asked[:-200])
        for byte in asked[-200:]:
            client.send(bytes([byte]))
            if time.monotonic() - began < 3.5:  # a look later than all of it may take without a pause
                time.sleep(0.05)
        assert client.answer().sums == [150.0]


def test_a_request_that_we_hold_up_is_not_over_its_time(
    gateway: Gateway, runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(front, "STALLED_SECONDS", 0.1)
    runtime.held = True
    body = body_of([2.0])
    with gateway.client() as waits, gateway.client() as other:
        waits.send(infer_request([1.0]) + request("POST", INFER, Content_Length=str(len(body)), Expect="100-continue"))
        until(lambda: runtime.items == 1)
        other.send(request("GET", "/v2")[:-2])
        assert other.answer().status == 408
        monkeypatch.undo()
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


def _send_until_stuck(client: Client, one: bytes) -> int:
    """Send copies of `one` until the other side has taken nothing for a while; the bytes it took."""
    sent = 0
    while sent < 64 << 20:
        part = one[sent % len(one) :]
        if not select.select([], [client.socket], [], 1.0)[1]:
            return sent
        sent += client.socket.send(part)
    raise AssertionError("it reads without end")


def test_ids_come_back_and_cannot_break_headers(gateway: Gateway) -> None:
    for given, header in (
        ("abc-1", "abc-1"),
        ("two words", "two words"),
        ("a\r\nX-Evil: 1", "a%0D%0AX-Evil:%201"),
        ("süß", "s%C3%BC%C3%9F"),
        (" ", "%20"),
        ("x" * 256, "x" * 256),
    ):
        answer = gateway.ask("POST", INFER, body_of([1.0], id=given))
        assert answer.json["id"] == given
        assert answer.headers["mizzen-request-id"] == header
        assert "x-evil" not in answer.headers
    generated = gateway.ask("POST", INFER, body_of([1.0], id=""))
    assert len(generated.json["id"]) == 32
    refused = gateway.ask("POST", INFER, body_of([1.0], id="x" * 257))
    assert refused.status == 400
    assert refused.headers["mizzen-request-id"]


def test_an_error_carries_the_clients_id(gateway: Gateway) -> None:
    answer = gateway.ask("POST", INFER, body_of([1.0], name="fail", id="mine"))
    assert answer.status == 500
    assert answer.error == "the model raised"
    assert answer.headers["mizzen-request-id"] == "mine"


def test_content_type_does_not_matter(gateway: Gateway) -> None:
    for kind in ("", "text/plain", "application/octet-stream"):
        assert gateway.infer([1.0], Content_Type=kind).status == 200


def test_bytes_of_a_tensor_pass_unread(gateway: Gateway, runtime: Runtime) -> None:
    body = b'{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP64", "data": [1.50, \t2e0]}]}'
    assert gateway.ask("POST", INFER, body).sums == [3.5]
    assert runtime.batches[-1][0][0][0][4] == b"[1.50, \t2e0]"
    assert json.loads(body)
