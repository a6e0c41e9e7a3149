"""What is asked of a service, and the head of the request that asks it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol
from urllib.parse import quote

from mizzen.gateway.inference.calls import Call
from mizzen.gateway.services.address import Host
from mizzen.gateway.services.http_connection import Answer
from mizzen.protocol import v2

JSON = b"Content-Type: application/json\r\n"

OWN = frozenset((
    b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type", b"content-length", b"content-encoding",
    b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"forwarded",
    b"inference-header-content-length", b"mizzen-request-id", b"mizzen-timeout-ms", b"traceparent", b"tracestate",
))  # fmt: skip
"""Headers of a caller that are not sent on: they are about the caller's connection and body, or said by us."""
SECRET = frozenset((b"authorization", b"proxy-authorization", b"cookie"))
"""Nor are these, whoever lists them: what proves to us who a caller is, is for nobody else."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")


class Asked(NamedTuple):
    """A call, as far as its tensors go."""

    entries: Sequence[v2.Entry]
    names: Sequence[str] | None
    """Of the outputs that are wanted; None: all."""
    raw: bool | Sequence[str] | None
    """Those that are wanted as bytes."""
    id: bytes
    asks: Mapping[str, str]
    """What else a router or a merge is told."""


class Written(NamedTuple):
    body: bytes
    kind: bytes = JSON
    """Header lines that say what it is."""


class Said(NamedTuple):
    """What a good answer says."""

    outputs: list[v2.Entry]
    """An empty name: it has none."""
    route: str | None = None
    """The nodes that are to be taken, by commas; None: nothing was said."""


class Speech(Protocol):
    """One protocol. Has no state."""

    def write(self, asked: Asked) -> Written:
        """ValueError when it cannot be put so."""

    def read(self, asked: Asked, answer: Answer) -> Said:
        """Of an answer with a body. ValueError when it makes no sense, in words that follow "answered 200, but"."""


def asked_of(call: Call) -> Asked:
    entries, names, *raw = call.item
    return Asked(entries, names, raw[0] if raw else None, call.id, getattr(call, "asks", None) or {})


def opening(host: Host, path: str) -> bytes:
    """The same for all requests to one address."""
    target = quote(path if path.startswith("/") else f"/{path}", safe="/%:@!$&'()*+,;=-._~?")
    return (
        f"POST {target} HTTP/1.1\r\nHost: {host.header}\r\nUser-Agent: mizzen\r\nAccept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
    ).encode()


def head(
    start: bytes, written: Written, call: Call, *, asks: Mapping[str, str], trace: tuple[str, str], now: float
) -> bytes:
    """`start` is from `opening`; `trace` are the headers of W3C's trace context, empty where there is none."""
    parts = [start, written.kind, b"Content-Length: %d\r\n" % len(written.body)]
    if call.id:
        parts.append(b"Mizzen-Request-Id: %b\r\n" % call.id)
    if call.deadline < math.inf:
        parts.append(b"Mizzen-Timeout-Ms: %d\r\n" % max(1, int((call.deadline - now) * 1000)))
    parent, state = trace
    if parent:
        parts.append(b"traceparent: %b\r\n" % parent.encode())
        if state:
            parts.append(b"tracestate: %b\r\n" % state.encode())
    for name, value in asks.items():
        parts.append(b"%b: %b\r\n" % (asking_header(name), v2.header_text(value)))
    for header, content in getattr(call, "headers", None) or ():
        if is_passed_on(header) and _VALUE.fullmatch(content):
            parts.append(b"%b: %b\r\n" % (header, content))
    parts.append(b"\r\n")
    return b"".join(parts)


@lru_cache(64)
def asking_header(name: str) -> bytes:
    """`routable_nodes` is `MLGraph-Routable-Nodes`."""
    return b"MLGraph-" + name.replace("_", "-").title().encode()


@lru_cache(1024)
def is_passed_on(name: bytes) -> bool:
    lower = name.lower()
    if lower in OWN or lower in SECRET or lower.startswith((b"mlgraph-", b"proxy-")):
        return False
    return _NAME.fullmatch(name) is not None
