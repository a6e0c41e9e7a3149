"""Authentication and authorization by one access.json. An Authorizer never changes; a new file replaces it.

It caches its decisions, and they are dropped with it. Token expiry depends on time, so every request checks it.

Before the first valid file no token can be checked: callers with a token get 503. Callers without one get the rights
that the settings give to anonymous callers. An invalid token is always refused, never ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mizzen.access import credentials, policy
from mizzen.access.access_file import AccessFile, Issuer
from mizzen.access.policy import ANONYMOUS, Actor, Binding, Target, Verb
from mizzen.errors import MizzenError, Unauthenticated, Unavailable
from mizzen.gateway.access.rate_limits import RateLimit, RateLimits

if TYPE_CHECKING:
    from mizzen.access import jwt

PREDICT: tuple[Verb, ...] = ("predict",)
SEE: tuple[Verb, ...] = ("read", "predict")
"""To see what a name is and whether it is ready. Callers that may predict need this, and readers may see it too."""
READ: tuple[Verb, ...] = ("read",)

PLANE = Target("", "Plane")
ALLOWED, UNAUTHENTICATED, FORBIDDEN, UNAVAILABLE = 0, 401, 403, 503
MAX_PRINCIPALS, MAX_DECISIONS, MAX_CACHED_NAME = 4096, 1024, 1024
"""Cached credentials, cached decisions for each, and the longest names in a cached decision. All three are limited
because callers choose them."""

Credentials = tuple[bytes, ...]
"""The values of a request's Authorization headers."""


class RequestDecision(NamedTuple):
    """The decision about one request."""

    code: int
    """0 if the request is allowed, else the HTTP code of the refusal."""
    reason: str
    actor: str
    verb: str
    """`authenticate` if the credentials were refused."""
    target: Target
    until: float | None = None
    """Valid until then, in seconds since 1970; None: as long as the Authorizer and the routes it was made with."""
    rate_limit: RateLimit | None = None
    """Limits the caller's predictions; None: no limit. Code that admits a prediction must call its `spend`."""


@dataclass(slots=True)
class AuthenticatedCaller:
    """A caller with valid credentials."""

    actor: Actor
    bindings: tuple[Binding, ...]
    """Those that name the caller."""
    until: float | None = None
    rate_limit: RateLimit | None = None
    decisions: dict[Any, RequestDecision] = field(default_factory=dict)


