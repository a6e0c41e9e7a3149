"""This machine as a Node: it says how its disk is as soon as that turns."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from mizzen.blobs.disk_room import Room
from mizzen.controllers.local_node import keep_registered, node_of
from mizzen.kinds.schema.resource import Condition, Resource, Status
from mizzen.reconcile.recorder import NullRecorder
from tests.support.reconcile.memory import MemoryStore

NOW = datetime(2026, 11, 16, tzinfo=UTC)


class Heard(NullRecorder):
    def __init__(self) -> None:
        self.turns: list[tuple[str, str, str]] = []

    def record_condition(self, resource: Resource, condition: Condition) -> None:
        self.turns.append((condition.type, condition.status, condition.reason))


def test_a_disk_that_gets_full_and_empty_again(tmp_path: Path) -> None:
    free = 1000

    async def body() -> None:
        nonlocal free
        store, heard, wanted = MemoryStore(), Heard(), node_of("here", ())
        room = Room(tmp_path, 100, 10, lambda _: free)
        beating = asyncio.create_task(
            keep_registered(store, wanted, lambda: NOW, room=room, recorder=heard, every=1000.0, look=0.001)
        )
        for left, reason in ((1000, "EnoughRoom"), (50, "DiskLow"), (5, "DiskCritical"), (200, "EnoughRoom")):
            free = left
            async with asyncio.timeout(60):
                while not heard.turns or heard.turns[-1][2] != reason:  # noqa: ASYNC110 - polled, as a plane is
                    await asyncio.sleep(0.001)
            conditions = Status.of(await store.get(wanted.ref)).conditions
            [said] = [condition for condition in conditions if condition.type == "DiskRoom"]
            assert (said.true, said.reason) == (reason == "EnoughRoom", reason)
            assert [condition.status for condition in conditions if condition.type == "Ready"] == ["True"]
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        told = [reason for type_, _, reason in heard.turns if type_ == "DiskRoom"]
        assert told == ["EnoughRoom", "DiskLow", "DiskCritical", "EnoughRoom"]

    asyncio.run(body())
