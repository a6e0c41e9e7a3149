"""Requests to services: their tensors, and the HTTP head."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol
from urllib.parse import quote

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.services.address import ServiceHost
from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.protocol import v2

JSON = b"Content-Type: application/json\r\n"

RESERVED_HEADERS = frozenset((
    b"host", b"user-agent", b"accept", b"accept-encoding", b"content-type", b"content-length", b"content-encoding",
    b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect", b"forwarded",
    b"inference-header-content-length", b"mizzen-request-id", b"mizzen-timeout-ms", b"traceparent", b"tracestate",
))  # fmt: skip
"""Headers of a caller that are not forwarded: they describe its connection or body, or the gateway sets them."""
CREDENTIAL_HEADERS = frozenset((b"authorization", b"proxy-authorization", b"cookie"))
"""Never forwarded, even if a graph lists them: a caller's credentials are for this plane only."""

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
_VALUE = re.compile(rb"[\t -~\x80-\xff]*")


class TensorRequest(NamedTuple):
    """The tensors and parameters of a call."""

    entries: Sequence[v2.Entry]
    names: Sequence[str] | None
    """Requested outputs; None: all."""
    raw: bool | Sequence[str] | None
    """Outputs requested as bytes."""
    id: bytes
    asks: Mapping[str, str]
    """Further parameters for a router or a merge."""


class EncodedRequest(NamedTuple):
    body: bytes
    kind: bytes = JSON
    """Header lines that describe the body."""


class DecodedResponse(NamedTuple):
    """The content of a successful response."""

    outputs: list[v2.Entry]
    """An empty name means that the output has none."""
    route: str | None = None
    """The chosen nodes, joined by commas; None if the response does not say."""


class ServiceProtocol(Protocol):
    """One protocol of services. Has no state."""

    def write(self, request: TensorRequest) -> EncodedRequest:
        """Raises ValueError if the protocol cannot express the request."""

    def read(self, request: TensorRequest, answer: HttpResponse) -> DecodedResponse:
        """Decodes a response with a body. Raises ValueError with a text that follows "answered 200, but"."""


def tensor_request_of(call: Call) -> TensorRequest:
    entries, names, *raw = call.item
    return TensorRequest(entries, names, raw[0] if raw else None, call.id, getattr(call, "asks", None) or {})


def build_start(host: ServiceHost, path: str) -> bytes:
    """Returns the start of the head, which is the same for all requests to one address."""
    target = quote(path if path.startswith("/") else f"/{path}", safe="/%:@!$&'()*+,;=-._~?")
    return (
        f"POST {target} HTTP/1.1\r\nHost: {host.header}\r\nUser-Agent: mizzen\r\nAccept: application/json\r\n"
        "Accept-Encoding: identity\r\n"
    ).encode()


def build_head(
    start: bytes, encoded: EncodedRequest, call: Call, *, asks: Mapping[str, str], trace: tuple[str, str], now: float
) -> bytes:
    """`start`: from `build_start`. `trace`: the values of `traceparent` and `tracestate`, empty without a trace."""
    parts = [start, encoded.kind, b"Content-Length: %d\r\n" % len(encoded.body)]
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
        parts.append(b"%b: %b\r\n" % (graph_header(name), v2.header_text(value)))
    for header, content in getattr(call, "headers", None) or ():
        if is_forwarded(header) and _VALUE.fullmatch(content):
            parts.append(b"%b: %b\r\n" % (header, content))
    parts.append(b"\r\n")
    return b"".join(parts)


@lru_cache(64)
def graph_header(name: str) -> bytes:
    """`routable_nodes` becomes `MLGraph-Routable-Nodes`."""
    return b"MLGraph-" + name.replace("_", "-").title().encode()


@lru_cache(1024)
def is_forwarded(name: bytes) -> bool:
    lower = name.lower()
    if lower in RESERVED_HEADERS or lower in CREDENTIAL_HEADERS or lower.startswith((b"mlgraph-", b"proxy-")):
        return False
    return _NAME.fullmatch(name) is not None
