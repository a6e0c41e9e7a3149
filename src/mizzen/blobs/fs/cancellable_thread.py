"""Blocking work in a thread that gives up when nobody waits for it any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from mizzen.blobs.fs.content import Readable
from mizzen.errors import Unavailable

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(
    work: Callable[Concatenate[threading.Event, P], T], /, *arguments: P.args, **options: P.kwargs
) -> T:
    """The result of `work`, whose first argument is set once the caller is cancelled.

    Ends only when the work has: until then its files must neither be closed nor removed.
    """
    import asyncio  # not above: runners, which have no event loop, start more quickly

    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(work, stop, *arguments, **options))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([running])
        running.exception()  # nobody is there to be told
        raise


class CancellableReader:
    """Content that is read only as long as it is wanted."""

    def __init__(self, content: Readable, stop: threading.Event) -> None:
        self._content = content
        self._stop = stop

    def read(self, size: int, /) -> bytes | None:
        if self._stop.is_set():
            raise Unavailable("nobody waits for this any more")
        return self._content.read(size)
