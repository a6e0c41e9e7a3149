"""Authorization: routes get access decisions only from `require` and `require_any`.

`AuthenticationMiddleware` identifies the caller before any route runs. `FailClosedMiddleware` withholds every response
without a decision, and ends a stream as soon as its reader loses access.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mizzen.access import policy
from mizzen.access.policy import ANONYMOUS, AccessScope, Actor, Binding, Target, Verb, Verdict
from mizzen.errors import Forbidden, Unauthenticated, Unavailable
from mizzen.kinds.schema.resource import Resource
from mizzen.server.auth import targets
from mizzen.server.auth.authentication import Authenticator, CallerIdentity
from mizzen.server.http.context import BindingSource, ServerContext, context_of
from mizzen.server.http.middleware import HttpMiddleware

PUBLIC = frozenset({"/", "/healthz", "/livez", "/readyz"})

IMPERSONATION_PREFIX = "impersonate-"
"""The prefix of the headers with which Kubernetes clients impersonate another user."""

POLL_SECONDS = 1.0
"""The interval of access checks of a silent stream."""


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """One question that a request put to the policy, and the verdict."""

    actor: Actor
    verb: Verb
    target: Target
    verdict: Verdict
    scope: AccessScope | None = None
    """For a question about all objects of a kind: which of them are allowed."""


@dataclass(frozen=True, slots=True)
class CallerPolicy:
    """The policy as it applies to one caller now."""

    actor: Actor
    bindings: Sequence[Binding]
    anonymous: bool
    """Whether callers without a token may read and predict."""

    def decide(self, verb: Verb, target: Target, named: Target | None = None) -> Verdict:
        return policy.authorize(self.actor, verb, target, self.bindings, anonymous=self.anonymous, named=named)

    def scope(self, verb: Verb, target: Target) -> AccessScope:
        """Returns the objects of the target's kind with which the caller may do this."""
        return policy.resolve_scope(
            self.actor, verb, target.namespace, target.kind, self.bindings,
            anonymous=self.anonymous, subresource=target.subresource,
        )  # fmt: skip


def policy_of(request: Request) -> CallerPolicy:
    return CallerPolicy(actor_of(request), request.state.bindings, context_of(request).anonymous)


def require(request: Request, verb: Verb, target: Target, *, named: Target | None = None) -> Actor:
    """Returns the actor if they may do this. Raises Unauthenticated if a token would help, else Forbidden.

    `named`: the target as the caller named it, if the rest was looked up; as in `policy.authorize`.
    """
    caller = policy_of(request)
    return _record_decision(request, PolicyDecision(caller.actor, verb, target, caller.decide(verb, target, named)))


def is_allowed(request: Request, verb: Verb, target: Target) -> bool:
    """For responses that hold more for some callers. This is not a decision, and the audit does not record it."""
    return policy_of(request).decide(verb, target).allowed


def is_any_allowed(request: Request, verb: Verb, target: Target) -> bool:
    """As `is_allowed`, for any object of a kind."""
    return policy_of(request).scope(verb, target).has_any


def require_any(request: Request, verb: Verb, target: Target) -> Callable[[Resource], bool]:
    """For lists and watches: returns a filter of the objects of this kind with which the actor may do this.

    Raises as `require` does if there can be none.
    """
    caller = policy_of(request)
    scope = caller.scope(verb, target)
    verdict = Verdict(True, scope.reason) if scope.has_any else caller.decide(verb, target)
    _record_decision(request, PolicyDecision(caller.actor, verb, target, verdict, scope))
    return lambda resource: scope.covers(targets.of(resource))


def actor_of(request: Request) -> Actor:
    actor = request.state.caller.actor
    assert isinstance(actor, Actor)
    return actor


class AuthenticationMiddleware(HttpMiddleware):
    """Sets the caller and the RoleBindings of a request, before any route decides anything."""

    def __init__(
        self,
        app: ASGIApp,
        authenticator: Authenticator,
        bindings: BindingSource,
        visitor: Callable[[Scope], CallerIdentity | None] = lambda _: None,
    ) -> None:
        """`visitor`: identifies a browser without a token by its session, on the paths where sessions count."""
        super().__init__(app)
        self.authenticator = authenticator
        self.bindings = bindings
        self.visitor = visitor

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        state = scope.setdefault("state", {})
        headers = Headers(scope=scope)
        credentials = headers.getlist("authorization")
        visitor = None if credentials else self.visitor(scope)
        state["caller"] = visitor or await self.authenticator.authenticate(credentials)
        _refuse_impersonation(headers)
        # Health checks work even while the store cannot be read.
        state["bindings"] = () if scope["path"] in PUBLIC else await self.bindings.current()
        await self.app(scope, receive, send)


