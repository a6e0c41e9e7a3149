"""How long attacks of random inputs go on: a bounded number in CI, far more by `make test-attack ATTACK=long`."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Final

VARIABLE: Final = "ATTACK"
SEED_VARIABLE: Final = "ATTACK_SEED"
_MORE: Final = 50


def rounds(few: int) -> int:
    """`few` in CI; many times as many when ATTACK=long."""
    return few * _MORE if os.environ.get(VARIABLE) == "long" else few


def logs_of(data_dir: Path) -> str:
    """Returns what all processes of a plane have logged, except the requests of callers."""
    logs = (log for log in sorted((data_dir / "logs").glob("*.log*")) if not log.name.startswith("access."))
    return "".join(log.read_text(errors="replace") for log in logs)


def seed() -> int:
    """The seed of random inputs: that of ATTACK_SEED; else a fixed one in CI, and a new one when ATTACK=long."""
    given = os.environ.get(SEED_VARIABLE)
    if given:
        return int(given)
    return random.SystemRandom().randrange(1 << 32) if os.environ.get(VARIABLE) == "long" else 17
