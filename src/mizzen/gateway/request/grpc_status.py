"""The status codes of gRPC, and which of them stands for which HTTP code."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class GrpcStatus(IntEnum):
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
    400: GrpcStatus.INVALID_ARGUMENT,
    401: GrpcStatus.UNAUTHENTICATED,
    403: GrpcStatus.PERMISSION_DENIED,
    404: GrpcStatus.NOT_FOUND,
    405: GrpcStatus.UNIMPLEMENTED,
    408: GrpcStatus.CANCELLED,
    409: GrpcStatus.FAILED_PRECONDITION,
    413: GrpcStatus.RESOURCE_EXHAUSTED,
    415: GrpcStatus.UNIMPLEMENTED,
    429: GrpcStatus.RESOURCE_EXHAUSTED,
    431: GrpcStatus.RESOURCE_EXHAUSTED,
    499: GrpcStatus.CANCELLED,
    500: GrpcStatus.INTERNAL,
    501: GrpcStatus.UNIMPLEMENTED,
    # Not UNAVAILABLE, on which many clients retry automatically: the model may have processed the request.
    502: GrpcStatus.INTERNAL,
    503: GrpcStatus.UNAVAILABLE,
    504: GrpcStatus.DEADLINE_EXCEEDED,
}
"""The gRPC status for each HTTP code of the REST API."""
