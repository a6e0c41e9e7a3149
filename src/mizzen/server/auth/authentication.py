"""Authentication: the local admin, users with a token of this plane, and users with a JWT of the OIDC issuer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from mizzen.access import credentials as given
from mizzen.access.policy import ANONYMOUS, Actor
from mizzen.server.auth.oidc import OidcAuthenticator
from mizzen.server.auth.tokens import AdminToken
from mizzen.stores.records.protocol import Identities

ADMIN = Actor("admin", admin=True)


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The caller of a request. A token may expire or be revoked during a streamed response: `is_valid` tells."""

    actor: Actor
    is_valid: Callable[[], bool]


class Authenticator:
    def __init__(
        self, admin: AdminToken, identities: Identities, oidc: OidcAuthenticator | None, now: Callable[[], datetime]
    ) -> None:
        self._admin = admin
        self._identities = identities
        self._oidc = oidc
        self._now = now

    async def authenticate(self, credentials: list[str]) -> CallerIdentity:
        """Identifies the caller by the Authorization headers. An invalid credential is refused, never ignored.

        Raises Unauthenticated; Unavailable if the issuer's keys cannot be fetched.
        """
        if not credentials:
            return CallerIdentity(ANONYMOUS, _is_always_valid)
        token = given.parse_bearer(credentials)
        if self._admin.matches(token):
            return CallerIdentity(ADMIN, _is_always_valid)
        if given.looks_like_jwt(token):
            return await self._authenticate_jwt(token)
        return self._authenticate_user(token)

    def _authenticate_user(self, token: str) -> CallerIdentity:
        digest = given.digest(token)
        found = self._identities.find_token(digest)
        if found is None:
            raise given.invalid_credentials("the token is not known here")
        if found.revoked is not None:
            raise given.invalid_credentials(f"token {found.id} of {found.principal} was revoked")
        if not found.valid(self._now()):
            raise given.invalid_credentials(f"token {found.id} of {found.principal} has expired")

        def holds() -> bool:
            still = self._identities.find_token(digest)
            return still is not None and still.valid(self._now())

        return CallerIdentity(Actor(found.principal), holds)

    async def _authenticate_jwt(self, token: str) -> CallerIdentity:
        if self._oidc is None:
            raise given.invalid_credentials("this plane accepts no JWTs; its setting oidc_issuer is empty")
        actor, until = await self._oidc.authenticate(token)
        return CallerIdentity(actor, lambda: self._now().timestamp() < until)


def _is_always_valid() -> bool:
    return True
