"""Files that the plane replaces as a whole; they are polled every 50 ms, and each new version is loaded.

A missing or invalid file is logged once and changes nothing: the gateway keeps the last valid one indefinitely.
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
        """`take` puts the content in force and returns a summary for the log; ValueError if it is not valid."""
        self._what = what
        self._path = path
        self._take = take
        self._loop = loop
        self._last_fingerprint: tuple[int, int, int] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        if not self._path.exists():
            log.info("no %s at %s yet", self._what, self._path)
        self._poll()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _poll(self) -> None:
        self._timer = self._loop.call_later(POLL_SECONDS, self._poll)
        try:
            found = _fingerprint(os.stat(self._path))
        except OSError as error:
            if self._last_fingerprint is not None:
                log.warning("cannot read the %s any more, keeping the last one: %s", self._what, error)
            self._last_fingerprint = None
            return
        if found != self._last_fingerprint:
            self._last_fingerprint = found
            self._load()

    def _load(self) -> None:
        try:
            summary = self._take(self._path.read_bytes())
        except (OSError, ValueError) as error:
            log.warning("the %s is not valid, keeping the last good one: %s", self._what, error)
        else:
            log.info("%s", summary)


def _fingerprint(stat: os.stat_result) -> tuple[int, int, int]:
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
