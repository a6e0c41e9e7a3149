"""Why an attempt cannot go on, in the words of its exit record."""

from __future__ import annotations

import errno

from mizzen.errors import NoRoom

_FULL = (errno.ENOSPC, errno.EDQUOT)
NO_ROOM = "the disk is full: delete something on it, then start the job again"


class Failed(Exception):
    def __init__(self, reason: str, message: str, *, retry: bool = False) -> None:
        """As `runs.records.Exit` has them."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry = retry


def is_full(error: BaseException | None) -> bool:
    """Is it a full disk that this error, or what it came from, speaks of?"""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # some are raised from themselves
        if isinstance(error, NoRoom) or (isinstance(error, OSError) and error.errno in _FULL):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def said(error: BaseException) -> str:
    """In one line."""
    return " ".join(str(error).split())[:1000] or type(error).__name__
