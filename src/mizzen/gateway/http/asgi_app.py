"""Everything the gateway answers that is not hot: what can be read (`telling`), the repository, feedback, and
predictions that are explained, whose URL is unusual or whose body is packed.

A plain ASGI app. Host and Origin are `front`'s business.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import msgspec
from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

from mizzen.errors import Conflict, Invalid, NotFound, TooLarge, Unavailable, UnsupportedMediaType
from mizzen.gateway.access.audit_sampling import Sampled
from mizzen.gateway.access.authorizer import FORBIDDEN, PREDICT, READ, UNAUTHENTICATED
from mizzen.gateway.feedback.routes import Feedback
from mizzen.gateway.graphs.explain import Explaining
from mizzen.gateway.http.asgi_request import Visit
from mizzen.gateway.http.plane_client import Control, Told
from mizzen.gateway.http.read_api import SIGNED, Teller
from mizzen.gateway.inference import protocols
from mizzen.gateway.inference.calls import BAD_REQUEST, UNAVAILABLE
from mizzen.gateway.inference.inference import Asked, Inference, Service
from mizzen.gateway.inference.protocols import V1, Options
from mizzen.gateway.request import content_encoding, url_paths
from mizzen.gateway.request.body_budget import CROWDED, Share, keep
from mizzen.gateway.request.responses import CHALLENGE, CLOSE, RETRY, Answer, Header, Refused, error, told
from mizzen.gateway.request.url_paths import Found
from mizzen.gateway.route_table import Endpoint
from mizzen.protocol import v2
from mizzen.protocol.gateway_files.counts import Counts

LOOK_SECONDS = 0.02
"""Between two looks for the hello that a request for metadata waits for."""
HELD_SECONDS = 60.0
"""Such a request waits no longer: it has no deadline of its own."""
MOST_WISHED = 64 << 10
"""Bytes of a body that is read here, and not by a model."""
SEEN_SECONDS = 10.0
"""What the plane has done reaches a gateway much sooner, unless the plane ends meanwhile."""

_REFUSALS: dict[type[Exception], tuple[Any, ...]] = {
    ValueError: (BAD_REQUEST,),
    NotFound: (404,),
    Conflict: (409,),
    Invalid: (422,),
    Unavailable: (UNAVAILABLE, RETRY),
    TooLarge: (413, CLOSE),
    UnsupportedMediaType: (415, (b"accept-encoding", b", ".join(content_encoding.ENCODINGS)), CLOSE),
}
"""The code to refuse a request with, and the headers that go with it."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class SlowInference(Inference):
    """An infer request that came through ASGI: somebody awaits its answer."""

    __slots__ = ("answer",)

    def __init__(self, answer: asyncio.Future[Answer]) -> None:
        self.answer = answer

    def reply(self, code: int, body: bytes, kind: bytes = protocols.JSON) -> None:
        if not self.answer.done():
            headers = _split(kind + self.options.more)
            served = self.endpoint.namespace, self.endpoint.name, self.endpoint.version
            self.answer.set_result(Answer(code, body, headers, self.id, served))


class SampledInference(Sampled, SlowInference):
    """One that was chosen for the audit."""

    __slots__ = ()


class _Index(msgspec.Struct):
    ready: bool = False


class _Change(msgspec.Struct):
    parameters: dict[str, Any] = {}


