"""May they: `require` and `require_some` are the only ways to a decision.

`Identify` says who asks before any route is reached. `FailClosed` keeps every answer back that no decision was made
for, and ends a stream as soon as what allowed it no longer holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.access import policy
from mizzen.access.policy import ANONYMOUS, Actor, Binding, Reach, Target, Verb, Verdict
from mizzen.errors import Forbidden, Unauthenticated, Unavailable
from mizzen.kinds.schema.resource import Resource
from mizzen.server.auth import targets
from mizzen.server.auth.authentication import Identity, Known
from mizzen.server.auth.role_bindings import Bindings
from mizzen.server.http.context import Plane, plane_of

PUBLIC = frozenset({"/", "/healthz", "/livez", "/readyz"})

IMPERSONATE = "impersonate-"
"""How the headers begin with which clients of Kubernetes ask to be taken for somebody else."""

LOOK_SECONDS = 1.0
"""Between two looks whether the reader of a silent stream may still read it."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was asked of the policy in a request, and what it said."""

    actor: Actor
    verb: Verb
    target: Target
    verdict: Verdict
    reach: Reach | None = None
    """When it was about all objects of a kind: how much of that is allowed."""


def require(request: Request, verb: Verb, target: Target, *, named: Target | None = None) -> Actor:
    """The actor, when they may do this. Unauthenticated where a token would help, else Forbidden.

    `named`: the target as the caller has named it, when it was looked up since; as in `policy.allowed`.
    """
    actor, anonymous = actor_of(request), plane_of(request).anonymous
    verdict = policy.allowed(actor, verb, target, request.state.bindings, anonymous=anonymous, named=named)
    return _decided(request, Decision(actor, verb, target, verdict))


def may(request: Request, verb: Verb, target: Target) -> bool:
    """For answers that hold more for some: decides nothing, and is not on record."""
    actor, anonymous = actor_of(request), plane_of(request).anonymous
    return policy.allowed(actor, verb, target, request.state.bindings, anonymous=anonymous).allowed


def may_some(request: Request, verb: Verb, target: Target) -> bool:
    """As `may`, of any object of a kind."""
    actor, anonymous = actor_of(request), plane_of(request).anonymous
    return _reach(actor, verb, target, request.state.bindings, anonymous=anonymous).something


def require_some(request: Request, verb: Verb, target: Target) -> Callable[[Resource], bool]:
    """For lists and watches: which of the objects of this kind the actor may do this with, when there may be any.

    Refused like `require` when there can be none.
    """
    actor, anonymous = actor_of(request), plane_of(request).anonymous
    reach = _reach(actor, verb, target, request.state.bindings, anonymous=anonymous)
    verdict = Verdict(True, reach.reason)
    if not reach.something:
        verdict = policy.allowed(actor, verb, target, request.state.bindings, anonymous=anonymous)
    _decided(request, Decision(actor, verb, target, verdict, reach))
    return lambda resource: reach.covers(targets.of(resource))


def actor_of(request: Request) -> Actor:
    actor = request.state.known.actor
    assert isinstance(actor, Actor)
    return actor


class Identify:
    """Says who asks, and which bindings hold: both are settled before a route decides anything."""

    def __init__(
        self,
        app: ASGIApp,
        identity: Identity,
        bindings: Bindings,
        visitor: Callable[[Scope], Known | None] = lambda _: None,
    ) -> None:
        """`visitor`: who a browser without a token belongs to, where that counts at all."""
        self.app = app
        self.identity = identity
        self.bindings = bindings
        self.visitor = visitor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        headers = Headers(scope=scope)
        credentials = headers.getlist("authorization")
        known = None if credentials else self.visitor(scope)
        state["known"] = known or await self.identity.of(credentials)
        _refuse_impersonation(headers)
        # Health is told even while the store cannot be read.
        state["bindings"] = () if scope["path"] in PUBLIC else await self.bindings.fresh()
        await self.app(scope, receive, send)


