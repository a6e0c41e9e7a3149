"""The status codes of gRPC, and which of them stands for which HTTP code."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


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
    # Not UNAVAILABLE, on which many clients retry automatically: the model may have processed the request.
    502: Status.INTERNAL,
    503: Status.UNAVAILABLE,
    504: Status.DEADLINE_EXCEEDED,
}
"""The gRPC status for each HTTP code of the REST API."""
