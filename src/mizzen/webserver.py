"""uvicorn's server as plane and gateway run it: on sockets that were handed in, and without dying of a signal.

Neither can be held up by clients that open connections and send nothing, or not all of it: those are closed, and there
may be only so many of them that the process can still open files.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import resource
import signal
import socket
import ssl
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

HEAD_BYTES = 64 << 10
"""A request's head may be this long, give or take one read of the socket."""

_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 35\r\n\r\nthe head of the request is too long"
)
_TOO_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 37\r\n\r\nthe request took too long to come in\n"
)

_LOOK = 0.05
"""Seconds between two looks at who has nothing more to be sent."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Patience:
    """How long clients are waited for, in seconds. Answers may take, and last, as long as somebody takes them."""

    handshake: float = 10.0
    """For all of it, over TLS."""
    idle: float = 75.0
    """Until a connection is used, at first or again."""
    stalled: float = 60.0
    """For a whole head, and between two pieces of a body."""
    request: float = 300.0
    """For a whole request, and one second more for each `slowest` bytes of it: a long upload may go on."""
    slowest: int = 16 << 10
    untaken: float = 60.0
    """For one who takes nothing more of what was written to them, and is held in memory meanwhile."""


def most_connections() -> int:
    """Three quarters of the files this process may have open; the others are for all that is no connection."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (1 << 20 if files == resource.RLIM_INFINITY else files) * 3 // 4


