"""Streaming calls: long-lived, with any number of messages in both directions.

Flow control: a client is read no faster than it is answered, and answered no faster than it reads.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TypeAlias

from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.message_framing import MessageReader
from mizzen.gateway.grpc.unary import PREFIX, GrpcCall
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.queueing.call import BAD_REQUEST, UNAVAILABLE
from mizzen.gateway.request.body_budget import OVER_BUDGET, BodyReservation
from mizzen.gateway.request.grpc_status import BY_HTTP, GrpcStatus
from mizzen.gateway.telemetry.counters import GONE
from mizzen.web.http2.headers import encode_headers

MAX_PENDING = 32
"""Unanswered messages of a call beyond which it is not read."""
MAX_STREAMS, MAX_WATCHES = 8192, 1024
"""Limits of concurrent streaming calls: to models, and without permission checks, which must not starve the others."""
MAX_UNSENT_BYTES = 256 << 10
"""Bytes of answers that the client has not read, beyond which no more are produced."""
TURN_MESSAGES = 16
"""Messages of a call that are taken in one turn of the event loop: a frame may have thousands of tiny ones."""
STOPPING_MESSAGE = "this gateway is stopping; retry"

log = logging.getLogger(__name__)

Respond: TypeAlias = Callable[[AsyncIterator[bytes]], AsyncIterator[bytes]]


class StreamingCallLimit:
    """Limits the number of streaming calls: each may last forever and takes some kilobytes."""

    __slots__ = ("_max_count", "count")

    def __init__(self, most: int) -> None:
        self._max_count = most
        self.count = 0

    def enter(self) -> None:
        """Raises RpcError if the limit is reached."""
        if self.count >= self._max_count:
            raise RpcError(UNAVAILABLE, "this gateway has too many streaming calls", 1)
        self.count += 1


class StreamingCall:
    """A Receiver of many messages. A subclass takes them one by one, while it `has_room`."""

    def __init__(self, rpc: GrpcCall, most: int, limit: StreamingCallLimit) -> None:
        """Raises RpcError."""
        limit.enter()
        self._limit = limit
        self._rpc = rpc
        self._stream = rpc.stream
        self._stream.read_started_at = None
        self._reader = MessageReader(rpc.call_head.encoding, most)
        self._share = BodyReservation(rpc.service.intake)
        self._started = False
        self._input_ended = False
        self._closed = self._advancing = False

    def on_data(self, data: bytes) -> None:
        if self._closed:  # the call has ended; only answers are left to be sent
            return
        self._reader.feed(data)
        if not self._share.grow(len(self._reader)):
            self.end(RpcError(UNAVAILABLE, OVER_BUDGET, 1))
            return
        self.advance()

    def on_end(self) -> None:
        self._input_ended = True
        self.advance()

    def on_cancel(self) -> None:
        if not self._closed:
            self._close()
            self._rpc.note(self._rpc.call_head.head.id, GONE)

    def on_writable(self) -> None:
        self.advance()

    def has_waited_long(self) -> bool:
        return self._rpc.has_waited_long()

    def on_shutdown(self) -> None:
        self.end(RpcError(UNAVAILABLE, STOPPING_MESSAGE))

    # Subclasses implement these

    def has_room(self) -> bool:
        """Whether one more message can be taken."""
        raise NotImplementedError

    def on_message(self, message: bytes) -> None:
        """Take a message. Raises RpcError."""
        raise NotImplementedError

    def buffered_size(self) -> int:
        """Return the bytes of taken messages that nothing else accounts for."""
        return 0

    def on_messages_end(self) -> None:
        """There are no more messages."""
        raise NotImplementedError

    def on_close(self) -> None:
        """The call is over: cancel what is pending."""
        raise NotImplementedError

    # Subclasses use these

    def advance(self) -> None:
        """Take the messages that can be taken, and let the client send more if there is room."""
        if self._advancing or self._closed:  # an immediate answer calls it recursively
            return
        self._advancing = True
        cutter, rested = self._reader, not self._reader.needs_yield
        message: bytes | None = b""
        took = 0
        try:
            while (
                not self._closed
                and self.has_room()
                and not cutter.needs_yield
                and (message := cutter.next()) is not None
            ):
                took += 1
                cutter.needs_yield = took >= TURN_MESSAGES
                self._rpc.size += len(message)
                self.on_message(message)
        except RpcError as error:
            self.end(error)
        finally:
            self._advancing = False
        if rested and cutter.needs_yield:
            asyncio.get_running_loop().call_soon(self._resume)
        if not self._closed:
            self._update_flow(whole=message is None and not cutter.needs_yield, took=took > 0)

    def _resume(self) -> None:
        """Continue after yielding to the event loop."""
        self._reader.needs_yield = False
        self.advance()

    def _update_flow(self, *, whole: bool, took: bool) -> None:
        """`whole`: no complete message is left. `took`: at least one was taken."""
        stream, left = self._stream, len(self._reader)
        if not self._share.grow(left + self.buffered_size()):
            self.end(RpcError(UNAVAILABLE, OVER_BUDGET, 1))
            return
        held = bool(left) and not whole
        stream.hold(held)
        if held or not left:
            stream.read_started_at = None
        elif took or stream.read_started_at is None:
            stream.read_started_at, stream.bytes = stream.now, 0
        if self._input_ended and whole:
            if left:
                self.end(RpcError(400, "the last message is incomplete"))
            else:
                self.on_messages_end()

    def write(self, message: bytes) -> None:
        if not self._closed:
            self._start_response()
            self._stream.write(PREFIX.pack(0, len(message)) + message)

    def end(self, error: RpcError | None = None) -> None:
        """End the call: successfully, or with an error."""
        if self._closed:
            return
        self._close()
        rpc = self._rpc
        if error is not None and not self._started:
            rpc.refuse(error)
            return
        self._start_response()
        code = 200 if error is None else error.code
        known = BY_HTTP.get(code, GrpcStatus.UNKNOWN)
        self._stream.finish(status.TAIL if error is None else encode_headers(status.trailers_of(known, error.text)))
        rpc.note(rpc.call_head.head.id, code)

    def _start_response(self) -> None:
        if not self._started:
            self._started = True
            head = self._rpc.call_head.head
            self._stream.begin(status.response_head(head.id or self._rpc.service.new_id()))

    def _close(self) -> None:
        """Called exactly once."""
        self._closed = True
        self._limit.count -= 1
        self._reader.discard()
        self._share.end()
        self._stream.hold(True)
        self.on_close()


class IteratorCall(StreamingCall):
    """A streaming call whose messages are answered by an async iterator."""

    def __init__(
        self, rpc: GrpcCall, respond: Respond, most: int, limit: StreamingCallLimit, *, single: bool = False
    ) -> None:
        """`single`: the call has exactly one request message."""
        super().__init__(rpc, most, limit)
        self._single, self._has_request = single, False
        self._held_bytes = 0
        self._messages: deque[bytes] = deque()
        self._arrived, self._writable = asyncio.Event(), asyncio.Event()
        self._last = False
        self._task = asyncio.ensure_future(self._run(respond))

    def has_room(self) -> bool:
        return len(self._messages) < MAX_PENDING

    def on_message(self, message: bytes) -> None:
        if self._single and self._has_request:
            raise RpcError(BAD_REQUEST, "the call must have exactly one message")
        self._has_request = True
        self._held_bytes += len(message)
        self._messages.append(message)
        self._arrived.set()

    def buffered_size(self) -> int:
        return self._held_bytes

    def on_writable(self) -> None:
        super().on_writable()
        self._writable.set()

    def on_messages_end(self) -> None:
        self._last = True
        self._arrived.set()

    def on_close(self) -> None:
        self._task.cancel()

    async def _run(self, respond: Respond) -> None:
        try:
            async for message in respond(self._requests()):
                self.write(message)
                await self._wait_writable()
        except RpcError as error:
            self.end(error)
        except Exception:
            log.exception("answering a gRPC call failed")
            self.end(RpcError(500, "internal error"))
        else:
            self.end()

    async def _wait_writable(self) -> None:
        """Wait until the client has read enough. Always yields: there may be thousands of immediate answers."""
        await asyncio.sleep(0)
        while self._stream.unsent > MAX_UNSENT_BYTES:
            self._writable.clear()
            await self._writable.wait()

    async def _requests(self) -> AsyncIterator[bytes]:
        while True:
            while self._messages:
                message = self._messages.popleft()
                self._held_bytes -= len(message)
                self.advance()
                yield message
            if self._last:
                return
            self._arrived.clear()
            await self._arrived.wait()
