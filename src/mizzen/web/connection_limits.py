"""Limits that the connections of one process share: how many may be open, and how long the server waits for them."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from uvicorn.server import ServerState

_TLS_HANDSHAKE = b"\x16"
"""The first byte of a TLS connection."""
log = logging.getLogger(__name__)


def closing_response(status: str, text: str, *headers: str) -> bytes:
    """Encode a whole HTTP/1.1 response, after which the server closes the connection."""
    fields = ("connection: close", *headers, "content-type: text/plain", f"content-length: {len(text)}")
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", text)).encode("ascii")


_NOT_TLS = closing_response("400 Bad Request", "this port speaks TLS; use https\n")


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the server waits for clients, in seconds. A response may last as long as the client keeps reading it."""

    handshake: float = 10.0
    """For the whole TLS handshake."""
    idle: float = 75.0
    """Until the first or the next request on a connection."""
    stalled: float = 60.0
    """For the headers, and between two pieces of a body."""
    request: float = 300.0
    """For a whole request, plus one second per `min_bytes_per_second` bytes, so that long uploads can finish."""
    min_bytes_per_second: int = 16 << 10
    unread: float = 60.0
    """For a client that does not read its response, which stays in memory meanwhile."""


MAX_INCOMING, SHORT_TIMEOUT = 1 << 15, 2.0
"""Limit of incomplete requests on connections that may have hundreds of them. Beyond it, the server waits only so many
seconds for each, so that a client that opens masses of them cannot fill the memory."""

MAX_UNREAD_BYTES = 256 << 20
"""Limit of unread response bytes on such connections. Beyond it, a response that would have to wait is reset. Beyond
half of it, the server waits only `SHORT_TIMEOUT` for clients that do not read."""


def max_connections() -> int:
    """Return three quarters of the process's file limit; the rest is for files that are not connections."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 20 if files == resource.RLIM_INFINITY else files) * 3 // 4


class LimitedConnection(asyncio.Protocol):
    """A connection that the limiter controls."""

    handshake: Handshake | None = None
    """The TLS handshake that it came from."""
    transport: asyncio.Transport
    _limiter: ConnectionLimiter
    _entered = False
    """The limiter counts it as open."""
    _unsent = 0
    _unsent_since = 0.0

    def close_if_expired(self) -> None:
        raise NotImplementedError

    def _enter(self) -> None:
        """Take a place among the open connections; abort if there is none."""
        if self.handshake is not None:
            self.handshake.release()  # this connection takes its place
        self._entered = self._limiter.acquire()
        if not self._entered:
            self.transport.abort()

    def _leave(self) -> None:
        if self._entered:
            self._limiter.release()

    def _abort_if_unread(self) -> bool:
        """Abort if the client has not read any of its response for too long. Called once a second."""
        now, unsent = self._limiter.now, self.transport.get_write_buffer_size()
        if unsent != self._unsent or not unsent:
            self._unsent, self._unsent_since = unsent, now
        elif now - self._unsent_since > self._limiter.timeouts.unread:
            self.transport.abort()  # `close` would wait for the client too
            return True
        return False


class ConnectionLimiter:
    """State that the connections of one process share: the time, the timeouts, and how many are open."""

    __slots__ = ("_clock", "_warned", "handshakes", "incoming", "max_open", "now", "open", "timeouts", "unsent")

    def __init__(self, timeouts: Timeouts, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.timeouts = timeouts
        self.max_open = most
        self.now = clock()
        """Updated ten times a second by the server."""
        self.open = 0
        """Open connections, including those in a handshake."""
        self.handshakes: dict[Handshake, None] = {}
        """In order of arrival."""
        self.incoming = 0
        """Incomplete requests on multiplexed connections, as of the last check."""
        self.unsent = 0
        """Unread response bytes on such connections."""
        self._clock = clock
        self._warned = False

    def tick(self) -> None:
        self.now = self._clock()

    @property
    def stall_timeout(self) -> float:
        """Current timeout between two pieces of a request."""
        return self.timeouts.stalled if self.incoming <= MAX_INCOMING else min(self.timeouts.stalled, SHORT_TIMEOUT)

    @property
    def unread_timeout(self) -> float:
        """Current timeout for a client that does not read its response."""
        unread = self.timeouts.unread
        return unread if self.unsent <= MAX_UNREAD_BYTES // 2 else min(unread, SHORT_TIMEOUT)

    def acquire(self) -> bool:
        """Reserve a place for one more connection, until `release`. False: there is none.

        The oldest handshake is aborted to make room, so clients that only connect cannot keep others out.
        """
        if self.open >= self.max_open:
            self._warn_full()
            if not self.handshakes:
                return False
            next(iter(self.handshakes)).abort()
        self.open += 1
        return True

    def release(self) -> None:
        self.open -= 1

    def _warn_full(self) -> None:
        """Log one line, however many connections are refused."""
        if not self._warned:
            self._warned = True
            log.warning(
                "%d connections are open, which is the limit; further connections are closed at once", self.max_open
            )

    def close_expired(self, state: ServerState) -> None:
        """Close the connections that exceed a timeout. Called once a second."""
        for connection in list(state.connections):
            assert isinstance(connection, LimitedConnection)
            connection.close_if_expired()
        if self.open < self.max_open:
            self._warned = False


class Handshake:
    """An accepted connection until its TLS handshake is done.

    The TLS servers of asyncio and uvloop announce a connection only after the handshake, so it would not be counted.
    """

    def __init__(self, connection: socket.socket, limiter: ConnectionLimiter) -> None:
        self._connection = connection
        self._limiter = limiter
        self._handed_over = False

    def begin(self, protocol: Callable[[], LimitedConnection], tls: ssl.SSLContext) -> None:
        if not self._limiter.acquire():
            self._connection.close()
            return
        self._limiter.handshakes[self] = None
        self._task = asyncio.create_task(self._secure(protocol, tls))
        self._task.add_done_callback(self._close_if_ours)

    def release(self) -> None:
        """Does nothing the second time."""
        if self in self._limiter.handshakes:
            del self._limiter.handshakes[self]
            self._limiter.release()

    def abort(self) -> None:
        self.release()
        self._task.cancel()

    def _close_if_ours(self, _task: object) -> None:
        """Close the socket unless the handshake took it over; the task may end before it starts."""
        if not self._handed_over:
            self._connection.close()

    async def _secure(self, protocol: Callable[[], LimitedConnection], tls: ssl.SSLContext) -> None:
        loop, limit = asyncio.get_running_loop(), self._limiter.timeouts.handshake

        def create_protocol() -> LimitedConnection:
            connection = protocol()
            connection.handshake = self
            return connection

        try:
            async with asyncio.timeout(limit):
                await self._wait_readable()
            if self._reject_plain_http():
                return
            self._handed_over = True
            await loop.connect_accepted_socket(create_protocol, self._connection, ssl=tls, ssl_handshake_timeout=limit)
        except OSError as error:  # not TLS, an unsupported version, or an incomplete handshake
            log.debug("TLS handshake failed: %s", error)
        finally:
            self.release()

    async def _wait_readable(self) -> None:
        """Wait until the client has sent something."""
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(self._connection, readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(self._connection)

    def _reject_plain_http(self) -> bool:
        """Whether this is not TLS. Answers plain HTTP with one write, because the client may be a person."""
        first = self._connection.recv(1, socket.MSG_PEEK)
        if first == _TLS_HANDSHAKE:
            return False
        if first.isalpha():
            self._connection.recv(1 << 16)  # unread data would make close reset the connection and lose the answer
            self._connection.send(_NOT_TLS)
        return True
