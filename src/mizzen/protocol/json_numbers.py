"""Long lists of numbers in JSON, straight into an array: no Python object is made for each of them.

Only where simdjson is installed, and only for what it reads without a doubt; the rest is read, or refused with a word
about what is wrong, by whoever asks here first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import simdjson
except ImportError:  # a runtime needs no more than numpy
    simdjson = None  # type: ignore[assignment]

LONG = 4 << 10
"""Bytes of text from which on it is worth it."""


def doubles(text: bytes, count: int) -> NDArray[Any] | None:
    """The numbers of a flat list of so many. None: it is not certain that it is one."""
    if simdjson is None or len(text) < LONG or text.find(b"[", text.find(b"[") + 1) >= 0:
        return None  # what is nested would be flattened
    try:
        parsed = simdjson.Parser().parse(text)
        if not isinstance(parsed, simdjson.Array):
            return None
        found = np.frombuffer(parsed.as_buffer(of_type="d"))
    except (ValueError, TypeError, RuntimeError):
        return None
    return found if len(found) == count else None
