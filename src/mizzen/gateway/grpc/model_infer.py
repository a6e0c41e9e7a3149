"""ModelInfer: turns a request message into an inference, and its answer into a response message."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mizzen.errors import NotFound, TooLarge, Unavailable
from mizzen.gateway.access.authorizer import ALLOWED, PREDICT
from mizzen.gateway.access.rate_limits import RateLimit
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.grpc import input_values
from mizzen.gateway.grpc.call_head import RpcError
from mizzen.gateway.grpc.unary import PREFIX, GrpcCall, start_task
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.grpc.wire.infer_request import InferRequestMessage, InferRequestParser
from mizzen.gateway.grpc.wire.infer_response import InferResponseEncoder, encode_default_parameters
from mizzen.gateway.inference.default_outputs import DefaultOutput
from mizzen.gateway.inference.endpoint import Endpoint, InferenceCall
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import JSON, user_of
from mizzen.gateway.inference.sampled import AuditedInference
from mizzen.gateway.queueing.call import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.request.body_budget import BodyReservation
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.route_table import Routes
from mizzen.gateway.telemetry.counters import GONE
from mizzen.protobuf_wire import Malformed
from mizzen.protocol import binary, v2
from mizzen.protocol.frames import framing

INLINE_BYTES = 64 << 10
"""Up to this many bytes, typed contents are converted at once, without yielding to other tasks."""
MAX_ENDPOINTS = 512


class GrpcInference(Inference):
    """An inference request over gRPC. Subclasses decide where its answer goes."""

    __slots__ = ("fault", "input_data", "request", "rpc")

    def __init__(self, rpc: GrpcCall, request: InferRequestMessage) -> None:
        self.rpc = rpc
        self.request: InferRequestMessage | None = request
        self.input_data: list[memoryview] | None = None
        """Data of the inputs, if it was converted beforehand."""
        self.fault = ""
        """Error of that conversion."""

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        rpc = self.rpc
        if code == OK:
            self.send_answer(body)
        else:
            text: str = msgspec.json.decode(body)["error"]
            retry = kind.rpartition(b"retry-after: ")[2].strip()
            self.send_error(code, text, int(retry) if retry.isdigit() else 0)
            body = b""
        if code >= rpc.service.logged_from:
            self.note(code, len(body))

    def send_answer(self, message: bytes) -> None:
        self.rpc.stream.answer(status.response_head(self.id), PREFIX.pack(0, len(message)) + message, status.TAIL)

    def send_error(self, code: int, text: str, retry: int) -> None:
        self.rpc.stream.refuse(status.error_head(code, text, retry=retry, request_id=self.id))

    def refuse(self, error: RpcError) -> None:
        """Refuse the request before it has started."""
        rpc = self.rpc
        rpc.service.metrics.refused[error.code] += 1
        self.id = rpc.call_head.head.id or rpc.service.new_id()
        self.send_error(error.code, error.text, error.retry)
        rpc.note(self.id, error.code)

    def on_disconnect(self) -> None:
        """The caller has disconnected."""
        service = self.rpc.service
        if self.pending:
            self.cancel(service.clock())
            if service.logged_from <= GONE:
                self.note(GONE)

    def note(self, code: int, bytes_out: int = 0) -> None:
        endpoint = self.endpoint
        self.rpc.target = endpoint.namespace, endpoint.name, endpoint.version
        self.rpc.note(self.id, code, bytes_out, self.head)


class SampledGrpcInference(AuditedInference, GrpcInference):
    """A request that was sampled for the audit log. Another GrpcInference sends its answer."""

    __slots__ = ("_target",)

    def __init__(self, rpc: GrpcCall, request: InferRequestMessage, as_: GrpcInference) -> None:
        super().__init__(rpc, request)
        self._target = as_

    def send_answer(self, message: bytes) -> None:
        self._target.id = self.id
        self._target.send_answer(message)

    def send_error(self, code: int, text: str, retry: int) -> None:
        self._target.id = self.id
        self._target.send_error(code, text, retry)


class _GrpcProtocol:
    """A wire protocol whose request messages are already parsed."""

    def __init__(self) -> None:
        self.responses = InferResponseEncoder()

    def read(self, call: InferenceCall, body: bytes, head: RequestHead) -> None:
        assert isinstance(call, GrpcInference)
        assert call.request is not None
        (id_, described, raw), rpc = call.request, call.rpc
        call.request = None  # the entries hold everything that is still needed
        if id_:
            text = _parse_id(id_)
            call.id, call.id_json = v2.header_text(text), id_  # not JSON here
        else:
            call.named = bool(head.id)
            call.id = call.id_json = head.id or call.endpoint.new_id()
        request = described.request
        if request is None or call.fault:
            raise ValueError(described.fault or call.fault)
        if described.seconds is not None:
            call.seconds = min(call.seconds, described.seconds)
        if rpc.call_head.seconds < call.seconds:  # the caller's deadline counts from the arrival of the headers
            call.seconds = rpc.call_head.seconds - (call.began - rpc.began)
        if call.endpoint.bound is not None:
            call.user = user_of(request.parameters, head)
        inputs = request.inputs
        queues = call.endpoint.queues
        signature = queues[0].signature if queues else None
        if signature is not None:
            signature.check(inputs, request.outputs)
        datas, call.input_data = call.input_data, None  # free the memory, as for the request
        if datas is None:
            datas = (
                raw
                if len(raw) == len(inputs) and described.contents is None
                else input_values.input_data_of(described, raw)
            )
        if datas is not raw:
            call.size = max(call.size, sum(map(len, datas)))  # varints are shorter than raw values
        call.plain = False
        call.item = (_entries_of(inputs, datas), described.names, True)

    def answer(self, call: InferenceCall, payload: bytes) -> tuple[bytes, bytes]:
        endpoint = call.endpoint
        message = self.responses.encode(endpoint.name, endpoint.version, call.id_json, payload)
        return message if call.notes is None else message + call.notes.fields, b""

    def default(self, call: InferenceCall, default: DefaultOutput, why: bytes) -> tuple[bytes, bytes] | None:
        entries, names, _ = call.item
        shape = entries[0][2]
        rows = shape[0] if shape else 1
        payload = default.outputs(rows, names, raw=True) if rows <= call.size else None
        return None if payload is None else (self.answer(call, payload)[0] + encode_default_parameters(why), b"")


GRPC_PROTOCOL = _GrpcProtocol()


class InferService:
    """Starts inference requests. Caches endpoint lookups, because clients repeat names."""

    def __init__(self, service: GatewayContext) -> None:
        self._service = service
        self._requests = InferRequestParser()
        self._routes: Routes | None = None
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {}

    def begin(
        self,
        rpc: GrpcCall,
        message: bytes,
        new_inference: Callable[[GrpcCall, InferRequestMessage], GrpcInference] = GrpcInference,
    ) -> Callable[[], object]:
        """Start a request and return the function that cancels it. Raises RpcError if no model is reached."""
        try:
            request = self._requests.parse(message, rpc.require_any_access)
        except Malformed as error:
            raise RpcError(BAD_REQUEST, f"this is not a valid ModelInferRequest: {error}") from error
        endpoint = self._authorize(rpc, request.described.model, request.described.version)
        inference, head = new_inference(rpc, request), rpc.call_head.head
        samples = self._service.samples
        if samples is not None and samples.should_sample():
            inference = SampledGrpcInference(rpc, request, inference)
            decision = self._service.permits.authorize(rpc.call_head.credentials, PREDICT, endpoint.target)
            head = head._replace(actor=decision.actor)
        if request.described.contents is not None and not request.raw and request.typed_bytes > INLINE_BYTES:
            inference.pending = False  # until it has started
            stop = start_task(rpc, self._begin_later(inference, endpoint, request, message, head), inference.refuse)
            return lambda: inference.on_disconnect() if inference.pending else stop()
        inference.start(self._service, endpoint, message, head)
        return inference.on_disconnect

    async def _begin_later(
        self,
        inference: GrpcInference,
        endpoint: Endpoint,
        request: InferRequestMessage,
        message: bytes,
        head: RequestHead,
    ) -> None:
        """Convert the values, yielding to other tasks, then start. Raises RpcError if the memory budget is used up."""
        share = BodyReservation(self._service.intake)
        try:
            inference.input_data = await input_values.convert_inputs(
                endpoint, request.described, len(message), share, self._service.max_body_bytes
            )
        except (ValueError, TooLarge) as fault:
            inference.fault = str(fault)
        finally:
            share.end()  # from here on, the queue accounts for it
        inference.start(self._service, endpoint, message, head)

    def _authorize(self, rpc: GrpcCall, name: str, version: str) -> Endpoint:
        """Raises RpcError. Callers without permission do not learn whether the model exists."""
        service, call_head = self._service, rpc.call_head
        missing: NotFound | Unavailable | None = None
        try:
            endpoint = self._find_endpoint(call_head.namespace, name, version)
            target = endpoint.target
        except (NotFound, Unavailable) as error:
            missing = error
            target = service.routes.target(call_head.namespace, name, version or None)
        decision = service.permits.authorize(call_head.credentials, PREDICT, target)
        if decision.code == ALLOWED and missing is None:
            if decision.rate_limit is not None:
                self._check_rate_limit(rpc, decision.rate_limit, endpoint)
            return endpoint
        rpc.target = call_head.namespace, name, version
        rpc.require(decision)
        assert missing is not None
        early = isinstance(missing, Unavailable)
        raise RpcError(UNAVAILABLE if early else 404, missing.message, int(early))

    def _check_rate_limit(self, rpc: GrpcCall, allowance: RateLimit, endpoint: Endpoint) -> None:
        """Raises RpcError if the caller exceeds a rate limit."""
        excess = allowance.spend(self._service.clock(), self._service.wall())
        if excess is not None:
            rpc.target = endpoint.namespace, endpoint.name, endpoint.version
            raise RpcError(excess.code, excess.reason, excess.retry_after)

    def _find_endpoint(self, namespace: str, name: str, version: str) -> Endpoint:
        routes = self._service.routes
        if routes is not self._routes:
            self._routes = routes
            self._endpoints.clear()
        key = (namespace, name, version)
        found = self._endpoints.get(key)
        if found is None:
            named = routes.find(namespace, name, version or None)
            if len(self._endpoints) >= MAX_ENDPOINTS:
                self._endpoints.clear()
            found = self._endpoints[key] = named.with_codec(GRPC_PROTOCOL)
        return found


def _parse_id(given: bytes) -> str:
    """Raises ValueError."""
    try:
        text = given.decode()
    except UnicodeDecodeError as error:
        raise ValueError("id: expected UTF-8 text") from error
    if len(text) > v2.MAX_ID:
        raise ValueError(f"id: expected a string of at most {v2.MAX_ID} characters")
    return text


def _entries_of(inputs: list[binary.OpenTensor], datas: list[memoryview]) -> list[v2.Entry]:
    if len(inputs) == 1:  # the most common case
        tensor = inputs[0]
        return [(tensor.name, tensor.datatype, tensor.shape, framing.RAW, datas[0])]
    return [
        (tensor.name, tensor.datatype, tensor.shape, framing.RAW, data)
        for tensor, data in zip(inputs, datas, strict=True)
    ]
