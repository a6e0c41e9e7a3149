"""uvicorn's server as plane and gateway run it: on a socket that was handed in, and without dying of a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Generator
from types import FrameType

import uvicorn


class WebServer(uvicorn.Server):
    """SIGTERM and SIGINT end `serve` gracefully, and code after it runs. `on_stop` is called as soon as one comes."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None] = lambda: None) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        super().handle_exit(sig, frame)

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """uvicorn's own raises the signal again once it has stopped, which would end the process there and then."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        handled = (signal.SIGINT, signal.SIGTERM)
        for number in handled:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in handled:
                loop.remove_signal_handler(number)
