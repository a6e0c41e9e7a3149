"""Exit notification, once per watched process.

All children are reaped here on SIGCHLD: a subreaper also gets children that it never started. Adopted processes are
not children of the supervisor; a pidfd reports their exit, but not their exit code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from mizzen.supervisor.processes import procfs

Ended = Callable[[int | None], None]
"""Called with the exit code: 128 + s after signal s, None if unknown."""

_POLL_EVERY = 1.0
"""Seconds between polls of an adopted process on systems without pidfd."""


class Exits:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._children: dict[int, Ended] = {}

    def watch_child(self, pid: int, ended: Ended) -> None:
        """Call this before the loop runs again; otherwise `reap` may run first and treat the child as an orphan."""
        self._children[pid] = ended

    def watch_stranger(self, pid: int, start: str, ended: Ended) -> None:
        """Never calls `ended` before it returns; if the process is already gone, calls it soon after."""
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._loop.call_soon(self._poll, pid, start, ended)
            return
        if procfs.start_of(pid) != start:  # checked after opening the pidfd: the pid cannot be reused now
            os.close(descriptor)
            self._loop.call_soon(ended, None)
            return
        self._loop.add_reader(descriptor, self._stranger_ended, descriptor, ended)

    def reap(self) -> None:
        """Reaps every child that has exited. Called on SIGCHLD, which may stand for several exits."""
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                ended = self._children.pop(pid, None)
                if ended is not None:
                    code = os.waitstatus_to_exitcode(status)
                    ended(code if code >= 0 else 128 - code)

    def _stranger_ended(self, descriptor: int, ended: Ended) -> None:
        self._loop.remove_reader(descriptor)
        os.close(descriptor)
        ended(None)

    def _poll(self, pid: int, start: str, ended: Ended) -> None:
        if procfs.start_of(pid) == start:
            self._loop.call_later(_POLL_EVERY, self._poll, pid, start, ended)
        else:
            ended(None)
