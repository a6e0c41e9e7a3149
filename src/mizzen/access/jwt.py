"""Verification of JWTs of an OpenID Connect issuer, given its public keys. Pure: this module fetches nothing.

The control API and the gateways share it; they differ in how they get the keys.
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
"""Asymmetric algorithms only: with a symmetric one, each verifier could also issue tokens."""

UNREADABLE = (jwt.PyJWTError, ValueError, RecursionError)
LONGEST_TOKEN = 16 << 10
LONGEST_NAME = 256
SKEW = 60.0
"""The number of seconds by which the issuer's clock may be ahead of ours."""

Key = Mapping[str, Any]
"""A public key, as JWK."""


@dataclass(frozen=True, slots=True)
class TrustedIssuer:
    """The issuer whose tokens are accepted, and how to read their claims."""

    issuer: str
    audience: str
    user_claim: str = "sub"
    groups_claim: str = "groups"
    admin_group: str = ""
    """Members are admins. Empty: no token makes its user an admin."""


def key_id(token: str) -> str | None:
    """Returns the id of the signing key, if the token names one. Raises Unauthenticated if the header is not valid."""
    kid = _header(token).get("kid")
    return kid if isinstance(kid, str) else None


def pick_key(keys: Iterable[Key], kid: str | None) -> Key | None:
    listed = tuple(keys)
    if kid is None:  # only unambiguous if there is exactly one key
        return listed[0] if len(listed) == 1 else None
    return next((key for key in listed if key.get("kid") == kid), None)


def verify_token(token: str, trust: TrustedIssuer, key: Key | None, now: float) -> tuple[Actor, float]:
    """Returns the actor of the token, and its expiry in seconds since 1970. Raises Unauthenticated.

    `key` is the key that the token names. The actor's name is `oidc:<user claim>`, so that it cannot be mistaken for a
    user of this plane.
    """
    header = _header(token)
    if key is None:
        raise _invalid_jwt(f"it is not signed with a key of {trust.issuer}")
    claims = _verify_claims(token, header["alg"], trust, key)
    until = _expiry_of(claims, now)
    groups = _groups_of(claims.get(trust.groups_claim))
    admin = bool(trust.admin_group) and trust.admin_group in groups
    return Actor(f"oidc:{_user_name(claims, trust.user_claim)}", groups, admin), until


def _header(token: str) -> dict[str, Any]:
    if len(token) > LONGEST_TOKEN:
        raise _invalid_jwt("it is too long")
    try:
        header = jwt.get_unverified_header(token)
    except UNREADABLE as error:
        raise _invalid_jwt("it cannot be read") from error
    if header.get("alg") not in ALGORITHMS:
        raise _invalid_jwt("it is not signed with a public-key algorithm, such as RS256 or ES256")
    if "crit" in header:
        raise _invalid_jwt("it requires an extension that is not supported")
    return header


def _verify_claims(token: str, algorithm: str, trust: TrustedIssuer, key: Key) -> dict[str, Any]:
    try:
        # If the key names no algorithm, use that of the header, which is one of ALGORITHMS.
        claims: dict[str, Any] = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm=key.get("alg") or algorithm),
            algorithms=ALGORITHMS,
            audience=trust.audience,
            issuer=trust.issuer,
            # The caller's clock decides about times, below.
            options={
                "require": ["exp", "iss", "aud"], "verify_exp": False, "verify_nbf": False, "verify_iat": False,
            },
        )  # fmt: skip
    except jwt.InvalidAudienceError as error:
        raise _invalid_jwt(f"its audience is not '{trust.audience}'") from error
    except jwt.InvalidIssuerError as error:
        raise _invalid_jwt(f"its issuer is not {trust.issuer}") from error
    except jwt.MissingRequiredClaimError as error:
        raise _invalid_jwt(f"it has no claim '{error.claim}'") from error
    except jwt.InvalidSignatureError as error:
        raise _invalid_jwt("its signature is wrong") from error
    except UNREADABLE as error:
        raise _invalid_jwt("it cannot be verified") from error
    return claims


def _expiry_of(claims: Mapping[str, Any], now: float) -> float:
    until = _time_claim(claims, "exp")
    if now >= until:
        raise _invalid_jwt("it has expired")
    if "nbf" in claims and now + SKEW < _time_claim(claims, "nbf"):
        raise _invalid_jwt("it is not valid yet")
    return until


def _user_name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise _invalid_jwt(f"its claim '{claim}' is not a valid user name")
    return name


def _time_claim(claims: Mapping[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        raise _invalid_jwt(f"its claim '{name}' is not a time")
    return float(value)


def _groups_of(value: Any) -> frozenset[str]:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return frozenset(name for name in names if isinstance(name, str) and name)


def _invalid_jwt(why: str) -> Unauthenticated:
    return Unauthenticated(f"the JWT is not valid here: {why}", hint="get a new one from the issuer")
