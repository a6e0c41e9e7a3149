"""Splits: which branch a number hits, and the number that stands for a key.

A number from 0 up to 1 hits one branch, whatever the weights are (`bounds`, `draw`). It is drawn for each request, or
comes from a key (`share_of`): then it stays the same for ever, and as long as the weights do, so does the branch. When
weights change, a key moves only where a bound moves over it: of two branches, the growing one keeps all it had.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from hashlib import blake2b
from itertools import accumulate


def bounds(weights: Sequence[float]) -> tuple[float, ...]:
    """Where the share of each branch ends, for `draw`. Equal weights give equal shares, however many there are.

    A branch of weight 0 has an empty share, and is never hit. The last one above 0 takes what remains, so no draw goes
    past the end. ValueError when a weight is negative or no number, or none is above 0.
    """
    if not all(0.0 <= weight < math.inf for weight in weights):
        raise ValueError(f"weights must be numbers of at least 0, not {list(weights)}")
    whole = sum(map(Fraction, weights), Fraction(0))
    if not whole:
        raise ValueError("a split in which every branch has weight 0 takes nobody anywhere")
    # Exact until the end: a sum of floats may stop short of 1, or leave a branch of weight 0 a little.
    return tuple(float(end / whole) for end in accumulate(map(Fraction, weights)))


def draw(bounds: Sequence[float], number: float) -> int:
    """The place of the branch that a number in [0, 1) hits."""
    return bisect_right(bounds, number)


def share_of(key: bytes, salt: bytes) -> float:
    """A number in [0, 1) that looks random: the same for a key and salt in every process, on every machine.

    `salt` says what is split, so that who is in the smaller half of one is not so in all others.
    """
    digest = blake2b(len(salt).to_bytes(8, "big") + salt + key, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) * 2.0**-53  # as many bits as a float has: never rounded up to 1
