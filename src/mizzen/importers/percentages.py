"""Conversion of weights to whole percentages that sum to 100. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from mizzen.importers.notes import ImportNotes

WHOLE: Final = 100


def round_weights(weights: Sequence[int], what: str, path: str, notes: ImportNotes) -> list[int]:
    """As `per_cent`, with a note if the result differs from the weights."""
    shares = per_cent(weights)
    if shares != list(weights):
        before, after = (", ".join(map(str, each)) for each in (weights, shares))
        notes.add(path, f"{what} to {sum(weights)}, not {WHOLE}: {before} became {after}")
    return shares


def per_cent(weights: Sequence[int | Fraction]) -> list[int]:
    """Percentages in the order of `weights`, which must not be negative or all 0.

    The rest from rounding goes to the largest remainders, so that the sum is 100; a weight of 0 stays 0.
    """
    total = sum(weights)
    exact = [Fraction(weight) * WHOLE / total for weight in weights]
    shares = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda place: (shares[place] - exact[place], place))
    for place in by_remainder[: WHOLE - sum(shares)]:
        shares[place] += 1
    return shares
