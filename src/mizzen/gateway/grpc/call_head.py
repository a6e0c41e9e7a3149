"""What the head of a call says: which method is meant, by whom, and how its messages are to be read."""

from __future__ import annotations

import re
from typing import NamedTuple

from mizzen.gateway.access.authorizer import Credentials
from mizzen.gateway.inference import protocols
from mizzen.gateway.inference.protocols import PLAIN, Options
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.content_encoding import ENCODINGS
from mizzen.gateway.route_table import DEFAULT_NAMESPACE
from mizzen.protocol.v2 import cited

_ONCE = (b":method", b":scheme", b":path", b":authority")
_TYPES = re.compile(rb"application/grpc(\+proto)?(;.*)?")
_TIMEOUT = re.compile(rb"([0-9]{1,8})([HMSmun])")
_COMMON = frozenset((b"authorization", b"content-type", b"host", b"origin", b"te", b"user-agent", *request_ids.NAMES))
_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}


class Opening(NamedTuple):
    method: str
    """Of gRPC, such as /inference.GRPCInferenceService/ModelInfer."""
    hosts: list[bytes]
    origins: list[bytes]
    credentials: Credentials
    namespace: str
    encoding: bytes
    """Of messages that say they are compressed; empty: it is not said."""
    seconds: float
    """How long it may take, as far as the caller says."""
    options: Options

    @property
    def lasting(self) -> bool:
        """Whether it holds for the next call, too: one that is marked never comes again."""
        return self.options.trace is None and not self.options.id


class Unfit(Exception):
    """No call, or none that is answered here."""

    def __init__(self, code: int, text: str, retry: int = 0) -> None:
        """`code`: what REST would say. `retry`: in how many seconds it is worth asking again; 0: not by itself."""
        super().__init__(text)
        self.code = code
        self.text = text
        self.retry = retry


class Stranger(Exception):
    """It is no gRPC."""


def read(fields: tuple[tuple[bytes, bytes], ...]) -> Opening:
    """Stranger; Unfit when there is nothing to call; ValueError for a header that is not as it should be."""
    given: dict[bytes, list[bytes]] = {}
    begun = False
    for name, value in fields:
        if name.startswith(b":"):
            if begun or name not in _ONCE or name in given:
                raise Stranger("the head of the request is not HTTP/2's")
        else:
            begun = True
        given.setdefault(name, []).append(value)
    if given.get(b":method") != [b"POST"] or not _TYPES.fullmatch(_one(given, b"content-type")):
        raise Stranger("this port speaks gRPC only: POST, with content-type application/grpc")
    path = _one(given, b":path")
    id_, trace = request_ids.read(fields)
    return Opening(
        path.decode("latin-1"),
        [*given.get(b":authority", ()), *given.get(b"host", ())][:1],
        given.get(b"origin", []),
        tuple(given.get(b"authorization", ())),
        _one(given, b"mizzen-namespace").decode("latin-1") or DEFAULT_NAMESPACE,
        _encoding(_one(given, b"grpc-encoding")),
        min(_timeout(_one(given, b"grpc-timeout")), protocols.milliseconds(_listed(given, protocols.TIMEOUT))),
        # With whatever graphs may come to listen to: an opening outlives Tables.
        PLAIN._replace(
            id=id_, trace=trace, path=path, rpc=True, heads=tuple(field for field in fields if _is_own(field[0]))
        ),
    )


def _is_own(name: bytes) -> bool:
    """Metadata of the caller's, and not of how calls are made."""
    return not name.startswith((b":", b"grpc-")) and name not in _COMMON


def _one(given: dict[bytes, list[bytes]], name: bytes) -> bytes:
    """Sent twice it is a list, as any header is."""
    return b", ".join(given.get(name, ()))


def _listed(given: dict[bytes, list[bytes]], name: bytes) -> bytes | None:
    return _one(given, name) if name in given else None


def _encoding(value: bytes) -> bytes:
    if value in (b"", b"identity"):
        return b""
    if value not in ENCODINGS:
        raise Unfit(501, f"grpc-encoding: '{cited(value.decode('latin-1'))}' is not read here; gzip and deflate are")
    return value


def _timeout(value: bytes) -> float:
    if not value:
        return float("inf")
    found = _TIMEOUT.fullmatch(value)
    if found is None:
        raise ValueError("grpc-timeout: expected up to eight digits and one of H, M, S, m, u, n")
    seconds = int(found[1]) * _SECONDS[found[2]]
    if not seconds:
        raise Unfit(504, "the deadline of the call had passed when it came")
    return seconds
