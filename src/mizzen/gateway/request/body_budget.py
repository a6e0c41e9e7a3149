"""How much of bodies that are still coming in is kept, in one gateway: clients that send much and never finish must not
fill its memory. A body that comes in one piece is not counted here: it goes to a queue at once, which counts it.
"""

from __future__ import annotations

CROWDED = "too much is being sent to this gateway at once"
SMALL, FEW = 4 << 10, 16
"""Bytes of a piece that is not kept by itself, and pieces of a body that are, whatever their size."""


def keep(pieces: list[bytes | bytearray], piece: bytes) -> None:
    """One more of a body. Each piece of two bytes would cost fifty by itself, which nobody counts; to join large ones
    as they come would be to copy them twice.
    """
    if len(piece) >= SMALL or len(pieces) < FEW:
        pieces.append(piece)
        return
    last = pieces[-1]
    if isinstance(last, bytearray):
        last += piece
    else:
        pieces.append(bytearray(piece))


class Intake:
    """All bodies that are coming in."""

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0


class Share:
    """The part of one body in it. Whoever has one ends it, whatever becomes of the body."""

    __slots__ = ("_intake", "bytes")

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self.bytes = 0

    def grow(self, size: int) -> bool:
        """So much of the body has come by now. False: that is too much, together with what others send."""
        intake = self._intake
        intake.bytes += size - self.bytes
        self.bytes = size
        # As in a queue: whatever its size, a body fits where there is no other.
        return intake.bytes <= intake.limit or intake.bytes == size

    def end(self) -> None:
        self._intake.bytes -= self.bytes
        self.bytes = 0
