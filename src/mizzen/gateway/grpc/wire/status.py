"""What a call ends with: gRPC's codes, and the heads of HTTP/2 that carry them."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from mizzen.web.http2.headers import literal, text

TYPE: Final = (b"content-type", b"application/grpc")
_HEAD: Final = b"\x88" + literal([TYPE])
"""Of an answer: `:status: 200`, and what it is."""
_ID: Final = b"\x00" + text(b"mizzen-request-id")
_OWN_LENGTH: Final = 32
_OWN: Final = _HEAD + _ID + bytes((_OWN_LENGTH,))
"""Before an id of that length, which those that we make up have."""
TAIL: Final = literal([(b"grpc-status", b"0")])

_ENCODINGS = (b"grpc-accept-encoding", b"identity,gzip,deflate")
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
_LONGEST = 2000
_PART = re.compile("%[0-9A-F]?$")


class Status(IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16


BY_HTTP: Final = {
    400: Status.INVALID_ARGUMENT,
    401: Status.UNAUTHENTICATED,
    403: Status.PERMISSION_DENIED,
    404: Status.NOT_FOUND,
    405: Status.UNIMPLEMENTED,
    408: Status.CANCELLED,
    409: Status.FAILED_PRECONDITION,
    413: Status.RESOURCE_EXHAUSTED,
    415: Status.UNIMPLEMENTED,
    429: Status.RESOURCE_EXHAUSTED,
    431: Status.RESOURCE_EXHAUSTED,
    499: Status.CANCELLED,
    500: Status.INTERNAL,
    501: Status.UNIMPLEMENTED,
    # Not UNAVAILABLE, by which many clients ask again by themselves: the model may have done what was asked.
    502: Status.INTERNAL,
    503: Status.UNAVAILABLE,
    504: Status.DEADLINE_EXCEEDED,
}
"""What REST answers with these codes, gRPC does with those."""


def head(request_id: bytes) -> bytes:
    """Of an answer that goes well."""
    if len(request_id) == _OWN_LENGTH:
        return _OWN + request_id
    return _HEAD + _ID + text(request_id)


def refusal(code: int, words: str, *, retry: int = 0, request_id: bytes = b"") -> bytes:
    """The head of an answer that is an error and nothing else. `code`: what REST would say. `retry`: in how many
    seconds to ask again."""
    status = BY_HTTP.get(code, Status.UNKNOWN)
    more = []
    if retry:
        more.append((b"grpc-retry-pushback-ms", b"%d" % (retry * 1000)))
    if request_id:
        more.append((b"mizzen-request-id", request_id))
    if status == Status.UNIMPLEMENTED:
        more.append(_ENCODINGS)
    return _HEAD + literal([*ending(status, words), *more])


def ending(status: Status, words: str) -> list[tuple[bytes, bytes]]:
    return [(b"grpc-status", b"%d" % status), (b"grpc-message", _message(words))]


def stranger(words: str) -> bytes:
    """To who speaks HTTP/2, and not gRPC."""
    return literal([(b":status", b"415"), *ending(Status.UNKNOWN, words)])


def _message(words: str) -> bytes:
    """Percent-encoded, as gRPC wants it, and bounded as such: heads are no place for a long story, and who reads one
    that is too long gives up all of the answer."""
    coded = quote(words[:_LONGEST], safe=_PLAIN)
    if len(coded) > _LONGEST:  # cut at the end of a character
        cut = _PART.sub("", coded[:_LONGEST])
        coded = quote(unquote_to_bytes(cut).decode(errors="ignore"), safe=_PLAIN)
    return coded.encode()
