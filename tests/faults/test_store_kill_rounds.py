"""kill -9 of whoever writes to a store, at random moments, two hundred times over.

Nothing acknowledged is lost, nothing is torn, and a watch that is taken up again has no gap.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.contract.killing import Rounds
from tests.contract.stores import OPENERS

ROUNDS = 200


@pytest.mark.timeout(600)
@pytest.mark.parametrize("opener", OPENERS)
def test_two_hundred_kills(opener: str, tmp_path: Path) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 - shown when it fails
    with Rounds(opener, tmp_path, random.Random(seed)) as rounds:
        for _ in range(ROUNDS):
            rounds.play(most_lines=60)
