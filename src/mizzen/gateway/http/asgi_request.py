"""A request to the ASGI app: its head, and the common end: a request id on the response and an access-log line."""

from __future__ import annotations

from uvicorn._types import ASGIReceiveCallable, ASGIReceiveEvent, ASGISendCallable, HTTPScope

from mizzen.gateway.access.authorizer import PLANE, READ
from mizzen.gateway.context import AuthRequest, GatewayContext
from mizzen.gateway.request import request_ids
from mizzen.gateway.request.head import EMPTY_HEAD, TIMEOUT, RequestHead
from mizzen.gateway.request.responses import Answer, Header
from mizzen.gateway.telemetry.counters import GONE
from mizzen.protocol import binary

REQUEST_ID = b"mizzen-request-id"


class AsgiRequest:
    def __init__(self, service: GatewayContext, scope: HTTPScope, receive: ASGIReceiveCallable) -> None:
        self.headers: list[Header] = list(scope["headers"])
        given = tuple(value for name, value in self.headers if name == b"authorization")
        self.auth = AuthRequest(scope["method"], scope["raw_path"].decode("latin-1"), given)
        head = _read_head(self.headers, service.routes.graph_headers)
        self.head = head._replace(method=scope["method"], path=scope["raw_path"])
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
        """Send the answer; None: the client disconnected."""
        request_id = (answer.request_id if answer else b"") or self.head.id or self._service.new_id()
        self._log(answer, request_id)
        if answer is None:
            return
        origins = [value for name, value in self.headers if name == b"origin"]
        headers = [*answer.headers, *self._service.cors.headers(origins), (REQUEST_ID, request_id)]
        # Without a length for 204 and 304: it would be the length of an empty document.
        if answer.code not in (204, 304):
            headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.code, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": False})

    def _log(self, answer: Answer | None, request_id: bytes) -> None:
        service = self._service
        code = GONE if answer is None else answer.code
        if code < service.logged_from:
            return
        actor = service.permits.authorize(self.auth.credentials, READ, PLANE).actor
        service.log_request(
            self.head._replace(actor=actor), request_id, code, began=self._began,
            bytes_in=self._bytes, bytes_out=len(answer.body) if answer else 0,
            served=answer.served if answer else None,
        )  # fmt: skip


def _read_head(headers: list[Header], heard: frozenset[bytes]) -> RequestHead:
    head = EMPTY_HEAD._replace(graph_headers=tuple((name, value) for name, value in headers if name in heard))
    for name, value in headers:
        if name in (TIMEOUT, binary.HEADER):
            head = head.with_header(name, value)
    id_, trace = request_ids.read(headers)
    return head._replace(id=id_, trace=trace)
