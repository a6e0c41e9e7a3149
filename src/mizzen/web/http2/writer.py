"""A client's connection with HTTP/2 as its streams, the server and the door see it: what is written, and when it ends.

Hazards kept in mind: a client that reads nothing must not make us hold its answers for ever, whether it stops all of
the connection or one stream; one that is gone without a word is asked whether it lives, where something waits for it; a
connection that is closed while the client still writes is reset, and our last words are lost with it, so we linger.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from mizzen.web.connection_limits import UNTAKEN_BYTES, Door, Guest
from mizzen.web.http2 import frames
from mizzen.web.http2.frames import Code
from mizzen.web.http2.stream import Host, Stream

LINGER_SECONDS = 0.25
NOISE, QUIET, QUIET_OF_DATA = 10_000, 20, 4
"""How much noise a client may make, beyond which it is sent away, and how much of it each call makes up for, and each
piece of an answer that has many: clients say that they have them. A tenth of it is forgotten every second."""

SOON_BYTES = 256 << 10
"""Of data that waits to be written with what else is answered in this turn: beyond it we have to know who reads it."""

_FIRST_WINDOW = 65_535
_PING = frames.frame(frames.PING, 0, 0, b"mizzen?!")


class WireProtocol(Guest):
    """Run by uvicorn's server, as one of its protocols: it keeps itself in the state's connections."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        host: Host,
        door: Door,
    ) -> None:
        self.transport: asyncio.Transport = None  # type: ignore[assignment]
        self.window = _FIRST_WINDOW
        self.frame_bytes = frames.FRAME_BYTES
        self._host = host
        self._door = door
        self._loop = _loop or asyncio.get_running_loop()
        self._connections = server_state.connections
        self._entered = False
        self._greeted = False
        """The client has said that it speaks HTTP/2."""
        self._streams: dict[int, Stream] = {}
        self._blocked: dict[Stream, None] = {}
        self._last = 0
        """The newest stream that the client has begun, as far as we answer it."""
        self._first_window = _FIRST_WINDOW
        """Of each stream, for what we send."""
        self._out: list[bytes] = []
        self._out_bytes = 0
        """Of data in it."""
        self.paused = False
        self._leaving = False
        """It was told that no more is answered than has been asked."""
        self._deaf = False
        """Nothing that comes is looked at any more."""
        self._noise = 0
        self._idle_since = self._heard_at = door.now
        self._asked_at = float("-inf")
        """When it was asked whether it lives."""
        self._coming = 0
        """Calls that had not come to their end when the door last looked, which counts them."""
        self._unsent = 0
        self._unsent_since = door.now

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's do not derive from asyncio's
        self._connections.add(cast(Any, self))
        if self.handshake is not None:
            self.handshake.leave()  # and its place is ours
        self._entered = self._door.enter()
        if not self._entered:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(cast(Any, self))
        if self._entered:
            self._door.leave()
        self._count_coming(0)
        self._drop_all()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self.paused = True
        self.transport.pause_reading()  # who does not read answers may not ask more

    def resume_writing(self) -> None:
        self.paused = False
        self.transport.resume_reading()
        self._pump()

    # What streams ask

    @property
    def now(self) -> float:
        return self._door.now

    def send(self, data: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(data)

    def wrote(self, size: int) -> None:
        self._out_bytes += size
        if self._out_bytes > SOON_BYTES:
            self._flush()

    def sent(self) -> None:
        self._noise = max(0, self._noise - QUIET_OF_DATA)

    def left(self, stream: Stream) -> None:
        if self._blocked:
            self._blocked.pop(stream, None)
        if self._noise:
            self._noise = max(0, self._noise - QUIET)
        if self._streams.pop(stream.id, None) is not None and not stream.heard and not self._deaf:
            self.send(frames.reset(stream.id, Code.NO_ERROR))  # the rest of the request is not needed
        if not self._streams:
            self._idle_since = self._door.now
            if self._leaving:
                self._end()

    def blocked(self, stream: Stream) -> None:
        self._blocked[stream] = None

    def taken(self, stream: Stream) -> None:
        raise NotImplementedError

    def waits(self, size: int) -> None:
        self._door.unsent += size

    def has_room(self, size: int) -> bool:
        unsent = self._door.unsent
        return unsent <= UNTAKEN_BYTES or unsent == size  # whatever its size, where there is no other

    # What the server asks

    def shutdown(self) -> None:
        """Answer what has been asked, then close."""
        if not self._leaving:
            self._say_goodbye(Code.NO_ERROR, "")
        for stream in list(self._streams.values()):
            if stream.receiver is not None:
                stream.receiver.stopping()
        if not self._streams:
            self._end()

    # What the door asks, once a second

    def close_if_over_time(self) -> None:
        now, patience = self._door.now, self._door.patience
        self._noise = max(0, self._noise - NOISE // 10)
        unsent = self.transport.get_write_buffer_size()
        if unsent != self._unsent or not unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > patience.untaken:
            self.transport.abort()  # `close` would wait for it, too
            return
        if self._streams:
            self._look_at_streams(now)
            self._ask_if_alive(now)
            return
        self._count_coming(0)
        if self._deaf or self._leaving:
            if now - self._idle_since > patience.request:
                self.transport.abort()
        elif now - self._idle_since > (patience.idle if self._greeted else patience.stalled):
            self.shutdown()

    def _look_at_streams(self, now: float) -> None:
        patience = self._door.untaken
        coming = 0
        for stream in list(self._streams.values()):
            untaken = bool(stream.unsent) and now - stream.moved_at > patience
            if untaken or self._late(stream, now):
                stream.reset(Code.CANCEL)
            elif not stream.heard and stream.since is not None:
                coming += 1
        self._count_coming(coming)

    def _count_coming(self, coming: int) -> None:
        self._door.coming += coming - self._coming
        self._coming = coming

    def _late(self, stream: Stream, now: float) -> bool:
        """What is being read of it does not come to its end."""
        patience = self._door.patience
        if stream.heard or stream.holding or stream.since is None:
            return False
        most = patience.request + stream.bytes / patience.slowest
        return now - stream.heard_at > self._door.stalled or now - stream.since > most

    def _ask_if_alive(self, now: float) -> None:
        """Whoever waits for what may be long in coming says nothing meanwhile, and so does who is gone."""
        patience = self._door.patience
        if now - self._heard_at <= patience.stalled or self.paused:
            return
        if self._asked_at < self._heard_at:
            self._asked_at = now
            self.send(_PING)
        elif now - self._asked_at > patience.stalled:
            self.transport.abort()

    # Writing

    def _flush(self) -> None:
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self.transport.is_closing():
            self.transport.write(out[0] if len(out) == 1 else b"".join(out))

    def _pump(self) -> None:
        """Those that could not send may be able to now, in turns."""
        if self.paused or not self._blocked:
            return
        blocked, self._blocked = self._blocked, {}
        waiting: dict[Stream, None] = {}
        for stream in blocked:
            if self.window > 0 and not self.paused:
                stream.resume()
            else:
                waiting[stream] = None
        self._blocked = waiting | self._blocked  # who had no turn has the next one

    # The end

    def _say_goodbye(self, code: Code, message: str) -> None:
        self._leaving = True
        self.send(frames.go_away(self._last, code, message))

    def _send_away(self, code: Code, message: str) -> None:
        """For a fault of its own: nothing is answered any more."""
        self._deaf = True
        self._say_goodbye(code, message)
        self._drop_all()
        self._end()

    def _drop_all(self) -> None:
        self._deaf = self._leaving = True
        for stream in list(self._streams.values()):
            stream.cancel()
        self._blocked.clear()

    def _end(self) -> None:
        """Our last words are on their way; the client mostly closes first, when it has them."""
        self._flush()
        self._loop.call_later(LINGER_SECONDS, self.transport.close)
