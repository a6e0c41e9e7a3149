"""uvicorn's server as plane and gateway run it: on sockets that were handed in, and without dying of a signal."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Generator

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES = 64 << 10
"""A request's head may be this long, give or take one read of the socket."""

_LOOK = 0.05
"""Seconds between two looks at who has nothing more to be sent."""

_TOO_LONG = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 35\r\n\r\nthe head of the request is too long"
)


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's, with a limit on the head of a request: uvicorn itself would take one without end, from anybody."""

    _head_bytes = 0
    _in_head = False
    _began = False
    """In this read of the socket: what came before the head, such as other requests, is not its length."""

    def on_message_begin(self) -> None:
        self._in_head = self._began = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

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


class WebServer(uvicorn.Server):
    """SIGTERM and SIGINT end `serve` gracefully, and code after it runs."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        with _handling(lambda number: self.handle_exit(number, None)):
            yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        leaving = asyncio.create_task(self._leave())
        try:
            await super().shutdown(sockets)
        finally:
            leaving.cancel()

    async def _leave(self) -> None:
        """Over TLS a connection that we close stays until the other side says goodbye, which one that is idle never
        does: a stop does not wait for it. What is left to send is sent; seen twice, for there are buffers below."""
        said: set[object] = set()
        while self.config.is_ssl:
            await asyncio.sleep(_LOOK)
            ended = {
                connection
                for connection in self.server_state.connections
                if connection.transport.is_closing() and not connection.transport.get_write_buffer_size()
            }
            for connection in ended & said:
                connection.transport.abort()
            said = set(ended)


async def serve_all(*served: tuple[uvicorn.Config, socket.socket], on_stop: Callable[[], None] = lambda: None) -> None:
    """Servers with one stop: SIGTERM or SIGINT reaches all of them, and this returns when the last has finished.

    `on_stop` is called as soon as a signal comes. Each would take the signals for itself, so none does here.
    """
    servers = [_Deaf(config) for config, _ in served]

    def stop(number: int) -> None:
        on_stop()
        for server in servers:
            server.handle_exit(number, None)

    with _handling(stop):
        async with asyncio.TaskGroup() as group:
            for server, (_, listening) in zip(servers, served, strict=True):
                group.create_task(server.serve([listening]))


class _Deaf(WebServer):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


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
