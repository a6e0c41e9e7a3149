"""A change is answered when gateways have been told, or the answer says that they have not."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from mizzen.errors import Unavailable
from mizzen.server.auth.access_barrier import AccessBarrier, WaitPublished
from mizzen.server.http.errors import ErrorBoundary


def asked(method: str, settle: WaitPublished, done: list[str]) -> tuple[int, bytes]:
    async def route(_request: Request) -> Response:
        done.append("written")
        return JSONResponse({"done": True})

    app = Starlette(
        routes=[Route("/", route, methods=["GET", "POST"])],
        middleware=[Middleware(ErrorBoundary), Middleware(AccessBarrier, wait_published=settle)],
    )
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        done.append(message["type"])
        sent.append(message)

    scope = {"type": "http", "method": method, "path": "/", "headers": [], "query_string": b"", "state": {}}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_the_answer_leaves_when_it_is_settled() -> None:
    done: list[str] = []

    async def settle() -> None:
        await asyncio.sleep(0)
        done.append("settled")

    assert asked("POST", settle, done)[0] == 200
    assert done[:3] == ["written", "settled", "http.response.start"]


def test_reading_waits_for_nobody() -> None:
    done: list[str] = []

    async def settle() -> None:
        raise AssertionError("was asked")

    assert asked("GET", settle, done)[0] == 200


def test_what_gateways_cannot_be_told_is_not_acknowledged() -> None:
    async def settle() -> None:
        raise Unavailable("access.json cannot be written", hint="look for a full disk")

    code, body = asked("POST", settle, [])
    assert code == 503
    assert b"access.json cannot be written" in body
    assert b"done" not in body
