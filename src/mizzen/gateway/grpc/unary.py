"""Unary calls on HTTP/2 streams: the request message is read completely first. Also how all gRPC calls end."""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from mizzen.access.refusal_lines import LONGEST
from mizzen.access.safe_text import sanitize
from mizzen.errors import TooLarge
from mizzen.gateway.access.authorizer import ALLOWED, PLANE, PREDICT, READ, RequestDecision
from mizzen.gateway.context import AuthRequest, GatewayContext
from mizzen.gateway.grpc.call_head import CallHead, RpcError
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.queueing.call import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.request import content_encoding
from mizzen.gateway.request.body_budget import OVER_BUDGET, BodyReservation, append_piece
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.telemetry.counters import GONE
from mizzen.web.http2.stream import Stream

PREFIX = struct.Struct(">BL")
"""Before each message: whether it is compressed, and its length."""
MAX_METADATA_BYTES = 64 << 10
"""Maximum size of a message that the gateway answers itself."""
UNAUTHORIZED_BYTES = 16 << 10
"""Bytes of an incomplete message beyond which the caller must be authorized."""
LARGE_HEAD = 2 << 10
"""Larger heads count against the memory budget until the message is complete: a connection may have hundreds."""
PATIENT_SECONDS, HASTY_SECONDS = 1.0, 0.01

log = logging.getLogger(__name__)

CallTarget: TypeAlias = tuple[str, str, str]
"""Namespace, name and version of the requested model; empty if there is none."""


class GrpcCall:
    """What all gRPC calls have in common: how a call ends, and how it is logged."""

    __slots__ = ("began", "call_head", "service", "size", "stream", "target")

    def __init__(self, service: GatewayContext, stream: Stream, call_head: CallHead) -> None:
        self.service = service
        self.stream = stream
        self.call_head = call_head
        self.began = service.clock()
        self.size = 0
        """Bytes of the request."""
        self.target: CallTarget = ("", "", "")

    def answer(self, message: bytes) -> None:
        request_id = self.call_head.head.id or self.service.new_id()
        self.stream.answer(status.response_head(request_id), PREFIX.pack(0, len(message)) + message, status.TAIL)
        self.note(request_id, OK, len(message))

    def refuse(self, error: RpcError, *, counted: bool = False) -> None:
        """`counted`: the refusal is already in the metrics."""
        request_id = self.call_head.head.id or self.service.new_id()
        if not counted:
            self.service.metrics.refused[error.code] += 1
        self.stream.refuse(status.error_head(error.code, error.text, retry=error.retry, request_id=request_id))
        self.note(request_id, error.code)

    def require(self, decision: RequestDecision) -> None:
        """Raises RpcError and logs the refusal, unless it is allowed."""
        if decision.code != ALLOWED:
            self.service.note_refusal(AuthRequest("POST", self.call_head.method, self.call_head.credentials), decision)
            raise RpcError(decision.code, decision.reason, int(decision.code == UNAVAILABLE))

    def require_any_access(self) -> None:
        """Raises RpcError if the caller may call nothing at all in the namespace."""
        call_head = self.call_head
        self.require(self.service.permits.authorize_any(call_head.credentials, (*PREDICT, *READ), call_head.namespace))

    def has_waited_long(self) -> bool:
        """Whether the caller has waited for about its own deadline, or long enough not to be an attacker that cancels
        calls as fast as it makes them."""
        waited = self.service.clock() - self.began
        return waited >= max(min(self.call_head.seconds, PATIENT_SECONDS) / 2, HASTY_SECONDS)

    def note(self, request_id: bytes, code: int, bytes_out: int = 0, head: RequestHead | None = None) -> None:
        """Write the access log, and the trace if there is one."""
        service, call_head = self.service, self.call_head
        if code < service.logged_from:
            return
        actor = service.permits.authorize(call_head.credentials, READ, PLANE).actor
        namespace, model, version = (sanitize(text, LONGEST) for text in self.target)
        service.log_request(
            (head or call_head.head)._replace(actor=actor), request_id or service.new_id(), code, began=self.began,
            bytes_in=self.size, bytes_out=bytes_out, served=(namespace, model, version) if model else None,
        )  # fmt: skip


