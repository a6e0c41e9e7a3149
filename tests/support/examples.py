"""How many examples a property is tried with: a few with all other tests, all of them by `make test-properties`."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "TEST_EXAMPLES"
USUAL: Final = 100
_PART: Final = 5


def examples(full: int = USUAL) -> int:
    """`full` when TEST_EXAMPLES=full, else a part of it."""
    return full if os.environ.get(VARIABLE) == "full" else max(1, full // _PART)
