"""Authentication with JWTs of an OpenID Connect issuer, verified with its public keys.

It fails closed: an invalid token is Unauthenticated, and while the issuer's keys cannot be fetched, all its tokens are
Unavailable.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mizzen.access import jwt
from mizzen.access.jwt import Key, TrustedIssuer
from mizzen.access.policy import Actor


class KeyLookup(Protocol):
    async def find(self, kid: str | None) -> Key | None:
        """Returns the public key (a JWK) with this id. Raises Unavailable if the keys cannot be fetched."""
        ...


class OidcAuthenticator:
    def __init__(self, trust: TrustedIssuer, keys: KeyLookup, now: Callable[[], datetime]) -> None:
        self._trust = trust
        self._keys = keys
        self._now = now

    async def authenticate(self, token: str) -> tuple[Actor, float]:
        """Returns the actor of the token, and its expiry in seconds since 1970."""
        key = await self._keys.find(jwt.key_id(token))
        return jwt.verify_token(token, self._trust, key, self._now().timestamp())
