"""The memory budget of one gateway for bodies that are still arriving.

Clients that send much and never finish must not fill the memory. A body that arrives in one piece is not counted here:
it goes to a queue at once, and the queue counts it.
"""

from __future__ import annotations

from dataclasses import dataclass

OVER_BUDGET = "this gateway is receiving too much data at once; retry later"
SMALL_PIECE, MAX_SMALL_PIECES = 4 << 10, 16
"""Pieces below this size are merged, once a body has this many pieces."""


def append_piece(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """Add a piece of a body. A piece of two bytes would cost fifty as an object, which no budget counts. Large pieces
    are not joined here, because that would copy them twice.
    """
    if len(piece) >= SMALL_PIECE or len(pieces) < MAX_SMALL_PIECES:
        pieces.append(piece)
        return
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += piece
    else:
        pieces.append(bytearray(piece))


@dataclass(slots=True, eq=False)
class BodyBudget:
    """The total of all bodies that are arriving."""

    limit: int
    bytes: int = 0


class BodyReservation:
    """The part of the budget that one body uses. Its owner must always call `end`."""

    __slots__ = ("_budget", "bytes")

    def __init__(self, intake: BodyBudget) -> None:
        self._budget = intake
        self.bytes = 0

    def grow(self, size: int) -> bool:
        """Record that `size` bytes of the body have arrived. False: the budget is exceeded."""
        intake = self._budget
        intake.bytes += size - self.bytes
        self.bytes = size
        # As in a queue: a body of any size fits if there is no other.
        return intake.bytes <= intake.limit or intake.bytes == size

    def end(self) -> None:
        self._budget.bytes -= self.bytes
        self.bytes = 0
