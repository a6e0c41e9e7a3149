"""How the interpreter shares its time between the event loop and threads."""

from __future__ import annotations

import gc
import sys

SWITCH_SECONDS = 0.0001
"""A thread that encodes a long list keeps others waiting for as long, each time that they need the interpreter; a
request needs it about ten times. The default of 5 ms is many times the latency of a request."""


def shorten_turns() -> None:
    """Also spares garbage collections the objects that exist now, such as all modules: a collection stops all threads.

    Call it when everything is loaded.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.collect()
    gc.freeze()
