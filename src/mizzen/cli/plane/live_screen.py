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

EVERY: Final = 2.0


async def redraw(
    plane: AsyncPlane,
    ask: Callable[[], Awaitable[dict[str, Any]]],
    screen: Callable[[dict[str, Any] | None, str, int], RenderableType],
) -> None:
    """`screen` makes what is shown of what `ask` answered last, if it ever did; of what is wrong, if something is; and
    for so many columns. A plane that went away is waited for."""
    from rich.live import Live

    ended = asyncio.Event()
    shown: dict[str, Any] | None = None
    with _keys(ended.set), Live(auto_refresh=False, screen=True) as live:
        while not ended.is_set():
            try:
                async with asyncio.timeout(EVERY):
                    shown, trouble = await ask(), ""
            except errors.Unavailable as error:
                trouble = f"{error.message}; waiting for it"
            except TimeoutError:
                trouble = f"{plane.place.control_url} does not answer; waiting for it"
            live.update(screen(shown, trouble, live.console.width), refresh=True)
            try:
                async with asyncio.timeout(EVERY):
                    await ended.wait()
            except TimeoutError:
                continue


@contextmanager
def _keys(end: Callable[[], None]) -> Iterator[None]:
    """While it is open, keys are heard as they are pressed; q ends it. Ctrl-C stays what it is."""
    if not sys.stdin.isatty():
        yield
        return
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(descriptor)

    def pressed() -> None:
        keys = os.read(descriptor, 64)
        if not keys or b"q" in keys.lower():
            end()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
