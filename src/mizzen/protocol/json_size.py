"""How much a large JSON text holds, counted before anything of it is decoded.

Decoding makes an object of every `[]` and `{}`, dozens of bytes for two, in seconds during which the model answers
nobody. So what cannot be right, or would take too many objects, is refused by its brackets and commas, which are
counted in a thousandth of the time. A text that passes may still be wrong: this only bounds what finding out costs.
"""

from __future__ import annotations

import numpy as np

LARGE = 64 << 10
"""Bytes of text from which on it is worth counting."""
MOST_LISTS = 1_000_000
"""Inner lists and objects of one text. Elements are not bounded: they are as many as was asked for."""

_PIECE = 1 << 20


def containers(text: bytes) -> int:
    """The lists and objects of a text, with the outermost. If that is few enough, those in strings may count, too."""
    return _counted(text, b"[{")


def lists(text: bytes) -> int:
    """As `containers`, of lists only."""
    return _counted(text, b"[")


def _counted(text: bytes, signs: bytes) -> int:
    found = sum(text.count(sign) for sign in signs)
    if found <= MOST_LISTS or b'"' not in text:
        return found
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    found, inside = 0, 0
    for at in range(0, len(plain), _PIECE):
        piece = np.frombuffer(plain, np.uint8, min(_PIECE, len(plain) - at), at)
        # Quotes so far, modulo 256: odd within a string.
        quotes = np.cumsum(piece == ord('"'), dtype=np.uint8) + np.uint8(inside)
        outside = (quotes & 1) == 0
        found += sum(int(np.count_nonzero((piece == sign) & outside)) for sign in signs)
        inside = int(quotes[-1]) & 1
    return found