class App:
    def __init__(
        self,
        service: Service,
        counted: Callable[[], Sequence[Counts]],
        control: Control | None = None,
        feedback: Feedback | None = None,
    ) -> None:
        """`feedback`: who takes it; None: nobody does here."""
        self._service = service
        self._feedback = feedback
        self._teller = Teller(service, counted)
        self._control = control or Control("")

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        visit = Visit(self._service, scope, receive)
        found = url_paths.find(scope["raw_path"])
        try:
            asked_first = self._service.cors.preflight(visit.headers) if scope["method"] == "OPTIONS" else None
            if asked_first is not None:
                answer: Answer | None = asked_first
            elif found is None:
                answer = error(404, "there is nothing at this path; see /")
            elif found.path.method == "POST":
                answer = await self._posted(visit, found)
            else:
                answer = await self._read(visit, found)
        except Exception:
            log.exception("failed to answer a request")
            answer = error(500, "internal error")
        await visit.end(answer, send)

    def close(self) -> None:
        """When nobody asks any more."""
        if self._feedback is not None:
            self._feedback.close()

    # What gRPC asks, without a request of HTTP/1.1

    async def told(self, asked: Asked, found: Found) -> Answer:
        """What can be read; waits where a replica has to be asked and is about to be there."""
        return await self._held(asked, found, [])

    async def listed(self, asked: Asked, found: Found, *, ready: bool) -> Answer:
        return self._teller.listed(asked, found, ready=ready)

    async def changed(self, asked: Asked, found: Found, parameters: dict[str, Any]) -> Answer:
        try:
            return self._outcome(await self._change(asked, found, parameters))
        except (ValueError, Unavailable) as fault:
            return self._fault(fault)

    async def _read(self, visit: Visit, found: Found) -> Answer | None:
        asked, headers = visit.asked, visit.headers
        answer = self._teller.tell(asked, found, headers)
        if answer.code not in (404, UNAUTHENTICATED, FORBIDDEN) and asked.method not in ("GET", "HEAD"):
            return error(405, "this path takes GET and HEAD", (b"allow", b"GET, HEAD"))
        if answer.code == UNAVAILABLE and found.what in SIGNED:
            return await _unless_gone(visit.receive, self._held(asked, found, headers))
        return answer

    async def _held(self, asked: Asked, found: Found, headers: list[Header]) -> Answer:
        """As soon as a replica is there, waited for just as infer requests wait."""
        end = self._service.clock() + HELD_SECONDS
        while True:
            answer = self._teller.tell(asked, found, headers)
            if answer.code != UNAVAILABLE or found.what not in SIGNED:
                return answer
            if self._service.clock() >= end or not self._may_hold(found):
                return answer
            await asyncio.sleep(LOOK_SECONDS)

    def _may_hold(self, found: Found) -> bool:
        try:
            endpoint = self._teller.endpoint(found)
        except Unavailable:
            return False
        endpoint.rouse(self._service.clock())
        return endpoint.may_hold(self._service.clock())

    async def _posted(self, visit: Visit, found: Found) -> Answer | None:
        if visit.asked.method != "POST":
            return self._teller.refused(405, "this path takes POST", (b"allow", b"POST"))
        try:
            if found.what in ("infer", "predict", "explain"):
                return await self._infer(visit, found)
            if found.what == "feedback":
                return await self._take_feedback(visit, found)
            return await self._repository(visit, found)
        except Refused as refused:
            return refused.answer
        except tuple(_REFUSALS) as fault:
            return self._fault(fault)

    def _fault(self, fault: Exception) -> Answer:
        code, *more = next(row for kind, row in _REFUSALS.items() if isinstance(fault, kind))
        return self._teller.refused(code, str(fault), *more)

    async def _repository(self, visit: Visit, found: Found) -> Answer | None:
        body = await self._body(visit, MOST_WISHED)
        if body is None:
            return None
        if found.what == "repository":
            return self._teller.listed(visit.asked, found, ready=_parsed(body, _Index).ready)
        work = self._change(visit.asked, found, _parsed(body, _Change).parameters)
        done = await _unless_gone(visit.receive, work)
        return None if done is None else self._outcome(done)

    async def _take_feedback(self, visit: Visit, found: Found) -> Answer | None:
        self._callable(visit.asked, found)
        body = await self._body(visit, MOST_WISHED)
        endpoint = self._callable(visit.asked, found)
        if body is None:
            return None
        if self._feedback is None:
            raise Unavailable("this gateway takes no feedback")
        return await _unless_gone(visit.receive, self._feedback.answer(endpoint, body))

    async def _infer(self, visit: Visit, found: Found) -> Answer | None:
        self._callable(visit.asked, found)
        body = await self._body(visit, self._service.max_body_bytes)
        # Again: a new Table, or other rights, may have come while the body did.
        endpoint = self._callable(visit.asked, found)
        explaining = Explaining(endpoint) if found.what == "explain" else None
        if body is None:
            return None
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        samples = self._service.samples
        chosen = samples is not None and samples.chosen()
        inference = SampledInference(answer) if chosen else SlowInference(answer)
        asked = endpoint if explaining is None else explaining.endpoint
        inference.start(self._service, asked, body, self._counted(visit, found))
        visit.options = inference.options
        gone = asyncio.ensure_future(visit.receive())
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            if not answer.done():
                return None
            given = answer.result()
            return given if explaining is None else explaining.told(given, self._service.clock() - inference.began)
        finally:
            gone.cancel()
            inference.cancel(self._service.clock())

    def _counted(self, visit: Visit, found: Found) -> Options:
        """What its head says, once it is counted if whoever asks is limited."""
        ruling = self._teller.may(visit.asked, found, PREDICT)
        options = visit.options._replace(actor=ruling.actor, allowance=ruling.allowance)
        if ruling.allowance is None:
            return options
        excess, options = self._service.spend(options)
        if excess is None:
            return options
        retry = b"retry-after", str(excess.retry).encode()
        raise Refused(self._teller.refused(excess.code, excess.reason, retry, *_split(excess.lines)))

    def _callable(self, asked: Asked, found: Found) -> Endpoint:
        # What a graph consists of, and what each part of it answers, is for those who may read it.
        for needed in (PREDICT, READ) if found.what == "explain" else (PREDICT,):
            refusal = self._teller.refusal(asked, self._teller.may(asked, found, needed))
            if refusal is not None:
                raise Refused(refusal)
        endpoint = self._teller.endpoint(found)
        return endpoint.spoken(V1) if found.what == "predict" else endpoint

    async def _change(self, asked: Asked, found: Found, parameters: dict[str, Any]) -> Told:
        """Load or unload: the plane's to do, and to say who may."""
        if unknown := parameters.keys() - {"unload_dependents"}:
            raise ValueError(
                f"parameters.{v2.cited(min(unknown))}: is not offered here; a model's spec says how it is served"
            )
        if not isinstance(parameters.get("unload_dependents", False), bool):
            raise ValueError("parameters.unload_dependents: expected true or false")  # noqa: TRY004 - bad data
        change = self._control.change(found.namespace, found.model, found.what, asked.credentials)
        return await self._changed(found, change)

    def _outcome(self, done: Told) -> Answer:
        more = {UNAUTHENTICATED: (CHALLENGE,), UNAVAILABLE: (RETRY,)}.get(done.code, ())
        return told({}) if done.code == 200 else self._teller.refused(done.code, done.message, *more)

    async def _changed(self, found: Found, change: Coroutine[Any, Any, Told]) -> Told:
        """When this gateway has it from its Table, too: what is asked next is answered accordingly."""
        done = await change
        end = self._service.clock() + SEEN_SECONDS
        while True:
            if done.code != 200 or self._ready(found) == (found.what == "load") or self._service.clock() >= end:
                return done
            await asyncio.sleep(LOOK_SECONDS)

    def _ready(self, found: Found) -> bool:
        try:
            endpoint = self._teller.endpoint(found)
        except (NotFound, Unavailable):
            return False
        if found.what == "load":  # of one that rests: whoever loads it is about to ask
            endpoint.rouse(self._service.clock())
        return endpoint.ready

    async def _body(self, visit: Visit, most: int) -> bytes | None:
        """Unpacked; None when the client left while it sent it."""
        encoding = content_encoding.encoding_of([value for name, value in visit.headers if name == b"content-encoding"])
        share = Share(self._service.intake)
        try:
            body = await self._received(share, visit.receive, most)
            if not body or not encoding:
                return body
            whole = await content_encoding.unpacked(body, encoding, share, most)
            if whole is None:
                raise self._crowded()
            return whole
        finally:
            share.end()

    async def _received(self, share: Share, receive: ASGIReceiveCallable, most: int) -> bytes | None:
        parts: list[bytes | bytearray] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            keep(parts, message["body"])
            size += len(message["body"])
            if size > most:
                raise TooLarge(f"the body is larger than {most} bytes")
            if not message["more_body"]:
                return b"".join(parts)
            if not share.grow(size):
                raise self._crowded()

    def _crowded(self) -> Refused:
        return Refused(self._teller.refused(UNAVAILABLE, CROWDED, RETRY, CLOSE))


def _split(lines: bytes) -> tuple[Header, ...]:
    parts = [line.partition(b": ") for line in lines.splitlines()]
    return tuple((name, value) for name, _, value in parts)


async def _unless_gone(receive: ASGIReceiveCallable, work: Coroutine[Any, Any, T]) -> T | None:
    """What comes of it; None when the client has gone before."""
    gone = asyncio.ensure_future(_disconnected(receive))
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait((gone, task), return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        gone.cancel()
        task.cancel()


async def _disconnected(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _parsed(body: bytes, kind: type[T]) -> T:
    """Of a body that may be absent. ValueError."""
    return v2.read(msgspec.json.Decoder(kind).decode, body or b"{}")
