"""Acknowledged means durable: what a killed process was told is there, whole, and everything agrees.

A few rounds; `tests/faults/test_store_kill_rounds.py` has many.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.contract.killing import Rounds
from tests.contract.stores import OPENERS


@pytest.mark.parametrize("opener", OPENERS)
def test_kill_9_loses_nothing_acknowledged(opener: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    with Rounds(opener, tmp_path, random.Random(seed)) as rounds:
        for most_lines in (1, 1, 600, *[200] * 7):
            rounds.play(most_lines)
