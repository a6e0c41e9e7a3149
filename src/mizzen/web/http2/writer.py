"""The writing half of an HTTP/2 connection, its timeouts and its end.

Hazards: a client that does not read must not make the server hold responses forever, whether it blocks the connection
or one stream. A client that vanished silently is pinged while a call waits for it. Closing a connection while its
client still writes resets it and loses the last frames, so the close lingers.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from mizzen.web.connection_limits import MAX_UNREAD_BYTES, ConnectionLimiter, LimitedConnection
from mizzen.web.http2 import frames
from mizzen.web.http2.frames import ErrorCode
from mizzen.web.http2.stream import Stream, StreamHandler

LINGER_SECONDS = 0.25
NOISE, QUIET, QUIET_OF_DATA = 10_000, 20, 4
"""Noise limit beyond which a client is disconnected, and how much noise each call, and each piece of a streamed
response, compensates: clients acknowledge them. A tenth of the limit is forgiven every second."""

MAX_BUFFERED_BYTES = 256 << 10
"""Data that is buffered within one turn of the event loop. Beyond it, a flush shows whether the client reads."""

_FIRST_WINDOW = 65_535
_PING = frames.encode_frame(frames.PING, 0, 0, b"mizzen?!")


class Http2WriterProtocol(LimitedConnection):
    """Run by uvicorn's server as one of its protocols: it registers itself in the state's connections."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        host: StreamHandler,
        limiter: ConnectionLimiter,
    ) -> None:
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.window = _FIRST_WINDOW
        self.frame_bytes = frames.FRAME_BYTES
        self._host = host
        self._limiter = limiter
        self._loop = _loop or asyncio.get_running_loop()
        self._connections = server_state.connections
        self._greeted = False
        """The client has sent the HTTP/2 preface."""
        self._streams: dict[int, Stream] = {}
        self._blocked: dict[Stream, None] = {}
        self._last = 0
        """The newest stream of the client that is answered."""
        self._first_window = _FIRST_WINDOW
        """Initial send window of each stream."""
        self._out: list[bytes] = []
        self._out_bytes = 0
        """Bytes of DATA frames in it."""
        self.paused = False
        self._draining = False
        """GOAWAY was sent: no new calls are answered."""
        self._ignores_input = False
        """All further input is ignored."""
        self._noise = 0
        self._idle_since = self._heard_at = limiter.now
        self._pinged_at = float("-inf")
        """When the last PING was sent."""
        self._incoming = 0
        """Incomplete requests at the last check; the limiter counts them."""
        self._unsent_since = limiter.now

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from asyncio's
        self._connections.add(cast(Any, self))
        self._enter()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(cast(Any, self))
        self._leave()
        self._count_incoming(0)
        self._cancel_all()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.paused = True
        self.transport.pause_reading()  # a client that does not read responses may not send requests

    def resume_writing(self) -> None:
        self.paused = False
        self.transport.resume_reading()
        self._pump()

    # Called by streams

    @property
    def now(self) -> float:
        return self._limiter.now

    def send(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def on_data_written(self, size: int) -> None:
        self._out_bytes += size
        if self._out_bytes > MAX_BUFFERED_BYTES:
            self._flush()

    def on_piece_written(self) -> None:
        self._noise = max(0, self._noise - QUIET_OF_DATA)

    def on_stream_closed(self, stream: Stream) -> None:
        if self._blocked:
            self._blocked.pop(stream, None)
        if self._noise:
            self._noise = max(0, self._noise - QUIET)
        if self._streams.pop(stream.id, None) is not None and not stream.request_complete and not self._ignores_input:
            self.send(frames.encode_reset(stream.id, ErrorCode.NO_ERROR))  # the rest of the request is not needed
        if not self._streams:
            self._idle_since = self._limiter.now
            if self._draining:
                self._end()

    def on_stream_blocked(self, stream: Stream) -> None:
        self._blocked[stream] = None

    def grant_window(self, stream: Stream) -> None:
        raise NotImplementedError

    def add_unsent(self, size: int) -> None:
        self._limiter.unsent += size

    def has_room(self, size: int) -> bool:
        unsent = self._limiter.unsent
        return unsent <= MAX_UNREAD_BYTES or unsent == size  # a single response may have any size

    # Called by the server

    def shutdown(self) -> None:
        """Answer the open calls, then close."""
        if not self._draining:
            self._send_goaway(ErrorCode.NO_ERROR, "")
        for stream in list(self._streams.values()):
            if stream.receiver is not None:
                stream.receiver.on_shutdown()
        if not self._streams:
            self._end()

    # Called by the limiter, once a second

    def close_if_expired(self) -> None:
        now, timeouts = self._limiter.now, self._limiter.timeouts
        self._noise = max(0, self._noise - NOISE // 10)
        if self._abort_if_unread():
            return
        if self._streams:
            self._reset_late_streams(now)
            self._ping_if_silent(now)
            return
        self._count_incoming(0)
        if self._ignores_input or self._draining:
            if now - self._idle_since > timeouts.request:
                self.transport.abort()
        elif now - self._idle_since > (timeouts.idle if self._greeted else timeouts.stalled):
            self.shutdown()

    def _reset_late_streams(self, now: float) -> None:
        limit = self._limiter.unread_timeout
        coming = 0
        for stream in list(self._streams.values()):
            untaken = bool(stream.unsent) and now - stream.last_written_at > limit
            if untaken or self._is_late(stream, now):
                stream.reset(ErrorCode.CANCEL)
            elif not stream.request_complete and stream.read_started_at is not None:
                coming += 1
        self._count_incoming(coming)

    def _count_incoming(self, coming: int) -> None:
        self._limiter.incoming += coming - self._incoming
        self._incoming = coming

    def _is_late(self, stream: Stream, now: float) -> bool:
        """Whether the message that is being read takes too long."""
        timeouts = self._limiter.timeouts
        if stream.request_complete or stream.holding or stream.read_started_at is None:
            return False
        most = timeouts.request + stream.bytes / timeouts.min_bytes_per_second
        return now - stream.last_read_at > self._limiter.stall_timeout or now - stream.read_started_at > most

    def _ping_if_silent(self, now: float) -> None:
        """Ping a silent client: it may be waiting for a slow response, or it may be gone."""
        timeouts = self._limiter.timeouts
        if now - self._heard_at <= timeouts.stalled or self.paused:
            return
        if self._pinged_at < self._heard_at:
            self._pinged_at = now
            self.send(_PING)
        elif now - self._pinged_at > timeouts.stalled:
            self.transport.abort()

    # Writing

    def _flush(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self.transport.is_closing():
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _pump(self) -> None:
        """Resume blocked streams, in turns."""
        if self.paused or not self._blocked:
            return
        blocked, self._blocked = self._blocked, {}
        waiting: dict[Stream, None] = {}
        for stream in blocked:
            if self.window > 0 and not self.paused:
                stream.resume()
            else:
                waiting[stream] = None
        self._blocked = waiting | self._blocked  # streams without a turn are first next time

    # The end

    def _send_goaway(self, code: ErrorCode, message: str) -> None:
        self._draining = True
        self.send(frames.encode_goaway(self._last, code, message))

    def _disconnect(self, code: ErrorCode, message: str) -> None:
        """End the connection because of an error of the client; open calls are cancelled."""
        self._ignores_input = True
        self._send_goaway(code, message)
        self._cancel_all()
        self._end()

    def _cancel_all(self) -> None:
        self._ignores_input = self._draining = True
        for stream in list(self._streams.values()):
            stream.cancel()
        self._blocked.clear()

    def _end(self) -> None:
        """Flush, then close after a delay; the client mostly closes first."""
        self._flush()
        self._loop.call_later(LINGER_SECONDS, self.transport.close)
