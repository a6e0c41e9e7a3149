"""Signals and ended threads as events that can be awaited together with files."""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress
from typing import Any


class WakeupPipe:
    def __init__(self) -> None:
        """Only for the main thread. From now on TERM, INT and HUP only set `stop`."""
        self._reading, self._writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.stop = False
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def ring(self) -> None:
        """End a wait. Callable from any thread."""
        with suppress(BlockingIOError):
            os.write(self._writing, b"\0")

    def wait(self, seconds: float, other: int | None = None) -> None:
        """Wait until `ring`, a signal, or `other` is readable; at most this many seconds."""
        handles = [self._reading] if other is None else [self._reading, other]
        ready, _, _ = select.select(handles, [], [], seconds)
        if self._reading in ready:
            with suppress(BlockingIOError):
                os.read(self._reading, 4096)

    def _on_signal(self, *_: Any) -> None:
        self.stop = True
