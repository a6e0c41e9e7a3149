"""Tokens that somebody else signed: JWTs of an OpenID Connect issuer, checked with its public keys.

What cannot be checked lets nobody in: a bad token is Unauthenticated, and while the issuer's keys cannot be had, all
its tokens are Unavailable.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Protocol

from mizzen.access import jwt
from mizzen.access.jwt import Key, Trust
from mizzen.access.policy import Actor


class Keys(Protocol):
    async def find(self, kid: str | None) -> Key | None:
        """The public key (a JWK) of this id. Unavailable when that cannot be known."""
        ...


class Oidc:
    def __init__(self, trust: Trust, keys: Keys, now: Callable[[], datetime]) -> None:
        self._trust = trust
        self._keys = keys
        self._now = now

    async def actor(self, token: str) -> tuple[Actor, float]:
        """Who the token speaks of, and until when (seconds since 1970)."""
        key = await self._keys.find(jwt.key_id(token))
        return jwt.actor(token, self._trust, key, self._now().timestamp())
