"""INT, TERM and HUP, taken as the same wish: an end. Ctrl-C, and what is told of it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Final, Self

import typer

from mizzen.cli import output

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def told(left: Callable[[], str]) -> Iterator[None]:
    """When the block is interrupted, say what is `left` of its work and end the command."""
    try:
        yield
    except KeyboardInterrupt:
        output.note(f"interrupted: {left()}")
        raise typer.Exit(130) from None


class Interrupts:
    """While it is open, each of the signals raises KeyboardInterrupt; after `collect` they are counted instead."""

    def __init__(self) -> None:
        self.count = 0
        self.came = threading.Event()
        self._collecting = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # A shell that runs us in the background, or nohup, may have the signal ignored: leave that.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def collect(self) -> None:
        self._collecting = True

    @contextmanager
    def held(self) -> Iterator[None]:
        """For what must not be left half done: a signal that comes meanwhile raises at the end of the block."""
        self._collecting = True
        try:
            yield
        finally:
            self._collecting = False
        if self.count:
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1  # in any case: Python swallows what is raised in a destructor
        self.came.set()
        if not self._collecting:
            raise KeyboardInterrupt
