"""Every implementation of `Store`, and how a contract test gets hold of one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol, cast

import pytest

from mizzen.kinds.schema.resource import Meta, Resource
from mizzen.stores.records.protocol import AuditLog, AuditPruning, Identities, Secrets
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.stores.store import Event, Store
from tests.contract import sqlite_file


class Audit(AuditLog, AuditPruning, Protocol):
    pass


class Home(Store, Protocol):
    """A store with what it keeps beside resources."""

    @property
    def identities(self) -> Identities: ...
    @property
    def secrets(self) -> Secrets: ...
    @property
    def audit(self) -> Audit: ...


class Opener(Protocol):
    """Opens the store kept in a folder; opened again there, it is the same store."""

    async def __call__(self, folder: Path, *, keep_events: int = 10_000) -> Home: ...


async def open_sqlite(folder: Path, *, keep_events: int = 10_000) -> SqliteStore:
    return await SqliteStore.open(
        folder / "mizzen.db", clock=lambda: datetime.now(UTC), new_id=lambda: uuid.uuid4().hex, keep_events=keep_events
    )


OPENERS: dict[str, Opener] = {"sqlite": open_sqlite}


class Inspection(Protocol):
    """Of a store that nobody has open: everything it keeps twice agrees. `since`: history up to there was looked at."""

    def __call__(self, folder: Path, since: int = 0) -> None: ...


def inspect_sqlite(folder: Path, since: int = 0) -> None:
    sqlite_file.inspect(folder / "mizzen.db", since)


INSPECTIONS: dict[str, Inspection] = {"sqlite": inspect_sqlite}

every_store = pytest.mark.parametrize("opener", OPENERS.values(), ids=OPENERS.keys())


@asynccontextmanager
async def opened(opener: Opener, folder: Path, *, keep_events: int = 10_000) -> AsyncIterator[Home]:
    store = await opener(folder, keep_events=keep_events)
    try:
        yield store
    finally:
        await store.close()


def on_every_store(test: Callable[[Home], Awaitable[None]]) -> Callable[[Opener, Path], None]:
    """Make a pytest test of an async function that wants a new store."""

    def run(opener: Opener, tmp_path: Path) -> None:
        async def body() -> None:
            async with opened(opener, tmp_path) as store:
                await asyncio.wait_for(test(store), 60)

        asyncio.run(body())

    run.__name__, run.__doc__ = test.__name__, test.__doc__  # not functools.wraps: pytest would ask for its arguments
    marked: Callable[[Opener, Path], None] = every_store(run)
    return marked


def model(name: str, namespace: str = "default", **spec: object) -> Resource:
    return Resource("Model", Meta(name, namespace), spec)


def version(of: str, number: str, namespace: str = "default") -> Resource:
    return Resource("ModelVersion", Meta(f"{of}.{number}", namespace), {"modelName": of, "version": number})


def with_meta(resource: Resource, **changes: object) -> Resource:
    return replace(resource, meta=replace(resource.meta, **changes))  # type: ignore[arg-type]


def watching(store: Store, kind: str | None, since: str, *, quiet: float | None = None) -> AsyncGenerator[Event, None]:
    """A watch that can be closed, as `aclosing` wants it."""
    return cast("AsyncGenerator[Event, None]", store.watch(kind, since, quiet=quiet))


async def take(events: AsyncIterator[Event], count: int) -> list[Event]:
    """The next `count` events; fails rather than waits for ever."""
    async with asyncio.timeout(60):
        return [await anext(events) for _ in range(count)]
