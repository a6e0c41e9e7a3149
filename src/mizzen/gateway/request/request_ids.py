"""The headers that callers mark a request with, to find it again: its id, and its place in a trace.

A trace is W3C's trace context. One that does not follow the specification is ignored, as that asks for. Who is traced
that brings none is decided elsewhere (`traces`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mizzen.gateway.telemetry.trace_recording import Recording

OURS, COMMON = b"mizzen-request-id", b"x-request-id"
PARENT, STATE = b"traceparent", b"tracestate"
NAMES = frozenset((OURS, COMMON, PARENT, STATE))
"""In small letters. A head with one of them is unlike all others, so it is not remembered."""

LONGEST_STATE = 2048
"""Longer ones are left out; the specification asks for 512 characters at least."""

_ID = re.compile(rb"[!-~]{1,128}")
_TRACE = re.compile(
    rb"(?P<version>[0-9a-f]{2})-(?P<trace>[0-9a-f]{32})-(?P<parent>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-[!-~]{0,200})?"
)


class Trace(NamedTuple):
    parent: str
    """The header `traceparent`, which is valid."""
    state: str
    """The header `tracestate`; empty when there is none."""
    recording: Recording | None = None
    """What is measured, where this gateway traces the request; then `parent` speaks of its own span."""

    @property
    def id(self) -> str:
        return self.parent[3:35]

    @property
    def passed_on(self) -> tuple[str, str]:
        """Both headers, as the model is told them."""
        return (self.parent if self.recording is None else self.recording.passed_on), self.state

    @property
    def sampled(self) -> bool:
        """Does whoever sent it trace it?"""
        return bool(int(self.parent[53:55], 16) & 1)


class Marks(NamedTuple):
    id: bytes = b""
    """Fit to be the value of a header, and what the request is called unless its body says otherwise."""
    trace: Trace | None = None


def read(headers: Iterable[tuple[bytes, bytes]]) -> Marks:
    """Of headers by names in small letters, others than NAMES among them."""
    given: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        if name in NAMES:
            given.setdefault(name, []).append(value.strip())
    if not given:
        return _NONE
    ids = (*given.get(OURS, ()), *given.get(COMMON, ()))
    return Marks(
        next((value for value in ids if _ID.fullmatch(value)), b""),
        _trace(given.get(PARENT, []), b",".join(given.get(STATE, []))),
    )


_NONE = Marks()


def _trace(parents: list[bytes], state: bytes) -> Trace | None:
    found = _TRACE.fullmatch(parents[0]) if len(parents) == 1 else None
    if found is None or found["version"] == b"ff" or (found["version"] == b"00" and found["more"]):
        return None
    if not found["trace"].strip(b"0") or not found["parent"].strip(b"0"):
        return None
    if len(state) > LONGEST_STATE or not state.isascii():
        state = b""
    return Trace(parents[0].decode(), state.decode())
