"""A watchdog that ends the process if a call of the model runs longer than any caller waits for its answer.

The calling thread only records when a call began and ended; a separate thread checks the record now and then. A stuck
process looks healthy from outside, since its socket stays open. One that has ended is restarted, and the restart is
visible. Loading is not watched: it may take as long as it needs.

Hazard: the thread needs the interpreter. Native code that never releases it is not noticed.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import threading
import time
from pathlib import Path

from mizzen.runtime import caller_context

LIMIT_SECONDS = 65.0
"""Above every deadline: no request lives longer than 60 s (`MAX_SECONDS` of `gateway.queueing.call`)."""
LOOK_SECONDS = 5.0
EXIT_STUCK = 70
_STDERR = 2

log = logging.getLogger("mizzen.runtime")


class Running:
    """The present call of the model."""

    __slots__ = ("since",)

    def __init__(self) -> None:
        self.since: float | None = None
        """When it began, by the monotonic clock; None between calls."""


class Watchdog:
    def __init__(
        self, last_words: str | None, *, limit: float = LIMIT_SECONDS, look_every: float = LOOK_SECONDS
    ) -> None:
        """`last_words`: the file for the reason of the process's end."""
        self.running = Running()
        self._last_words = last_words
        self._limit = limit
        self._look_every = look_every

    def start(self) -> None:
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def _watch(self) -> None:
        while True:
            time.sleep(self._look_every)
            since = self.running.since
            if since is not None and time.monotonic() - since > self._limit:
                self._end()

    def _end(self) -> None:
        message = f"predict ran for more than {self._limit:g} s without an answer; the process was ended"
        try:
            leave_last_words(self._last_words, message)
            faulthandler.dump_traceback(_STDERR)
            log.error("stuck: %s (%s)", message, caller_context.describe_callers())
        finally:
            os._exit(EXIT_STUCK)  # the main thread would not notice anything gentler


def leave_last_words(path: str | None, message: str) -> None:
    """Write one line on why this process ended. The exit code matters more, so this never raises."""
    if not path:
        return
    try:
        Path(path).write_text(message + "\n", encoding="utf-8", errors="replace")
    except OSError as problem:
        log.warning("cannot write the termination message: %s", problem)