class FailClosed:
    """A route that forgot to ask `require` answers nobody; a stream ends when its reader may no longer read it."""

    def __init__(self, app: ASGIApp, plane: Plane) -> None:
        self.app = app
        self.plane = plane

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        decisions: list[Decision] = scope["state"].setdefault("decisions", [])
        standing = _Standing(self.plane, scope["state"]["known"], scope["state"]["bindings"], decisions)

        stream = _Stream(send, standing)

        async def checked(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] < 400
                and scope["path"] not in PUBLIC
                and not any(decision.verdict.allowed for decision in decisions)
            ):
                raise RuntimeError(f"nobody decided whether {scope['method']} {scope['path']} is allowed")
            await stream.send(message)

        await stream.run(self.app(scope, receive, checked))


class _Stream:
    """An answer, which ends when its reader may no longer read it: before its next piece, or while there is none."""

    def __init__(self, send: Send, standing: _Standing) -> None:
        self._send = send
        self._standing = standing
        self._while_allowed = asyncio.timeout(None)
        self._looking: asyncio.Task[None] | None = None
        self._ended = False

    async def run(self, app: Awaitable[None]) -> None:
        try:
            async with self._while_allowed:
                await app
        except (_StreamEnded, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not self._while_allowed.expired():
                raise
            if not self._ended:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._looking is not None:
                self._looking.cancel()

    async def send(self, message: Message) -> None:
        begins = message["type"] == "http.response.start"
        if not begins:
            self._ended = not message.get("more_body")
            if not self._ended and not await self._standing.holds():
                raise _StreamEnded
        await self._send(message)
        if begins and "content-length" not in Headers(raw=message["headers"]):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while await self._standing.holds():  # noqa: ASYNC110 - time alone may take the right, as a token ends
            await asyncio.sleep(LOOK_SECONDS)
        self._while_allowed.reschedule(asyncio.get_running_loop().time())


class _StreamEnded(Exception):
    pass


class _Standing:
    """Whether the reader of a stream may go on reading: asked before every piece of it, and while there is none.

    It costs next to nothing.
    """

    def __init__(self, plane: Plane, known: Known, bindings: Sequence[Binding], decisions: Sequence[Decision]) -> None:
        self._plane = plane
        self._known = known
        self._bindings = bindings
        self._decisions = decisions
        self._lost = False

    async def holds(self) -> bool:
        """Once it is False, it stays so."""
        self._lost = self._lost or not self._known.holds() or await self._taken()
        return not self._lost

    async def _taken(self) -> bool:
        try:
            bindings = await self._plane.bindings.fresh()
        except Unavailable:
            return True
        if bindings is self._bindings:
            return self._lost
        self._bindings = bindings
        return not all(self._again(decision) for decision in self._decisions)

    def _again(self, decision: Decision) -> bool:
        actor, verb, target, anonymous = decision.actor, decision.verb, decision.target, self._plane.anonymous
        if decision.reach is None:
            verdict = policy.allowed(actor, verb, target, self._bindings, anonymous=anonymous)
            return verdict.allowed == decision.verdict.allowed
        reach, before = _reach(actor, verb, target, self._bindings, anonymous=anonymous), decision.reach
        # What was sent was chosen by the old reach: with another one the reader has to begin anew.
        return replace(reach, reason="") == replace(before, reason="")


def _reach(actor: Actor, verb: Verb, target: Target, bindings: Sequence[Binding], *, anonymous: bool) -> Reach:
    return policy.reach(
        actor, verb, target.namespace, target.kind, bindings, anonymous=anonymous, subresource=target.subresource
    )


def _refuse_impersonation(headers: Headers) -> None:
    """Whoever wants to be somebody else, with fewer rights perhaps, must not act as themselves without knowing it."""
    if any(name.startswith(IMPERSONATE) for name in headers):
        raise Forbidden(
            "impersonation is not offered here: everybody acts as whom their token says",
            hint="leave out --as and Impersonate-* headers, and use a token of the one who is meant",
        )


def _decided(request: Request, decision: Decision) -> Actor:
    request.state.decisions.append(decision)
    if decision.verdict.allowed:
        return decision.actor
    if decision.actor == ANONYMOUS:
        raise Unauthenticated(decision.verdict.reason)
    raise Forbidden(decision.verdict.reason)
