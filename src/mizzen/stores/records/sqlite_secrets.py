"""Sealed secrets in a SQLite store: bytes encrypted by the caller, with author and time."""

from __future__ import annotations

import sqlite3
from typing import Any

import msgspec

from mizzen.errors import NotFound
from mizzen.kinds.schema.resource import format_time
from mizzen.stores.records.protocol import SealedSecret
from mizzen.stores.sqlite import codec
from mizzen.stores.sqlite.reader_pool import Readers
from mizzen.stores.sqlite.writer import Writer


class SqliteSecrets:
    """Implements `Secrets`."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    async def put(self, secret: SealedSecret) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(
                "INSERT INTO secrets (namespace, name, keys, sealed, updated, updated_by) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (namespace, name) DO UPDATE SET keys = excluded.keys, sealed = excluded.sealed,"
                " updated = excluded.updated, updated_by = excluded.updated_by",
                (
                    secret.namespace, secret.name, msgspec.json.encode(secret.keys).decode(), secret.sealed,
                    format_time(secret.updated), secret.updated_by,
                ),
            )  # fmt: skip

        await self._writer.write(work, adds=True)

    async def get(self, namespace: str, name: str) -> SealedSecret:
        found = await self._read("namespace = ? AND name = ?", namespace, name)
        if not found:
            raise _missing(namespace, name)
        return found[0]

    async def delete(self, namespace: str, name: str) -> None:
        def work(connection: sqlite3.Connection) -> None:
            gone = connection.execute("DELETE FROM secrets WHERE namespace = ? AND name = ?", (namespace, name))
            if not gone.rowcount:
                raise _missing(namespace, name)

        await self._writer.write(work)

    async def list(self, namespace: str) -> tuple[SealedSecret, ...]:
        return await self._read("namespace = ? ORDER BY name", namespace)

    async def _read(self, which: str, *values: str) -> tuple[SealedSecret, ...]:
        query = f"SELECT namespace, name, keys, sealed, updated, updated_by FROM secrets WHERE {which}"  # noqa: S608 - constants only
        found = await self._readers.run(lambda connection: connection.execute(query, values).fetchall())
        return tuple(map(_secret, found))


def _secret(row: tuple[Any, ...]) -> SealedSecret:
    namespace, name, keys, sealed, updated, by = row
    return SealedSecret(namespace, name, tuple(msgspec.json.decode(keys)), sealed, codec.moment(updated), by)


def _missing(namespace: str, name: str) -> NotFound:
    return NotFound(
        f"secret '{name}' does not exist in namespace {namespace}", hint=f"create it with: mizzen secret set {name} KEY"
    )
