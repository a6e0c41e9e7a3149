"""Attacks of one connection on a port of ours, as endless streams of bytes; for `bench.attacks` and the attack tests.

They need no code of Mizzen, so they also run against an older checkout.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

HOLD_SECONDS = 2.0
"""A server that takes nothing for so long is said to hold the client."""
BLOCK_BYTES = 64 << 10
MESSAGE_BYTES = 1 << 20
"""Of a gRPC message that never comes to its end."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4


class Target(NamedTuple):
    port: int
    tls: bool = False


class Attack(NamedTuple):
    name: str
    blocks: Callable[[], Iterator[bytes]]
    reads: bool = True
    """Whether the client reads responses."""


@dataclass(slots=True)
class Flood:
    """One attack under way."""

    socket: socket.socket
    sent: int = 0
    ended: str = ""
    """closed: by the server; held: the server reads no more; sent: it has read everything."""
    response: bytes = b""
    """The end of what the server sent."""


def repeat(opening: bytes, piece: bytes) -> Callable[[], Iterator[bytes]]:
    """The opening once, then the piece forever."""
    block = piece * max(1, BLOCK_BYTES // len(piece))
    return lambda: itertools.chain([opening], itertools.repeat(block))


def count(opening: bytes, piece: Callable[[int], bytes], step: int = 200) -> Callable[[], Iterator[bytes]]:
    """The opening once, then pieces by their number."""

    def blocks() -> Iterator[bytes]:
        yield opening
        for start in itertools.count(0, step):
            yield b"".join(map(piece, range(start, start + step)))

    return blocks


# HTTP/1.1


def request(method: str, path: str, *headers: str) -> bytes:
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *headers, "", "")).encode()


def http1(read_path: str, post_path: str, *headers: str) -> list[Attack]:
    """`read_path`: of a GET that is answered at once. `post_path`, `headers`: of a POST whose body is read."""
    chunked = request("POST", post_path, "Transfer-Encoding: chunked", *headers)
    expect = request("POST", post_path, "Expect: 100-continue", "Content-Length: 1", *headers) + b"x"
    head = chunked.removesuffix(b"\r\n")
    return [
        Attack("pipelined GETs, unread", repeat(b"", request("GET", read_path)), reads=False),
        Attack("pipelined GETs", repeat(b"", request("GET", read_path))),
        Attack("pipelined Expect, unread", repeat(b"", expect), reads=False),
        Attack("one-byte chunks", repeat(chunked, b"1\r\nx\r\n")),
        Attack("chunk extensions", repeat(chunked, b"1;" + b"a" * 8000 + b"\r\nx\r\n")),
        Attack("short extensions", repeat(chunked, b"1;" + b"a" * 200 + b"\r\nx\r\n")),
        Attack("trailers", repeat(chunked + b"1\r\nx\r\n0\r\n", b"a: b\r\n")),
        Attack("headers", repeat(head, b"a: b\r\n")),
        Attack("one header", repeat(head + b"a: ", b"b" * 1000)),
        Attack("empty lines", repeat(b"", b"\r\n")),
    ]


