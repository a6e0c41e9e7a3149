"""Streams that end with the plane, with their time, or with their source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator

import pytest

from mizzen.server.http.streaming import until_stopped
from tests.support.reconcile import virtual


class Source:
    """Numbers, one a second; knows whether it was closed, and from how many tasks it was read."""

    def __init__(self, count: int, error: Exception | None = None) -> None:
        self.count = count
        self.error = error
        self.closed = False
        self.readers: set[asyncio.Task[object] | None] = set()

    async def items(self) -> AsyncGenerator[int, None]:
        try:
            for number in range(self.count):
                self.readers.add(asyncio.current_task())
                await asyncio.sleep(1)
                yield number
            if self.error is not None:
                raise self.error
        finally:
            self.closed = True


async def read(stream: AsyncIterator[int]) -> list[int]:
    return [item async for item in stream]


@pytest.mark.parametrize(("seconds", "items"), [(None, 5), (100, 5), (2.5, 2), (0.5, 0)])
def test_it_ends_with_its_source_or_its_time(seconds: float | None, items: int) -> None:
    async def main() -> None:
        source = Source(5)
        assert await read(until_stopped(source.items(), asyncio.Event(), seconds)) == list(range(items))
        assert source.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual.run(main())


def test_it_ends_when_the_plane_stops_also_between_two_items() -> None:
    async def main() -> None:
        source, stopping = Source(5), asyncio.Event()
        asyncio.get_running_loop().call_later(1.5, stopping.set)
        assert await read(until_stopped(source.items(), stopping)) == [0]
        assert source.closed

        source, stopping = Source(5), asyncio.Event()
        seen = []
        async for item in until_stopped(source.items(), stopping):
            seen.append(item)
            stopping.set()
            await asyncio.sleep(5)  # whoever handles an item is not interrupted
        assert seen == [0]
        assert source.closed

    virtual.run(main())


@pytest.mark.parametrize("error", [TimeoutError("its own"), ValueError("odd")])
def test_what_the_source_raises_is_raised(error: Exception) -> None:
    async def main() -> None:
        source = Source(1, error)
        with pytest.raises(type(error), match=str(error)):
            await read(until_stopped(source.items(), asyncio.Event(), 100))
        assert source.closed

    virtual.run(main())


def test_all_items_are_read_in_the_task_of_the_reader() -> None:
    async def main() -> None:
        source = Source(5)
        await read(until_stopped(source.items(), asyncio.Event()))
        assert source.readers == {asyncio.current_task()}

    virtual.run(main())


def test_a_cancelled_reader_leaves_nothing_behind() -> None:
    async def main() -> None:
        source = Source(5)
        reader = asyncio.create_task(read(until_stopped(source.items(), asyncio.Event(), 100)))
        await asyncio.sleep(2.5)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await asyncio.sleep(0)
        assert source.closed
        assert asyncio.all_tasks() == {asyncio.current_task()}

    virtual.run(main())
