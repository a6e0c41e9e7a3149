"""Who asks, and whether they may: what one access.json comes to. Never changed, only replaced whole.

All that was found out with it is remembered in it, and goes with it. What goes by time, the end of a token, is looked
at for every request.

Before the first good file nobody with a token is known, so they get 503; those without one get what the settings give
to strangers. A token that is not good is refused, and never overlooked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from mizzen.access import credentials, policy
from mizzen.access.access_file import Access, Issuer
from mizzen.access.policy import ANONYMOUS, Actor, Binding, Target, Verb
from mizzen.errors import MizzenError, Unauthenticated, Unavailable
from mizzen.gateway.access.rate_limits import Allowance, Allowances

if TYPE_CHECKING:
    from mizzen.access import jwt

PREDICT: tuple[Verb, ...] = ("predict",)
SEE: tuple[Verb, ...] = ("read", "predict")
"""To see what a name is and whether it is ready: whoever may call it needs to know, and so may whoever may read it."""
READ: tuple[Verb, ...] = ("read",)

PLANE = Target("", "Plane")
ALLOWED, UNAUTHENTICATED, FORBIDDEN, UNAVAILABLE = 0, 401, 403, 503
MOST_KNOWN, MOST_RULINGS, LONGEST_RULED = 4096, 1024, 1024
"""How many credentials are remembered, how many answers for each, and how long the names may be that one is about: all
are chosen by whoever asks."""

Credentials = tuple[bytes, ...]
"""The values of a request's Authorization headers."""


class Ruling(NamedTuple):
    """What was decided about one request."""

    code: int
    """0 when it is allowed, else the HTTP code to refuse it with."""
    reason: str
    actor: str
    verb: str
    """`authenticate` when already the credentials were refused"""
    target: Target
    until: float | None = None
    """Seconds since 1970 until which it holds; None: as long as the permits and routes do that it comes from."""
    allowance: Allowance | None = None
    """How much they may predict; None: there is no limit. Whoever lets a prediction in spends of it."""


@dataclass(slots=True)
class Known:
    """Somebody whose credentials were found good."""

    actor: Actor
    bindings: tuple[Binding, ...]
    """Those that speak of them."""
    until: float | None = None
    allowance: Allowance | None = None
    rulings: dict[Any, Ruling] = field(default_factory=dict)


