"""What a JWT of an OpenID Connect issuer proves, given the issuer's public keys. Pure: nothing is fetched here.

Control API and gateways read tokens with the same words; they differ in how they come by the keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

import jwt

from mizzen.access.policy import Actor
from mizzen.errors import Unauthenticated

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric ones only: with the others, whoever can check a token can also make one."""

UNREADABLE = (jwt.PyJWTError, ValueError, RecursionError)
LONGEST_TOKEN = 16 << 10
LONGEST_NAME = 256
SKEW = 60.0
"""Seconds by which the issuer's clock may be ahead of ours."""

Key = Mapping[str, Any]
"""A public one, as JWK."""


@dataclass(frozen=True, slots=True)
class Trust:
    """Whose tokens are taken, and how they are read."""

    issuer: str
    audience: str
    user_claim: str = "sub"
    groups_claim: str = "groups"
    admin_group: str = ""
    """Empty: no token makes anybody an admin."""


def key_id(token: str) -> str | None:
    """Which key has signed it, if it says so. Unauthenticated when it cannot be read, or could not be trusted."""
    kid = _header(token).get("kid")
    return kid if isinstance(kid, str) else None


def pick(keys: Iterable[Key], kid: str | None) -> Key | None:
    listed = tuple(keys)
    if kid is None:  # then it must be clear which one is meant
        return listed[0] if len(listed) == 1 else None
    return next((key for key in listed if key.get("kid") == kid), None)


def actor(token: str, trust: Trust, key: Key | None, now: float) -> tuple[Actor, float]:
    """Who the token speaks of, and until when (seconds since 1970). `key` is the one that it names. Unauthenticated.

    They are called `oidc:<user claim>`, so that nobody is taken for a user of this plane.
    """
    header = _header(token)
    if key is None:
        raise _refused(f"no key of {trust.issuer} has signed it")
    claims = _verified(token, header["alg"], trust, key)
    until = _until(claims, now)
    groups = _groups(claims.get(trust.groups_claim))
    admin = bool(trust.admin_group) and trust.admin_group in groups
    return Actor(f"oidc:{_name(claims, trust.user_claim)}", groups, admin), until


def _header(token: str) -> dict[str, Any]:
    if len(token) > LONGEST_TOKEN:
        raise _refused("it is too long")
    try:
        header = jwt.get_unverified_header(token)
    except UNREADABLE as error:
        raise _refused("it cannot be read") from error
    if header.get("alg") not in ALGORITHMS:
        raise _refused("it is not signed with a public-key algorithm, such as RS256 or ES256")
    if "crit" in header:
        raise _refused("it asks for an extension that is not known here")
    return header


def _verified(token: str, algorithm: str, trust: Trust, key: Key) -> dict[str, Any]:
    try:
        # A key that does not say what it is for is taken at the header's word, which is one of ALGORITHMS.
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm=key.get("alg") or algorithm),
            algorithms=ALGORITHMS,
            audience=trust.audience,
            issuer=trust.issuer,
            # The times are checked with our own clock.
            options={
                "require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
            },
        )  # fmt: skip
    except jwt.InvalidAudienceError as error:
        raise _refused(f"it is not for '{trust.audience}'") from error
    except jwt.InvalidIssuerError as error:
        raise _refused(f"it is not of {trust.issuer}") from error
    except jwt.MissingRequiredClaimError as error:
        raise _refused(f"it does not say '{error.claim}'") from error
    except jwt.InvalidSignatureError as error:
        raise _refused("its signature is not right") from error
    except UNREADABLE as error:
        raise _refused("it cannot be verified") from error
    return claims


def _until(claims: Mapping[str, Any], now: float) -> float:
    until = _moment(claims, "exp")
    if now >= until:
        raise _refused("it has expired")
    if "nbf" in claims and now + SKEW < _moment(claims, "nbf"):
        raise _refused("it is not valid yet")
    return until


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise _refused(f"its claim '{claim}' names nobody")
    return name


def _moment(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise _refused(f"its claim '{name}' is no time")
    return float(value)


def _groups(value: Any) -> frozenset[str]:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(name for name in names if isinstance(name, str) and name)


def _refused(why: str) -> Unauthenticated:
    return Unauthenticated(f"the JWT is not valid here: {why}", hint="get a new one from the issuer")
