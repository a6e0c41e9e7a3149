"""The headers that identify a request: its id, and its place in a trace.

Traces follow the W3C trace context. As that specification asks, a header that does not follow it is ignored. Whether a
request without a trace is traced is decided elsewhere (`telemetry.trace_recording`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from mizzen.gateway.request.trace_context import Trace

REQUEST_ID, X_REQUEST_ID = b"mizzen-request-id", b"x-request-id"
PARENT, STATE = b"traceparent", b"tracestate"
NAMES = frozenset((REQUEST_ID, X_REQUEST_ID, PARENT, STATE))
"""In lower case. A head with one of them never repeats, so it is not remembered."""

MAX_STATE_BYTES = 2048
"""Longer values are dropped; the specification requires at least 512 characters."""

_ID = re.compile(rb"[!-~]{1,128}")
_TRACE = re.compile(
    rb"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-[!-~]{0,200})?"
)


class RequestIds(NamedTuple):
    id: bytes = b""
    """A valid header value: the id of the request, unless its body has one."""
    trace: Trace | None = None


def read(headers: Iterable[tuple[bytes, bytes]]) -> RequestIds:
    """Read the ids from headers with lower-case names; other headers are ignored."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in NAMES:
            given.setdefault(name, []).append(value.strip())
    if not given:
        return _NO_IDS
    ids = (*given.get(REQUEST_ID, ()), *given.get(X_REQUEST_ID, ()))
    return RequestIds(
        next((value for value in ids if _ID.fullmatch(value)), b""),
        _parse_trace(given.get(PARENT, []), b",".join(given.get(STATE, []))),
    )


_NO_IDS = RequestIds()


def _parse_trace(parents: list[bytes], state: bytes) -> Trace | None:
    found = _TRACE.fullmatch(parents[0]) if len(parents) == 1 else None
    if found is None or found["version"] == b"ff" or (found["version"] == b"00" and found["more"]):
        return None
    if not found["trace"].strip(b"0") or not found["parent"].strip(b"0"):
        return None
    if len(state) > MAX_STATE_BYTES or not state.isascii():
        state = b""
    return Trace(parents[0].decode(), state.decode())