class Permits:
    def __init__(
        self,
        access: Access | None,
        *,
        anonymous: bool,
        wall: Callable[[], float],
        allowances: Allowances | None = None,
    ) -> None:
        """`anonymous` is the settings' word: a file can only be stricter. `wall`: seconds since 1970. `allowances`: who
        counts what is limited."""
        self._access = access or Access()
        self._known_at_all = access is not None
        self._anonymous = anonymous and (access is None or access.anonymous)
        self._wall = wall
        self._passes = {found.digest: found for found in self._access.passes}
        self._by_subject: dict[str, list[Binding]] = defaultdict(list)
        for grant in self._access.grants:
            for subject in grant.subjects:
                self._by_subject[subject].append(grant.binding)
        self._limits = {limit.subject: limit for limit in self._access.limits}
        self._allowances = allowances if self._limits else None
        self._known: dict[Credentials, Known] = {
            (): Known(ANONYMOUS, (), allowance=self._allowance(ANONYMOUS)),
        }
        self._issuer = None if self._access.issuer is None else _Issuer(self._access.issuer)

    def rule(self, given: Credentials, verbs: tuple[Verb, ...], target: Target) -> Ruling:
        """Whether whoever has these credentials may do one of these things with that."""
        try:
            known = self._known.get(given) or self._learn(given)
            if known.until is not None and self._wall() >= known.until:
                self._known.pop(given, None)
                raise credentials.refused("the token has expired")
        except Unauthenticated as error:
            return Ruling(UNAUTHENTICATED, _words(error), ANONYMOUS.name, "authenticate", target)
        except Unavailable as error:
            return Ruling(UNAVAILABLE, _words(error), ANONYMOUS.name, "authenticate", target)
        # Without what follows from these. Hashes of texts and frozen sets are kept by Python, so this is cheap.
        key = (verbs, target.namespace, target.kind, target.name, target.alias, target.models)
        ruling = known.rulings.get(key)
        if ruling is None:
            if len(known.rulings) >= MOST_RULINGS:
                known.rulings.clear()
            ruling = self._decide(known, verbs, target)
            if len(target.namespace) + len(target.name) + len(target.alias) <= LONGEST_RULED:
                known.rulings[key] = ruling
        return ruling

    def rule_some(self, given: Credentials, verbs: tuple[Verb, ...], namespace: str) -> Ruling:
        """As `rule`, for all models of a namespace: allowed when there may be one that they may do this with."""
        whole = Target(namespace, "Model")
        ruling = self.rule(given, verbs, whole)
        known = self._known.get(given)
        if ruling.code == ALLOWED or known is None:
            return ruling
        for verb in verbs:
            reach = policy.reach(known.actor, verb, namespace, whole.kind, known.bindings, anonymous=self._anonymous)
            if reach.something:
                return Ruling(ALLOWED, reach.reason, known.actor.name, verb, whole, known.until)
        return ruling

    def _decide(self, known: Known, verbs: tuple[Verb, ...], target: Target) -> Ruling:
        # Which model a name stands for, and which of its versions are aliases, is for those who may read it.
        named = replace(target, models=frozenset({target.name}), alias="") if target.name else None
        verdicts = [
            policy.allowed(known.actor, verb, target, known.bindings, anonymous=self._anonymous, named=named)
            for verb in verbs
        ]
        for verb, verdict in zip(verbs, verdicts, strict=True):
            if verdict.allowed:
                allowance = known.allowance if verb == "predict" else None
                return Ruling(ALLOWED, verdict.reason, known.actor.name, verb, target, known.until, allowance)
        code = UNAUTHENTICATED if known.actor == ANONYMOUS else FORBIDDEN
        return Ruling(code, verdicts[0].reason, known.actor.name, verbs[0], target)

    def _learn(self, given: Credentials) -> Known:
        """Unauthenticated; Unavailable when it cannot be known."""
        token = credentials.bearer([value.decode("latin-1") for value in given])
        if not self._known_at_all:
            raise Unavailable("it is not known yet whose tokens are good; the plane has not said so")
        found = self._passes.get(credentials.digest(token))
        if found is not None:
            actor, until = found.actor, found.expires
        elif credentials.looks_like_jwt(token):
            actor, until = self._vouched(token)
        else:
            raise credentials.refused("the token is not known here, or was revoked")
        if len(self._known) >= MOST_KNOWN:
            self._known = {(): self._known[()]}
        known = self._known[given] = Known(actor, self._bindings(actor), until, self._allowance(actor))
        return known

    def _vouched(self, token: str) -> tuple[Actor, float]:
        if self._issuer is None:
            raise credentials.refused("this plane trusts no issuer of JWTs; its setting oidc_issuer is empty")
        return self._issuer.actor(token, self._wall())

    def _allowance(self, actor: Actor) -> Allowance | None:
        return None if self._allowances is None else self._allowances.of(actor, self._limits)

    def _bindings(self, actor: Actor) -> tuple[Binding, ...]:
        """Only these need to be looked at, however many there are."""
        subjects = (actor.name, "*", *(f"group:{group}" for group in sorted(actor.groups)))
        return tuple({binding: None for subject in subjects for binding in self._by_subject.get(subject, ())})


class _Issuer:
    """Checks JWTs with the keys that the plane has fetched. Whoever trusts no issuer never loads the cryptography."""

    def __init__(self, issuer: Issuer) -> None:
        from mizzen.access import jwt

        self._jwts = jwt
        fields = msgspec.structs.asdict(issuer)
        self._keys: tuple[jwt.Key, ...] = fields.pop("keys")
        self._trust = jwt.Trust(**fields)

    def actor(self, token: str, now: float) -> tuple[Actor, float]:
        kid = self._jwts.key_id(token)
        if not self._keys:
            raise Unavailable(f"the keys of {self._trust.issuer} cannot be had now, so its tokens cannot be checked")
        return self._jwts.actor(token, self._trust, self._jwts.pick(self._keys, kid), now)


def _words(error: MizzenError) -> str:
    return f"{error.message}; {error.hint}" if error.hint else error.message
