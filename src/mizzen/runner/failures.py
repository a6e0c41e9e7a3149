"""Failures of an attempt, in the terms of its exit record."""

from __future__ import annotations

import errno

from mizzen.errors import MizzenError, NoRoom, Unavailable

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (
    *_FULL, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE,
    errno.ETIMEDOUT, errno.EBUSY, errno.EROFS,
)  # fmt: skip
NO_ROOM = "the disk is full: free up space on it, then start the job again"


class Failed(Exception):
    def __init__(self, reason: str, message: str, *, retry: bool = False) -> None:
        """The fields are those of `runs.records.Exit`."""
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.retry = retry


def is_full(error: BaseException | None) -> bool:
    """Return whether this error, or one of its causes, means a full disk."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # some are raised from themselves
        if isinstance(error, NoRoom) or (isinstance(error, OSError) and error.errno in _FULL):
            return True
        seen.add(id(error))
        error = error.__cause__
    return False


def may_pass(error: BaseException) -> bool:
    """Return whether the store, the disk or the machine must recover, rather than the input being wrong."""
    if isinstance(error, Unavailable | NoRoom) or is_full(error):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING


def describe(error: BaseException) -> str:
    """Return one line: what is wrong, and then what to do, in plain language."""
    if isinstance(error, MizzenError) and error.hint:
        whole = str(error).removesuffix(f"\nhint: {error.hint}").rstrip(".;")
        return " ".join(f"{whole}; {error.hint}".split())[:1000]
    return " ".join(str(error).split())[:1000] or type(error).__name__
