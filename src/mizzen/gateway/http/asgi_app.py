"""The ASGI app for all requests off the fast path: reads (`read_api`), the model repository, feedback, explanations,
and predictions with an unusual URL or a compressed body.

`fast_protocol` checks Host and Origin.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from mizzen.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable, UnsupportedMediaType
from mizzen.gateway.access.authorizer import FORBIDDEN, PREDICT, READ, UNAUTHENTICATED
from mizzen.gateway.context import AuthRequest, GatewayContext
from mizzen.gateway.feedback.routes import FeedbackApi
from mizzen.gateway.graphs.explain import Explanation
from mizzen.gateway.http.asgi_request import AsgiRequest
from mizzen.gateway.http.plane_client import PlaneClient, PlaneReply
from mizzen.gateway.http.read_api import NEEDS_SIGNATURE, ReadApi
from mizzen.gateway.inference import protocols
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.protocols import V1
from mizzen.gateway.inference.sampled import AuditedInference
from mizzen.gateway.queueing.call import BAD_REQUEST, UNAVAILABLE
from mizzen.gateway.request import content_encoding, url_paths
from mizzen.gateway.request.body_budget import OVER_BUDGET, BodyReservation, append_piece
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.request.responses import (
    CHALLENGE,
    CLOSE,
    RETRY,
    Answer,
    Header,
    RequestRefused,
    error_answer,
    json_answer,
)
from mizzen.gateway.request.url_paths import RequestPath
from mizzen.protocol import json_keys, v2
from mizzen.protocol.gateway_files.counts import Counts

POLL_SECONDS = 0.02
"""Time between two checks for the hello that a metadata request waits for."""
MAX_HOLD_SECONDS = 60.0
"""Maximum wait of such a request, which has no deadline of its own."""
MAX_CONTROL_BYTES = 64 << 10
"""Limit for bodies that the gateway reads itself."""
TABLE_WAIT_SECONDS = 10.0
"""A change by the plane reaches a gateway much sooner, unless the plane stops meanwhile."""

_ERROR_RESPONSES: dict[type[Exception], tuple[Any, ...]] = {
    ValueError: (BAD_REQUEST,),
    NotFound: (404,),
    Conflict: (409,),
    Invalid: (422,),
    Unavailable: (UNAVAILABLE, RETRY),
    TooLarge: (413, CLOSE),
    UnsupportedMediaType: (415, (b"accept-encoding", b", ".join(content_encoding.ENCODINGS)), CLOSE),
}
"""Status code and headers by exception."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class AsgiInference(Inference):
    """An infer request through ASGI; its answer is awaited."""

    __slots__ = ("answer",)

    def __init__(self, answer: asyncio.Future[Answer]) -> None:
        self.answer = answer

    def reply(self, code: int, body: bytes, kind: bytes = protocols.JSON) -> None:
        if not self.answer.done():
            headers = _split_headers(kind + self.head.response_headers)
            served = self.endpoint.namespace, self.endpoint.name, self.endpoint.version
            self.answer.set_result(Answer(code, body, headers, self.id, served))


class AuditedAsgiInference(AuditedInference, AsgiInference):
    """An infer request that was sampled for the audit."""

    __slots__ = ()


class _IndexRequest(msgspec.Struct):
    ready: bool = False


class _ChangeRequest(msgspec.Struct):
    parameters: dict[str, Any] = {}


