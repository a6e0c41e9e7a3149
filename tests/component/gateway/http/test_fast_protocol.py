"""HTTP on one connection: order, ends, ids, and from where one may ask."""

from __future__ import annotations

import json

import pytest

from tests.support.gateway.harness import (
    Gateway,
    Runtime,
    body_of,
    infer_request,
    request,
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
        ("127.0.0.1:1", "http://127.0.0.1:1", 200),
        ("LOCALHOST:80", "http://localhost", 200),
        ("[::1]", "http://[::1]:80", 200),
        ("127.0.0.1:1", "http://127.0.0.1:2", 403),
        ("127.0.0.1:1", "http://127.0.0.1", 403),
        ("127.0.0.1:1", "http://localhost:1", 403),
        ("[::1]:8471", "http://[::1]", 403),
        ("localhost", "https://localhost", 403),
        ("localhost", "http://localhost.", 403),
        ("localhost.", "", 403),
        ("localhost", "http://user@localhost", 403),
        ("localhost", "http://localhost/", 403),
        ("evil.example", "", 403),
        ("127.0.0.1.evil.example", "", 403),
        ("127.0.0.1@evil.example", "", 403),
        ("", "", 400),
        ("", "http://localhost", 400),
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
            assert status == 200 or ("loopback" if status == 403 else "one Host header") in answer.error
        client.send(infer_request([1.0]))  # the connection is still good
        assert client.answer().status == 200


def test_two_hosts_do_not_make_one_good_one(gateway: Gateway) -> None:
    with gateway.client() as client:
        client.send(infer_request([1.0]).replace(b"Host: 127.0.0.1", b"Host: evil.example\r\nHost: 127.0.0.1"))
        assert client.answer().status == 400


@pytest.mark.parametrize("coding", ["gzip, chunked", "gzip\r\nTransfer-Encoding: chunked"])
@pytest.mark.parametrize("path", [INFER, f"{INFER}?by=asgi"])
def test_what_is_packed_for_the_way_is_not_taken_for_plain(gateway: Gateway, path: str, coding: str) -> None:
    with gateway.client() as client:
        client.send(request("POST", path, b"2\r\n{}\r\n0\r\n\r\n", Content_Length="", Transfer_Encoding=coding))
        answer = client.answer()
        assert answer.status == 501
        assert "Content-Encoding" in answer.error
        assert client.closed()


def test_chunks_of_any_case_are_taken(gateway: Gateway) -> None:
    body = body_of([1.0, 2.0])
    chunks = b"%x;a=b\r\n%b\r\n0\r\nX-Trailer: 1\r\n\r\n" % (len(body), body)
    with gateway.client() as client:
        client.send(request("POST", INFER, chunks, Content_Length="", Transfer_Encoding="Chunked"))
        assert client.answer().sums == [3.0]


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


def test_an_answer_before_the_body_was_taken_does_not_end_the_reading(gateway: Gateway) -> None:
    """The app answers a request for what is not a graph without its body, which had paused the reading."""
    explain = request("POST", "/v2/models/m/explain", b" " * (1 << 18))
    with gateway.client() as client:
        for _ in range(3):
            client.send(explain)
            assert client.answer().status == 409
            client.send(request("POST", "/v2/models/m/explain", b"{}"))
            assert client.answer().status == 409
