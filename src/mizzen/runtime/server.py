"""The frame server: one thread, one selector, any number of gateways on one unix socket.

    listening ──TERM──> draining ──last peer closed──> returned

Each wake-up reads all that is there on all connections and answers it as one batch. A peer that sends nonsense loses
its connection, and nobody else notices. While draining, no new connections are taken and all that comes is answered.
"""

from __future__ import annotations

import logging
import os
import selectors
from collections.abc import Callable
from typing import Any, NamedTuple

from mizzen.protocol import frames, msgpack
from mizzen.runtime import batches
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.sockets import Connection, Listener, Terminated
from mizzen.runtime.watchdog import Watchdog

MAX_OWED = 256 << 20
"""Bytes a peer may leave unread before it loses its connection."""

log = logging.getLogger("mizzen.runtime")


def serve(model: LoadedModel, path: str, watchdog: Watchdog) -> None:
    """Answer frames on a new socket at `path`; returns after TERM, when every peer has closed."""
    hello = msgpack.pack({
        "state": "ready", "pid": os.getpid(), "framework": model.framework,
        "inputs": [spec.wire() for spec in model.inputs], "outputs": [spec.wire() for spec in model.outputs],
        "strict": model.strict, "batch": model.batch,
    })  # fmt: skip

    def answer(requests: list[Any]) -> tuple[list[batches.Result], int]:
        try:
            return batches.answer(model, requests, running=watchdog.running)
        finally:
            terminated.arm()  # the model's code may have taken TERM for itself

    watchdog.start()
    with Terminated() as terminated, Listener(path) as listener:
        log.info("ready: pid %d listens on %s", os.getpid(), path)
        FrameServer(answer, frames.encode(frames.HELLO, 0, hello), listener, terminated).run()


class _Work(NamedTuple):
    """One INFER frame."""

    connection: Connection
    id: int
    requests: list[Any]


class FrameServer:
    def __init__(
        self,
        answer: Callable[[list[Any]], tuple[list[batches.Result], int]],
        hello: bytes,
        listener: Listener,
        terminated: Terminated,
    ) -> None:
        self._answer = answer
        self._hello = hello
        self._listener = listener
        self._terminated = terminated
        self._connections: set[Connection] = set()
        self._draining = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> None:
        with self._selector:
            self._selector.register(self._listener.socket, selectors.EVENT_READ, None)
            self._selector.register(self._terminated.socket, selectors.EVENT_READ, None)
            while self._connections or not self._draining:
                self._turn()

    def _turn(self) -> None:
        work: list[_Work] = []
        drain = False
        for key, events in self._selector.select():
            connection: Connection | None = key.data
            if key.fileobj is self._listener.socket:
                self._accept()
            elif connection is None:
                drain = self._terminated.arrived()
            else:
                if events & selectors.EVENT_WRITE:
                    self._flush(connection)
                if events & selectors.EVENT_READ and connection in self._connections:
                    work += self._receive(connection)
        if drain and not self._draining:
            self._drain()
        if work:
            self._reply(work)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            peer.setblocking(False)
            connection = Connection(peer)
            self._connections.add(connection)
            self._selector.register(peer, selectors.EVENT_READ, connection)
            self._send(connection, self._hello)

    def _receive(self, connection: Connection) -> list[_Work]:
        """The work this peer sent; none when it is closed for what it sent."""
        try:
            received, ended = connection.receive()
            work = [_Work(connection, frame.id, _requests(frame)) for frame in received]
        except (ValueError, frames.FrameError) as error:
            log.warning("closed a connection: %s", error)
            self._close(connection)
            return []
        if ended:
            self._close(connection)
        return work

    def _reply(self, work: list[_Work]) -> None:
        merged = [request for one in work for request in one.requests] if len(work) > 1 else work[0].requests
        results, service_us = self._answer(merged)
        at = 0
        for one in work:
            end = at + len(one.requests)
            if one.connection in self._connections:
                self._send(one.connection, _reply_frame(one.id, service_us, results[at:end]))
            at = end

    def _drain(self) -> None:
        log.info("drain: %d connections", len(self._connections))
        self._draining = True
        self._selector.unregister(self._listener.socket)
        self._listener.close()
        for connection in tuple(self._connections):
            self._send(connection, frames.encode(frames.DRAIN, 0))

    def _send(self, connection: Connection, data: bytes) -> None:
        connection.owe(data)
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        """Write what the peer takes now; watch for when it takes more."""
        try:
            connection.write()
        except OSError:
            self._close(connection)
            return
        if connection.owed > MAX_OWED:
            log.warning("closed a connection that left %d bytes unread", connection.owed)
            self._close(connection)
            return
        waits = connection.owed > 0
        if waits != connection.waits:
            connection.waits = waits
            events = selectors.EVENT_READ | selectors.EVENT_WRITE if waits else selectors.EVENT_READ
            self._selector.modify(connection.socket, events, connection)

    def _close(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()


def _requests(frame: frames.Frame) -> list[Any]:
    """ValueError when this is not a frame a gateway may send."""
    if frame.type != frames.INFER:
        raise ValueError(f"a frame of type {frame.type}, where only INFER is expected")
    requests = msgpack.unpack(frame.body)
    if not isinstance(requests, list):
        raise ValueError("an INFER frame that holds no list")  # noqa: TRY004 - bad data, not a bad call
    return requests


def _reply_frame(id_: int, service_us: int, results: list[batches.Result]) -> bytes:
    body = msgpack.pack([service_us, results])
    if len(body) > frames.MAX_FRAME - frames.HEADER.size:
        message = f"the answers of one frame are {len(body)} bytes, above the limit of {frames.MAX_FRAME}".encode()
        body = msgpack.pack([service_us, [(frames.MODEL_FAILED, message)] * len(results)])
    return frames.encode(frames.REPLY, id_, body)
