"""What answers come to, good and bad, as HTTP has them."""

from __future__ import annotations

import asyncio

import pytest

from mizzen.gateway.services.http_connection import HEAD_BYTES
from tests.component.gateway.services.world import Asked, Reply, World, entry, good, http, played

BODY = good().data.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    ("reply", "code", "text"),
    [
        (http({"error": "no input 'x'"}, "400 Bad Request"), 400, "no input 'x'"),
        (http({"error": "no input 'x'"}, "422 Unprocessable Content"), 400, "no input 'x'"),
        (http(b"", "400 Bad Request"), 400, "'scorer' answered 400 Bad Request"),
        (http({"error": "nobody"}, "404 Not Found"), 400, "'scorer' answered 404 Not Found: nobody"),
        (http(b"<html>", "404 Not Found", kind="text/html"), 400, "'scorer' answered 404 Not Found"),
        (http({"error": "boom"}, "500 Oops"), 500, "'scorer' answered 500 Internal Server Error: boom"),
        (http(b"boom\n", "500 Oops", kind="text/plain"), 500, "'scorer' answered 500 Internal Server Error: boom"),
        (http({"error": {"a": 1}}, "502 Bad Gateway"), 500, "'scorer' answered 502 Bad Gateway"),
        (http([1], "599 Strange"), 500, "'scorer' answered 599"),
        (http({"error": "x" * 9000}, "400 Bad Request"), 400, "x" * 2000 + "..."),
        (http({"error": "late"}, "408 Request Timeout"), 504, "'scorer' answered 408 Request Timeout: late"),
        (http(b"", "504 Gateway Timeout"), 504, "'scorer' answered 504 Gateway Timeout"),
        (http(b"", "503 Service Unavailable"), 503, "'scorer' answered 503 Service Unavailable"),
        (http({"error": "slow down"}, "429 Slow"), 503, "'scorer' answered 429 Too Many Requests: slow down"),
        (
            http(b"", "302 Found", "Location: http://elsewhere/"),
            502,
            "'scorer' answered 302 Found to http://elsewhere/, and redirects are not followed",
        ),
        (http(BODY, "304 Not Modified"), 502, "'scorer' answered 304 Not Modified"),
        (
            http(b"<html>", kind="text/html; charset=utf-8"),
            502,
            "'scorer' answered 200, but the body is not JSON: JSON is malformed: invalid character (byte 0) "
            "(it is text/html)",
        ),
        (
            http(b"\x1f\x8b", "200 OK", "Content-Encoding: gzip"),
            502,
            "'scorer' answered 200, but with the encoding gzip, which was not requested",
        ),
    ],
)
@played
async def test_errors_have_codes_of_ours_and_the_services_words(
    world: World, reply: Reply, code: int, text: str
) -> None:
    server = await world.server(reply)
    call = await world.ask(world.pool(server.address()))
    assert (call.code, call.text) == (code, text)
    assert len(server.requests) == 1, "nothing is asked again"


@pytest.mark.parametrize(
    ("header", "retry"),
    [
        ("Retry-After: 7", 7), ("Retry-After: 0", 1), ("Retry-After: 99999", 3600), ("X: y", 1),
        ("Retry-After: Fri, 31 Dec 1999 23:59:59 GMT", 1),
    ],
)  # fmt: skip
@played
async def test_when_to_come_again_is_passed_on(world: World, header: str, retry: int) -> None:
    server = await world.server(http(b"", "503 Service Unavailable", header))
    call = await world.ask(world.pool(server.address()))
    assert (call.code, call.retry, call.lacking) == (503, retry, b"no ready model")


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n%x\r\n%b\r\n0\r\nTrailer: x\r\n\r\n"
        % (5, BODY[:5], len(BODY) - 5, BODY[5:]),
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + good().data,
        b"HTTP/1.1 200 \r\ncontent-length:%d\r\n\r\n%b" % (len(BODY), BODY),
    ],
)
@played
async def test_http_may_be_put_in_several_ways(world: World, data: bytes) -> None:
    server = await world.server(Reply(data))
    pool = world.pool(server.address())
    for _ in range(3):
        assert (await world.ask(pool)).outputs == {"y": ("FP64", [1], [2.5])}
    assert server.connections == 1


