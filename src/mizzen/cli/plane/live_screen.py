"""A screen that is redrawn every two seconds, until q is pressed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mizzen import errors

if TYPE_CHECKING:
    from rich.console import RenderableType

    from mizzen.sdk.client import AsyncPlane

INTERVAL: Final = 2.0


async def redraw(
    plane: AsyncPlane,
    ask: Callable[[], Awaitable[dict[str, Any]]],
    screen: Callable[[dict[str, Any] | None, str, int], RenderableType],
) -> None:
    """Redraw until q is pressed. If the plane goes away, wait for it.

    `screen` renders the last response of `ask` (None before the first), the current problem, and the width in columns.
    """
    from rich.live import Live

    ended = asyncio.Event()
    shown: dict[str, Any] | None = None
    with _read_keys(ended.set), Live(auto_refresh=False, screen=True) as live:
        while not ended.is_set():
            try:
                async with asyncio.timeout(INTERVAL):
                    shown, trouble = await ask(), ""
            except errors.Unavailable as error:
                trouble = f"{error.message}; waiting for it"
            except TimeoutError:
                trouble = f"{plane.place.control_url} does not answer; waiting for it"
            live.update(screen(shown, trouble, live.console.width), refresh=True)
            try:
                async with asyncio.timeout(INTERVAL):
                    await ended.wait()
            except TimeoutError:
                continue


@contextmanager
def _read_keys(end: Callable[[], None]) -> Iterator[None]:
    """While open, read keys as they are pressed; q calls `end`. Ctrl-C keeps its meaning."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def on_key() -> None:
        keys = os.read(descriptor, 64)
        if not keys or b"q" in keys.lower():
            end()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, on_key)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
