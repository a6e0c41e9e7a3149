"""Handling of INT, TERM and HUP, which all interrupt a command, and the message after Ctrl-C."""

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
def report_interrupt(left: Callable[[], str]) -> Iterator[None]:
    """If the block is interrupted, print the state that `left` describes and exit with 130."""
    try:
        yield
    except KeyboardInterrupt:
        output.note(f"interrupted: {left()}")
        raise typer.Exit(130) from None


class Interrupts:
    """While open, each signal raises KeyboardInterrupt; after `collect`, signals are only counted."""

    def __init__(self) -> None:
        self.count = 0
        self.received = threading.Event()
        self._collecting = False
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            # nohup, or a shell that runs the command in the background, may ignore the signal: leave that.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def collect(self) -> None:
        self._collecting = True

    @contextmanager
    def defer(self) -> Iterator[None]:
        """For work that must not be left half done: a signal that arrives meanwhile raises at the end of the block."""
        self._collecting = True
        try:
            yield
        finally:
            self._collecting = False
        if self.count:
            raise KeyboardInterrupt

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1  # count always: Python swallows exceptions raised in a destructor
        self.received.set()
        if not self._collecting:
            raise KeyboardInterrupt