class Authorizer:
    def __init__(
        self,
        access: AccessFile | None,
        *,
        anonymous: bool,
        wall: Callable[[], float],
        rate_limits: RateLimits | None = None,
    ) -> None:
        """`anonymous`: as in the settings; a file can only be stricter. `wall`: seconds since 1970. `rate_limits`:
        creates the counters of callers that have a limit."""
        self._access = access or AccessFile()
        self._has_access_file = access is not None
        self._anonymous = anonymous and (access is None or access.anonymous)
        self._wall = wall
        self._tokens = {found.digest: found for found in self._access.passes}
        self._by_subject: dict[str, list[Binding]] = defaultdict(list)
        for binding in self._access.grants:
            for subject in binding.subjects:
                self._by_subject[subject].append(binding)
        self._limits = {limit.subject: limit for limit in self._access.limits}
        self._rate_limits = rate_limits if self._limits else None
        self._callers: dict[Credentials, AuthenticatedCaller] = {
            (): AuthenticatedCaller(ANONYMOUS, (), rate_limit=self._rate_limit_of(ANONYMOUS)),
        }
        self._issuer = None if self._access.issuer is None else _JwtVerifier(self._access.issuer)

    def authorize(self, authorization: Credentials, verbs: tuple[Verb, ...], target: Target) -> RequestDecision:
        """Decides whether the caller with these credentials may use one of the verbs on the target."""
        try:
            caller = self._callers.get(authorization) or self._authenticate(authorization)
            if caller.until is not None and self._wall() >= caller.until:
                self._callers.pop(authorization, None)
                raise credentials.invalid_credentials("the token has expired")
        except Unauthenticated as error:
            return RequestDecision(UNAUTHENTICATED, _message_of(error), ANONYMOUS.name, "authenticate", target)
        except Unavailable as error:
            return RequestDecision(UNAVAILABLE, _message_of(error), ANONYMOUS.name, "authenticate", target)
        # Without fields that follow from these. Python caches the hashes of strings and frozen sets, so this is cheap.
        key = (verbs, target.namespace, target.kind, target.name, target.alias, target.models)
        decision = caller.decisions.get(key)
        if decision is None:
            if len(caller.decisions) >= MAX_DECISIONS:
                caller.decisions.clear()
            decision = self._decide(caller, verbs, target)
            if len(target.namespace) + len(target.name) + len(target.alias) <= MAX_CACHED_NAME:
                caller.decisions[key] = decision
        return decision

    def authorize_any(self, authorization: Credentials, verbs: tuple[Verb, ...], namespace: str) -> RequestDecision:
        """Like `authorize`, for a whole namespace: allowed if the caller may use a verb on some model in it."""
        whole = Target(namespace, "Model")
        decision = self.authorize(authorization, verbs, whole)
        caller = self._callers.get(authorization)
        if decision.code == ALLOWED or caller is None:
            return decision
        for verb in verbs:
            reach = policy.resolve_scope(
                caller.actor, verb, namespace, whole.kind, caller.bindings, anonymous=self._anonymous
            )
            if reach.has_any:
                return RequestDecision(ALLOWED, reach.reason, caller.actor.name, verb, whole, caller.until)
        return decision

    def _decide(self, caller: AuthenticatedCaller, verbs: tuple[Verb, ...], target: Target) -> RequestDecision:
        # A refusal must not reveal which model a name stands for, nor its aliases: only readers may know.
        named = replace(target, models=frozenset({target.name}), alias="") if target.name else None
        verdicts = [
            policy.authorize(caller.actor, verb, target, caller.bindings, anonymous=self._anonymous, named=named)
            for verb in verbs
        ]
        for verb, verdict in zip(verbs, verdicts, strict=True):
            if verdict.allowed:
                rate_limit = caller.rate_limit if verb == "predict" else None
                return RequestDecision(
                    ALLOWED, verdict.reason, caller.actor.name, verb, target, caller.until, rate_limit
                )
        code = UNAUTHENTICATED if caller.actor == ANONYMOUS else FORBIDDEN
        return RequestDecision(code, verdicts[0].reason, caller.actor.name, verbs[0], target)

    def _authenticate(self, authorization: Credentials) -> AuthenticatedCaller:
        """Raises Unauthenticated, or Unavailable if the token cannot be checked."""
        token = credentials.parse_bearer([value.decode("latin-1") for value in authorization])
        if not self._has_access_file:
            raise Unavailable("tokens cannot be checked yet: the plane has not published its access rules")
        found = self._tokens.get(credentials.digest(token))
        if found is not None:
            actor, until = found.actor, found.expires
        elif credentials.looks_like_jwt(token):
            actor, until = self._actor_of_jwt(token)
        else:
            raise credentials.invalid_credentials("the token is unknown or was revoked")
        if len(self._callers) >= MAX_PRINCIPALS:
            self._callers = {(): self._callers[()]}
        caller = self._callers[authorization] = AuthenticatedCaller(
            actor, self._bindings_of(actor), until, self._rate_limit_of(actor)
        )
        return caller

    def _actor_of_jwt(self, token: str) -> tuple[Actor, float]:
        if self._issuer is None:
            raise credentials.invalid_credentials("this plane accepts no JWTs; its setting oidc_issuer is empty")
        return self._issuer.actor(token, self._wall())

    def _rate_limit_of(self, actor: Actor) -> RateLimit | None:
        return None if self._rate_limits is None else self._rate_limits.limit_of(actor, self._limits)

    def _bindings_of(self, actor: Actor) -> tuple[Binding, ...]:
        """Returns the only bindings that decisions about this actor need."""
        subjects = (actor.name, "*", *(f"group:{group}" for group in sorted(actor.groups)))
        return tuple({binding: None for subject in subjects for binding in self._by_subject.get(subject, ())})


class _JwtVerifier:
    """Verifies JWTs with the keys that the plane fetched. Without a trusted issuer, cryptography is never loaded."""

    def __init__(self, issuer: Issuer) -> None:
        from mizzen.access import jwt

        self._jwts = jwt
        fields = msgspec.structs.asdict(issuer)
        self._keys: tuple[jwt.Key, ...] = fields.pop("keys")
        self._trust = jwt.TrustedIssuer(**fields)

    def actor(self, token: str, now: float) -> tuple[Actor, float]:
        kid = self._jwts.key_id(token)
        if not self._keys:
            raise Unavailable(
                f"the keys of {self._trust.issuer} cannot be fetched now, so its tokens cannot be verified"
            )
        return self._jwts.verify_token(token, self._trust, self._jwts.pick_key(self._keys, kid), now)


def _message_of(error: MizzenError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
