"""The frame server: one thread, one selector, any number of gateways on one unix socket.

    listening ──TERM──> draining ──last peer closed──> returned

Each wake-up reads all available data on all connections and answers it as one batch. A peer that sends invalid frames
loses its connection, without an effect on others. While draining, the server accepts no new connections and answers
all requests. New parameters are loaded in parallel (`reload`), and answer all later connections. A peer that was
greeted with the old ones is answered with those until it closes, since it may have announced them to others.
"""

from __future__ import annotations

import gc
import hmac
import logging
import os
import selectors
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mizzen.protocol.frames import authentication, framing, large_frames, msgpack
from mizzen.runtime import batching, feedback
from mizzen.runtime.caller_context import Callers
from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.limits import memory
from mizzen.runtime.limits.watchdog import Watchdog
from mizzen.runtime.reload import Reload, Reloader
from mizzen.runtime.sockets import PeerConnection, Terminated, UnixListener

MAX_OWED = 256 << 20
"""Bytes a peer may leave unread before its connection is closed."""
MAX_STRANGERS = 64
"""Maximum number of connections without a proof; beyond it, the oldest is closed."""
MAX_FEEDBACK = 1024
"""Maximum number of queued feedback entries; beyond it, the oldest is dropped."""

log = logging.getLogger("mizzen.runtime")


def serve(
    model: LoadedModel,
    path: str,
    watchdog: Watchdog,
    load: Callable[[LoadedModel, Reload], LoadedModel],
    *,
    files: str = "",
    key: bytes = b"",
) -> LoadedModel:
    """Answer frames on a new socket at `path`; returns after TERM, once every peer has closed.

    `load` creates the replacement on a reload; the return value is the model that answered last. `files` identifies the
    files that the model was loaded from. Peers must prove that they have `key`, unless it is empty.
    """

    def answer(model: LoadedModel, requests: list[Any], callers: Callers) -> batching.Answers:
        try:
            return batching.answer(model, requests, callers, running=watchdog.running)
        finally:
            terminated.arm()  # the model's code may have replaced the TERM handler

    def deliver(model: LoadedModel, body: Mapping[str, Any]) -> None:
        try:
            feedback.deliver(model, body, watchdog.running)
        finally:
            terminated.arm()

    watchdog.start()
    with (
        Terminated() as terminated,
        UnixListener(path) as listener,
        Reloader(load, batching.describe_error) as reloader,
    ):
        log.info("ready: pid %d listens on %s", os.getpid(), path)
        return FrameServer(answer, model, listener, terminated, reloader, deliver=deliver, files=files, key=key).run()


class _Work(NamedTuple):
    """One INFER frame."""

    connection: PeerConnection
    id: int
    requests: list[Any]
    size: int
    """Bytes."""
    trailer: dict[str, Any]
    """The frame's trailer, about the callers of the requests."""


