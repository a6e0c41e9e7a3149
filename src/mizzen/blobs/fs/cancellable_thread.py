"""Blocking work in a thread that stops when its caller is canceled."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from mizzen.blobs.fs.content import ByteReader
from mizzen.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(
    work: Callable[Concatenate[threading.Event, P], T], /, *arguments: P.args, **options: P.kwargs
) -> T:
    """Returns the result of `work`, whose first argument is an event that is set if the caller is canceled.

    Returns only when the work has ended: until then its files must neither be closed nor removed.
    """
    import asyncio  # imported here because runners have no event loop and start faster without it

    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop, *arguments, **options))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        running.exception()  # no caller is left to get it
        raise


class CancellableReader:
    """A reader that stops once its caller is canceled."""

    def __init__(self, content: ByteReader, stop: threading.Event) -> None:
        self._content = content
        self._stop = stop

    def read(self, size: int, /) -> bytes | None:
        if self._stop.is_set():
            raise Unavailable("the caller canceled the request")
        return self._content.read(size)
