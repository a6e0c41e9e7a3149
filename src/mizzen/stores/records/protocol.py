"""What a home keeps beside resources: who has which token, sealed secrets, and the audit. Protocols and their types.

None of it ever appears in a resource, a watch or a listing of objects. Acknowledged means durable, as for resources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mizzen.access.limits import Limit


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who may hold tokens. What they may do is said by RoleBindings."""

    name: str
    created: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret: only the sha256 of it is kept, which is enough for 256 random bits."""

    id: str
    """Short, to name it by; says nothing about the secret."""
    principal: str
    digest: str = field(repr=False)
    created: datetime
    created_by: str
    expires: datetime | None = None
    revoked: datetime | None = None
    note: str = ""

    def valid(self, now: datetime) -> bool:
        return self.revoked is None and (self.expires is None or now < self.expires)


@dataclass(frozen=True, slots=True)
class KeptLimit:
    """How much somebody may predict, and who said so."""

    limit: Limit
    updated: datetime
    updated_by: str


class Identities(Protocol):
    async def add_principal(self, principal: Principal) -> None:
        """AlreadyExists."""
        ...

    async def remove_principal(self, name: str, now: datetime) -> None:
        """And revoke all their tokens, and forget their limit. NotFound."""
        ...

    async def principals(self) -> tuple[Principal, ...]:
        """Ordered by name."""
        ...

    async def add_token(self, token: Token) -> None:
        """NotFound when there is no such principal."""
        ...

    async def revoke_token(self, id_: str, now: datetime) -> Token:
        """Once is enough: a second time changes nothing. NotFound."""
        ...

    async def tokens(self, principal: str | None = None) -> tuple[Token, ...]:
        """Ordered by creation, also expired and revoked ones."""
        ...

    def find_token(self, digest: str) -> Token | None:
        """At once, from memory: for every request. Knows of every change that was acknowledged."""
        ...

    async def set_limit(self, kept: KeptLimit) -> None:
        """In place of the one of that subject."""
        ...

    async def remove_limit(self, subject: str) -> None:
        """NotFound."""
        ...

    async def limits(self) -> tuple[KeptLimit, ...]:
        """Ordered by subject."""
        ...

    def generation(self) -> int:
        """Moves with every change of principals, tokens or limits."""
        ...


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as it is kept: encrypted, with the values never to be seen in clear but by what is started with them."""

    namespace: str
    name: str
    keys: tuple[str, ...]
    sealed: bytes = field(repr=False)
    updated: datetime
    updated_by: str


class Secrets(Protocol):
    async def put(self, secret: SealedSecret) -> None:
        """Replaces one of the same name."""
        ...

    async def get(self, namespace: str, name: str) -> SealedSecret:
        """NotFound."""
        ...

    async def delete(self, namespace: str, name: str) -> None:
        """NotFound."""
        ...

    async def list(self, namespace: str) -> tuple[SealedSecret, ...]:
        """Ordered by name."""
        ...


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request that wanted to change something, or was refused."""

    time: datetime
    actor: str
    verb: str
    """read, predict, write, admin; `authenticate` when already the credentials were refused"""
    kind: str
    namespace: str
    name: str
    allowed: bool
    reason: str
    """Why it was allowed or refused, in the policy's words."""
    method: str = ""
    path: str = ""
    """Without the query string."""
    code: int = 0
    """The HTTP status that was answered."""
    source: str = ""
    """Where the request came from: an address, or the gateway that refused it."""
    count: int = 1
    """Equal refusals of a short time may be one entry."""
    number: int = 0
    """Given by the log, ascending."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    actor: str | None = None
    namespace: str | None = None
    kind: str | None = None
    name: str | None = None
    allowed: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    """The first moment that is too late."""


class AuditLog(Protocol):
    async def record(self, entry: AuditEntry) -> None: ...

    async def record_all(self, entries: Iterable[AuditEntry]) -> None:
        """All of them or, when it fails, none."""
        ...

    async def entries(self, query: AuditQuery, *, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """Newest first; `before` is the number of the last entry of the page before. BadRequest when there is none."""
        ...


class AuditPruning(Protocol):
    async def prune(self, *, allowed_before: datetime | None, refusals: int) -> int:
        """Drop entries of what was allowed before then, if anything is said, and the oldest refusals, so that no more
        than `refusals` stay; a number is never given again for that. Returns how many are gone."""
        ...


class AuditIntake(Protocol):
    """For entries that come from files, each of them exactly once: how far a file was read is kept with the entries."""

    async def read_positions(self) -> dict[str, int]:
        """How far each file was read, by its name."""
        ...

    async def take(self, file: str, position: int, entries: Iterable[AuditEntry]) -> None:
        """Record these and that the file was read up to there, both or neither."""
        ...

    async def forget(self, file: str) -> None:
        """It is gone, and no other will have its name."""
        ...
