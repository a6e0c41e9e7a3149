"""The turns of threads in the interpreter."""

from __future__ import annotations

import sys

SWITCH_SECONDS = 0.0005
"""A thread that encodes a long list keeps the event loop waiting for as long, at each of the several times that a
request needs the loop. The default of 5 ms is many times the latency of such a request."""


def shorten_turns() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)
