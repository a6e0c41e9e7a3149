"""How long attacks of random inputs go on: a bounded number in CI, far more by `make test-attack ATTACK=long`."""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "ATTACK"
_MORE: Final = 50


def rounds(few: int) -> int:
    """`few` in CI; many times as many when ATTACK=long."""
    return few * _MORE if os.environ.get(VARIABLE) == "long" else few
