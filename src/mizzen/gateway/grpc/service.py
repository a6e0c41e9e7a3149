"""Which method is answered by what."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from mizzen.gateway.access.authorizer import FORBIDDEN, PLANE, READ
from mizzen.gateway.grpc import call_head, reflection
from mizzen.gateway.grpc.call_head import Opening, Stranger, Unfit
from mizzen.gateway.grpc.health import Health
from mizzen.gateway.grpc.metadata_methods import QUESTIONS, Answering
from mizzen.gateway.grpc.model_infer import Inferring
from mizzen.gateway.grpc.stream_infer import StreamInfer
from mizzen.gateway.grpc.streaming import MOST_TALKS, MOST_WATCHES, Streamed, Talks
from mizzen.gateway.grpc.unary import QUESTION_BYTES, Unary, Visit, begun
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.inference.calls import BAD_REQUEST
from mizzen.gateway.inference.inference import Asked, Service
from mizzen.gateway.inference.protocols import PLAIN
from mizzen.gateway.request.origin_check import Verdicts
from mizzen.protocol.v2 import cited
from mizzen.web.http2.headers import LIST_BYTES, Head
from mizzen.web.http2.stream import Receiver, Stream

INFER = f"/{reflection.INFERENCE}/ModelInfer"
STREAM_INFER = f"/{reflection.INFERENCE}/ModelStreamInfer"

_NOBODY = Opening("", [], [], (), "", b"", 0.0, PLAIN)

_Answer: TypeAlias = Callable[[Visit, bytes], Coroutine[Any, Any, None]]


class GrpcService:
    """A Host. What a head says is kept with it: clients repeat themselves."""

    def __init__(self, service: Service, answering: Answering, verdicts: Verdicts) -> None:
        self._service = service
        self._verdicts = verdicts
        self._inferring = Inferring(service)
        self._health = Health(answering)
        self._talks, self._watches = Talks(MOST_TALKS), Talks(MOST_WATCHES)
        self._answers: dict[str, _Answer] = {
            f"/{reflection.INFERENCE}/{each.name}": partial(each.answer, answering) for each in QUESTIONS
        }
        self._answers[f"/{reflection.HEALTH}/Check"] = self._health.check
        self._reflections = {f"/{name}/ServerReflectionInfo" for name in reflection.REFLECTIONS}

    def opened(self, stream: Stream, head: Head) -> Receiver | None:
        opening: Opening | None = head.meaning
        if opening is None:
            opening = self._open(stream, head)
            if opening is None:
                return None
        visit = Visit(self._service, stream, opening)
        try:
            if opening.method == INFER:
                return Unary(visit, self._infer, self._service.max_body_bytes, head.size)
            return self._other(visit, opening.method, head.size)
        except Unfit as unfit:
            visit.refuse(unfit)
            return None

    def _open(self, stream: Stream, head: Head) -> Opening | None:
        """None: it has been refused."""
        if head.oversized:
            words = f"the head of the call is larger than {LIST_BYTES} bytes"
            Visit(self._service, stream, _NOBODY).refuse(Unfit(431, words))
            return None
        try:
            opening = call_head.read(head.fields)
        except Stranger as stranger:
            stream.refuse(status.stranger(str(stranger)))
            return None
        except Unfit as unfit:
            Visit(self._service, stream, _NOBODY).refuse(unfit)
            return None
        except ValueError as fault:
            Visit(self._service, stream, _NOBODY).refuse(Unfit(BAD_REQUEST, str(fault)))
            return None
        if not self._verdicts.good(opening.hosts, opening.origins):
            reason = self._verdicts.reason
            self._service.note_foreign(Asked("POST", opening.method, opening.credentials), reason)
            Visit(self._service, stream, opening).refuse(Unfit(FORBIDDEN, reason))
            return None
        if opening.lasting:
            head.meaning = opening
        return opening

    def _infer(self, visit: Visit, message: bytes) -> Callable[[], object]:
        try:
            return self._inferring.begin(visit, message)
        except Unfit as unfit:
            visit.refuse(unfit)
            return _nothing

    def _other(self, visit: Visit, method: str, head: int) -> Receiver:
        answer = self._answers.get(method)
        if answer is not None:
            return Unary(visit, partial(_begin, answer), QUESTION_BYTES, head)
        if method == STREAM_INFER:
            visit.require_known()
            return StreamInfer(visit, self._inferring, self._service.max_body_bytes, self._talks)
        if method == f"/{reflection.HEALTH}/Watch":
            return Streamed(visit, partial(self._health.watch, visit), QUESTION_BYTES, self._watches, single=True)
        if method in self._reflections:
            self._require_reader(visit)
            return Streamed(visit, reflection.reflect, QUESTION_BYTES, self._watches)
        raise Unfit(501, f"there is no method '{cited(method)}'")

    def _require_reader(self, visit: Visit) -> None:
        """As who asks REST for its openapi.json."""
        visit.require(self._service.permits.rule(visit.opening.credentials, READ, PLANE))


def _begin(answer: _Answer, visit: Visit, message: bytes) -> Callable[[], object]:
    return begun(visit, answer(visit, message))


def _nothing() -> None:
    """To be cancelled."""
