"""Calls in which messages go back and forth, and that may last: each message is answered by as many as come of it.

A client is read no faster than it is answered, and answered no faster than it reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.message_framing import Cutter
from mizzen.gateway.grpc.unary import PREFIX, Visit
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.inference.calls import BAD_REQUEST, UNAVAILABLE
from mizzen.gateway.request.body_budget import CROWDED, Share
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.web.http2.headers import literal

WAITING = 32
"""Messages of a call that are not answered, beyond which it is not read."""
MOST_TALKS, MOST_WATCHES = 8192, 1024
"""Calls that last: with models, and those that need no right to anything, which must not take the others' places."""
UNREAD = 256 << 10
"""Bytes of answers that are not taken, beyond which there are no more."""
STOPPING = "this gateway is being stopped; ask again"

log = logging.getLogger(__name__)

Respond: TypeAlias = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]


class Talks:
    """How many there are: each may last for ever, and takes some kilobytes while it does."""

    __slots__ = ("_most", "count")

    def __init__(self, most: int) -> None:
        self._most = most
        self.count = 0

    def enter(self) -> None:
        """Unfit when there is no place for one more."""
        if self.count >= self._most:
            raise Unfit(UNAVAILABLE, "too many calls last at this gateway", 1)
        self.count += 1


class Talk:
    """A Receiver of many messages. Whoever derives from it takes them one by one, while there is `room`."""

    def __init__(self, visit: Visit, most: int, talks: Talks) -> None:
        """Unfit."""
        talks.enter()
        self._talks = talks
        self._visit = visit
        self._stream = visit.stream
        self._stream.since = None
        self._cutter = Cutter(visit.opening.encoding, most)
        self._share = Share(visit.service.intake)
        self._begun = False
        self._heard = False
        self._over = self._advancing = False

    def received(self, data: bytes) -> None:
        if self._over:  # its end waits until the client takes what comes before it
            return
        self._cutter.feed(data)
        if not self._share.grow(len(self._cutter)):
            self.end(Unfit(UNAVAILABLE, CROWDED, 1))
            return
        self.advance()

    def ended(self) -> None:
        self._heard = True
        self.advance()

    def cancelled(self) -> None:
        if not self._over:
            self._close()
            self._visit.note(self._visit.opening.options.id, GONE)

    def moved(self) -> None:
        self.advance()

    def lapsed(self) -> bool:
        return self._visit.lapsed()

    def stopping(self) -> None:
        self.end(Unfit(UNAVAILABLE, STOPPING))

    # Whoever derives from it

    def room(self) -> bool:
        """Whether one more message may come."""
        raise NotImplementedError

    def taken(self, message: bytes) -> None:
        """One more has come. Unfit."""
        raise NotImplementedError

    def kept(self) -> int:
        """Bytes of messages that were taken, and that nobody else counts."""
        return 0

    def drained(self) -> None:
        """That was the last."""
        raise NotImplementedError

    def dropped(self) -> None:
        """Nobody waits any more."""
        raise NotImplementedError

    # What they use

    def advance(self) -> None:
        """Take what may be taken, and let the client send more if there is room for it."""
        if self._advancing or self._over:  # whoever is answered at once calls it from within
            return
        self._advancing = True
        cutter, rested = self._cutter, not self._cutter.tired
        message: bytes | None = b""
        took = False
        try:
            while not self._over and self.room() and not cutter.tired and (message := cutter.next()) is not None:
                took = True
                self._visit.size += len(message)
                self.taken(message)
        except Unfit as unfit:
            self.end(unfit)
        finally:
            self._advancing = False
        if rested and cutter.tired:
            asyncio.get_running_loop().call_soon(self._go_on)
        if not self._over:
            self._settle(whole=message is None and not cutter.tired, took=took)

    def _go_on(self) -> None:
        """Others have had their turn."""
        self._cutter.tired = False
        self.advance()

    def _settle(self, *, whole: bool, took: bool) -> None:
        """`whole`: there is no message left that could be taken. `took`: there was one."""
        stream, left = self._stream, len(self._cutter)
        if not self._share.grow(left + self.kept()):
            self.end(Unfit(UNAVAILABLE, CROWDED, 1))
            return
        held = bool(left) and not whole
        stream.hold(held)
        if held or not left:
            stream.since = None
        elif took or stream.since is None:
            stream.since, stream.bytes = stream.now, 0
        if self._heard and whole:
            if left:
                self.end(Unfit(400, "the last message is cut off"))
            else:
                self.drained()

    def write(self, message: bytes) -> None:
        if not self._over:
            self._begin()
            self._stream.write(PREFIX.pack(0, len(message)) + message)

    def end(self, unfit: Unfit | None = None) -> None:
        """Well, unless it is said why not."""
        if self._over:
            return
        self._close()
        visit = self._visit
        if unfit is not None and not self._begun:
            visit.refuse(unfit)
            return
        self._begin()
        code = 200 if unfit is None else unfit.code
        known = status.BY_HTTP.get(code, status.Status.UNKNOWN)
        self._stream.finish(status.TAIL if unfit is None else literal(status.ending(known, unfit.text)))
        visit.note(visit.opening.options.id, code)

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            options = self._visit.opening.options
            self._stream.begin(status.head(options.id or self._visit.service.new_id()))

    def _close(self) -> None:
        """Once."""
        self._over = True
        self._talks.count -= 1
        self._cutter.drop()
        self._share.end()
        self._stream.hold(True)
        self.dropped()


class Streamed(Talk):
    """One whose messages go to an iterator, which makes others of them."""

    def __init__(self, visit: Visit, respond: Respond, most: int, talks: Talks, *, single: bool = False) -> None:
        """`single`: there is one question, and many answers to it."""
        super().__init__(visit, most, talks)
        self._single, self._asked_once = single, False
        self._kept = 0
        self._messages: deque[bytes] = deque()
        self._come, self._moved = asyncio.Event(), asyncio.Event()
        self._last = False
        self._task = asyncio.ensure_future(self._run(respond))

    def room(self) -> bool:
        return len(self._messages) < WAITING

    def taken(self, message: bytes) -> None:
        if self._single and self._asked_once:
            raise Unfit(BAD_REQUEST, "the call does not bring exactly one message")
        self._asked_once = True
        self._kept += len(message)
        self._messages.append(message)
        self._come.set()

    def kept(self) -> int:
        return self._kept

    def moved(self) -> None:
        super().moved()
        self._moved.set()

    def drained(self) -> None:
        self._last = True
        self._come.set()

    def dropped(self) -> None:
        self._task.cancel()

    async def _run(self, respond: Respond) -> None:
        try:
            async for message in respond(self._asked()):
                self.write(message)
                await self._read_enough()
        except Unfit as unfit:
            self.end(unfit)
        except Exception:
            log.exception("failed to answer a call")
            self.end(Unfit(500, "internal error"))
        else:
            self.end()

    async def _read_enough(self) -> None:
        """Others have their turn in any case: there may be thousands of answers that take no waiting."""
        await asyncio.sleep(0)
        while self._stream.unsent > UNREAD:
            self._moved.clear()
            await self._moved.wait()

    async def _asked(self) -> AsyncIterator[bytes]:
        while True:
            while self._messages:
                message = self._messages.popleft()
                self._kept -= len(message)
                self.advance()
                yield message
            if self._last:
                return
            self._come.clear()
            await self._come.wait()
