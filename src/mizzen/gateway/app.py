"""Everything the gateway answers that is not hot: health, metadata, metrics, and infer requests whose URL is unusual.

A plain ASGI app. Every error reads {"error": "<text>"}, as V2 wants it. Host and Origin are `front`'s business.

Health is told to everybody, whatever credentials they send: it says nothing of what is served. All else is decided by
the permits before it is looked for, so nobody learns which names there are by asking. To see what a name is, and
whether it is ready, one must be allowed to read it or to call it; lists and metrics show what one is allowed to see.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

import mizzen
from mizzen.access.policy import Verb
from mizzen.errors import NotFound, TooLarge, Unavailable
from mizzen.gateway import paths
from mizzen.gateway.infer import Asked, Inference, Service
from mizzen.gateway.intake import CROWDED, Share
from mizzen.gateway.paths import Found
from mizzen.gateway.permits import ALLOWED, FORBIDDEN, PLANE, PREDICT, READ, SEE, UNAUTHENTICATED, Ruling
from mizzen.gateway.queues import UNAVAILABLE, Queue
from mizzen.gateway.routes import Endpoint
from mizzen.protocol import v2

DOCUMENT = Path(__file__).with_name("openapi.json")
"""This API as an OpenAPI document, made by `make gen`; here it is only handed out."""
LOOK_SECONDS = 0.02
"""Between two looks for the hello that a request for metadata waits for."""

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PROMETHEUS: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_RETRY: Header = (b"retry-after", b"1")
_CLOSE: Header = (b"connection", b"close")
_CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="mizzen"')
_OPEN = {
    "index": {"name": "mizzen inference", "links": ["/v2", "/v2/models", "/metrics", "/healthz", "/openapi.json"]},
    "health": {"status": "ok"},
    "live": {"live": True},
    "ready": {"ready": True, "live": True},
}
_SERVER = {"name": "mizzen", "version": mizzen.__version__, "extensions": []}


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)


class SlowInference(Inference):
    """An infer request that came through ASGI: somebody awaits its answer."""

    __slots__ = ("answer",)

    def __init__(self, answer: asyncio.Future[Answer]) -> None:
        self.answer = answer

    def reply(self, code: int, body: bytes) -> None:
        if not self.answer.done():
            retry = (_RETRY,) if code == UNAVAILABLE else ()
            self.answer.set_result(Answer(code, body, (JSON, (b"mizzen-request-id", self.id), *retry)))


class App:
    def __init__(self, service: Service, queues: Callable[[], Iterable[Queue]]) -> None:
        self._service = service
        self._queues = queues
        self._document = DOCUMENT.read_bytes()
        self._tag = b'"%b"' % hashlib.sha256(self._document).hexdigest()[:32].encode()

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        found = paths.find(scope["raw_path"])
        given = tuple(value for name, value in scope["headers"] if name == b"authorization")
        asked = Asked(scope["method"], scope["raw_path"].decode("latin-1"), given)
        if found is not None and found.what == "infer":
            if scope["method"] == "POST":
                answer = await self._infer(asked, found, dict(scope["headers"]).get(b"mizzen-timeout-ms"), receive)
            else:
                answer = self._refused(405, "this path takes POST", (b"allow", b"POST"))
        else:
            answer = _nothing() if found is None else self._read(asked, found, scope["headers"])
            if answer.code not in (404, UNAUTHENTICATED, FORBIDDEN) and scope["method"] not in ("GET", "HEAD"):
                answer = _error(405, "this path takes GET and HEAD", (b"allow", b"GET, HEAD"))
            elif answer.code == UNAVAILABLE and found is not None and found.what == "metadata":
                answer = await self._held(asked, found, receive)
        if answer is None:
            return  # nobody is there any more
        # Who has the document is told nothing of its length: this would be that of an empty one.
        length = () if answer.code == 304 else ((b"content-length", str(len(answer.body)).encode()),)
        await send({"type": "http.response.start", "status": answer.code, "headers": [*answer.headers, *length]})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})

    def _read(self, asked: Asked, found: Found, headers: Iterable[Header]) -> Answer:
        what = found.what
        if what in _OPEN:
            return _json(_OPEN[what])
        if what == "models":
            return self._models(asked, found.namespace)
        if found.model:
            return self._about(asked, found)
        if refusal := self._refusal(asked, self._plane(asked)):
            return refusal
        if what == "server":
            return _json(_SERVER)
        return self._metrics(asked) if what == "metrics" else self._described(headers)

    def _models(self, asked: Asked, namespace: str) -> Answer:
        some = self._service.permits.rule_some(asked.credentials, SEE, namespace)
        if refusal := self._refusal(asked, some):
            return refusal
        models = [
            {"name": name, "version": found.current.version, "ready": found.current.ready}
            for (space, name), found in sorted(self._service.routes.names.items())
            if space == namespace and self._sees(asked, space, name)
        ]
        return _json({"models": models})

    def _metrics(self, asked: Asked) -> Answer:
        text = self._service.metrics.render(self._queues(), lambda space, name: self._sees(asked, space, name))
        return Answer(200, text, (PROMETHEUS,))

    def _described(self, headers: Iterable[Header]) -> Answer:
        """openapi.json, unless they have it."""
        given = b",".join(value for name, value in headers if name == b"if-none-match")
        known = [tag.strip().removeprefix(b"W/") for tag in given.split(b",")]
        kept = (b"etag", self._tag), (b"cache-control", b"no-cache")
        if self._tag in known or b"*" in known:
            return Answer(304, b"", kept)
        return Answer(200, self._document, (JSON, *kept))

    def _plane(self, asked: Asked) -> Ruling:
        return self._service.permits.rule(asked.credentials, READ, PLANE)

    def _sees(self, asked: Asked, namespace: str, name: str) -> bool:
        target = self._service.routes.target(namespace, name)
        return self._service.permits.rule(asked.credentials, SEE, target).code == ALLOWED

    def _may(self, asked: Asked, found: Found, verbs: tuple[Verb, ...]) -> Ruling:
        target = self._service.routes.target(found.namespace, found.model, found.version)
        return self._service.permits.rule(asked.credentials, verbs, target)

    def _refusal(self, asked: Asked, ruling: Ruling) -> Answer | None:
        """None when it is allowed. A refusal is written down for the audit."""
        if ruling.code == ALLOWED:
            return None
        self._service.note(asked, ruling)
        more = {UNAUTHENTICATED: (_CHALLENGE,), UNAVAILABLE: (_RETRY,)}.get(ruling.code, ())
        return self._refused(ruling.code, ruling.reason, *more)

    def _about(self, asked: Asked, found: Found) -> Answer:
        if refusal := self._refusal(asked, self._may(asked, found, SEE)):
            return refusal
        try:
            name = self._service.routes.name(found.namespace, found.model)
            endpoint = self._endpoint(found)
        except NotFound as error:
            return _error(404, error.message)
        except Unavailable as error:
            return _error(UNAVAILABLE, error.message, _RETRY)
        if found.what == "model_ready":
            return _json({"name": found.model, "ready": True}) if endpoint.ready else _not_ready(endpoint)
        hello = endpoint.hello
        if hello is None:
            return _not_ready(endpoint)
        metadata = {
            "name": found.model,
            "versions": list(name.versions),
            "platform": hello.framework,
            "inputs": hello.inputs,
            "outputs": hello.outputs,
        }
        return _json(metadata)

    def _endpoint(self, found: Found) -> Endpoint:
        """NotFound; Unavailable before the first Table."""
        return self._service.routes.find(found.namespace, found.model, found.version)

    async def _held(self, asked: Asked, found: Found, receive: ASGIReceiveCallable) -> Answer | None:
        """Metadata as soon as a replica is there, waited for just as infer requests wait. None: the client has gone."""
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            while (answer := self._about(asked, found)).code == UNAVAILABLE and self._may_hold(found):
                await asyncio.wait((gone,), timeout=LOOK_SECONDS)
                if gone.done():
                    return None
            return answer
        finally:
            gone.cancel()

    def _may_hold(self, found: Found) -> bool:
        try:
            endpoint = self._endpoint(found)
        except Unavailable:
            return False
        return endpoint.may_hold(self._service.clock())

    async def _infer(
        self, asked: Asked, found: Found, timeout_ms: bytes | None, receive: ASGIReceiveCallable
    ) -> Answer | None:
        try:
            self._callable(asked, found)
            body = await self._body(receive)
            # Again: a new Table, or other rights, may have come while the body did.
            endpoint = self._callable(asked, found)
        except _Refused as error:
            return error.answer
        except NotFound as error:
            return self._refused(404, error.message)
        except Unavailable as error:
            return self._refused(UNAVAILABLE, error.message, _RETRY)
        except TooLarge as error:
            return self._refused(413, error.message, _CLOSE)
        if body is None:
            return None
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        inference = SlowInference(answer)
        inference.start(self._service, endpoint, body, timeout_ms)
        gone = asyncio.ensure_future(receive())
        try:
            await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
            return answer.result() if answer.done() else None
        finally:
            gone.cancel()
            inference.cancel(self._service.clock())

    def _callable(self, asked: Asked, found: Found) -> Endpoint:
        refusal = self._refusal(asked, self._may(asked, found, PREDICT))
        if refusal is not None:
            raise _Refused(refusal)
        return self._endpoint(found)

    async def _body(self, receive: ASGIReceiveCallable) -> bytes | None:
        """None when the client left while it sent it."""
        parts: list[bytes] = []
        size = 0
        share = Share(self._service.intake)
        try:
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return None
                parts.append(message["body"])
                size += len(message["body"])
                if size > self._service.max_body_bytes:
                    raise TooLarge(f"the body is larger than {self._service.max_body_bytes} bytes")
                if not message["more_body"]:
                    return b"".join(parts)
                if not share.grow(size):
                    raise _Refused(self._refused(UNAVAILABLE, CROWDED, _RETRY, _CLOSE))
        finally:
            share.end()

    def _refused(self, code: int, text: str, *headers: Header) -> Answer:
        self._service.metrics.refused[code] += 1
        return _error(code, text, (b"mizzen-request-id", self._service.new_id()), *headers)


class _Refused(Exception):
    def __init__(self, answer: Answer) -> None:
        self.answer = answer


async def _disconnected(receive: ASGIReceiveCallable) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _json(value: Any) -> Answer:
    return Answer(200, v2.to_json(value))


def _error(code: int, text: str, *headers: Header) -> Answer:
    return Answer(code, v2.error(text), (JSON, *headers))


def _nothing() -> Answer:
    return _error(404, "there is nothing at this path; see /")


def _not_ready(endpoint: Endpoint) -> Answer:
    return _error(UNAVAILABLE, f"no replica of '{endpoint.name}' version {endpoint.version} is ready", _RETRY)
