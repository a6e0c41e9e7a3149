"""One request that the ASGI app answers: what its head says, and what is the same at the end of all of them, an id on
the answer and a line in the access log.
"""

from __future__ import annotations

from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, HTTPScope

from mizzen.gateway.access.authorizer import PLANE, READ
from mizzen.gateway.inference.inference import Asked, Service
from mizzen.gateway.inference.protocols import PLAIN, TIMEOUT, Options
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.responses import Answer, Header
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.protocol import binary

REQUEST_ID = b"mizzen-request-id"


class Visit:
    def __init__(self, service: Service, scope: HTTPScope, receive: ASGIReceiveCallable) -> None:
        self.headers: list[Header] = list(scope["headers"])
        given = tuple(value for name, value in self.headers if name == b"authorization")
        self.asked = Asked(scope["method"], scope["raw_path"].decode("latin-1"), given)
        options = _options(self.headers, service.routes.heard)
        self.options = options._replace(method=scope["method"], path=scope["raw_path"])
        self._service = service
        self._receive = receive
        self._began = service.clock()
        self._bytes = 0

    async def receive(self) -> ASGIReceiveEvent:
        message = await self._receive()
        if message["type"] == "http.request":
            self._bytes += len(message["body"])
        return message

    async def end(self, answer: Answer | None, send: ASGISendCallable) -> None:
        """None: nobody is there any more."""
        request_id = (answer.request_id if answer else b"") or self.options.id or self._service.new_id()
        self._note(answer, request_id)
        if answer is None:
            return
        origins = [value for name, value in self.headers if name == b"origin"]
        headers = [*answer.headers, *self._service.cors.headers(origins), (REQUEST_ID, request_id)]
        if answer.code not in (
            204,
            304,
        ):  # who has the document is told nothing of its length: this would be that of an empty one
            headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})

    def _note(self, answer: Answer | None, request_id: bytes) -> None:
        service = self._service
        code = GONE if answer is None else answer.code
        if code < service.noted_from:
            return
        actor = service.permits.rule(self.asked.credentials, READ, PLANE).actor
        service.ended(
            self.options._replace(actor=actor), request_id, code, began=self._began,
            bytes_in=self._bytes, bytes_out=len(answer.body) if answer else 0,
            served=answer.served if answer else None,
        )  # fmt: skip


def _options(headers: list[Header], heard: frozenset[bytes]) -> Options:
    options = PLAIN._replace(heads=tuple((name, value) for name, value in headers if name in heard))
    for name, value in headers:
        if name in (TIMEOUT, binary.HEADER):
            options = options.heard(name, value)
    id_, trace = request_ids.read(headers)
    return options._replace(id=id_, trace=trace)
