"""One process at a time has a store: a lock on a file beside it, which the kernel frees when that process dies."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from mizzen.errors import Conflict

WAIT_SECONDS = 5.0
"""A predecessor may still be closing."""
_POLL_SECONDS = 0.02


class Lock:
    """Held from `take` to `release`."""

    def __init__(self, fd: int) -> None:
        self._fd: int | None = fd

    @classmethod
    async def take(cls, store: Path) -> Lock:
        """Conflict, naming the process, when another does not let go in time."""
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
        """Once is enough; a second time does nothing."""
        # The file stays: whoever removed it could remove the one that a successor has locked.
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


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
