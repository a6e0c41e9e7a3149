"""What stands in an Authorization header, before it is known whose it is."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mizzen.errors import Unauthenticated

_SEND = "send 'Authorization: Bearer <token>'"


def bearer(credentials: Sequence[str]) -> str:
    """The token in the Authorization headers of a request, of which there must be one. Unauthenticated."""
    if len(credentials) > 1:
        raise refused("there is more than one Authorization header", _SEND)
    scheme, _, token = credentials[0].partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token:
        raise refused("the Authorization header holds no bearer token", _SEND)
    return token


def digest(token: str) -> str:
    """All that is kept of a token of ours: of 256 random bits, a plain sha256 tells nothing."""
    return hashlib.sha256(token.encode()).hexdigest()


def looks_like_jwt(token: str) -> bool:
    return token.startswith("eyJ") and token.count(".") == 2


def refused(why: str, hint: str = "an admin makes a token with: mizzen token create USER") -> Unauthenticated:
    return Unauthenticated(f"the credentials are not valid here: {why}", hint=hint)
