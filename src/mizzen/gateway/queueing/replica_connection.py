"""Connections to replicas: one Unix socket each, with frames in both directions and automatic reconnects.

A replica is ready once its hello has arrived, if the hello names the expected version. It answers with the same
model files for as long as the connection lasts, even if it is given others. Any error ends the connection. The queue
then decides about the calls in flight, and the address is retried for as long as the Table names it.

    connecting -> connected -> ready <-> out with a batch
         ^                        |             |
         +------ lost ------------+-------------+        draining: no more batches, closed after the last reply
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from mizzen.gateway import memory_kills
from mizzen.gateway.memory_kills import MemoryKills
from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.lane_scheduler import LARGE_BYTES
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.signature import decode_hello
from mizzen.gateway.request.trace_context import Attempt, BatchTimes
from mizzen.protocol.frames import authentication, framing
from mizzen.protocol.frames.large_frames import encode_infer

MAX_HELLO_BYTES = 1 << 20
FIRST_RETRY, LAST_RETRY = 0.02, 0.5
_SCHEME = "unix:"
_WRITE_BUFFER = 4 << 20

_Status = Literal[0, 1, 2]
_encode = msgspec.msgpack.Encoder().encode

log = logging.getLogger(__name__)


class _Reply(msgspec.Struct, array_like=True, gc=False):
    service_us: float
    entries: list[tuple[_Status, bytes]]
    before_us: int = 0
    after_us: int = 0
    merged: int = 0


_decode_reply = msgspec.msgpack.Decoder(_Reply).decode
_decode_place = msgspec.msgpack.Decoder(int).decode


_NUMBER_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xCA: 4, 0xCB: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8}
_LIST_BYTES = {0xDC: 2, 0xDD: 4}


def _announced_entries(body: memoryview | bytes) -> int:
    """Return the number of entries of a reply without decoding them: a hostile model may announce millions. -1: this
    is no reply."""
    at = 2 + _NUMBER_BYTES.get(body[1], 0)  # behind the list and the time in the model
    code = body[at]
    if 0x90 <= code <= 0x9F:
        return code & 15
    size = _LIST_BYTES.get(code, 0)
    return int.from_bytes(body[at + 1 : at + 1 + size], "big") if size else -1


class ReplicaConnection(asyncio.Protocol):
    """One address of a served version. It connects and reconnects on its own until `retire`."""

    def __init__(self, address: str, queue: Queue, loop: asyncio.AbstractEventLoop, ready: Callable[[], None]) -> None:
        """`ready` is called whenever a hello has arrived."""
        self.address = address
        self._queue = queue
        self._loop = loop
        self._on_ready = ready
        self._transport: asyncio.Transport | None = None
        self._reader = framing.FrameReader()
        self._serial = 0
        self._batch_size = 0
        """Calls in the batch in flight; 0: none."""
        self._attempts: list[Attempt] = []
        """The attempts of its traced calls."""
        self._pid = 0
        self._kills: MemoryKills | None = None
        self._has_hello = False
        self._version = framing.VERSION
        """The version of the frames to send."""
        self._wants_callers = self._wants_feedback = False
        self._draining = False
        self._retired = False
        self._delay = 0.0
        self._connecting: asyncio.Task[None] | None = loop.create_task(self._connect())

    @property
    def ready(self) -> bool:
        """Whether its hello has arrived and it takes batches."""
        return self._has_hello and not self._draining and self._transport is not None

    def retire(self) -> None:
        """The Table no longer names this address: close after the last reply."""
        self._retired = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._queue.on_drain(self)
        self._drain()

    async def abort(self) -> None:
        """Close now, even with a batch in flight."""
        self._retired = True
        if self._transport is not None:
            self._transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))

    def send(self, batch: list[Call]) -> None:
        assert self._transport is not None
        self._batch_size = len(batch)
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        items = [call.item for call in batch]
        if self._wants_callers:
            items.append(self._batch_metadata(batch))
        if batch[0].size > LARGE_BYTES:
            self._transport.writelines(encode_infer(self._serial, items, self._version))
        else:
            self._transport.write(
                framing.encode(framing.INFER, self._serial, _encode(items), framing.LAST, self._version)
            )

    def tell(self, feedback: bytes) -> bool:
        transport = self._transport
        if not self._wants_feedback or transport is None or transport.get_write_buffer_size() > _WRITE_BUFFER:
            return False
        transport.write(framing.encode(framing.FEEDBACK, 0, feedback, framing.LAST, self._version))
        return True

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not derive from asyncio's
        self._transport.set_write_buffer_limits(_WRITE_BUFFER)
        self._reader = framing.FrameReader()
        self._batch_size = 0
        self._has_hello = False
        self._draining = False
        if self._retired:  # while it was connecting
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except (framing.FrameError, msgspec.DecodeError) as error:
            log.warning("closing the connection to %s: %s", self.address, error)
            self._close()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for run in self._attempts:
            run.on_lost()
        self._attempts = []
        if self._batch_size == 1 and self._kills is not None and self._kills.has_grown():
            self._queue.on_out_of_memory(self, 0)
        self._queue.on_disconnect(self)
        if not self._retired:
            self._connecting = self._loop.create_task(self._connect())

    def _on_frame(self, frame: framing.ReceivedFrame) -> None:
        if frame.type == framing.REPLY:
            self._on_reply(frame)
        elif frame.type == framing.HELLO:
            self._on_hello(frame)
        elif frame.type == framing.DRAIN:
            self._queue.on_drain(self)
            self._drain()
        elif frame.type == framing.OUT_OF_MEMORY:
            self._on_out_of_memory(frame)
        elif frame.type == framing.CHALLENGE:
            self._authenticate(frame.body)
        else:
            raise framing.FrameError(f"unexpected frame of type {frame.type}")

    def _authenticate(self, nonce: bytes | memoryview) -> None:
        assert self._transport is not None
        try:
            body = authentication.prove(self.address.removeprefix(_SCHEME), nonce)
        except OSError as error:
            raise framing.FrameError(f"its key cannot be read: {error}") from error
        self._transport.write(framing.encode(framing.AUTH, 0, body, version=self._reader.version))

    def _on_hello(self, frame: framing.ReceivedFrame) -> None:
        if len(frame.body) > MAX_HELLO_BYTES:
            raise framing.FrameError(f"a hello of {len(frame.body)} bytes exceeds the limit of {MAX_HELLO_BYTES}")
        hello = decode_hello(frame.body)
        if hello.state != "ready" or self._draining or self._has_hello:
            return
        wanted = self._queue.server.files
        if wanted and hello.files and hello.files != wanted:
            # The process was given another version, which the next Table will name. Calls of this version wait.
            self._close()
            return
        self._version = framing.negotiate_version(hello.frames, self._reader.version)
        self._has_hello = True
        self._wants_callers = hello.callers
        self._wants_feedback = hello.feedback
        self._pid = hello.pid
        self._kills = self._count_kills()
        self._delay = FIRST_RETRY
        self._queue.on_ready(self, hello)
        self._on_ready()

    def _on_reply(self, frame: framing.ReceivedFrame) -> None:
        if len(frame.body) > framing.LARGE and _announced_entries(frame.body) != self._batch_size:
            raise framing.FrameError(f"a reply to frame {frame.id} with other entries than were sent")
        reply = _decode_reply(frame.body)
        entries = reply.entries
        if (
            frame.id != self._serial
            or len(entries) != self._batch_size
            or not self._batch_size
            or not frame.flags & framing.LAST
        ):
            raise framing.FrameError(f"a reply to frame {frame.id} that does not match the batch that was sent")
        self._batch_size = 0
        before, after = reply.before_us, reply.after_us
        if self._attempts:
            for run in self._attempts:
                run.on_answer(reply.service_us / 1e6, BatchTimes(before, after, reply.merged))
            self._attempts = []
        self._queue.on_reply(self, entries, reply.service_us / 1e6, before / 1e6, after / 1e6)
        if self._draining and not self._batch_size:
            self._close()

    def _on_out_of_memory(self, frame: framing.ReceivedFrame) -> None:
        """The replica is about to end. The connection follows, with the other calls of the batch."""
        place = _decode_place(frame.body)
        if frame.id != self._serial or not 0 <= place < self._batch_size:
            raise framing.FrameError(f"the end of a call of frame {frame.id}, which was not sent")
        self._queue.on_out_of_memory(self, place)

    def _drain(self) -> None:
        self._draining = True
        if not self._batch_size:
            self._close()

    def _count_kills(self) -> MemoryKills | None:
        peer = None if self._transport is None else self._transport.get_extra_info("socket")
        return None if peer is None else memory_kills.kills_of_peer(peer)

    def _close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _batch_metadata(self, batch: list[Call]) -> dict[str, Any]:
        """The last item of an INFER frame: ids and traces of the whole batch, which is cheaper than per call."""
        metadata: dict[str, Any] = {"ids": b"\n".join([call.id for call in batch]), "timed": True, "memory": True}
        traces = [call.head.trace for call in batch]
        if any(traces):
            recorded = [
                (trace.recording, call.began)
                for trace, call in zip(traces, batch, strict=True)
                if trace is not None and trace.recording is not None
            ]
            if recorded:
                self._attempts = recorded[0][0].start_attempts(recorded, self._queue.server.id, self._pid, len(batch))
            metadata["traces"] = [(place, *trace.passed_on) for place, trace in enumerate(traces) if trace is not None]
        return metadata

    async def _connect(self) -> None:
        path = self.address.removeprefix(_SCHEME)
        while True:
            await asyncio.sleep(self._delay)
            # Also after a successful connect: a peer that accepts and drops connections must not cause a busy loop.
            self._delay = min(max(self._delay * 1.5, FIRST_RETRY), LAST_RETRY)
            try:
                await self._loop.create_unix_connection(lambda: self, path)
            except OSError:
                continue
            self._connecting = None
            return
