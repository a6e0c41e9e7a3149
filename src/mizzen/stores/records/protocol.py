"""Protocols and types for records other than resources: identities with tokens, sealed secrets, and the audit log.

They never appear in a resource, a watch or a listing of objects. Acknowledged means durable, as for resources.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from mizzen.access.limits import Limit


@dataclass(frozen=True, slots=True)
class Principal:
    """A user or service that may hold tokens. RoleBindings define its permissions."""

    name: str
    created: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token without its secret: only its sha256 is stored, which is safe for 256 random bits."""

    id: str
    """Short id for display; reveals nothing about the secret."""
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
class StoredLimit:
    """A subject's prediction limit, with its author."""

    limit: Limit
    updated: datetime
    updated_by: str


class Identities(Protocol):
    async def add_principal(self, principal: Principal) -> None:
        """Raises AlreadyExists."""

    async def remove_principal(self, name: str, now: datetime) -> None:
        """Also revokes all its tokens and removes its limit. Raises NotFound."""

    async def principals(self) -> tuple[Principal, ...]:
        """Returns all principals, ordered by name."""

    async def add_token(self, token: Token) -> None:
        """Raises NotFound if there is no such principal."""

    async def revoke_token(self, id_: str, now: datetime) -> Token:
        """Idempotent. Raises NotFound."""

    async def tokens(self, principal: str | None = None) -> tuple[Token, ...]:
        """Returns tokens ordered by creation, including expired and revoked ones."""

    def find_token(self, digest: str) -> Token | None:
        """Looks up a token in memory, for every request. Reflects every acknowledged change."""

    async def set_limit(self, kept: StoredLimit) -> None:
        """Replaces the limit of that subject."""

    async def remove_limit(self, subject: str) -> None:
        """Raises NotFound."""

    async def limits(self) -> tuple[StoredLimit, ...]:
        """Returns all limits, ordered by subject."""

    def generation(self) -> int:
        """A counter that increases with every change of principals, tokens or limits."""


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as stored: encrypted. Only processes that are started with its values see them in plaintext."""

    namespace: str
    name: str
    keys: tuple[str, ...]
    sealed: bytes = field(repr=False)
    updated: datetime
    updated_by: str


class Secrets(Protocol):
    async def put(self, secret: SealedSecret) -> None:
        """Stores a secret; replaces one of the same name."""

    async def get(self, namespace: str, name: str) -> SealedSecret:
        """Raises NotFound."""

    async def delete(self, namespace: str, name: str) -> None:
        """Raises NotFound."""

    async def list(self, namespace: str) -> tuple[SealedSecret, ...]:
        """Returns the secrets of a namespace, ordered by name."""


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One request that tried to change something, or was refused."""

    time: datetime
    actor: str
    verb: str
    """read, predict, write, admin; `authenticate` if the credentials were refused"""
    kind: str
    namespace: str
    name: str
    allowed: bool
    reason: str
    """Why it was allowed or refused, as worded by the policy."""
    method: str = ""
    path: str = ""
    """Without the query string."""
    code: int = 0
    """The HTTP status of the response."""
    source: str = ""
    """Where the request came from: an address, or the gateway that refused it."""
    count: int = 1
    """Number of requests: equal refusals within a short time may share one entry."""
    number: int = 0
    """Assigned by the log, ascending."""


@dataclass(frozen=True, slots=True)
class AuditQuery:
    actor: str | None = None
    namespace: str | None = None
    kind: str | None = None
    name: str | None = None
    allowed: bool | None = None
    since: datetime | None = None
    until: datetime | None = None
    """Exclusive upper bound."""


class AuditLog(Protocol):
    async def record(self, entry: AuditEntry) -> None: ...

    async def record_all(self, entries: Iterable[AuditEntry]) -> None:
        """Records all entries or, on failure, none."""

    async def entries(self, query: AuditQuery, *, limit: int, before: int | None = None) -> tuple[AuditEntry, ...]:
        """Newest first. `before` is the last entry number of the previous page; raises BadRequest if there is none."""


class AuditPruning(Protocol):
    async def prune(self, *, allowed_before: datetime | None, refusals: int) -> int:
        """Drops entries allowed before `allowed_before`, if set, and all but the newest `refusals` refusals.

        Never reuses a number. Returns how many entries were dropped.
        """


class AuditIntake(Protocol):
    """Takes entries from files exactly once: the read position of a file is stored with its entries."""

    async def read_positions(self) -> dict[str, int]:
        """Returns the read position of each file, by name."""

    async def take(self, file: str, position: int, entries: Iterable[AuditEntry]) -> None:
        """Records the entries and the new read position of the file atomically."""

    async def forget(self, file: str) -> None:
        """Drops the position of a file that is gone; its name is never reused."""
