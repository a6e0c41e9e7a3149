"""Dispatches gRPC calls to their methods."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias

from mizzen.gateway.access.authorizer import FORBIDDEN, PLANE, READ
from mizzen.gateway.context import AuthRequest, GatewayContext
from mizzen.gateway.grpc import reflection
from mizzen.gateway.grpc.call_head import CallHead, NotGrpcError, RpcError, parse_head
from mizzen.gateway.grpc.health import HealthService
from mizzen.gateway.grpc.metadata_methods import METADATA_METHODS, MetadataApi
from mizzen.gateway.grpc.model_infer import InferService
from mizzen.gateway.grpc.stream_infer import StreamInfer
from mizzen.gateway.grpc.streaming import MAX_STREAMS, MAX_WATCHES, IteratorCall, StreamingCallLimit
from mizzen.gateway.grpc.unary import MAX_METADATA_BYTES, GrpcCall, UnaryCall, start_task
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.queueing.call import BAD_REQUEST
from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.gateway.request.origin_check import OriginCheck
from mizzen.protocol.v2 import shorten
from mizzen.web.http2.headers import MAX_LIST_BYTES, HeaderBlock
from mizzen.web.http2.stream import Receiver, Stream

INFER = f"/{reflection.INFERENCE}/ModelInfer"
STREAM_INFER = f"/{reflection.INFERENCE}/ModelStreamInfer"

_NO_HEAD = CallHead("", [], [], (), "", b"", 0.0, EMPTY_HEAD)

_Answer: TypeAlias = Callable[[GrpcCall, bytes], Coroutine[Any, Any, None]]


class GrpcService:
    """A StreamHandler. Caches the parsed form of a head with the head, because clients repeat heads."""

    def __init__(self, service: GatewayContext, api: MetadataApi, origin_check: OriginCheck) -> None:
        self._service = service
        self._origin_check = origin_check
        self._infer_service = InferService(service)
        self._health = HealthService(api)
        self._streams, self._watches = StreamingCallLimit(MAX_STREAMS), StreamingCallLimit(MAX_WATCHES)
        self._methods: dict[str, _Answer] = {
            f"/{reflection.INFERENCE}/{each.name}": partial(each.answer, api) for each in METADATA_METHODS
        }
        self._methods[f"/{reflection.HEALTH}/Check"] = self._health.check
        self._reflections = {f"/{name}/ServerReflectionInfo" for name in reflection.REFLECTIONS}

    def on_stream(self, stream: Stream, head: HeaderBlock) -> Receiver | None:
        call_head: CallHead | None = head.parsed
        if call_head is None:
            call_head = self._parse_head(stream, head)
            if call_head is None:
                return None
        rpc = GrpcCall(self._service, stream, call_head)
        try:
            if call_head.method == INFER:
                return UnaryCall(rpc, self._infer, self._service.max_body_bytes, head.size)
            return self._receiver_of(rpc, call_head.method, head.size)
        except RpcError as error:
            rpc.refuse(error)
            return None

    def _parse_head(self, stream: Stream, head: HeaderBlock) -> CallHead | None:
        """Parse the head; None: the call has been refused."""
        if head.oversized:
            words = f"the headers of the call are larger than {MAX_LIST_BYTES} bytes"
            GrpcCall(self._service, stream, _NO_HEAD).refuse(RpcError(431, words))
            return None
        try:
            call_head = parse_head(head.fields)
        except NotGrpcError as error:
            stream.refuse(status.not_grpc_head(str(error)))
            return None
        except RpcError as error:
            GrpcCall(self._service, stream, _NO_HEAD).refuse(error)
            return None
        except ValueError as fault:
            GrpcCall(self._service, stream, _NO_HEAD).refuse(RpcError(BAD_REQUEST, str(fault)))
            return None
        if not self._origin_check.accepts(call_head.hosts, call_head.origins):
            reason = self._origin_check.reason
            self._service.note_foreign(AuthRequest("POST", call_head.method, call_head.credentials), reason)
            GrpcCall(self._service, stream, call_head).refuse(RpcError(FORBIDDEN, reason))
            return None
        if call_head.cacheable:
            head.parsed = call_head
        return call_head

    def _infer(self, rpc: GrpcCall, message: bytes) -> Callable[[], object]:
        try:
            return self._infer_service.begin(rpc, message)
        except RpcError as error:
            rpc.refuse(error)
            return _do_nothing

    def _receiver_of(self, rpc: GrpcCall, method: str, head: int) -> Receiver:
        answer = self._methods.get(method)
        if answer is not None:
            return UnaryCall(rpc, partial(_begin, answer), MAX_METADATA_BYTES, head)
        if method == STREAM_INFER:
            rpc.require_any_access()
            return StreamInfer(rpc, self._infer_service, self._service.max_body_bytes, self._streams)
        if method == f"/{reflection.HEALTH}/Watch":
            return IteratorCall(rpc, partial(self._health.watch, rpc), MAX_METADATA_BYTES, self._watches, single=True)
        if method in self._reflections:
            self._require_reader(rpc)
            return IteratorCall(rpc, reflection.reflect, MAX_METADATA_BYTES, self._watches)
        raise RpcError(501, f"there is no method '{shorten(method)}'")

    def _require_reader(self, rpc: GrpcCall) -> None:
        """Require the same permission as REST's openapi.json. Raises RpcError."""
        rpc.require(self._service.permits.authorize(rpc.call_head.credentials, READ, PLANE))


def _begin(answer: _Answer, rpc: GrpcCall, message: bytes) -> Callable[[], object]:
    return start_task(rpc, answer(rpc, message))


def _do_nothing() -> None:
    """Nothing to cancel."""
