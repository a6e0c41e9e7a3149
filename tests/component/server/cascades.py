"""Models that are deleted with all that is theirs, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from mizzen.server.deletion import cascade
from tests.support.server.harness import Harness


@contextmanager
def finishing(plane: Harness) -> Iterator[asyncio.Task[None]]:
    """As assembly does: one root task beside the API."""

    async def start() -> asyncio.Task[None]:
        return asyncio.create_task(cascade.finish_cascades(plane.store))

    async def stop(task: asyncio.Task[None]) -> None:
        task.cancel()

    task = plane.run(start())
    try:
        yield task
    finally:
        plane.run(stop(task))


def deletions(plane: Harness) -> list[tuple[str, int]]:
    """As the audit has them."""
    return [(entry.path, entry.code) for entry in plane.audited(namespace=plane.namespace) if entry.method == "DELETE"]


def end(plane: Harness, server: str) -> None:
    """As a controller would, when somebody has deleted it."""
    while not plane.run(plane.store.get(plane.ref("InferenceModel", server))).deleting:
        pass
    plane.release(plane.ref("InferenceModel", server))