def responses() -> list[Attack]:
    """What a service may answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n"
    return [
        Attack("100 Continue", repeat(b"", b"HTTP/1.1 100 Continue\r\n\r\n")),
        Attack("103 Early Hints", repeat(b"", b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n")),
        Attack("one-byte chunks", repeat(chunked, b"1\r\n \r\n")),
        Attack("chunk extensions", repeat(chunked, b"1;" + b"a" * 8000 + b"\r\n \r\n")),
        Attack("short extensions", repeat(chunked, b"1;" + b"a" * 200 + b"\r\n \r\n")),
        Attack("trailers", repeat(chunked + b"1\r\n \r\n0\r\n", b"a: b\r\n")),
        Attack("headers", repeat(head, b"a: b\r\n")),
        Attack("one header", repeat(head + b"a: ", b"b" * 1000)),
        Attack("empty lines", repeat(b"", b"\r\n")),
        Attack("body without end", repeat(head + b"\r\n", b" " * 1000)),
        Attack("chunks without end", repeat(chunked, b"3e8\r\n" + b" " * 1000 + b"\r\n")),
        Attack("another coding", repeat(head + b"Transfer-Encoding: gzip, chunked\r\n\r\n", b"1\r\n \r\n")),
    ]


# HTTP/2


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">BHBBL", len(payload) >> 16, len(payload) & 0xFFFF, kind, flags, stream) + payload


def literals(*fields: tuple[str, str]) -> bytes:
    """HPACK, without a table."""
    block = b""
    for name, value in fields:
        block += b"\x00" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()
    return block


def call_head(method: str) -> bytes:
    return literals(
        (":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost"),
        ("content-type", "application/grpc"), ("te", "trailers"),
    )  # fmt: skip


def http2(method: str, *, more: bytes = b"") -> list[Attack]:
    """`method`: of calls whose message is read. `more`: fields for their heads, as HPACK."""
    head = call_head(method) + more
    hello = PREFACE + frame(SETTINGS, 0, 0)
    opened = hello + frame(HEADERS, END_HEADERS, 1, head)
    begun = opened + frame(DATA, 0, 1, struct.pack(">BL", 0, MESSAGE_BYTES))
    none = call_head("/no.Such/Method")
    reset = frame(RESET, 0, 1, struct.pack(">L", 8))[9:]
    return [
        Attack("one-byte DATA", repeat(begun, frame(DATA, 0, 1, b"x"))),
        Attack("empty DATA", repeat(begun, frame(DATA, 0, 1))),
        Attack("PING", repeat(hello, frame(PING, 0, 0, bytes(8)))),
        Attack("PING, unread", repeat(hello, frame(PING, 0, 0, bytes(8))), reads=False),
        Attack("SETTINGS", repeat(hello, frame(SETTINGS, 0, 0, struct.pack(">HL", 4, 65_535)))),
        Attack("PRIORITY", repeat(hello, frame(PRIORITY, 0, 1, bytes(5)))),
        Attack("WINDOW_UPDATE", repeat(opened, frame(WINDOW, 0, 1, struct.pack(">L", 1)))),
        Attack("CONTINUATION", repeat(hello + frame(HEADERS, 0, 1, head), frame(CONTINUATION, 0, 1))),
        Attack(
            "rapid reset",
            count(hello, lambda i: frame(HEADERS, 4, 2 * i + 1, head) + frame(RESET, 0, 2 * i + 1, reset)),
        ),
        Attack("refused calls", count(hello, lambda i: frame(HEADERS, 5, 2 * i + 1, none))),
        Attack("refused calls, unread", count(hello, lambda i: frame(HEADERS, 5, 2 * i + 1, none)), reads=False),
    ]


# Attacking


def connect(target: Target) -> socket.socket:
    plain = socket.create_connection(("127.0.0.1", target.port), 30)
    if not target.tls:
        return plain
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


@contextlib.contextmanager
def attacking(target: Target, attack: Attack, most: int, stop: Callable[[], bool] = lambda: False) -> Iterator[Flood]:
    """Send up to `most` bytes, until the server closes or holds the connection, which stays open in the context."""
    with connect(target) as client:
        client.setblocking(False)
        flood = Flood(client)
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            _send(flood, attack, most, stop)
        flood.ended = flood.ended or "closed"
        yield flood


def _send(flood: Flood, attack: Attack, most: int, stop: Callable[[], bool]) -> None:
    client, blocks, left = flood.socket, attack.blocks(), memoryview(b"")
    while flood.sent < most and not stop():
        if not left:
            left = memoryview(next(blocks))
        readable, writable, _ = select.select([client] if attack.reads else [], [client], [], HOLD_SECONDS)
        if not readable and not writable:
            flood.ended = "held"
            return
        if readable and not _read(flood):
            return
        if writable:
            with contextlib.suppress(BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
                size = client.send(left)
                flood.sent += size
                left = left[size:]
    if attack.reads and not stop():
        # A server that has refused may still read what is on its way, for a moment.
        while select.select([client], [], [], HOLD_SECONDS)[0]:
            if not _read(flood):
                return
    flood.ended = "sent"


def _read(flood: Flood) -> bool:
    """Whether the connection is still open."""
    try:
        data = flood.socket.recv(1 << 18)
    except (BlockingIOError, ssl.SSLWantReadError):
        return True
    except ssl.SSLError:  # it was closed without a farewell
        return False
    flood.response = (flood.response + data)[-4096:]
    return bool(data)
