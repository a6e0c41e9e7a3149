"""access.json: everything that gateways need to authorize requests on their own.

The plane replaces the whole file. Gateways read it, and keep the last good one while the plane is away. The file holds
digests of tokens and no token, so its readers cannot impersonate anyone; still, only its owner may read it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mizzen.access.limits import Limit
from mizzen.access.policy import Actor, Binding

FORMAT = 1


class TokenEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A valid token: it was neither revoked nor expired when the file was written."""

    digest: str
    """The sha256 of the token."""
    id: str
    principal: str
    admin: bool = False
    expires: float | None = None
    """Seconds since 1970."""

    @property
    def actor(self) -> Actor:
        return Actor(self.principal, admin=self.admin)

    def __repr__(self) -> str:
        return f"TokenEntry({self.id!r} of {self.principal!r})"


class Issuer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The issuer whose JWTs are accepted: the fields of `jwt.TrustedIssuer`, and its most recently fetched keys."""

    issuer: str
    audience: str
    user_claim: str
    groups_claim: str
    admin_group: str = ""
    keys: tuple[dict[str, Any], ...] = ()
    """As JWK. Empty if they could not be fetched: then no token can be verified."""


class AccessFile(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    serial: int = 0
    """Increases with each published file."""
    store: str = ""
    """The id of the store that it was read from, and how many commits that had. A start compares both with the store
    that it finds."""
    commits: int = 0
    anonymous: bool = False
    """Whether callers without a token may read and predict."""
    passes: tuple[TokenEntry, ...] = ()
    grants: tuple[Binding, ...] = ()
    limits: tuple[Limit, ...] = ()
    """Rate limits and quotas of predictions."""
    issuer: Issuer | None = None


_decode = msgspec.json.Decoder(AccessFile).decode
encode = msgspec.json.Encoder(order="deterministic").encode


def decode(data: bytes) -> AccessFile:
    """Raises ValueError if the data is not an access file, or has another format version."""
    access = _decode(data)
    if access.format != FORMAT:
        raise ValueError(f"format {access.format} is not {FORMAT}: the plane and the gateway have different versions")
    return access
