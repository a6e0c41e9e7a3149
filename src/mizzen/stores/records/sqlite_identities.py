"""Principals and their tokens in a SQLite store, also cached in memory: every request needs them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from mizzen.access.limits import Limit
from mizzen.errors import AlreadyExists, NotFound
from mizzen.kinds.schema.resource import format_time, parse_time
from mizzen.stores.records.protocol import Principal, StoredLimit, Token
from mizzen.stores.sqlite import codec
from mizzen.stores.sqlite.writer import Writer


@dataclass(frozen=True, slots=True)
class IdentitySnapshot:
    principals: tuple[Principal, ...] = ()
    tokens: tuple[Token, ...] = ()
    limits: tuple[StoredLimit, ...] = ()


def load(connection: sqlite3.Connection) -> IdentitySnapshot:
    return IdentitySnapshot(_principals(connection), _tokens(connection, "TRUE"), _limits(connection))


class SqliteIdentities:
    """Implements `Identities`. A change reaches the table first, then memory, and only then is acknowledged."""

    def __init__(self, writer: Writer, known: IdentitySnapshot) -> None:
        self._writer = writer
        self._principals = {principal.name: principal for principal in known.principals}
        self._tokens = {token.id: token for token in known.tokens}
        self._by_digest = {token.digest: token for token in known.tokens}
        self._limits = {kept.limit.subject: kept for kept in known.limits}
        self._generation = 0

    async def add_principal(self, principal: Principal) -> None:
        def work(connection: sqlite3.Connection) -> Principal:
            if _has(connection, "principals", "name", principal.name):
                raise AlreadyExists(f"principal '{principal.name}' already exists")
            connection.execute(
                "INSERT INTO principals VALUES (?, ?, ?)",
                (principal.name, format_time(principal.created), principal.created_by),
            )
            return principal

        await self._writer.write(work, self._keep_principal, adds=True)

    async def remove_principal(self, name: str, now: datetime) -> None:
        def work(connection: sqlite3.Connection) -> tuple[Token, ...]:
            _check_principal(connection, name)
            connection.execute("DELETE FROM principals WHERE name = ?", (name,))
            connection.execute(
                "UPDATE tokens SET revoked = ? WHERE principal = ? AND revoked IS NULL", (format_time(now), name)
            )
            connection.execute("DELETE FROM limits WHERE subject = ?", (name,))
            return _tokens(connection, "principal = ?", name)

        def then(tokens: tuple[Token, ...]) -> None:
            del self._principals[name]
            self._limits.pop(name, None)
            self._keep_tokens(tokens)

        await self._writer.write(work, then)

    async def principals(self) -> tuple[Principal, ...]:
        return tuple(sorted(self._principals.values(), key=lambda principal: principal.name))

    async def add_token(self, token: Token) -> None:
        def work(connection: sqlite3.Connection) -> tuple[Token, ...]:
            _check_principal(connection, token.principal)
            if _has(connection, "tokens", "id", token.id) or _has(connection, "tokens", "digest", token.digest):
                raise AlreadyExists(f"token '{token.id}' already exists", hint="create another one")
            connection.execute(
                "INSERT INTO tokens (id, principal, digest, created, created_by, expires, revoked, note)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    token.id, token.principal, token.digest, format_time(token.created), token.created_by,
                    token.expires and format_time(token.expires), token.revoked and format_time(token.revoked),
                    token.note,
                ),
            )  # fmt: skip
            return (token,)

        await self._writer.write(work, self._keep_tokens, adds=True)

    async def revoke_token(self, id_: str, now: datetime) -> Token:
        def work(connection: sqlite3.Connection) -> tuple[Token, ...]:
            found = _tokens(connection, "id = ?", id_)
            if not found:
                raise NotFound(f"token '{id_}' does not exist", hint="list the ids with: mizzen token list")
            if found[0].revoked is not None:
                return found
            connection.execute("UPDATE tokens SET revoked = ? WHERE id = ?", (format_time(now), id_))
            return (replace(found[0], revoked=now),)

        (token,) = await self._writer.write(work, self._keep_tokens)
        return token

    async def tokens(self, principal: str | None = None) -> tuple[Token, ...]:
        found = (token for token in self._tokens.values() if principal in (None, token.principal))
        return tuple(sorted(found, key=lambda token: (token.created, token.id)))

    def find_token(self, digest: str) -> Token | None:
        return self._by_digest.get(digest)

    async def set_limit(self, kept: StoredLimit) -> None:
        limit = kept.limit

        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT OR REPLACE INTO limits VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    limit.subject, limit.per_second, limit.burst, limit.per_day, limit.per_month,
                    format_time(kept.updated), kept.updated_by,
                ),
            )  # fmt: skip

        await self._writer.write(work, lambda _: self._keep_limit(limit.subject, kept))

    async def remove_limit(self, subject: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            if not _has(connection, "limits", "subject", subject):
                raise NotFound(f"no limit is set for '{subject}'", hint="'mizzen limit' lists all limits")
            connection.execute("DELETE FROM limits WHERE subject = ?", (subject,))

        await self._writer.write(work, lambda _: self._keep_limit(subject, None))

    async def limits(self) -> tuple[StoredLimit, ...]:
        return tuple(self._limits[subject] for subject in sorted(self._limits))

    def generation(self) -> int:
        return self._generation

    def _keep_principal(self, principal: Principal) -> None:
        self._principals[principal.name] = principal
        self._generation += 1

    def _keep_limit(self, subject: str, kept: StoredLimit | None) -> None:
        self._limits.pop(subject, None)
        if kept is not None:
            self._limits[subject] = kept
        self._generation += 1

    def _keep_tokens(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            self._tokens[token.id] = token
            self._by_digest[token.digest] = token
        self._generation += 1


def _check_principal(connection: sqlite3.Connection, name: str) -> None:
    if not _has(connection, "principals", "name", name):
        raise NotFound(f"principal '{name}' does not exist")


def _has(connection: sqlite3.Connection, table: str, column: str, value: str) -> bool:
    return bool(connection.execute(f"SELECT 1 FROM {table} WHERE {column} = ?", (value,)).fetchall())  # noqa: S608 - constants only


def _principals(connection: sqlite3.Connection) -> tuple[Principal, ...]:
    found = connection.execute("SELECT name, created, created_by FROM principals").fetchall()
    return tuple(Principal(name, codec.moment(created), by) for name, created, by in found)


def _limits(connection: sqlite3.Connection) -> tuple[StoredLimit, ...]:
    found = connection.execute(
        "SELECT subject, per_second, burst, per_day, per_month, updated, updated_by FROM limits"
    ).fetchall()
    return tuple(
        StoredLimit(
            Limit(subject=subject, per_second=pace, burst=burst, per_day=day, per_month=month), codec.moment(at), by
        )
        for subject, pace, burst, day, month, at, by in found
    )


def _tokens(connection: sqlite3.Connection, which: str, *values: str) -> tuple[Token, ...]:
    found = connection.execute(
        f"SELECT id, principal, digest, created, created_by, expires, revoked, note FROM tokens WHERE {which}",  # noqa: S608 - constants only
        values,
    ).fetchall()
    return tuple(
        Token(id_, principal, digest, codec.moment(created), by, parse_time(expires), parse_time(revoked), note)
        for id_, principal, digest, created, by, expires, revoked, note in found
    )
