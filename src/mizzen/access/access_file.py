"""access.json: what gateways need to know to say who may ask what, without asking anybody.

The plane replaces the file whole; gateways read it, and go on with the last good one while the plane is away. It holds
digests of tokens and no token, so whoever reads it cannot become anybody; it is for its owner's eyes all the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mizzen.access.limits import Limit
from mizzen.access.policy import Actor, Binding, Verb

FORMAT = 1


class Pass(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A token that is good now: it was not revoked, and had not expired when this was written."""

    digest: str
    """The sha256 of it."""
    id: str
    principal: str
    admin: bool = False
    expires: float | None = None
    """Seconds since 1970."""

    @property
    def actor(self) -> Actor:
        return Actor(self.principal, admin=self.admin)

    def __repr__(self) -> str:
        return f"Pass({self.id!r} of {self.principal!r})"


class Grant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A `policy.Binding` as it is written."""

    name: str
    namespace: str
    subjects: tuple[str, ...]
    verbs: tuple[Verb, ...]
    model: str = ""
    alias: str = ""

    @classmethod
    def of(cls, binding: Binding) -> Grant:
        return cls(
            name=binding.name,
            namespace=binding.namespace,
            subjects=tuple(sorted(binding.subjects)),
            verbs=tuple(sorted(binding.verbs)),
            model=binding.model,
            alias=binding.alias,
        )

    @property
    def binding(self) -> Binding:
        subjects, verbs = frozenset(self.subjects), frozenset(self.verbs)
        return Binding(self.name, self.namespace, subjects, verbs, self.model, self.alias)


class Issuer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Whose JWTs are taken: the fields of `jwts.Trust`, and the public keys that were last fetched."""

    issuer: str
    audience: str
    user_claim: str
    groups_claim: str
    admin_group: str = ""
    keys: tuple[dict[str, Any], ...] = ()
    """As JWK. None: they cannot be had, so no token can be checked."""


class Access(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    format: int = FORMAT
    serial: int = 0
    """Grows with each that is published."""
    anonymous: bool = False
    """May those without a token read and predict?"""
    passes: tuple[Pass, ...] = ()
    grants: tuple[Grant, ...] = ()
    limits: tuple[Limit, ...] = ()
    """How much they may predict."""
    issuer: Issuer | None = None


_decode = msgspec.json.Decoder(Access).decode
_encode = msgspec.json.Encoder(order="deterministic").encode


def encode(access: Access) -> bytes:
    return _encode(access)


def decode(data: bytes) -> Access:
    """ValueError when this is something else, or of a newer format."""
    access = _decode(data)
    if access.format != FORMAT:
        raise ValueError(f"format {access.format} is not {FORMAT}: plane and gateway differ in version")
    return access
