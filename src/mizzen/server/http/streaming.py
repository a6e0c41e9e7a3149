"""Streams and waits that end by themselves when the plane stops: one open watch must not hold up a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.requests import Request

from mizzen.errors import Unavailable
from mizzen.server.http.context import plane_of

T = TypeVar("T")


async def until_stopped(
    source: AsyncIterator[T], stopping: asyncio.Event, seconds: float | None = None
) -> AsyncGenerator[T, None]:
    """The items of `source` until it ends, the plane stops, or the time is over. Closes `source`."""
    clock = asyncio.get_running_loop().time
    end = None if seconds is None else clock() + seconds
    waiting: asyncio.Timeout | None = None

    async def stop() -> None:
        await stopping.wait()
        if waiting is not None:
            waiting.reschedule(clock())

    # One task for the whole stream, not one for each item: there may be many streams, and many items.
    stopper = asyncio.ensure_future(stop())
    try:
        while not stopping.is_set():
            waiting = asyncio.timeout_at(end)
            try:
                async with waiting:
                    item = await anext(source)
            except StopAsyncIteration:
                return
            except TimeoutError:
                if waiting.expired():
                    return
                raise
            waiting = None  # what is done with the item is not interrupted
            yield item
    finally:
        await _cancelled(stopper)
        await _closed(source)


@asynccontextmanager
async def closing(source: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """As contextlib.aclosing, for iterators that may have nothing to close."""
    try:
        yield source
    finally:
        await _closed(source)


async def while_wanted(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`, given up when the plane stops (Unavailable) or the client leaves."""
    task = asyncio.ensure_future(work)
    ends = [asyncio.ensure_future(plane_of(request).stopping.wait()), asyncio.ensure_future(_left(request))]
    try:
        await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Unavailable("the plane is stopping; what was asked for goes on at its next start")
    finally:
        await _cancelled(task, *ends)


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _closed(source: AsyncIterator[T]) -> None:
    if isinstance(source, AsyncGenerator):
        await source.aclose()


async def _cancelled(*futures: asyncio.Future[Any] | None) -> None:
    tasks = [future for future in futures if future is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
