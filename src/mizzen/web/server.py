"""uvicorn's server on sockets that were handed in, with TLS or without; it does not die of a signal."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, cast

import uvicorn

from mizzen.web.connection_limits import Door, Guest, Handshake

_LOOK = 0.05
"""Seconds between two looks at who has nothing more to be sent."""

log = logging.getLogger(__name__)


class WebServer(uvicorn.Server):
    """SIGTERM and SIGINT end `serve` gracefully, and code after it runs; several with one stop are `serve_all`'s."""

    def __init__(
        self,
        app: Callable[..., Any],
        protocol: Callable[..., Guest],
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
        self.tls = tls
        """For the connections to come; whether there is any is decided at the start."""
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
        if self.tls is None:
            await super().startup(sockets)
            return
        self.servers = []
        for listening in sockets or ():
            listening.setblocking(False)
            self._hear(listening)
        self.started = True

    def _hear(self, listening: socket.socket) -> None:
        if not self.should_exit and listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        assert self.tls is not None
        try:
            connection, _ = listening.accept()
        except BlockingIOError:  # they have gone again
            return
        except OSError as error:  # such as no file to be had: it may be soon, but not at once
            log.warning("no connection can be taken for a second: %s", error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(1.0, self._hear, listening)
            return
        connection.setblocking(False)
        made = partial(self._protocol, config=self.config, server_state=self.server_state, app_state={})
        Handshake(connection, self._door).begin(made, self.tls)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.tls is not None:
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
        while self.tls is not None:
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
