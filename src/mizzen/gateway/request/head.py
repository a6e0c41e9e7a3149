"""The head of a request, whichever protocol carried it."""

from __future__ import annotations

import re
from typing import NamedTuple

from mizzen.gateway.access.rate_limits import RateLimit
from mizzen.gateway.request.trace_context import Trace
from mizzen.protocol import binary

TIMEOUT = b"mizzen-timeout-ms"
USER = b"mizzen-user"
"""The end user of a request: a split or a bandit may choose by it."""
_MILLISECONDS = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,12})?")


class RequestHead(NamedTuple):
    """How to read the body of a request, and who sent it. Built once per distinct head."""

    timeout_ms: bytes | None = None
    header_length: bytes | None = None
    """The length of the JSON part, if binary data follows it."""
    id: bytes = b""
    """The id of the request, if its body has none."""
    trace: Trace | None = None
    method: str = "POST"
    path: bytes = b""
    """As received, without the query string."""
    actor: str = ""
    response_headers: bytes = b""
    """Header lines to add to any response."""
    rate_limit: RateLimit | None = None
    """The rate limit of the caller, if there is one."""

    rpc: bool = False
    """It came over gRPC."""
    graph_headers: tuple[tuple[bytes, bytes], ...] = ()
    """Headers that graphs read or pass on; names in lower case."""

    def with_header(self, name: bytes, value: bytes) -> RequestHead:
        """A copy with one more header. A header that is sent twice becomes a list, as any header does, and is then not
        a valid number. Otherwise two readers of one request could pick different values."""
        if name == binary.HEADER:
            return self._replace(header_length=_append_value(self.header_length, value))
        return self._replace(timeout_ms=_append_value(self.timeout_ms, value))

    def header(self, name: bytes) -> bytes:
        """The value of a header that graphs read; empty: it is absent."""
        return next((value for known, value in self.graph_headers if known == name), b"")


def _append_value(before: bytes | None, value: bytes) -> bytes:
    return value if before is None else before + b", " + value


EMPTY_HEAD = RequestHead()


def parse_timeout(header: bytes | None) -> float:
    """The value of Mizzen-Timeout-Ms in seconds. Raises ValueError."""
    if header is None:
        return float("inf")
    value = float(header) if _MILLISECONDS.fullmatch(header) else 0.0
    if value <= 0:
        raise ValueError("header Mizzen-Timeout-Ms: expected a positive number")
    return value / 1000