class App:
    def __init__(
        self,
        service: GatewayContext,
        counted: Callable[[], Sequence[Counts]],
        control: PlaneClient | None = None,
        feedback: FeedbackApi | None = None,
    ) -> None:
        """`feedback`: None if this gateway takes none."""
        self._service = service
        self._feedback = feedback
        self._read_api = ReadApi(service, counted)
        self._control = control or PlaneClient("")

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        request = AsgiRequest(self._service, scope, receive)
        path = url_paths.find(scope["raw_path"])
        try:
            preflight = self._service.cors.preflight(request.headers) if scope["method"] == "OPTIONS" else None
            if preflight is not None:
                answer: Answer | None = preflight
            elif path is None:
                answer = error_answer(404, "there is nothing at this path; see /")
            elif path.path.method == "POST":
                answer = await self._post(request, path)
            else:
                answer = await self._read(request, path)
        except Exception:
            log.exception("failed to answer a request")
            answer = error_answer(500, "internal error")
        await request.end(answer, send)

    def close(self) -> None:
        """Called after the last request."""
        if self._feedback is not None:
            self._feedback.close()

    # For gRPC, which has no HTTP/1.1 request

    async def read(self, auth: AuthRequest, path: RequestPath) -> Answer:
        """Answer a read; waits if only a replica knows the answer and one is about to be ready."""
        return await self._read_when_ready(auth, path, [])

    async def list_models(self, auth: AuthRequest, path: RequestPath, *, ready: bool) -> Answer:
        return self._read_api.list_models(auth, path, ready=ready)

    async def change_model(self, auth: AuthRequest, path: RequestPath, parameters: dict[str, Any]) -> Answer:
        try:
            return self._change_answer(await self._change(auth, path, parameters))
        except (ValueError, Unavailable) as fault:
            return self._error_answer(fault)

    async def _read(self, request: AsgiRequest, path: RequestPath) -> Answer | None:
        auth, headers = request.auth, request.headers
        answer = self._read_api.answer(auth, path, headers)
        if answer.code not in (404, UNAUTHENTICATED, FORBIDDEN) and auth.method not in ("GET", "HEAD"):
            return error_answer(405, "this path takes GET and HEAD", (b"allow", b"GET, HEAD"))
        if answer.code == UNAVAILABLE and path.what in NEEDS_SIGNATURE:
            return await _unless_disconnected(request.receive, self._read_when_ready(auth, path, headers))
        return answer

    async def _read_when_ready(self, auth: AuthRequest, path: RequestPath, headers: list[Header]) -> Answer:
        """Answer a read once a replica is ready; it waits as infer requests do."""
        end = self._service.clock() + MAX_HOLD_SECONDS
        while True:
            answer = self._read_api.answer(auth, path, headers)
            if answer.code != UNAVAILABLE or path.what not in NEEDS_SIGNATURE:
                return answer
            if self._service.clock() >= end or not self._may_hold(path):
                return answer
            await asyncio.sleep(POLL_SECONDS)

    def _may_hold(self, path: RequestPath) -> bool:
        try:
            endpoint = self._read_api.endpoint(path)
        except Unavailable:
            return False
        endpoint.request_replica(self._service.clock())
        return endpoint.may_hold(self._service.clock())

    async def _post(self, request: AsgiRequest, path: RequestPath) -> Answer | None:
        if request.auth.method != "POST":
            return self._read_api.refuse(405, "this path takes POST", (b"allow", b"POST"))
        try:
            if path.what in ("infer", "predict", "explain"):
                return await self._infer(request, path)
            if path.what == "feedback":
                return await self._take_feedback(request, path)
            return await self._repository(request, path)
        except RequestRefused as refused:
            return refused.answer
        except tuple(_ERROR_RESPONSES) as fault:
            return self._error_answer(fault)

    def _error_answer(self, fault: Exception) -> Answer:
        code, *more = next(row for kind, row in _ERROR_RESPONSES.items() if isinstance(fault, kind))
        return self._read_api.refuse(code, str(fault), *more)

    async def _repository(self, request: AsgiRequest, path: RequestPath) -> Answer | None:
        body = await self._body(request, MAX_CONTROL_BYTES)
        if body is None:
            return None
        if path.what == "repository":
            return self._read_api.list_models(request.auth, path, ready=_parse(body, _IndexRequest).ready)
        work = self._change(request.auth, path, _parse(body, _ChangeRequest).parameters)
        done = await _unless_disconnected(request.receive, work)
        return None if done is None else self._change_answer(done)

    async def _take_feedback(self, request: AsgiRequest, path: RequestPath) -> Answer | None:
        self._authorize(request.auth, path)
        body = await self._body(request, MAX_CONTROL_BYTES)
        endpoint = self._authorize(request.auth, path)
        if body is None:
            return None
        if self._feedback is None:
            raise Unavailable("this gateway does not accept feedback")
        return await _unless_disconnected(request.receive, self._feedback.answer(endpoint, body))

    async def _infer(self, request: AsgiRequest, path: RequestPath) -> Answer | None:
        self._authorize(request.auth, path)
        body = await self._body(request, self._service.max_body_bytes)
        # Again: the Table or the access rights may have changed while the body arrived.
        endpoint = self._authorize(request.auth, path)
        explaining = Explanation(endpoint) if path.what == "explain" else None
        if body is None:
            return None
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        samples = self._service.samples
        chosen = samples is not None and samples.should_sample()
        inference = AuditedAsgiInference(answer) if chosen else AsgiInference(answer)
        called = endpoint if explaining is None else explaining.endpoint
        inference.start(self._service, called, body, self._count_against_limit(request, path))
        request.head = inference.head
        gone = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                return None
            given = answer.result()
            return given if explaining is None else explaining.to_answer(given, self._service.clock() - inference.began)
        finally:
            gone.cancel()
            inference.cancel(self._service.clock())

    def _count_against_limit(self, request: AsgiRequest, path: RequestPath) -> RequestHead:
        """The head of a prediction, after it was counted against the rate limit of its caller."""
        decision = self._read_api.authorize(request.auth, path, PREDICT)
        head = request.head._replace(actor=decision.actor, rate_limit=decision.rate_limit)
        if decision.rate_limit is None:
            return head
        excess, head = self._service.count_prediction(head)
        if excess is None:
            return head
        retry = b"retry-after", str(excess.retry_after).encode()
        raise RequestRefused(
            self._read_api.refuse(excess.code, excess.reason, retry, *_split_headers(excess.header_lines))
        )

    def _authorize(self, auth: AuthRequest, path: RequestPath) -> Endpoint:
        # An explanation shows the parts of a graph and their answers, so it needs the right to read.
        for needed in (PREDICT, READ) if path.what == "explain" else (PREDICT,):
            refusal = self._read_api.refusal(auth, self._read_api.authorize(auth, path, needed))
            if refusal is not None:
                raise RequestRefused(refusal)
        endpoint = self._read_api.endpoint(path)
        return endpoint.with_codec(V1) if path.what == "predict" else endpoint

    async def _change(self, auth: AuthRequest, path: RequestPath, parameters: dict[str, Any]) -> PlaneReply:
        """Load or unload a model: the plane does it, and authorizes it."""
        if unknown := parameters.keys() - {"unload_dependents"}:
            raise ValueError(
                f"parameters.{v2.shorten(min(unknown))}: not supported here; the model's spec says how it is served"
            )
        if not isinstance(parameters.get("unload_dependents", False), bool):
            raise ValueError("parameters.unload_dependents: expected true or false")  # noqa: TRY004 - bad data
        change = self._control.change(path.namespace, path.model, path.what, auth.credentials)
        return await self._wait_until_changed(path, change)

    def _change_answer(self, done: PlaneReply) -> Answer:
        more = {UNAUTHENTICATED: (CHALLENGE,), UNAVAILABLE: (RETRY,)}.get(done.code, ())
        return json_answer({}) if done.code == 200 else self._read_api.refuse(done.code, done.message, *more)

    async def _wait_until_changed(self, path: RequestPath, change: Coroutine[Any, Any, PlaneReply]) -> PlaneReply:
        """Wait until the change is in the Table of this gateway, so that the next request sees it."""
        done = await change
        end = self._service.clock() + TABLE_WAIT_SECONDS
        while True:
            if done.code != 200 or self._ready(path) == (path.what == "load") or self._service.clock() >= end:
                return done
            await asyncio.sleep(POLL_SECONDS)

    def _ready(self, path: RequestPath) -> bool:
        try:
            endpoint = self._read_api.endpoint(path)
        except (NotFound, Unavailable):
            return False
        if path.what == "load":  # scaled to zero: a caller that loads a model is about to use it
            endpoint.request_replica(self._service.clock())
        return endpoint.ready

    async def _body(self, request: AsgiRequest, most: int) -> bytes | None:
        """The decompressed body; None if the client disconnected."""
        encoding = content_encoding.encoding_of(
            [value for name, value in request.headers if name == b"content-encoding"]
        )
        share = BodyReservation(self._service.intake)
        try:
            body = await self._receive_body(share, request.receive, most)
            if not body or not encoding:
                return body
            whole = await content_encoding.decompress(body, encoding, share, most)
            if whole is None:
                raise self._over_budget()
            return whole
        finally:
            share.end()

    async def _receive_body(self, share: BodyReservation, receive: ASGIReceiveCallable, most: int) -> bytes | None:
        parts: list[bytes | bytearray] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            append_piece(parts, message["body"])
            size += len(message["body"])
            if size > most:
                raise TooLarge(f"the body is larger than {most} bytes")
            if not message["more_body"]:
                return b"".join(parts)
            if not share.grow(size):
                raise self._over_budget()

    def _over_budget(self) -> RequestRefused:
        return RequestRefused(self._read_api.refuse(UNAVAILABLE, OVER_BUDGET, RETRY, CLOSE))


def _split_headers(lines: bytes) -> tuple[Header, ...]:
    parts = [line.partition(b": ") for line in lines.splitlines()]
    return tuple((name, value) for name, _, value in parts)


async def _unless_disconnected(receive: ASGIReceiveCallable, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None if the client disconnected first."""
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((gone, task), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        gone.cancel()
        task.cancel()


async def _wait_for_disconnect(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parse(body: bytes, kind: type[T]) -> T:
    """Parse a body that may be empty. Raises ValueError."""
    parsed = v2.decode_with(msgspec.json.Decoder(kind).decode, body or b"{}")
    json_keys.search(body or b"{}")
    return parsed
