"""Counts the lists and objects of a large JSON text before it is decoded.

Decoding creates an object for every `[]` and `{}`: dozens of bytes for two, and seconds during which the model answers
no other request. Counting brackets and commas takes a thousandth of the time, and is enough to reject texts that are
wrong or need too many objects. A text that passes may still be invalid: this only bounds the cost of finding out.
"""

from __future__ import annotations

import numpy as np

LARGE = 64 << 10
"""Texts from this size on are worth counting."""
MAX_LISTS = 1_000_000
"""Maximum inner lists and objects of one text. Elements are not limited: the request announces how many there are."""

MAX_STRINGS = 4_000_000
"""Maximum strings of one text: each is an object of dozens of bytes."""

_PIECE = 1 << 20


def count_containers(text: bytes) -> int:
    """Count lists and objects, including the outermost. Below MAX_LISTS, brackets in strings may count too."""
    return _count(text, b"[{")


def count_lists(text: bytes) -> int:
    """Like `count_containers`, for lists only."""
    return _count(text, b"[")


def count_values(text: bytes) -> int:
    """Count the commas that separate values. Below MAX_LISTS, commas in strings may count too."""
    return _count(text, b",")


def _count(text: bytes, signs: bytes) -> int:
    found = sum(text.count(sign) for sign in signs)
    return found if found <= MAX_LISTS or b'"' not in text else count_outside(text, signs)


def count_strings(text: bytes) -> int:
    """Count the strings."""
    quotes = text.count(b'"')
    if b"\\" in text:
        quotes -= text.replace(b"\\\\", b"").count(b'\\"')
    return quotes // 2


def count_outside(text: bytes, signs: bytes) -> int:
    """Count these bytes outside of strings."""
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