@pytest.mark.parametrize(
    "reply",
    [
        Reply(b"HTTP/1.1 200 OK\r\n\r\n" + BODY, closes=True),
        Reply(b"HTTP/1.0 200 OK\r\n\r\n" + BODY, closes=True),
        Reply(b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(BODY), BODY)),
        http(BODY, "200 OK", "Connection: close"),
        Reply(good().data + b"HTTP/1.1 200 OK\r\n"),
        Reply(good().data + b"garbage"),
        Reply(http(BODY, "200 OK", "Connection: close").data + b"garbage"),
    ],
)
@played
async def test_connections_that_are_of_no_more_use_are_not_used_again(world: World, reply: Reply) -> None:
    server = await world.server(reply)
    pool = world.pool(server.address())
    for _ in range(2):
        assert (await world.ask(pool)).outputs == {"y": ("FP64", [1], [2.5])}
    assert server.connections == 2


LOST = "the connection to 'scorer' was lost"


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (Reply(closes=True), LOST),
        (Reply(resets=True), LOST),
        (Reply(b"HTTP/1.1 100 Continue\r\n\r\n", closes=True), LOST),
        (Reply(b"HTTP/1.1 200 OK\r\nContent-Le", closes=True), LOST),
        (Reply(good().data[:-3], closes=True), "it closed the connection in the middle of its answer"),
        (Reply(good().data[:-3], resets=True), ""),
        (
            Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n", closes=True),
            "it closed the connection in the middle of its answer",
        ),
        (Reply(b"SSH-2.0-OpenSSH_9.6\r\n"), "its answer is not HTTP"),
        (Reply(b"HTTP/2 200\r\n\r\n"), "its answer is not HTTP"),
        (Reply(b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), "its answer is not HTTP"),
        (Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), "its answer is not HTTP"),
        (Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"), "its answer is not HTTP"),
        (
            Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nx", closes=True),
            "a Transfer-Encoding other than chunked",
        ),
        (Reply(b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nx"), "answered 101"),
        (Reply(b"HTTP/1.1 200 OK\r\nX: " + b"x" * (HEAD_BYTES + 1)), f"a head of more than {HEAD_BYTES} bytes"),
        (
            Reply(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (HEAD_BYTES // 2) + b"\r\n"),
            f"a head of more than {HEAD_BYTES} bytes",
        ),
        (
            Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X: y\r\n" * HEAD_BYTES),
            f"a head of more than {HEAD_BYTES} bytes",
        ),
        (
            Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"x" * (16 * HEAD_BYTES)),
            f"a head of more than {HEAD_BYTES} bytes",
        ),
        (Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 5001\r\n\r\n"), "5001 bytes, more than the limit of 5000"),
        (Reply(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 5001), "more than the limit of 5000 bytes"),
        (
            Reply(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1000\r\n%b\r\n" % (b"x" * 4096) * 2),
            "more than the limit of 5000 bytes",
        ),
    ],
)
@played
async def test_what_is_no_whole_answer_is_lost(world: World, reply: Reply, text: str) -> None:
    server = await world.server(reply, good())
    pool = world.pool(server.address(), body_limit=5000)
    call = await world.ask(pool)
    assert call.code == 502
    assert text in call.text
    assert len(server.requests) == 1, "a new connection that is lost is not tried again"
    assert (await world.ask(pool)).code == 200
    assert server.connections == 2, "what was wrong is closed"
    assert pool.busy == 0


@played
async def test_an_answer_before_all_was_sent_is_the_answer(world: World) -> None:
    """And the rest of the request is in the way of the next."""
    server = await world.server()
    early = http({"error": "too large"}, "418 Teapot").data

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(early)
        await writer.drain()
        await server.released.wait()
        writer.close()

    refusing = await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1 << 12)
    port = refusing.sockets[0].getsockname()[1]
    pool = world.pool(f"http://127.0.0.1:{port}")
    numbers = [1.25] * 1_000_000
    for _ in range(2):
        call = await world.ask(pool, Asked([entry("x", "FP64", [len(numbers)], numbers)]))
        assert (call.code, call.text) == (400, "'scorer' answered 418 I'm a Teapot: too large")
    assert pool.counts.connections == 2
    server.released.set()
    refusing.close()
    await refusing.wait_closed()
