"""Everything the gateway answers that is not hot: health, metadata, metrics, and infer requests whose URL is unusual.

A plain ASGI app. Every error reads {"error": "<text>"}, as V2 wants it. Host and Origin are `front`'s business.

Health is told to everybody, whatever credentials they send: it says nothing of what is served. All else is decided by
the permits before it is looked for, so nobody learns which names there are by asking. To see what a name is, and
whether it is ready, one must be allowed to read it or to call it; lists and metrics show what one is allowed to see.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

import mizzen
from mizzen.access.policy import Verb
from mizzen.errors import NotFound, TooLarge, Unavailable
from mizzen.gateway.infer import Asked, Inference, Service
from mizzen.gateway.intake import CROWDED, Share
from mizzen.gateway.permits import ALLOWED, FORBIDDEN, PLANE, PREDICT, READ, SEE, UNAUTHENTICATED, Ruling
from mizzen.gateway.queues import UNAVAILABLE, Queue
from mizzen.gateway.routes import DEFAULT_NAMESPACE, Endpoint
from mizzen.protocol import v2

LOOK_SECONDS = 0.02
"""Between two looks for the hello that a request for metadata waits for."""

Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
PROMETHEUS: Header = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
_RETRY: Header = (b"retry-after", b"1")
_CLOSE: Header = (b"connection", b"close")
_CHALLENGE: Header = (b"www-authenticate", b'Bearer realm="mizzen"')
_OPEN = {
    "": {"name": "mizzen inference", "links": ["/v2", "/v2/models", "/metrics", "/healthz"]},
    "healthz": {"status": "ok"},
    "v2/health/live": {"live": True},
    "v2/health/ready": {"ready": True, "live": True},
}
_SERVER = {"name": "mizzen", "version": mizzen.__version__, "extensions": []}


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)


@dataclass(frozen=True, slots=True)
class ModelPath:
    """[/ns/<namespace>]/v2/models/<name>[/versions/<version>][/<what>]"""

    namespace: str
    name: str
    version: str | None
    what: str


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

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:
        assert scope["type"] == "http"
        namespace, path = _split(scope["raw_path"])
        model = _model_path(namespace, path)
        given = tuple(value for name, value in scope["headers"] if name == b"authorization")
        asked = Asked(scope["method"], scope["raw_path"].decode("latin-1"), given)
        if model is not None and model.what == "infer":
            if scope["method"] == "POST":
                answer = await self._infer(asked, model, dict(scope["headers"]).get(b"mizzen-timeout-ms"), receive)
            else:
                answer = self._refused(405, "this path takes POST", (b"allow", b"POST"))
        else:
            answer = self._read(asked, namespace, path, model)
            if answer.code not in (404, UNAUTHENTICATED, FORBIDDEN) and scope["method"] not in ("GET", "HEAD"):
                answer = _error(405, "this path takes GET and HEAD", (b"allow", b"GET, HEAD"))
            elif answer.code == UNAVAILABLE and model is not None and model.what == "metadata":
                answer = await self._held(asked, model, receive)
        if answer is None:
            return  # nobody is there any more
        length = (b"content-length", str(len(answer.body)).encode())
        await send({"type": "http.response.start", "status": answer.code, "headers": [*answer.headers, length]})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})

    def _read(self, asked: Asked, namespace: str | None, path: list[str], model: ModelPath | None) -> Answer:
        if model is not None:
            return self._about(asked, model)
        if path == ["v2", "models"]:
            return self._models(asked, namespace or DEFAULT_NAMESPACE)
        if path == ["metrics"] and namespace is None:
            return self._metrics(asked)
        if path == ["v2"]:
            return self._refusal(asked, self._plane(asked)) or _json(_SERVER)
        fixed = _OPEN.get("/".join(path))
        if fixed is None or (namespace is not None and path[0] != "v2"):
            return _error(404, "there is nothing at this path; see /")
        return _json(fixed)

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
        if refusal := self._refusal(asked, self._plane(asked)):
            return refusal
        text = self._service.metrics.render(self._queues(), lambda space, name: self._sees(asked, space, name))
        return Answer(200, text, (PROMETHEUS,))

    def _plane(self, asked: Asked) -> Ruling:
        return self._service.permits.rule(asked.credentials, READ, PLANE)

    def _sees(self, asked: Asked, namespace: str, name: str) -> bool:
        target = self._service.routes.target(namespace, name)
        return self._service.permits.rule(asked.credentials, SEE, target).code == ALLOWED

    def _may(self, asked: Asked, path: ModelPath, verbs: tuple[Verb, ...]) -> Ruling:
        target = self._service.routes.target(path.namespace, path.name, path.version)
        return self._service.permits.rule(asked.credentials, verbs, target)

    def _refusal(self, asked: Asked, ruling: Ruling) -> Answer | None:
        """None when it is allowed. A refusal is written down for the audit."""
        if ruling.code == ALLOWED:
            return None
        self._service.note(asked, ruling)
        more = {UNAUTHENTICATED: (_CHALLENGE,), UNAVAILABLE: (_RETRY,)}.get(ruling.code, ())
        return self._refused(ruling.code, ruling.reason, *more)

    def _about(self, asked: Asked, path: ModelPath) -> Answer:
        if refusal := self._refusal(asked, self._may(asked, path, SEE)):
            return refusal
        try:
            found = self._service.routes.name(path.namespace, path.name)
            endpoint = self._service.routes.find(path.namespace, path.name, path.version)
        except NotFound as error:
            return _error(404, error.message)
        except Unavailable as error:
            return _error(UNAVAILABLE, error.message, _RETRY)
        if path.what == "ready":
            return _json({"name": path.name, "ready": True}) if endpoint.ready else _not_ready(endpoint)
        hello = endpoint.hello
        if hello is None:
            return _not_ready(endpoint)
        metadata = {
            "name": path.name,
            "versions": list(found.versions),
            "platform": hello.framework,
            "inputs": hello.inputs,
            "outputs": hello.outputs,
        }
        return _json(metadata)

    async def _held(self, asked: Asked, path: ModelPath, receive: ASGIReceiveCallable) -> Answer | None:
        """Metadata as soon as a replica is there, waited for just as infer requests wait. None: the client has gone."""
        gone = asyncio.ensure_future(_disconnected(receive))
        try:
            while (answer := self._about(asked, path)).code == UNAVAILABLE and self._may_hold(path):
                await asyncio.wait((gone,), timeout=LOOK_SECONDS)
                if gone.done():
                    return None
            return answer
        finally:
            gone.cancel()

    def _may_hold(self, path: ModelPath) -> bool:
        try:
            endpoint = self._service.routes.find(path.namespace, path.name, path.version)
        except Unavailable:
            return False
        return endpoint.may_hold(self._service.clock())

    async def _infer(
        self, asked: Asked, path: ModelPath, timeout_ms: bytes | None, receive: ASGIReceiveCallable
    ) -> Answer | None:
        try:
            self._callable(asked, path)
            body = await self._body(receive)
            # Again: a new Table, or other rights, may have come while the body did.
            endpoint = self._callable(asked, path)
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

    def _callable(self, asked: Asked, path: ModelPath) -> Endpoint:
        refusal = self._refusal(asked, self._may(asked, path, PREDICT))
        if refusal is not None:
            raise _Refused(refusal)
        return self._service.routes.find(path.namespace, path.name, path.version)

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


def _split(raw_path: bytes) -> tuple[str | None, list[str]]:
    """The namespace, where the path names one, and the segments after it, each unescaped by itself."""
    segments = [unquote_to_bytes(segment).decode(errors="replace") for segment in raw_path[1:].split(b"/")]
    if segments[0] == "ns" and len(segments) > 2 and segments[1]:
        return segments[1], segments[2:]
    return None, segments


def _model_path(namespace: str | None, path: list[str]) -> ModelPath | None:
    if path[:2] != ["v2", "models"] or len(path) < 3 or not path[2]:
        return None
    name, rest, version = path[2], path[3:], None
    if rest[:1] == ["versions"] and len(rest) > 1 and rest[1]:
        version, rest = rest[1], rest[2:]
    if rest not in ([], ["ready"], ["infer"]):
        return None
    return ModelPath(namespace or DEFAULT_NAMESPACE, name, version, rest[0] if rest else "metadata")


def _json(value: Any) -> Answer:
    return Answer(200, v2.to_json(value))


def _error(code: int, text: str, *headers: Header) -> Answer:
    return Answer(code, v2.error(text), (JSON, *headers))


def _not_ready(endpoint: Endpoint) -> Answer:
    return _error(UNAVAILABLE, f"no replica of '{endpoint.name}' version {endpoint.version} is ready", _RETRY)
