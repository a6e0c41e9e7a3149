"""The parsed headers of a gRPC call: its method, credentials, deadline and message encoding."""

from __future__ import annotations

import re
from typing import NamedTuple

from mizzen.gateway.access.authorizer import Credentials
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.content_encoding import ENCODINGS
from mizzen.gateway.request.head import EMPTY_HEAD, TIMEOUT, RequestHead, parse_timeout
from mizzen.gateway.request.url_paths import DEFAULT_NAMESPACE
from mizzen.protocol.v2 import shorten

_PSEUDO_HEADERS = (b":method", b":scheme", b":path", b":authority")
_CONTENT_TYPE = re.compile(rb"application/grpc(\+proto)?(;.*)?")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_STANDARD_HEADERS = frozenset(
    (b"authorization", b"content-type", b"host", b"origin", b"te", b"user-agent", *request_ids.NAMES)
)
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class CallHead(NamedTuple):
    method: str
    """The gRPC path, such as /inference.GRPCInferenceService/ModelInfer."""
    hosts: list[bytes]
    origins: list[bytes]
    credentials: Credentials
    namespace: str
    encoding: bytes
    """Of compressed messages; empty: the headers name no encoding."""
    seconds: float
    """Deadline that the caller set; infinite if there is none."""
    head: RequestHead

    @property
    def cacheable(self) -> bool:
        """Whether it is valid for the next call too: a head with a request id or trace never repeats."""
        return self.head.trace is None and not self.head.id


class RpcError(Exception):
    """The call is refused with this error."""

    def __init__(self, code: int, text: str, retry: int = 0) -> None:
        """`code`: the equivalent HTTP status. `retry`: seconds after which a retry is worthwhile; 0: never."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.retry = retry


class NotGrpcError(Exception):
    """The request is not gRPC."""


def parse_head(fields: tuple[tuple[bytes, bytes], ...]) -> CallHead:
    """Raises NotGrpcError; RpcError if the call cannot be answered; ValueError for a malformed header."""
    given: dict[bytes, list[bytes]] = {}
    begun = False
    for name, value in fields:
        if name.startswith(b":"):
            if begun or name not in _PSEUDO_HEADERS or name in given:
                raise NotGrpcError("the headers of the request are not valid HTTP/2")
        else:
            begun = True
        given.setdefault(name, []).append(value)
    if given.get(b":method") != [b"POST"] or not _CONTENT_TYPE.fullmatch(_value_of(given, b"content-type")):
        raise NotGrpcError("this port accepts only gRPC: POST with content-type application/grpc")
    path = _value_of(given, b":path")
    id_, trace = request_ids.read(fields)
    return CallHead(
        path.decode("latin-1"),
        [*given.get(b":authority", ()), *given.get(b"host", ())][:1],
        given.get(b"origin", []),
        tuple(given.get(b"authorization", ())),
        _value_of(given, b"mizzen-namespace").decode("latin-1") or DEFAULT_NAMESPACE,
        _parse_encoding(_value_of(given, b"grpc-encoding")),
        min(_parse_timeout(_value_of(given, b"grpc-timeout")), parse_timeout(_optional_value_of(given, TIMEOUT))),
        # All caller metadata, because a cached head outlives Tables, and a later graph may forward other headers.
        EMPTY_HEAD._replace(
            id=id_,
            trace=trace,
            path=path,
            rpc=True,
            graph_headers=tuple(field for field in fields if _is_caller_metadata(field[0])),
        ),
    )


def _is_caller_metadata(name: bytes) -> bool:
    """Whether this is metadata of the caller, not of the gRPC protocol."""
    return not name.startswith((b":", b"grpc-")) and name not in _STANDARD_HEADERS


def _value_of(given: dict[bytes, list[bytes]], name: bytes) -> bytes:
    """Return the value. A repeated header becomes a comma-separated list, as any header does."""
    return b", ".join(given.get(name, ()))


def _optional_value_of(given: dict[bytes, list[bytes]], name: bytes) -> bytes | None:
    return _value_of(given, name) if name in given else None


def _parse_encoding(value: bytes) -> bytes:
    if value in (b"", b"identity"):
        return b""
    if value not in ENCODINGS:
        raise RpcError(
            501, f"grpc-encoding: '{shorten(value.decode('latin-1'))}' is not supported; expected gzip or deflate"
        )
    return value


def _parse_timeout(value: bytes) -> float:
    if not value:
        return float("inf")
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise ValueError("grpc-timeout: expected up to eight digits and one of H, M, S, m, u, n")
    seconds = int(found[1]) * _SECONDS[found[2]]
    if not seconds:
        raise RpcError(504, "the deadline of the call had passed on arrival")
    return seconds
