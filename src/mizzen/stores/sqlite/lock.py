"""Exclusive use of a store by one process: a lock on a file next to it, which the kernel frees on exit."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from mizzen.errors import Conflict

WAIT_SECONDS = 5.0
"""How long to wait for the lock: a previous process may still be closing the store."""
_POLL_SECONDS = 0.02


class Lock:
    """Held from `take` to `release`."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    @classmethod
    async def take(cls, store: Path) -> Lock:
        """Raises Conflict, naming the process, if another does not release it in time."""
        path = store.with_name(f"{store.name}.lock")
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            await _wait(fd, store)
            os.ftruncate(fd, 0)
            os.pwrite(fd, str(os.getpid()).encode(), 0)
        except BaseException:
            os.close(fd)
            raise
        return cls(fd)

    def release(self) -> None:
        """Idempotent."""
        # The file stays: removing it could remove the file that a successor has locked.
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def is_in_use(store: Path) -> bool:
    """Whether a process has this store open."""
    try:
        fd = os.open(store.with_name(f"{store.name}.lock"), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


async def _wait(fd: int, store: Path) -> None:
    loop = asyncio.get_running_loop()
    end = loop.time() + WAIT_SECONDS
    while not _try_lock(fd):
        if loop.time() >= end:
            pid = os.pread(fd, 20, 0).decode(errors="replace") or "unknown"
            raise Conflict(f"{store} is in use by process {pid}", hint="stop it, or use another data dir")
        await asyncio.sleep(_POLL_SECONDS)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
