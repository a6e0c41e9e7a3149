"""ModelInfer: a message into a call of a model, and its answer into a message."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mizzen.errors import NotFound, TooLarge, Unavailable
from mizzen.gateway.access.audit_sampling import Sampled
from mizzen.gateway.access.authorizer import ALLOWED, PREDICT
from mizzen.gateway.access.rate_limits import Allowance
from mizzen.gateway.grpc import input_values
from mizzen.gateway.grpc.call_head import Unfit
from mizzen.gateway.grpc.unary import PREFIX, Visit, begun
from mizzen.gateway.grpc.wire import status
from mizzen.gateway.grpc.wire.infer_request import Request, Requests
from mizzen.gateway.grpc.wire.infer_response import Responses, defaulted
from mizzen.gateway.grpc.wire.protobuf import Malformed
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, UNAVAILABLE
from mizzen.gateway.inference.default_outputs import Default
from mizzen.gateway.inference.inference import Inference, Service
from mizzen.gateway.inference.protocols import JSON, Options, user_of
from mizzen.gateway.request.body_budget import Share
from mizzen.gateway.route_table import Endpoint, Routes
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.protocol import binary, v2
from mizzen.protocol.frames import framing

AT_ONCE = 64 << 10
"""Bytes of values that came one by one which are made into raw ones before anybody else has a turn."""
REMEMBERED = 512


class GrpcInference(Inference):
    """An infer request that came over gRPC. Whoever derives from it says where its answer goes."""

    __slots__ = ("datas", "fault", "request", "visit")

    def __init__(self, visit: Visit, request: Request) -> None:
        self.visit = visit
        self.request: Request | None = request
        self.datas: list[memoryview] | None = None
        """Of its inputs, where they were made beforehand."""
        self.fault = ""
        """What was found then."""

    def reply(self, code: int, body: bytes, kind: bytes = JSON) -> None:
        visit = self.visit
        if code == OK:
            self.answered(body)
        else:
            text: str = msgspec.json.decode(body)["error"]
            retry = kind.rpartition(b"retry-after: ")[2].strip()
            self.refused(code, text, int(retry) if retry.isdigit() else 0)
            body = b""
        if code >= visit.service.noted_from:
            self.note(code, len(body))

    def answered(self, message: bytes) -> None:
        self.visit.stream.answer(status.head(self.id), PREFIX.pack(0, len(message)) + message, status.TAIL)

    def refused(self, code: int, text: str, retry: int) -> None:
        self.visit.stream.refuse(status.refusal(code, text, retry=retry, request_id=self.id))

    def refuse(self, unfit: Unfit) -> None:
        """Before it has begun."""
        visit = self.visit
        visit.service.metrics.refused[unfit.code] += 1
        self.id = visit.opening.options.id or visit.service.new_id()
        self.refused(unfit.code, unfit.text, unfit.retry)
        visit.note(self.id, unfit.code)

    def gone(self) -> None:
        """Nobody waits for it any more."""
        service = self.visit.service
        if self.live:
            self.cancel(service.clock())
            if service.noted_from <= GONE:
                self.note(GONE)

    def note(self, code: int, bytes_out: int = 0) -> None:
        endpoint = self.endpoint
        self.visit.named = endpoint.namespace, endpoint.name, endpoint.version
        self.visit.note(self.id, code, bytes_out, self.options)


class SampledGrpc(Sampled, GrpcInference):
    """One that was chosen for the audit, and is answered as another says."""

    __slots__ = ("_as",)

    def __init__(self, visit: Visit, request: Request, as_: GrpcInference) -> None:
        super().__init__(visit, request)
        self._as = as_

    def answered(self, message: bytes) -> None:
        self._as.id = self.id
        self._as.answered(message)

    def refused(self, code: int, text: str, retry: int) -> None:
        self._as.id = self.id
        self._as.refused(code, text, retry)


class _Grpc:
    """A Dialect whose bodies are messages that have been read already."""

    def __init__(self) -> None:
        self.responses = Responses()

    def read(self, call: Inference, service: Service, body: bytes, options: Options) -> None:
        assert isinstance(call, GrpcInference)
        assert call.request is not None
        (id_, described, raw), visit = call.request, call.visit
        call.request = None  # what is still needed of it is in the entries
        if id_:
            text = _id(id_)
            call.id, call.id_json = v2.header_text(text), id_  # which is no JSON here
        else:
            call.named = bool(options.id)
            call.id = call.id_json = options.id or call.endpoint.new_id()
        request = described.request
        if request is None or call.fault:
            raise ValueError(described.fault or call.fault)
        if described.seconds is not None:
            call.seconds = min(call.seconds, described.seconds)
        if visit.opening.seconds < call.seconds:  # by the caller's clock, which runs since the head of the call came
            call.seconds = visit.opening.seconds - (call.began - visit.began)
        if call.endpoint.bound is not None:
            call.user = user_of(request.parameters, options)
        inputs = request.inputs
        queues = call.endpoint.queues
        signature = queues[0].signature if queues else None
        if signature is not None:
            signature.check(inputs, request.outputs)
        datas, call.datas = call.datas, None  # as with the request
        if datas is None:
            datas = (
                raw if len(raw) == len(inputs) and described.contents is None else input_values.given(described, raw)
            )
        if datas is not raw:
            call.size = max(call.size, sum(map(len, datas)))  # small numbers are shorter in a message
        call.plain = False
        call.item = (_entries(inputs, datas), described.names, True)

    def answer(self, call: Inference, payload: bytes) -> tuple[bytes, bytes]:
        endpoint = call.endpoint
        message = self.responses.write(endpoint.name, endpoint.version, call.id_json, payload)
        return message if call.notes is None else message + call.notes.fields, b""

    def default(self, call: Inference, default: Default, why: bytes) -> tuple[bytes, bytes] | None:
        entries, names, _ = call.item
        shape = entries[0][2]
        rows = shape[0] if shape else 1
        payload = default.outputs(rows, names, raw=True) if rows <= call.size else None
        return None if payload is None else (self.answer(call, payload)[0] + defaulted(why), b"")


DIALECT = _Grpc()


class Inferring:
    """Begins infer requests. Names that were looked up are remembered: clients repeat themselves."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests = Requests()
        self._routes: Routes | None = None
        self._endpoints: dict[tuple[str, str, str], Endpoint] = {}

    def begin(
        self, visit: Visit, message: bytes, made: Callable[[Visit, Request], GrpcInference] = GrpcInference
    ) -> Callable[[], object]:
        """Returns what to do when nobody waits any more. Unfit for what reaches no model."""
        try:
            request = self._requests.read(message, visit.require_known)
        except Malformed as error:
            raise Unfit(BAD_REQUEST, f"this is no ModelInferRequest: {error}") from error
        endpoint = self._permitted(visit, request.described.model, request.described.version)
        inference, options = made(visit, request), visit.opening.options
        samples = self._service.samples
        if samples is not None and samples.chosen():
            inference = SampledGrpc(visit, request, inference)
            ruling = self._service.permits.rule(visit.opening.credentials, PREDICT, endpoint.target)
            options = options._replace(actor=ruling.actor)
        if request.described.contents is not None and not request.raw and request.typed_bytes > AT_ONCE:
            inference.live = False  # until it has begun
            stop = begun(visit, self._begin_later(inference, endpoint, request, message, options), inference.refuse)
            return lambda: inference.gone() if inference.live else stop()
        inference.start(self._service, endpoint, message, options)
        return inference.gone

    async def _begin_later(
        self, inference: GrpcInference, endpoint: Endpoint, request: Request, message: bytes, options: Options
    ) -> None:
        """Others have their turns while its values are made into bytes. Unfit where there is no room for them now."""
        share = Share(self._service.intake)
        try:
            inference.datas = await input_values.made(
                endpoint, request.described, len(message), share, self._service.max_body_bytes
            )
        except (ValueError, TooLarge) as fault:
            inference.fault = str(fault)
        finally:
            share.end()  # from here on a queue counts it
        inference.start(self._service, endpoint, message, options)

    def _permitted(self, visit: Visit, name: str, version: str) -> Endpoint:
        """Unfit. Who may not call it does not learn whether it is there."""
        service, opening = self._service, visit.opening
        missing: NotFound | Unavailable | None = None
        try:
            endpoint = self._endpoint(opening.namespace, name, version)
            target = endpoint.target
        except (NotFound, Unavailable) as error:
            missing = error
            target = service.routes.target(opening.namespace, name, version or None)
        ruling = service.permits.rule(opening.credentials, PREDICT, target)
        if ruling.code == ALLOWED and missing is None:
            if ruling.allowance is not None:
                self._spend(visit, ruling.allowance, endpoint)
            return endpoint
        visit.named = opening.namespace, name, version
        visit.require(ruling)
        assert missing is not None
        early = isinstance(missing, Unavailable)
        raise Unfit(UNAVAILABLE if early else 404, missing.message, int(early))

    def _spend(self, visit: Visit, allowance: Allowance, endpoint: Endpoint) -> None:
        """Unfit beyond the limit of who asks."""
        excess = allowance.spend(self._service.clock(), self._service.wall())
        if excess is not None:
            visit.named = endpoint.namespace, endpoint.name, endpoint.version
            raise Unfit(excess.code, excess.reason, excess.retry)

    def _endpoint(self, namespace: str, name: str, version: str) -> Endpoint:
        routes = self._service.routes
        if routes is not self._routes:
            self._routes = routes
            self._endpoints.clear()
        key = (namespace, name, version)
        found = self._endpoints.get(key)
        if found is None:
            named = routes.find(namespace, name, version or None)
            if len(self._endpoints) >= REMEMBERED:
                self._endpoints.clear()
            found = self._endpoints[key] = named.spoken(DIALECT)
        return found


def _id(given: bytes) -> str:
    """ValueError."""
    try:
        text = given.decode()
    except UnicodeDecodeError as error:
        raise ValueError("id: expected a text in UTF-8") from error
    if len(text) > v2.MAX_ID:
        raise ValueError(f"id: expected a string of at most {v2.MAX_ID} characters")
    return text


def _entries(inputs: list[binary.OpenTensor], datas: list[memoryview]) -> list[v2.Entry]:
    if len(inputs) == 1:  # which is what nearly all have
        tensor = inputs[0]
        return [(tensor.name, tensor.datatype, tensor.shape, framing.RAW, datas[0])]
    return [
        (tensor.name, tensor.datatype, tensor.shape, framing.RAW, data)
        for tensor, data in zip(inputs, datas, strict=True)
    ]
