"""Tells, once for each watched process, that it ended.

Children are reaped on SIGCHLD, all of them in one place: a subreaper also gets children it never started. Adopted
processes are nobody's children here; a pidfd tells of their end, but not of their exit code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from mizzen.supervisor.processes import procfs

Ended = Callable[[int | None], None]
"""Called with the exit code; 128 + s after signal s; None when it cannot be known."""

_LOOK_EVERY = 1.0
"""Seconds between looks at an adopted process where there is no pidfd."""


class Exits:
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._children: dict[int, Ended] = {}

    def watch_child(self, pid: int, ended: Ended) -> None:
        """Call it before the loop runs again, else `reap` may be first and take the child for an orphan."""
        self._children[pid] = ended

    def watch_stranger(self, pid: int, start: str, ended: Ended) -> None:
        """`ended` is never called from within; if the process is gone already, then soon."""
        try:
            descriptor = os.pidfd_open(pid)
        except (AttributeError, OSError):
            self._loop.call_soon(self._look, pid, start, ended)
            return
        if procfs.start_of(pid) != start:  # checked with the pidfd in hand: the pid cannot change its owner now
            os.close(descriptor)
            self._loop.call_soon(ended, None)
            return
        self._loop.add_reader(descriptor, self._stranger_ended, descriptor, ended)

    def reap(self) -> None:
        """Takes every child that has ended; for SIGCHLD, which may stand for several."""
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

    def _look(self, pid: int, start: str, ended: Ended) -> None:
        if procfs.start_of(pid) == start:
            self._loop.call_later(_LOOK_EVERY, self._look, pid, start, ended)
        else:
            ended(None)