class FailClosedMiddleware(HttpMiddleware):
    """Withholds the response of a route that forgot `require`; ends a stream when its reader loses access."""

    def __init__(self, app: ASGIApp, context: ServerContext) -> None:
        super().__init__(app)
        self.context = context

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        decisions: list[PolicyDecision] = scope["state"].setdefault("decisions", [])
        access = _StreamAccess(self.context, scope["state"]["caller"], scope["state"]["bindings"], decisions)
        response = _GuardedResponse(send, access)

        async def send_decided(message: Message) -> None:
            if (
                message["type"] == "http.response.start"
                and message["status"] < 400
                and scope["path"] not in PUBLIC
                and not any(decision.verdict.allowed for decision in decisions)
            ):
                raise RuntimeError(f"no access decision was made for {scope['method']} {scope['path']}")
            await response.send(message)

        await response.run(self.app(scope, receive, send_decided))


class _GuardedResponse:
    """A response that ends when its reader loses access: before its next chunk, or while the stream is silent."""

    def __init__(self, send: Send, access: _StreamAccess) -> None:
        self._send = send
        self._access = access
        self._while_allowed = asyncio.timeout(None)
        self._poller: asyncio.Task[None] | None = None
        self._ended = False

    async def run(self, app: Awaitable[None]) -> None:
        try:
            async with self._while_allowed:
                await app
        except (_AccessRevoked, TimeoutError) as error:
            if isinstance(error, TimeoutError) and not self._while_allowed.expired():
                raise
            if not self._ended:
                await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            if self._poller is not None:
                self._poller.cancel()

    async def send(self, message: Message) -> None:
        begins = message["type"] == "http.response.start"
        if not begins:
            self._ended = not message.get("more_body")
            if not self._ended and not await self._access.is_granted():
                raise _AccessRevoked
        await self._send(message)
        if begins and "content-length" not in Headers(raw=message["headers"]):
            self._poller = asyncio.create_task(self._poll())

    async def _poll(self) -> None:
        while await self._access.is_granted():  # noqa: ASYNC110 - time alone may end access, when a token expires
            await asyncio.sleep(POLL_SECONDS)
        self._while_allowed.reschedule(asyncio.get_running_loop().time())


class _AccessRevoked(Exception):
    pass


class _StreamAccess:
    """Whether the reader of a stream still has access. Checked before every chunk, and while the stream is silent.

    The check is cheap.
    """

    def __init__(
        self,
        context: ServerContext,
        caller: CallerIdentity,
        bindings: Sequence[Binding],
        decisions: Sequence[PolicyDecision],
    ) -> None:
        self._context = context
        self._caller = caller
        self._bindings = bindings
        self._decisions = decisions
        self._revoked = False

    async def is_granted(self) -> bool:
        """Once False, always False."""
        self._revoked = self._revoked or not self._caller.is_valid() or await self._is_revoked()
        return not self._revoked

    async def _is_revoked(self) -> bool:
        try:
            bindings = await self._context.bindings.current()
        except Unavailable:
            return True
        if bindings is self._bindings:
            return self._revoked
        self._bindings = bindings
        return not all(self._still_applies(decision) for decision in self._decisions)

    def _still_applies(self, decision: PolicyDecision) -> bool:
        caller = CallerPolicy(decision.actor, self._bindings, self._context.anonymous)
        if decision.scope is None:
            return caller.decide(decision.verb, decision.target).allowed == decision.verdict.allowed
        scope = caller.scope(decision.verb, decision.target)
        # The old scope selected what was sent: with another one the reader has to start over.
        return replace(scope, reason="") == replace(decision.scope, reason="")


def _refuse_impersonation(headers: Headers) -> None:
    """A caller that asks to act as another user, perhaps with fewer rights, must not silently act as themselves."""
    if any(name.startswith(IMPERSONATION_PREFIX) for name in headers):
        raise Forbidden(
            "impersonation is not supported: every request acts as the user of its token",
            hint="omit --as and Impersonate-* headers, and use a token of that user",
        )


def _record_decision(request: Request, decision: PolicyDecision) -> Actor:
    request.state.decisions.append(decision)
    if decision.verdict.allowed:
        return decision.actor
    if decision.actor == ANONYMOUS:
        raise Unauthenticated(decision.verdict.reason)
    raise Forbidden(decision.verdict.reason)