class FrameServer:
    def __init__(
        self,
        answer: Callable[[LoadedModel, list[Any], Callers], batching.Answers],
        model: LoadedModel,
        listener: UnixListener,
        terminated: Terminated,
        reloader: Reloader,
        *,
        deliver: Callable[[LoadedModel, Mapping[str, Any]], None],
        files: str = "",
        key: bytes = b"",
    ) -> None:
        self._answer = answer
        self._key = key
        self._strangers: deque[PeerConnection] = deque()
        """Connections without a proof so far, oldest first."""
        self._deliver_feedback = deliver
        self._feedback: deque[tuple[LoadedModel, Mapping[str, Any]]] = deque(maxlen=MAX_FEEDBACK)
        """Feedback that was not yet passed to the models."""
        self._model = model
        """The model for new connections."""
        self._files = self._began = files
        self._outdated = False
        """Whether a connection still uses another model."""
        self._listener = listener
        self._terminated = terminated
        self._reloader = reloader
        self._connections: set[PeerConnection] = set()
        self._draining = False
        self._selector = selectors.DefaultSelector()

    def run(self) -> LoadedModel:
        with self._selector:
            self._selector.register(self._listener.socket, selectors.EVENT_READ, None)
            self._selector.register(self._terminated.socket, selectors.EVENT_READ, None)
            self._selector.register(self._reloader.socket, selectors.EVENT_READ, None)
            while self._connections or not self._draining:
                self._turn()
        return self._model

    def _turn(self) -> None:
        work: list[_Work] = []
        drain = False
        for key, events in self._selector.select(0 if self._feedback else None):
            connection: PeerConnection | None = key.data
            if key.fileobj is self._listener.socket:
                self._accept()
            elif key.fileobj is self._reloader.socket:
                self._take_outcome()
            elif connection is None:
                drain = self._terminated.has_arrived()
            else:
                if events & selectors.EVENT_WRITE:
                    self._flush(connection)
                if events & selectors.EVENT_READ and connection in self._connections:
                    work += self._receive(connection)
        if drain and not self._draining:
            self._drain()
        if self._outdated and len(work) > 1:
            for model in {id(one.connection.model): one.connection.model for one in work}.values():
                self._reply_small_first([one for one in work if one.connection.model is model])
        elif work:
            self._reply_small_first(work)
        if self._feedback:  # one at a time: waiting requests come first
            self._deliver_feedback(*self._feedback.popleft())

    def _reply_small_first(self, work: list[_Work]) -> None:
        if len(work) > 1 and any(one.size > framing.LARGE for one in work):
            # In one shared batch, requests of one gateway would wait for large ones of another.
            work.sort(key=lambda one: one.size > framing.LARGE)
            small = sum(one.size <= framing.LARGE for one in work)
            if small:
                self._reply(work[:small])
            self._reply(work[small:])
        else:
            self._reply(work)

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.socket.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            peer.setblocking(False)
            connection = PeerConnection(peer, self._model)
            self._connections.add(connection)
            self._selector.register(peer, selectors.EVENT_READ, connection)
            if self._key:
                self._challenge(connection)
            else:
                self._send(connection, self._encode_hello(0))

    def _challenge(self, connection: PeerConnection) -> None:
        nonce = os.urandom(authentication.NONCE_BYTES)
        proof = authentication.proof(self._key, nonce)
        connection.expected = framing.encode(framing.AUTH, 0, proof, version=framing.OLDEST)
        self._strangers.append(connection)
        self._send(connection, framing.encode(framing.CHALLENGE, 0, nonce, version=framing.OLDEST))
        if len(self._strangers) > MAX_STRANGERS:
            self._close(self._strangers[0])

    def _check_proof(self, connection: PeerConnection) -> None:
        """Read at most the proof of a new peer, and greet it or close the connection."""
        proof = connection.receive_proof()
        if proof is None:
            return
        if not hmac.compare_digest(proof, connection.expected):
            log.warning("closed a connection: the peer did not prove that it belongs to the plane")
            self._close(connection)
            return
        connection.expected = b""
        self._strangers.remove(connection)
        self._send(connection, self._encode_hello(0))

    def _receive(self, connection: PeerConnection) -> list[_Work]:
        """Return the work this peer sent; none if the connection was closed because of invalid frames."""
        if connection.expected:
            self._check_proof(connection)
            return []
        try:
            received, ended = connection.receive()
            work = [
                _parse_work(connection, frame)
                for frame in received
                if not self._begin_reload(connection, frame) and not self._queue_feedback(connection, frame)
            ]
        except (ValueError, framing.FrameError) as error:
            log.warning("closed a connection: %s", error)
            self._close(connection)
            return []
        if ended:
            self._close(connection)
        return work

    def _reply(self, work: list[_Work]) -> None:
        merged = [request for one in work for request in one.requests] if len(work) > 1 else work[0].requests
        callers = Callers([(len(one.requests), one.trailer) for one in work])
        try:
            results, service_us, before_us, after_us = self._answer(work[0].connection.model, merged, callers)
        except memory.OutOfMemory as error:
            self._announce_end(work, error.places)
            memory.end(error.__cause__ or error, os.environ)
            raise
        times = before_us, after_us, len(merged)
        at = 0
        for one in work:
            end = at + len(one.requests)
            if one.connection in self._connections:
                timed = times if "timed" in one.trailer else ()
                self._send(
                    one.connection, _encode_reply(one.id, service_us, results[at:end], one.connection.version, timed)
                )
            at = end

    def _announce_end(self, work: list[_Work], places: Sequence[int]) -> None:
        """Say which request must not be sent again, if it was alone. Of several, each gets a second try, alone."""
        if len(places) != 1:
            return
        place = places[0]
        for one in work:
            if 0 <= place < len(one.requests) and "memory" in one.trailer and one.connection in self._connections:
                body = msgpack.pack(place)
                self._send(
                    one.connection, framing.encode(framing.OUT_OF_MEMORY, one.id, body, version=one.connection.version)
                )
            place -= len(one.requests)

    def _begin_reload(self, connection: PeerConnection, frame: framing.ReceivedFrame) -> bool:
        """If the frame is a RELOAD, start it and return True."""
        if frame.type != framing.RELOAD:
            return False
        wish = Reload.of(msgpack.unpack(frame.body))
        log.info("reload: %s", wish.folder)
        if wish.files and wish.files == self._files:  # the peer that asked for it before has gone
            self._send_hello(connection, frame.id)
        elif not self._reloader.begin(self._model, wish, (connection, frame.id)):
            self._send(connection, _encode_refusal(frame.id, "another reload is in progress", connection.version))
        return True

    def _queue_feedback(self, connection: PeerConnection, frame: framing.ReceivedFrame) -> bool:
        """If the frame is FEEDBACK, queue it for when no request waits, and return True."""
        if frame.type != framing.FEEDBACK:
            return False
        body = msgpack.unpack(frame.body)
        if not isinstance(body, dict):
            raise ValueError("the body of a FEEDBACK frame must be a map")  # noqa: TRY004 - bad data, not a bad call
        self._feedback.append((connection.model, body))
        return True

    def _take_outcome(self) -> None:
        outcome = self._reloader.take_outcome()
        asking = [(connection, id_) for connection, id_ in outcome.tokens if connection in self._connections]
        if outcome.model is None:
            log.warning("not reloaded: %s", outcome.fault)
            for connection, id_ in asking:
                self._send(connection, _encode_refusal(id_, outcome.fault, connection.version))
            return
        log.info("reloaded: %s", outcome.wish.folder)
        self._model, self._files, self._outdated = outcome.model, outcome.wish.files, True
        del outcome
        for connection, id_ in asking:
            self._send_hello(connection, id_)
        self._forget_models()

    def _send_hello(self, connection: PeerConnection, id_: int) -> None:
        connection.model = self._model
        self._send(connection, self._encode_hello(id_))

    def _forget_models(self) -> None:
        """Drop old models once their last peer has closed."""
        self._outdated = any(connection.model is not self._model for connection in self._connections)
        if not self._outdated:
            gc.unfreeze()  # objects frozen with the old model may be garbage now
            gc.collect()
            gc.freeze()

    def _encode_hello(self, id_: int) -> bytes:
        model = self._model
        hello = msgpack.pack({
            "state": "ready", "pid": os.getpid(), "framework": model.framework,
            "inputs": [spec.wire() for spec in model.inputs], "outputs": [spec.wire() for spec in model.outputs],
            "strict": model.strict, "batch": model.batch, "table": model.table.wire() if model.table else None,
            "callers": True, "feedback": registry.feedback_hook(model) is not None, "reloads": registry.reloads(model),
            "files": self._files, "began": self._began, "frames": [framing.OLDEST, framing.VERSION],
        })  # fmt: skip
        return framing.encode(framing.HELLO, id_, hello, version=framing.OLDEST)

    def _drain(self) -> None:
        log.info("drain: %d connections", len(self._connections))
        self._draining = True
        self._selector.unregister(self._listener.socket)
        self._listener.close()
        for connection in tuple(self._connections):
            self._send(connection, framing.encode(framing.DRAIN, 0, version=connection.version))

    def _send(self, connection: PeerConnection, data: bytes) -> None:
        connection.owe(data)
        self._flush(connection)

    def _flush(self, connection: PeerConnection) -> None:
        """Write what the peer accepts now; watch for when it accepts more."""
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

    def _close(self, connection: PeerConnection) -> None:
        self._connections.discard(connection)
        if connection.expected:
            self._strangers.remove(connection)
        self._selector.unregister(connection.socket)
        connection.socket.close()
        if self._outdated:
            self._forget_models()


