"""The execution slot of one request. It is held while the request is worked on, not while it waits for others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

from starlette.requests import Request

from mizzen.access.policy import Actor
from mizzen.server.flow_control.fair_queue import Turn
from mizzen.server.flow_control.limits import FlowControl, Work
from mizzen.server.http.streaming import cancel, run_while_connected

T = TypeVar("T")
Disconnected: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class ClientGone(Exception):
    """The client disconnected while its request was waiting."""


class Execution:
    """`begin` once, and `end` in any case. In between, the request may `pause` and `resume`.

    A paused request counts as a stream of its actor. An actor with too many streams cannot pause: its requests then
    hold their slots while they wait, which delays only its own.
    """

    def __init__(self, control: FlowControl, actor: Actor, work: Work) -> None:
        self._control = control
        self._actor = actor
        self._work = work
        self._queue = control.queues[work]
        self._turn: Turn | None = None
        self._is_stream = False
        self._is_detached = False

    async def begin(self, gone: Disconnected | None = None) -> None:
        """Returns when the request has a slot. Raises TooManyRequests; Unavailable when the plane stops.

        `gone` returns when the client has disconnected; then this raises ClientGone, unless the request has its slot.
        """
        await self._enter(admitted=False, gone=gone)

    def end(self) -> None:
        """Gives everything back. The second time, it does nothing."""
        self._leave()
        self.close_stream()

    def release(self) -> None:
        """Gives the slot back without a reason to wait: the work is done."""
        self._leave()

    def pause(self) -> bool:
        """Gives the slot back while the request waits; `resume` only if this returns True."""
        if self._is_detached or not self.open_stream():
            return False
        self._leave()
        return True

    async def resume(self) -> None:
        if self._turn is None:
            await self._enter(admitted=True)

    def open_stream(self) -> bool:
        """Counts this request as a stream until its end. False: the actor has too many."""
        self._is_stream = self._is_stream or self._control.take_stream(self._actor)
        return self._is_stream

    def close_stream(self) -> None:
        if self._is_stream:
            self._is_stream = False
            self._control.return_stream(self._actor)

    def detach(self) -> None:
        """Makes the request a stream for the rest of its time. Raises TooManyRequests."""
        if not self.open_stream():
            raise self._control.rejection(self._actor, "stream")
        self._leave()
        self._is_detached = True

    @asynccontextmanager
    async def attach(self) -> AsyncIterator[None]:
        """Holds a slot again for a part of a stream that costs as much as a request."""
        self._is_detached = False
        try:
            await self.resume()
            yield
        finally:
            self._leave()
            self._is_detached = True

    @asynccontextmanager
    async def wait(self) -> AsyncIterator[None]:
        """For waits inside a request."""
        paused = self.pause()
        yield
        if paused:  # after an error, an error response costs no slot
            await self.resume()

    async def _enter(self, *, admitted: bool, gone: Disconnected | None = None) -> None:
        if self._control.stopping:
            raise self._control.rejection(self._actor, self._work)
        granted = asyncio.Event()
        bounded = self._actor != self._control.exempt
        turn = self._queue.enter(self._actor.name, granted.set, admitted=admitted, bounded=bounded)
        if turn is None:
            raise self._control.rejection(self._actor, self._work)
        self._turn = turn
        if turn.is_executing:
            return
        clock = asyncio.get_running_loop().time
        begin = clock()
        try:
            await _wait_first(granted.wait, gone)
        except BaseException:
            self._leave()  # also if it was granted meanwhile
            raise
        self._control.count_wait(self._actor, self._work, clock() - begin)
        if not turn.is_executing:
            self._leave()
            raise self._control.rejection(self._actor, self._work) if self._control.stopping else ClientGone

    def _leave(self) -> None:
        if self._turn is not None:
            self._queue.leave(self._turn)
            self._turn = None


def execution_of(request: Request) -> Execution:
    execution = request.state.execution
    assert isinstance(execution, Execution)
    return execution


async def wait_while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """As `run_while_connected`, for work that waits: it holds no execution slot."""
    async with execution_of(request).wait():
        return await run_while_connected(request, work)


async def _wait_first(granted: Callable[[], Coroutine[Any, Any, object]], gone: Disconnected | None) -> None:
    if gone is None:
        await granted()
        return
    waiting = [asyncio.ensure_future(granted()), asyncio.ensure_future(gone())]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel(*waiting)