class Door:
    """What the connections of one process share: what time it is, how long they may take, how many there may be."""

    __slots__ = ("_clock", "_told", "handshakes", "most", "now", "open", "patience")

    def __init__(self, patience: Patience, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.patience = patience
        self.most = most
        self.now = clock()
        """Renewed ten times a second by the server."""
        self.open = 0
        """From accept on, those in their handshake among them."""
        self.handshakes: dict[Handshake, None] = {}
        """In the order in which they came."""
        self._clock = clock
        self._told = False

    def tick(self) -> None:
        self.now = self._clock()

    def enter(self) -> bool:
        """Whether there is a place for one more, which is theirs until they `leave`.

        Whoever is longest in the handshake gives way, so those who only connect keep nobody out.
        """
        if self.open >= self.most:
            self._tell_full()
            if not self.handshakes:
                return False
            next(iter(self.handshakes)).give_up()
        self.open += 1
        return True

    def leave(self) -> None:
        self.open -= 1

    def _tell_full(self) -> None:
        """One line, however many are turned away."""
        if not self._told:
            self._told = True
            log.warning("%d connections are open, as many as may be; what is more is closed at once", self.most)

    def look(self, state: ServerState) -> None:
        """Close the connections that are over their time. Called once a second."""
        for connection in list(state.connections):
            assert isinstance(connection, DoorProtocol)
            connection.close_if_over_time()
        if self.open < self.most:
            self._told = False


class DoorProtocol(HttpToolsProtocol):
    """uvicorn's, which by itself takes any number of clients and waits without end for what they do not send.

    Whoever reads the connection keeps `_reading` and its like.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        door: Door,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._door = door
        self._entered = False
        self.handshake: Handshake | None = None
        self._idle_since = door.now
        # The request that is being read
        self._reading = False
        self._in_head = False
        self._reading_since = self._heard_at = door.now
        self._body_bytes = 0
        self._unsent = 0
        self._unsent_since = door.now

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.handshake is not None:
            self.handshake.leave()  # and its place is ours
        self._entered = self._door.enter()
        if not self._entered:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._entered:
            self._door.leave()
        super().connection_lost(exc)

    def close_if_over_time(self) -> None:
        """Nothing is asked for too long, what is being asked does not come to its end, or nobody takes the answer."""
        now, patience = self._door.now, self._door.patience
        left = self.transport.get_write_buffer_size()
        if left != self._unsent or not left:
            self._unsent, self._unsent_since = left, now
        elif now - self._unsent_since > patience.untaken:
            self.transport.abort()  # `close` would wait for them, too
            return
        if not self._reading:
            idle = 0.0 if self._owes_answer() else now - self._idle_since
            if idle > patience.request:
                self.transport.abort()  # it was closed, but for an answer that nobody reads
            elif idle > patience.idle:
                self.transport.close()
        elif self._holds_up():
            self._reading_since = self._heard_at = now
        elif (
            now - self._heard_at > patience.stalled
            or now - self._reading_since > patience.request + self._body_bytes / patience.slowest
        ):
            self._refuse_late()

    def _owes_answer(self) -> bool:
        """To what has been read."""
        raise NotImplementedError

    def _holds_up(self) -> bool:
        """The request that is being read comes no further because of us."""
        raise NotImplementedError

    def _refuse_late(self) -> None:
        raise NotImplementedError


class LimitedProtocol(DoorProtocol):
    """With a limit on the head of a request, too, which uvicorn itself would take without end, from anybody."""

    _head_bytes = 0
    _began = False
    """In this read of the socket: what came before the head, such as other requests, is not its length."""

    def on_message_begin(self) -> None:
        self._reading = self._in_head = self._began = True
        self._reading_since = self._heard_at = self._door.now
        self._head_bytes = self._body_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._heard_at = self._door.now
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._heard_at = self._door.now
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._reading = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        self._idle_since = self._door.now
        super().on_response_complete()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._began = False
        super().data_received(data)
        if self._in_head and not self._began:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES:
                self.transport.write(_TOO_LONG)
                self.transport.close()

    def _owes_answer(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _holds_up(self) -> bool:
        if self._in_head:
            return self.flow.read_paused or self._owes_answer()  # such as a watch, which is not cut for what follows it
        return self.flow.read_paused or self.cycle.waiting_for_100_continue

    def _refuse_late(self) -> None:
        if self._in_head or not self.cycle.response_started:
            self.transport.write(_TOO_LATE)
        self.transport.close()


class Handshake:
    """An accepted connection until it is secured.

    A server of asyncio or uvloop that is told of TLS tells nobody of a connection before, so it would not be counted.
    """

    def __init__(self, connection: socket.socket, door: Door) -> None:
        self._connection = connection
        self._door = door
        self._begun = False

    def begin(self, protocol: Callable[[], DoorProtocol], tls: ssl.SSLContext) -> None:
        if not self._door.enter():
            self._connection.close()
            return
        self._door.handshakes[self] = None
        self._task = asyncio.create_task(self._secure(protocol, tls))

    def leave(self) -> None:
        """Nothing for who has left before."""
        if self in self._door.handshakes:
            del self._door.handshakes[self]
            self._door.leave()

    def give_up(self) -> None:
        self.leave()
        self._task.cancel()
        if not self._begun:
            self._connection.close()

    async def _secure(self, protocol: Callable[[], DoorProtocol], tls: ssl.SSLContext) -> None:
        self._begun = True
        loop, limit = asyncio.get_running_loop(), self._door.patience.handshake

        def secured() -> DoorProtocol:
            made = protocol()
            made.handshake = self
            return made

        try:
            await loop.connect_accepted_socket(secured, self._connection, ssl=tls, ssl_handshake_timeout=limit)
        except OSError as error:  # it was no TLS, none that we take, or did not come to its end
            log.debug("no handshake: %s", error)
        finally:
            self.leave()


class WebServer(uvicorn.Server):
    """SIGTERM and SIGINT end `serve` gracefully, and code after it runs; several with one stop are `serve_all`'s."""

    def __init__(
        self,
        app: Callable[..., Any],
        protocol: Callable[..., DoorProtocol],
        door: Door,
        *,
        stop_timeout: float,
        log_level: str = "info",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        config = uvicorn.Config(
            app,
            http=cast("type[asyncio.Protocol]", protocol),
            interface="asgi3",
            lifespan="off",
            ws="none",
            log_config=None,
            log_level=log_level,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            # uvicorn declares whole seconds, and only ever waits
            timeout_graceful_shutdown=cast(int, stop_timeout),
        )
        super().__init__(config)
        self._door = door
        self._tls = tls
        self._protocol = protocol
        self.hears_signals = True

    async def on_tick(self, counter: int) -> bool:
        stop = await super().on_tick(counter)
        self._door.tick()
        if counter % 10 == 0:
            self._door.look(self.server_state)
        return stop

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if not self.hears_signals:
            yield
            return
        with _handling(lambda number: self.handle_exit(number, None)):
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is None:
            await super().startup(sockets)
            return
        self.servers = []
        for listening in sockets or ():
            listening.setblocking(False)
            self._hear(listening, self._tls)
        self.started = True

    def _hear(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        if not self.should_exit and listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening, tls)

    def _accept(self, listening: socket.socket, tls: ssl.SSLContext) -> None:
        try:
            connection, _ = listening.accept()
        except BlockingIOError:  # they have gone again
            return
        except OSError as error:  # such as no file to be had: it may be soon, but not at once
            log.warning("no connection can be taken for a second: %s", error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(1.0, self._hear, listening, tls)
            return
        connection.setblocking(False)
        made = partial(self._protocol, config=self.config, server_state=self.server_state, app_state={})
        Handshake(connection, self._door).begin(made, tls)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is not None:
            for listening in sockets or ():
                asyncio.get_running_loop().remove_reader(listening)
        leaving = asyncio.create_task(self._leave())
        try:
            await super().shutdown(sockets)
        finally:
            leaving.cancel()

    async def _leave(self) -> None:
        """Over TLS a connection that we close stays until the other side says goodbye, which one that is idle never
        does: a stop does not wait for it. What is left to send is sent; seen twice, for there are buffers below."""
        said: set[object] = set()
        while self._tls is not None:
            for handshake in list(self._door.handshakes):
                handshake.give_up()
            await asyncio.sleep(_LOOK)
            ended = {
                connection
                for connection in self.server_state.connections
                if connection.transport.is_closing() and not connection.transport.get_write_buffer_size()
            }
            for connection in ended & said:
                connection.transport.abort()
            said = set(ended)


async def serve_all(*served: tuple[WebServer, socket.socket], on_stop: Callable[[], None] = lambda: None) -> None:
    """Servers with one stop: SIGTERM or SIGINT reaches all of them, and this returns when the last has finished.

    `on_stop` is called as soon as a signal comes. Each would take the signals for itself, so none does here.
    """

    def stop(number: int) -> None:
        on_stop()
        for server, _ in served:
            server.handle_exit(number, None)

    with _handling(stop):
        async with asyncio.TaskGroup() as group:
            for server, listening in served:
                server.hears_signals = False
                group.create_task(server.serve([listening]))


@contextlib.contextmanager
def _handling(stop: Callable[[int], None]) -> Generator[None, None, None]:
    """uvicorn's own way raises the signal again once it has stopped, which would end the process there and then."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    handled = (signal.SIGINT, signal.SIGTERM)
    for number in handled:
        loop.add_signal_handler(number, stop, number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)
