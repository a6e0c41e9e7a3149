"""The two results of an inspection other than success."""

from __future__ import annotations


class Unproven(Exception):
    """The file contains something that is not on an allow-list. The message is a clause that names it."""


class DamagedFile(Exception):
    """The file is damaged or not of its format, so trust would not help. The message is a clause that says why."""


def quote(text: object) -> str:
    """Return a text from an untrusted file for a message: short, in quotes, without control characters."""
    shown = repr(text if isinstance(text, str) else str(text))
    return shown if len(shown) <= 80 else f"{shown[:76]}…{shown[0]}"
