"""Reading all pages of a listing, for callers that need every object."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from mizzen.errors import Expired
from mizzen.kinds.schema.resource import Resource
from mizzen.stores.store import EVERYTHING, Reads, Store, Where


async def whole(store: Store, kind: str, where: Where = EVERYTHING) -> tuple[Resource, ...]:
    """Returns all matching objects of one snapshot. For kinds with few objects."""
    page = await store.list(kind, where)
    if page.next is None:
        return page.items
    async with store.snapshot() as moment:  # otherwise each page would show a different moment
        return tuple([item async for item in each(moment, kind, where)])


async def workloads_of(store: Store, owner: Resource) -> tuple[Resource, ...]:
    """Returns all Workloads that this object owns."""
    return await whole(store, "Workload", Where(namespace=owner.meta.namespace, owner=owner.meta.uid))


async def each_at_least_once(store: Store, kind: str, *, limit: int) -> AsyncGenerator[Resource, None]:
    """Yields all objects without a snapshot. If reading takes so long that it has to start over, it repeats some."""
    after: str | None = None
    while True:
        try:
            page = await store.list(kind, limit=limit, after=after)
        except Expired:
            after = None
            continue
        for item in page.items:
            yield item
        after = page.next
        if after is None:
            return


async def each(
    moment: Reads, kind: str, where: Where = EVERYTHING, *, limit: int | None = None
) -> AsyncGenerator[Resource, None]:
    """Yields the objects one by one, reading a page at a time."""
    after: str | None = None
    while True:
        page = await moment.list(kind, where, limit=limit, after=after)
        for item in page.items:
            yield item
        after = page.next
        if after is None:
            return
