"""How long attacks of random inputs go on: a bounded number in CI, far more by `make test-attack ATTACK=long`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

VARIABLE: Final = "ATTACK"
_MORE: Final = 50


def rounds(few: int) -> int:
    """`few` in CI; many times as many when ATTACK=long."""
    return few * _MORE if os.environ.get(VARIABLE) == "long" else few


def logs_of(data_dir: Path) -> str:
    """Returns what all processes of a plane have logged, except the requests of callers."""
    logs = (log for log in sorted((data_dir / "logs").glob("*.log*")) if not log.name.startswith("access."))
    return "".join(log.read_text(errors="replace") for log in logs)
