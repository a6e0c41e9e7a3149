"""The HTTP/2 header blocks that carry gRPC statuses. `request/grpc_status.py` maps HTTP codes to statuses."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from mizzen.gateway.request.grpc_status import BY_HTTP, GrpcStatus
from mizzen.web.http2.headers import encode_headers, encode_text

TYPE: Final = (b"content-type", b"application/grpc")
_HEAD: Final = b"\x88" + encode_headers([TYPE])
"""Of a response: `:status: 200` and the content type."""
_ID: Final = b"\x00" + encode_text(b"mizzen-request-id")
_OWN_LENGTH: Final = 32
_OWN_ID_HEAD: Final = _HEAD + _ID + bytes((_OWN_LENGTH,))
"""Precedes an id of that length, which generated ids have."""
TAIL: Final = encode_headers([(b"grpc-status", b"0")])

_ENCODINGS = (b"grpc-accept-encoding", b"identity,gzip,deflate")
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_MAX_MESSAGE = 2000
_PART = re.compile("%[0-9A-F]?$")


def response_head(request_id: bytes) -> bytes:
    """Return the headers of a successful response."""
    if len(request_id) == _OWN_LENGTH:
        return _OWN_ID_HEAD + request_id
    return _HEAD + _ID + encode_text(request_id)


def error_head(code: int, words: str, *, retry: int = 0, request_id: bytes = b"") -> bytes:
    """Return the headers of a response that is only an error. `code`: the HTTP status. `retry`: seconds until a retry
    is worthwhile."""
    status = BY_HTTP.get(code, GrpcStatus.UNKNOWN)
    more = []
    if retry:
        more.append((b"grpc-retry-pushback-ms", b"%d" % (retry * 1000)))
    if request_id:
        more.append((b"mizzen-request-id", request_id))
    if status == GrpcStatus.UNIMPLEMENTED:
        more.append(_ENCODINGS)
    return _HEAD + encode_headers([*trailers_of(status, words), *more])


def trailers_of(status: GrpcStatus, words: str) -> list[tuple[bytes, bytes]]:
    return [(b"grpc-status", b"%d" % status), (b"grpc-message", _encode_message(words))]


def not_grpc_head(words: str) -> bytes:
    """Return the headers for a client that speaks HTTP/2 but not gRPC."""
    return encode_headers([(b":status", b"415"), *trailers_of(GrpcStatus.UNKNOWN, words)])


def _encode_message(words: str) -> bytes:
    """Percent-encode the message, as gRPC requires, and limit the encoded length: clients reject a response whose
    headers are too long."""
    coded = quote(words[:_MAX_MESSAGE], safe=_PLAIN)
    if len(coded) > _MAX_MESSAGE:  # cut at the end of a character
        cut = _PART.sub("", coded[:_MAX_MESSAGE])
        coded = quote(unquote_to_bytes(cut).decode(errors="ignore"), safe=_PLAIN)
    return coded.encode()
