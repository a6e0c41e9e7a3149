"""Streams and waits that end when the plane stops: an open watch must not hold up a shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from mizzen.errors import Unavailable
from mizzen.server.http.context import context_of

T = TypeVar("T")


async def until_stopped(
    source: AsyncIterator[T], stopping: asyncio.Event, seconds: float | None = None
) -> AsyncGenerator[T, None]:
    """Yields the items of `source` until it ends, the plane stops, or the time is up. Closes `source`."""
    clock = asyncio.get_running_loop().time
    end = None if seconds is None else clock() + seconds
    waiting: asyncio.Timeout | None = None

    async def stop() -> None:
        await stopping.wait()
        if waiting is not None:
            waiting.reschedule(clock())

    # One task per stream, not one per item: there may be many streams, and many items.
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
            waiting = None  # stopping must not interrupt the consumer of the item
            yield item
    finally:
        await cancel(stopper)
        await _close(source)


def log_response(chunks: AsyncIterator[bytes], stopping: asyncio.Event) -> Response:
    """Returns a response that follows a log until it ends, or until the plane stops."""
    return StreamingResponse(until_stopped(chunks, stopping), media_type="text/plain; charset=utf-8")


@asynccontextmanager
async def aclose_on_exit(source: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """As contextlib.aclosing, also for iterators without `aclose`."""
    try:
        yield source
    finally:
        await _close(source)


async def run_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of `work`; cancels it when the plane stops or the client disconnects. Raises Unavailable."""
    task = asyncio.ensure_future(work)
    ends = [
        asyncio.ensure_future(context_of(request).stopping.wait()),
        asyncio.ensure_future(_wait_disconnect(request)),
    ]
    try:
        await asyncio.wait({task, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise Unavailable("the plane is stopping; it continues this work after its next start")
    finally:
        await cancel(task, *ends)


async def _wait_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _close(source: AsyncIterator[T]) -> None:
    if isinstance(source, AsyncGenerator):
        await source.aclose()


async def cancel(*futures: asyncio.Future[Any] | None) -> None:
    """Cancels these and waits until they have ended; ignores their results."""
    tasks = [future for future in futures if future is not None]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
