"""Parses long JSON lists of numbers straight into an array, without a Python object per number.

Only if simdjson is installed, and only for unambiguous input; the caller parses everything else, or rejects it with an
explanation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

try:
    import simdjson
except ImportError:  # a runtime requires only numpy
    simdjson = None  # type: ignore[assignment]

MIN_BYTES = 4 << 10
"""Shorter texts are not worth it."""


def parse_doubles(text: bytes, count: int) -> NDArray[Any] | None:
    """Parse a flat list of `count` numbers. None: the text may be something else."""
    if simdjson is None or len(text) < MIN_BYTES or text.find(b"[", text.find(b"[") + 1) >= 0:
        return None  # nested lists would be flattened
    try:
        parsed = simdjson.Parser().parse(text)
        if not isinstance(parsed, simdjson.Array):
            return None
        found = np.frombuffer(parsed.as_buffer(of_type="d"))
    except (ValueError, TypeError, RuntimeError):
        return None
    return found if len(found) == count else None
