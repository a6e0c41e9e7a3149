"""Who asks, and may they: the admin's token, the checks against foreign web pages, and `require`.

`require` is the only way to a decision, and `FailClosed` keeps every answer back that no decision was made for.
"""

from __future__ import annotations

import logging
import os
import secrets
import stat
from contextlib import suppress
from hmac import compare_digest
from pathlib import Path
from typing import Self

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.access import policy
from mizzen.access.policy import ANONYMOUS, Actor, Target
from mizzen.errors import Forbidden, MizzenError, Unauthenticated
from mizzen.server.plane import plane_of

logger = logging.getLogger(__name__)

ADMIN = Actor("admin", admin=True)
PUBLIC = frozenset({"/", "/healthz", "/readyz"})
LOOPBACK = frozenset({"127.0.0.1", "localhost", "[::1]"})
SHORTEST_TOKEN = 16


class AdminToken(str):
    """The local admin's token. A text like any other, except that it never shows itself in a log."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "AdminToken(…)"

    def matches(self, candidate: str) -> bool:
        return compare_digest(self.encode(), candidate.encode())

    @classmethod
    def load_or_create(cls, path: Path) -> Self:
        """The token in `path`; at first a random one, in a file that only its owner can read."""
        with suppress(FileExistsError):
            _create_private(path, secrets.token_urlsafe(32))
        return cls(_read_private(path))


class LoopbackOnly:
    """Refuses what a web page may have sent: a foreign Host (DNS rebinding) or a foreign Origin (cross-site request).

    While the plane listens on loopback, Host must be a loopback name. An Origin must always be the one that Host says.
    """

    def __init__(self, app: ASGIApp, loopback: bool) -> None:
        self.app = app
        self.loopback = loopback

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host = ",".join(headers.getlist("host")).lower()
        if self.loopback and _without_port(host) not in LOOPBACK:
            raise Forbidden(f"Host '{host}' is not this machine", hint="ask for http://127.0.0.1:<port>")
        origins = [origin.lower() for origin in headers.getlist("origin")]
        if any(origin != f"{scope['scheme']}://{host}" for origin in origins):
            raise Forbidden(f"pages of {', '.join(origins)} may not call this API")
        await self.app(scope, receive, send)


class Identify:
    """Says who asks. A token that is wrong is refused, never taken for no token."""

    def __init__(self, app: ASGIApp, token: AdminToken) -> None:
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope.setdefault("state", {})["actor"] = self._actor(Headers(scope=scope).getlist("authorization"))
        await self.app(scope, receive, send)

    def _actor(self, credentials: list[str]) -> Actor:
        if not credentials:
            return ANONYMOUS
        scheme, _, token = credentials[0].partition(" ")
        if len(credentials) == 1 and scheme.lower() == "bearer" and self.token.matches(token.strip()):
            return ADMIN
        raise Unauthenticated(
            "the token is not valid here", hint="send 'Authorization: Bearer <content of admin-token in the data dir>'"
        )


class FailClosed:
    """A route that forgot to ask `require` answers nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def checked(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] < 400:
                decided = scope["path"] in PUBLIC or "verdict" in scope["state"]
                if not decided:
                    raise RuntimeError(f"nobody decided whether {scope['method']} {scope['path']} is allowed")
            await send(message)

        await self.app(scope, receive, checked)


def require(request: Request, verb: policy.Verb, target: Target) -> Actor:
    """The actor, when they may do this. Unauthenticated where a token would help, else Forbidden."""
    actor: Actor = request.state.actor
    verdict = policy.allowed(actor, verb, target, loopback=plane_of(request).loopback)
    request.state.verdict = verdict
    if verdict.allowed:
        return actor
    logger.info("refused %s %s on %s: %s", actor.name, verb, target, verdict.reason)
    if actor == ANONYMOUS:
        raise Unauthenticated(verdict.reason)
    raise Forbidden(verdict.reason)


def _without_port(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and (port.isdecimal() or not port) else host


def _create_private(path: Path, text: str) -> None:
    """All or nothing, and never over an existing file: a reader sees the whole token, and one of two creators wins."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)


def _read_private(path: Path) -> str:
    with path.open() as file:
        mode = os.fstat(file.fileno()).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise MizzenError(f"others can read the token in {path}", hint=f"chmod 600 {path}")
        token = file.read().strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii():
        raise MizzenError(f"{path} holds no token", hint=f"remove {path}; a new one is made at the next start")
    return token