class UnaryCall:
    """A Receiver of one message. `begin` gets the message and returns the function that cancels the call."""

    __slots__ = ("_authorized", "_begin", "_cancel", "_head", "_max_bytes", "_parts", "_rpc", "_share", "_size")

    def __init__(
        self, rpc: GrpcCall, begin: Callable[[GrpcCall, bytes], Callable[[], object]], most: int, head: int = 0
    ) -> None:
        """`head`: size of the headers in bytes. Raises RpcError if there is no memory budget for them."""
        self._rpc = rpc
        self._begin = begin
        self._max_bytes = most
        self._authorized = most <= MAX_METADATA_BYTES
        """The caller is allowed to send it, or it is so small that authorization can wait for the answer."""
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._share: BodyReservation | None = None
        """For a message in several pieces, and for a large head."""
        self._cancel: Callable[[], object] | None = None
        self._head = 0 if head <= LARGE_HEAD else head
        if self._head and not rpc.stream.request_complete:
            self._share = BodyReservation(rpc.service.intake)
            if not self._share.grow(self._head):
                self._release()
                raise RpcError(UNAVAILABLE, OVER_BUDGET, 1)

    def on_data(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._max_bytes + PREFIX.size:
            self._refuse(too_large(self._max_bytes))
            return
        append_piece(self._parts, data)
        if self._rpc.stream.request_complete:
            return
        if self._share is None:
            self._share = BodyReservation(self._rpc.service.intake)
        try:
            if self._size > UNAUTHORIZED_BYTES:
                self._require_authorized()
        except RpcError as error:
            self._refuse(error)
            return
        if not self._share.grow(self._head + self._size):
            self._refuse(RpcError(UNAVAILABLE, OVER_BUDGET, 1))

    def on_end(self) -> None:
        parts, rpc = self._parts, self._rpc
        body = bytes(parts[0]) if len(parts) == 1 else b"".join(parts)
        rpc.size = size = len(body)
        if self._share is not None:
            self._release()
        if size >= PREFIX.size and PREFIX.unpack_from(body) == (0, size - PREFIX.size):
            self._cancel = self._begin(rpc, body[PREFIX.size :])
            return
        try:
            self._require_compressed(body)
            self._require_authorized()
        except RpcError as error:
            rpc.refuse(error)
        else:
            self._cancel = start_task(rpc, self._decompress_and_begin(body[PREFIX.size :]))

    def on_cancel(self) -> None:
        self._release()
        if self._cancel is not None:
            self._cancel()
        else:
            self._rpc.note(self._rpc.call_head.head.id, GONE)

    def on_writable(self) -> None:
        """Nothing to do: the whole answer is buffered already."""

    def has_waited_long(self) -> bool:
        return self._rpc.has_waited_long()

    def on_shutdown(self) -> None:
        """Nothing to do: the call is answered before the server stops."""

    def _require_authorized(self) -> None:
        """Raises RpcError for callers without any access: their message is neither read further nor decompressed."""
        if not self._authorized:
            self._rpc.require_any_access()
            self._authorized = True

    def _require_compressed(self, body: bytes) -> None:
        """Raises RpcError unless the body is one compressed message with a known encoding."""
        if len(body) < PREFIX.size:
            raise RpcError(BAD_REQUEST, "the call has no message")
        packed, size = PREFIX.unpack_from(body)
        if len(body) != PREFIX.size + size or packed != 1:
            raise RpcError(BAD_REQUEST, "the call must have exactly one message")
        if not self._rpc.call_head.encoding:
            raise RpcError(BAD_REQUEST, "the message is compressed, but the call has no grpc-encoding header")

    async def _decompress_and_begin(self, packed: bytes) -> None:
        rpc = self._rpc
        share = BodyReservation(rpc.service.intake)
        try:
            message = await content_encoding.decompress(packed, rpc.call_head.encoding, share, self._max_bytes)
        except ValueError as error:
            raise RpcError(BAD_REQUEST, str(error)) from error
        except TooLarge as error:
            raise too_large(self._max_bytes) from error
        finally:
            share.end()
        if message is None:
            raise RpcError(UNAVAILABLE, OVER_BUDGET, 1)
        self._cancel = self._begin(rpc, message)

    def _refuse(self, error: RpcError) -> None:
        self._release()
        self._rpc.refuse(error)

    def _release(self) -> None:
        self._parts = []
        if self._share is not None:
            self._share.end()
            self._share = None


def too_large(most: int) -> RpcError:
    return RpcError(413, f"the message is larger than {most} bytes")


def start_task(
    rpc: GrpcCall, work: Coroutine[Any, Any, None], refuse: Callable[[RpcError], object] | None = None
) -> Callable[[], object]:
    """Run `work` in a task and return the function that cancels it. An RpcError ends the call, or goes to `refuse`."""
    refuse = refuse or rpc.refuse

    async def run() -> None:
        try:
            await work
        except RpcError as error:
            refuse(error)
        except Exception:
            log.exception("answering a gRPC call failed")
            refuse(RpcError(500, "internal error"))

    task = asyncio.ensure_future(run())

    def cancel() -> None:
        if task.cancel():
            rpc.note(rpc.call_head.head.id, GONE)

    return cancel
