"""Connections to replicas: one unix socket each, frames both ways, and stubborn about coming back.

A replica is ready once its hello has arrived, if that speaks of the version meant; it answers with the same parameters
for as long as the connection lasts, also when it is given others. Whatever goes wrong on a connection ends it; its
queue then decides what happens to the calls it carried, and the address is tried again for as long as the Table names
it.

    connecting -> connected -> ready <-> out with a batch
         ^                        |             |
         +------ lost ------------+-------------+        drained: no more batches, closed once nothing is owed
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal, cast

import msgspec

from mizzen.gateway.inference.calls import Call
from mizzen.gateway.inference.signature import decode_hello
from mizzen.gateway.queueing.lane_scheduler import LARGE_BYTES
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.telemetry.trace_recording import Run, Times
from mizzen.protocol.frames import framing
from mizzen.protocol.frames.large_frames import infer_frame

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


class Replica(asyncio.Protocol):
    """One address of a served version. `retire` ends it; until then it connects and reconnects by itself."""

    def __init__(self, address: str, queue: Queue, loop: asyncio.AbstractEventLoop, ready: Callable[[], None]) -> None:
        """`ready` is called whenever its hello has come."""
        self.address = address
        self._queue = queue
        self._loop = loop
        self._tell_ready = ready
        self._transport: asyncio.Transport | None = None
        self._reader = framing.Reader()
        self._serial = 0
        self._owed = 0
        """Calls in the batch that is out; 0: none is."""
        self._runs: list[Run] = []
        """Those of its calls that are traced."""
        self._pid = 0
        self._greeted = False
        self._version = framing.VERSION
        """Of the frames that it is sent."""
        self._wants_callers = self._wants_feedback = False
        self._leaving = False
        self._retired = False
        self._delay = 0.0
        self._connecting: asyncio.Task[None] | None = loop.create_task(self._connect())

    @property
    def ready(self) -> bool:
        """It has said hello, and takes batches."""
        return self._greeted and not self._leaving and self._transport is not None

    def retire(self) -> None:
        """The Table names this address no more: close as soon as nothing is owed."""
        self._retired = True
        if self._connecting is not None:
            self._connecting.cancel()
        self._queue.drains(self)
        self._leave()

    async def abort(self) -> None:
        """Close now, whatever is owed."""
        self._retired = True
        if self._transport is not None:
            self._transport.abort()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.wait((self._connecting,))

    def send(self, batch: list[Call]) -> None:
        assert self._transport is not None
        self._owed = len(batch)
        self._serial = (self._serial + 1) & 0xFFFFFFFF
        items = [call.item for call in batch]
        if self._wants_callers:
            items.append(self._callers(batch))
        if batch[0].size > LARGE_BYTES:
            self._transport.writelines(infer_frame(self._serial, items, self._version))
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
        self._reader = framing.Reader()
        self._owed = 0
        self._greeted = False
        self._leaving = False
        if self._retired:  # while the connection was under way
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.feed(data):
                self._take(frame)
        except (framing.FrameError, msgspec.DecodeError) as error:
            log.warning("closing the connection to %s: %s", self.address, error)
            self._drop()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        for run in self._runs:
            run.lost()
        self._runs = []
        self._queue.lost(self)
        if not self._retired:
            self._connecting = self._loop.create_task(self._connect())

    def _take(self, frame: framing.Frame) -> None:
        if frame.type == framing.REPLY:
            self._take_reply(frame)
        elif frame.type == framing.HELLO:
            self._take_hello(frame)
        elif frame.type == framing.DRAIN:
            self._queue.drains(self)
            self._leave()
        else:
            raise framing.FrameError(f"unexpected frame of type {frame.type}")

    def _take_hello(self, frame: framing.Frame) -> None:
        hello = decode_hello(frame.body)
        if hello.state != "ready" or self._leaving or self._greeted:
            return
        wanted = self._queue.server.files
        if wanted and hello.files and hello.files != wanted:
            # It was given those of another version, of which the next Table will speak. Who asks for this one waits.
            self._drop()
            return
        self._version = framing.common(hello.frames, self._reader.version)
        self._greeted = True
        self._wants_callers = hello.callers
        self._wants_feedback = hello.feedback
        self._pid = hello.pid
        self._delay = FIRST_RETRY
        self._queue.joined(self, hello)
        self._tell_ready()

    def _take_reply(self, frame: framing.Frame) -> None:
        reply = _decode_reply(frame.body)
        entries = reply.entries
        if frame.id != self._serial or len(entries) != self._owed or not self._owed or not frame.flags & framing.LAST:
            raise framing.FrameError(f"a reply to frame {frame.id} that does not match what was asked")
        self._owed = 0
        before, after = reply.before_us, reply.after_us
        if self._runs:
            for run in self._runs:
                run.answered(reply.service_us / 1e6, Times(before, after, reply.merged))
            self._runs = []
        self._queue.answered(self, entries, reply.service_us / 1e6, before / 1e6, after / 1e6)
        if self._leaving and not self._owed:
            self._drop()

    def _leave(self) -> None:
        self._leaving = True
        if not self._owed:
            self._drop()

    def _drop(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _callers(self, batch: list[Call]) -> dict[str, Any]:
        """The end of an INFER frame. Written for all of them at once: it is the same work for every request."""
        told: dict[str, Any] = {"ids": b"\n".join([call.id for call in batch]), "timed": True}
        traces = [call.options.trace for call in batch]
        if any(traces):
            recorded = [
                (trace.recording, call.began)
                for trace, call in zip(traces, batch, strict=True)
                if trace is not None and trace.recording is not None
            ]
            if recorded:
                self._runs = recorded[0][0].tracer.sent(recorded, self._queue.server.id, self._pid, len(batch))
            told["traces"] = [(place, *trace.passed_on) for place, trace in enumerate(traces) if trace is not None]
        return told

    async def _connect(self) -> None:
        path = self.address.removeprefix(_SCHEME)
        while True:
            await asyncio.sleep(self._delay)
            # Also after a connect that worked: a peer that takes connections and drops them must not keep us spinning.
            self._delay = min(max(self._delay * 1.5, FIRST_RETRY), LAST_RETRY)
            try:
                await self._loop.create_unix_connection(lambda: self, path)
            except OSError:
                continue
            self._connecting = None
            return
