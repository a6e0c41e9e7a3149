"""ModelStreamInfer: one answer for each request, in the order they came, over one call.

What is wrong with one of them is an answer, too, and ends nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.model_infer import GrpcInference, Inferring
from mizzen.gateway.grpc.streaming import STOPPING, UNREAD, WAITING, Talk, Talks
from mizzen.gateway.grpc.unary import Visit
from mizzen.gateway.grpc.wire.infer_request import Request
from mizzen.gateway.grpc.wire.protobuf import field

_ERROR, _RESPONSE, _ID = 1, 2, 3


class StreamInfer(Talk):
    def __init__(self, visit: Visit, inferring: Inferring, most: int, talks: Talks) -> None:
        super().__init__(visit, most, talks)
        self._inferring = inferring
        self._line: deque[_Entry] = deque()
        self._drained = self._stopping = False

    def stopping(self) -> None:
        """What has been asked is answered; no more is."""
        self._stopping = True
        self._send()

    def room(self) -> bool:
        return len(self._line) < WAITING and self._stream.unsent <= UNREAD and not self._stopping

    def taken(self, message: bytes) -> None:
        visit = Visit(self._visit.service, self._visit.stream, self._visit.opening)
        visit.size = len(message)
        entry = _Entry(self)
        self._line.append(entry)
        try:
            entry.stop = self._inferring.begin(visit, message, entry.made)
        except Unfit as unfit:
            visit.service.metrics.refused[unfit.code] += 1
            entry.fill(field(_ERROR, unfit.text.encode()))

    def drained(self) -> None:
        self._drained = True
        self._send()

    def dropped(self) -> None:
        line, self._line = self._line, deque()
        for entry in line:
            entry.drop()

    def answered(self) -> None:
        """One of the line: what is due is sent."""
        self._send()
        if not self._over and not self._stopping:
            self.advance()

    def _send(self) -> None:
        line = self._line
        while line and line[0].answer is not None:
            self.write(line.popleft().answer or b"")
        if not line and self._stopping:
            self.end(Unfit(503, STOPPING))
        elif not line and self._drained:
            self.end()


class _Entry:
    """A place in the line."""

    __slots__ = ("_talk", "answer", "stop")

    def __init__(self, talk: StreamInfer) -> None:
        self._talk = talk
        self.answer: bytes | None = None
        self.stop: Callable[[], object] | None = None
        """What to do when nobody waits for it any more."""

    def made(self, visit: Visit, request: Request) -> GrpcInference:
        return _Streamed(visit, request, self)

    def fill(self, answer: bytes) -> None:
        self.answer = answer
        self._talk.answered()

    def drop(self) -> None:
        if self.stop is not None and self.answer is None:
            self.stop()


class _Streamed(GrpcInference):
    __slots__ = ("_entry", "_id")

    def __init__(self, visit: Visit, request: Request, entry: _Entry) -> None:
        super().__init__(visit, request)
        self._entry = entry
        self._id = request.id

    def answered(self, message: bytes) -> None:
        self._entry.fill(field(_RESPONSE, message))

    def refused(self, code: int, text: str, retry: int) -> None:
        """With the id that it was sent with, by which the caller knows which one it was."""
        self._entry.fill(field(_ERROR, text.encode()) + field(_RESPONSE, field(_ID, self._id)))
