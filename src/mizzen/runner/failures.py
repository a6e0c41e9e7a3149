"""Why an attempt cannot go on, in the words of its exit record."""

from __future__ import annotations

import errno

from mizzen.errors import MizzenError, NoRoom, Unavailable

_FULL = (errno.ENOSPC, errno.EDQUOT)
_PASSING = (
    *_FULL, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE,
    errno.ETIMEDOUT, errno.EBUSY, errno.EROFS,
)  # fmt: skip
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


def may_pass(error: BaseException) -> bool:
    """Is it the store, the disk or the machine that has to get better, and not what it was about?"""
    if isinstance(error, Unavailable | NoRoom) or is_full(error):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING


def describe(error: BaseException) -> str:
    """In one line: what is wrong, and then what to do, as somebody would say it."""
    if isinstance(error, MizzenError) and error.hint:
        whole = str(error).removesuffix(f"\nhint: {error.hint}").rstrip(".;")
        return " ".join(f"{whole}; {error.hint}".split())[:1000]
    return " ".join(str(error).split())[:1000] or type(error).__name__
