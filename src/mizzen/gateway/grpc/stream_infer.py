"""ModelStreamInfer: one answer for each request of a streaming call, in order.

An invalid request is answered with an error message and does not end the stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.model_infer import GrpcInference, InferService
from mizzen.gateway.grpc.streaming import (
    MAX_PENDING,
    MAX_UNSENT_BYTES,
    STOPPING_MESSAGE,
    StreamingCall,
    StreamingCallLimit,
)
from mizzen.gateway.grpc.unary import GrpcCall
from mizzen.gateway.grpc.wire.infer_request import InferRequestMessage
from mizzen.protobuf_wire import encode_field

_ERROR, _RESPONSE, _ID = 1, 2, 3


class StreamInfer(StreamingCall):
    def __init__(self, rpc: GrpcCall, infer_service: InferService, most: int, limit: StreamingCallLimit) -> None:
        super().__init__(rpc, most, limit)
        self._infer_service = infer_service
        self._queue: deque[_PendingAnswer] = deque()
        self._messages_ended = self._stopping = False

    def on_shutdown(self) -> None:
        """Answer the pending requests and take no more."""
        self._stopping = True
        self._send_ready()

    def has_room(self) -> bool:
        return len(self._queue) < MAX_PENDING and self._stream.unsent <= MAX_UNSENT_BYTES and not self._stopping

    def on_message(self, message: bytes) -> None:
        rpc = GrpcCall(self._rpc.service, self._rpc.stream, self._rpc.call_head)
        rpc.size = len(message)
        entry = _PendingAnswer(self)
        self._queue.append(entry)
        try:
            entry.stop = self._infer_service.begin(rpc, message, entry.new_inference)
        except RpcError as error:
            rpc.service.metrics.refused[error.code] += 1
            entry.fill(encode_field(_ERROR, error.text.encode()))

    def on_messages_end(self) -> None:
        self._messages_ended = True
        self._send_ready()

    def on_close(self) -> None:
        line, self._queue = self._queue, deque()
        for entry in line:
            entry.cancel()

    def on_answer(self) -> None:
        """A request of the queue has its answer: send every answer that is due."""
        self._send_ready()
        if not self._closed and not self._stopping:
            self.advance()

    def _send_ready(self) -> None:
        line = self._queue
        while line and line[0].answer is not None:
            self.write(line.popleft().answer or b"")
        if not line and self._stopping:
            self.end(RpcError(503, STOPPING_MESSAGE))
        elif not line and self._messages_ended:
            self.end()


class _PendingAnswer:
    """The place of one request in the queue of answers."""

    __slots__ = ("_call", "answer", "stop")

    def __init__(self, talk: StreamInfer) -> None:
        self._call = talk
        self.answer: bytes | None = None
        self.stop: Callable[[], object] | None = None
        """Cancels the request."""

    def new_inference(self, rpc: GrpcCall, request: InferRequestMessage) -> GrpcInference:
        return _StreamedInference(rpc, request, self)

    def fill(self, answer: bytes) -> None:
        self.answer = answer
        self._call.on_answer()

    def cancel(self) -> None:
        if self.stop is not None and self.answer is None:
            self.stop()


class _StreamedInference(GrpcInference):
    __slots__ = ("_entry", "_id")

    def __init__(self, rpc: GrpcCall, request: InferRequestMessage, entry: _PendingAnswer) -> None:
        super().__init__(rpc, request)
        self._entry = entry
        self._id = request.id

    def send_answer(self, message: bytes) -> None:
        self._entry.fill(encode_field(_RESPONSE, message))

    def send_error(self, code: int, text: str, retry: int) -> None:
        """Send the error with the id of the request, so that the caller can match it."""
        self._entry.fill(encode_field(_ERROR, text.encode()) + encode_field(_RESPONSE, encode_field(_ID, self._id)))
