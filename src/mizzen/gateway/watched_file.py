"""Files that the plane replaces whole, looked at every 50 ms. Each new good one is handed over.

One that is missing or broken is reported once and changes nothing: a gateway goes on with the last good one for as long
as it takes.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path

POLL_SECONDS = 0.05

log = logging.getLogger(__name__)


class WatchedFile:
    def __init__(self, what: str, path: Path, take: Callable[[bytes], str], loop: asyncio.AbstractEventLoop) -> None:
        """`take` puts the content in force and says what it was; ValueError when it is of no use."""
        self._what = what
        self._path = path
        self._take = take
        self._loop = loop
        self._seen: tuple[int, int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if not self._path.exists():
            log.info("no %s at %s yet", self._what, self._path)
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._loop.call_later(POLL_SECONDS, self._look)
        try:
            found = _mark(os.stat(self._path))
        except OSError as error:
            if self._seen is not None:
                log.warning("cannot see the %s any more, going on with the last one: %s", self._what, error)
            self._seen = None
            return
        if found != self._seen:
            self._seen = found
            self._load()

    def _load(self) -> None:
        try:
            said = self._take(self._path.read_bytes())
        except (OSError, ValueError) as error:
            log.warning("the %s is of no use, going on with the last good one: %s", self._what, error)
        else:
            log.info("%s", said)


def _mark(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
