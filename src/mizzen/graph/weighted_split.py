"""Weighted splits: map a number to a branch, and a key to a number.

A number in [0, 1) hits one branch, for any weights (`bounds_of`, `draw`). It is random for each request, or derived
from a key (`share_of`). A key always has the same number, so it keeps its branch while the weights stay the same. When
weights change, a key moves only if a bound moves past it: of two branches, the growing one keeps its keys.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate


def bounds_of(weights: Sequence[float]) -> tuple[float, ...]:
    """Return where the share of each branch ends, for `draw`. Equal weights give equal shares.

    A branch of weight 0 has an empty share and is never hit. The last branch with a weight above 0 takes the rest, so
    no draw exceeds the end. Raises ValueError if a weight is negative or not a number, or if no weight is above 0.
    """
    if not all(0.0 <= weight < math.inf for weight in weights):
        raise ValueError(f"weights must be numbers of at least 0, not {list(weights)}")
    whole = sum(map(Fraction, weights), Fraction(0))
    if not whole:
        raise ValueError("at least one branch of a split must have a weight above 0")
    # Exact fractions: a sum of floats may end below 1, or give a branch of weight 0 a small share.
    return tuple(float(end / whole) for end in accumulate(map(Fraction, weights)))


def draw(bounds: Sequence[float], number: float) -> int:
    """Return the index of the branch that a number in [0, 1) hits."""
    return bisect_right(bounds, number)


def share_of(key: bytes, salt: bytes) -> float:
    """Hash a key to a number in [0, 1), the same in every process and on every machine.

    `salt` identifies the split, so that a user in the smaller branch of one split is not in the smaller branch of all.
    """
    digest = blake2b(len(salt).to_bytes(8, "big") + salt + key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53  # the precision of a float: never rounds up to 1
