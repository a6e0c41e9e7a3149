"""Who a request comes from: the local admin, a user with a token of ours, or somebody whom an issuer vouches for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from mizzen.access import credentials as given
from mizzen.access.policy import ANONYMOUS, Actor
from mizzen.server.auth.oidc import Oidc
from mizzen.server.auth.tokens import AdminToken
from mizzen.stores.records.protocol import Identities

ADMIN = Actor("admin", admin=True)


@dataclass(frozen=True, slots=True)
class Known:
    """Who asks, and whether that still holds: a token may expire or be revoked while an answer is streamed."""

    actor: Actor
    holds: Callable[[], bool]


class Identity:
    def __init__(
        self, admin: AdminToken, identities: Identities, vouching: Oidc | None, now: Callable[[], datetime]
    ) -> None:
        self._admin = admin
        self._identities = identities
        self._vouching = vouching
        self._now = now

    async def of(self, credentials: list[str]) -> Known:
        """By the Authorization headers of a request. A credential that is not good is refused, never overlooked.

        Unauthenticated; Unavailable when an issuer's keys cannot be had.
        """
        if not credentials:
            return Known(ANONYMOUS, _always)
        token = given.bearer(credentials)
        if self._admin.matches(token):
            return Known(ADMIN, _always)
        if given.looks_like_jwt(token):
            return await self._vouched(token)
        return self._user(token)

    def _user(self, token: str) -> Known:
        digest = given.digest(token)
        found = self._identities.find_token(digest)
        if found is None:
            raise given.refused("the token is not known here")
        if found.revoked is not None:
            raise given.refused(f"token {found.id} of {found.principal} was revoked")
        if not found.valid(self._now()):
            raise given.refused(f"token {found.id} of {found.principal} has expired")

        def holds() -> bool:
            still = self._identities.find_token(digest)
            return still is not None and still.valid(self._now())

        return Known(Actor(found.principal), holds)

    async def _vouched(self, token: str) -> Known:
        if self._vouching is None:
            raise given.refused("this plane trusts no issuer of JWTs; its setting oidc_issuer is empty")
        actor, until = await self._vouching.actor(token)
        return Known(actor, lambda: self._now().timestamp() < until)


def _always() -> bool:
    return True
