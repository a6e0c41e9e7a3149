"""Parsing of Authorization headers, before the caller is known."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mizzen.errors import Unauthenticated

_SEND = "send 'Authorization: Bearer <token>'"


def parse_bearer(credentials: Sequence[str]) -> str:
    """Returns the token of a request's only Authorization header. Raises Unauthenticated."""
    if len(credentials) > 1:
        raise invalid_credentials("there is more than one Authorization header", _SEND)
    scheme, _, token = credentials[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise invalid_credentials("the Authorization header holds no bearer token", _SEND)
    return token


def digest(token: str) -> str:
    """Returns the only part of a user token that is stored. A token has 256 random bits, so a plain sha256 is safe."""
    return hashlib.sha256(token.encode()).hexdigest()


def looks_like_jwt(token: str) -> bool:
    return token.startswith("eyJ") and token.count(".") == 2


def invalid_credentials(
    why: str, hint: str = "an admin can create a token with: mizzen token create USER"
) -> Unauthenticated:
    return Unauthenticated(f"the credentials are not valid here: {why}", hint=hint)