def _parse_work(connection: PeerConnection, frame: framing.ReceivedFrame) -> _Work:
    """Parse an INFER frame. Raises ValueError if this is not a frame a gateway may send."""
    if frame.type != framing.INFER:
        raise ValueError(f"unexpected frame of type {frame.type}")
    body = frame.body
    requests = large_frames.decode_requests(memoryview(body)) if len(body) > framing.LARGE else None
    if requests is None:
        requests = msgpack.unpack(body)
    if not isinstance(requests, list):
        raise ValueError("the body of an INFER frame must be a list")  # noqa: TRY004 - bad data, not a bad call
    trailer = requests.pop() if requests and isinstance(requests[-1], dict) else {}
    if not isinstance(trailer.get("ids", b""), bytes):
        raise ValueError("the ids of an INFER frame must be bytes")  # noqa: TRY004
    return _Work(connection, frame.id, requests, len(frame.body), trailer)


def _encode_refusal(id_: int, message: str, version: int) -> bytes:
    return _encode_reply(id_, 0, [(framing.MODEL_FAILED, message.encode(errors="replace"))], version)


def _encode_reply(
    id_: int, service_us: int, results: list[batching.Result], version: int, times: Sequence[int] = ()
) -> bytes:
    body = msgpack.pack([service_us, results, *times])
    if len(body) > framing.MAX_FRAME - framing.HEADER.size:
        message = f"the answers of one frame are {len(body)} bytes, above the limit of {framing.MAX_FRAME}".encode()
        body = msgpack.pack([service_us, [(framing.MODEL_FAILED, message)] * len(results)])
    return framing.encode(framing.REPLY, id_, body, version=version)
