"""uvicorn's server on sockets that the caller opened, with or without TLS. Signals stop it gracefully."""

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

from mizzen.web.connection_limits import ConnectionLimiter, Handshake, LimitedConnection

_POLL_SECONDS = 0.05
"""Between two checks for connections with nothing left to send."""

log = logging.getLogger(__name__)


class WebServer(uvicorn.Server):
    """SIGTERM and SIGINT end `serve` gracefully, and code after it runs. Use `serve_all` for several servers."""

    def __init__(
        self,
        app: Callable[..., Any],
        protocol: Callable[..., LimitedConnection],
        limiter: ConnectionLimiter,
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
            # declared as int by uvicorn, but floats work
            timeout_graceful_shutdown=cast(int, stop_timeout),
        )
        super().__init__(config)
        self._limiter = limiter
        self.tls = tls
        """For new connections. Whether TLS is used at all is fixed at the start."""
        self._protocol = protocol
        self.handles_signals = True

    async def on_tick(self, counter: int) -> bool:
        stop = await super().on_tick(counter)
        self._limiter.tick()
        if counter % 10 == 0:
            self._limiter.close_expired(self.server_state)
        return stop

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if not self.handles_signals:
            yield
            return
        with _signal_handlers(lambda number: self.handle_exit(number, None)):
            yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self.tls is None:
            await super().startup(sockets)
            return
        self.servers = []
        for listening in sockets or ():
            listening.setblocking(False)
            self._listen(listening)
        self.started = True

    def _listen(self, listening: socket.socket) -> None:
        if not self.should_exit and listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        assert self.tls is not None
        try:
            connection, _ = listening.accept()
        except BlockingIOError:  # the client has disconnected already
            return
        except OSError as error:  # such as no free file descriptor: retry later, not at once
            log.warning("connections cannot be accepted for one second: %s", error)
            loop = asyncio.get_running_loop()
            loop.remove_reader(listening)
            loop.call_later(1.0, self._listen, listening)
            return
        connection.setblocking(False)
        protocol = partial(self._protocol, config=self.config, server_state=self.server_state, app_state={})
        Handshake(connection, self._limiter).begin(protocol, self.tls)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self.tls is not None:
            for listening in sockets or ():
                asyncio.get_running_loop().remove_reader(listening)
        leaving = asyncio.create_task(self._abort_idle_tls())
        try:
            await super().shutdown(sockets)
        finally:
            leaving.cancel()

    async def _abort_idle_tls(self) -> None:
        """Abort closing TLS connections: a closed one stays until the client answers, which an idle client never does.
        Pending data is sent first. A connection must look empty twice, because there are more buffers below."""
        before: set[object] = set()
        while self.tls is not None:
            for handshake in list(self._limiter.handshakes):
                handshake.abort()
            await asyncio.sleep(_POLL_SECONDS)
            ended = {
                connection
                for connection in self.server_state.connections
                if connection.transport.is_closing() and not connection.transport.get_write_buffer_size()
            }
            for connection in ended & before:
                connection.transport.abort()
            before = set(ended)


async def serve_all(*served: tuple[WebServer, socket.socket], on_stop: Callable[[], None] = lambda: None) -> None:
    """Run several servers that stop together: SIGTERM or SIGINT stops all, and this returns when the last has finished.

    `on_stop` is called as soon as a signal arrives. The servers do not handle signals themselves here.
    """

    def stop(number: int) -> None:
        on_stop()
        for server, _ in served:
            server.handle_exit(number, None)

    with _signal_handlers(stop):
        async with asyncio.TaskGroup() as group:
            for server, listening in served:
                server.handles_signals = False
                group.create_task(server.serve([listening]))


@contextlib.contextmanager
def _signal_handlers(stop: Callable[[int], None]) -> Generator[None, None, None]:
    """Replaces uvicorn's handling, which raises the signal again after the stop and would end the process there."""
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
