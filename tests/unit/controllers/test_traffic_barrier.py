"""A decision about traffic is answered when every gateway goes by a Table that knows of it."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path

from mizzen.assemble.traffic_barrier import TrafficBarrier
from mizzen.controllers.table_acks import GatewayTraffic
from mizzen.controllers.table_publisher import TablePublisher
from mizzen.graph import table_types
from mizzen.kinds.schema.resource import Resource
from mizzen.protocol.gateway_files import table_acks
from mizzen.protocol.gateway_files.table_acks import TableAck
from mizzen.stores.sqlite.store import SqliteStore
from tests.support.controllers.objects import NOW, model
from tests.unit.controllers.publishing import eventually, running


def take(folder: Path, gateway: str, serial: int) -> None:
    table_acks.write(folder, TableAck(gateway, os.getpid(), serial))


async def made_current(store: SqliteStore, name: str, version: str) -> Resource:
    """With a change after it of which no Table speaks."""
    found = await store.create(model(name), "ann")
    status = {"current": {"version": version, "actor": "ann", "time": "2026-01-01T00:00:00Z"}}
    moved = await store.update_status(replace(found, status=status), "ann")
    await store.create(model(f"{name}-beside"), "ann")
    return moved


def test_it_is_waited_for_every_gateway(tmp_path: Path) -> None:
    path, folder = tmp_path / "table.json", tmp_path / "tables"

    async def main() -> None:
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: os.urandom(8).hex())
        loop = asyncio.get_running_loop()
        traffic = GatewayTraffic(folder, clock=loop.time, patience=60.0)
        tables = TablePublisher(store, path, on_published=traffic.on_published)
        carried = TrafficBarrier(tables, traffic, patience=60.0)
        assert not tables.covers("1"), "nothing is published yet"
        async with running(tables):
            await eventually(path.exists)
            for gateway in ("gateway-0", "gateway-1"):
                take(folder, gateway, table_types.decode(path.read_bytes()).serial)
            moved = await made_current(store, "m", "1")
            at = moved.meta.resource_version
            waiting = asyncio.create_task(carried(at))
            await eventually(lambda: tables.covers(at))
            serial = table_types.decode(path.read_bytes()).serial
            assert serial >= int(at)
            take(folder, "gateway-0", serial)
            await asyncio.sleep(0.1)
            assert not waiting.done(), "the other one does not know yet"
            take(folder, "gateway-1", serial)
            async with asyncio.timeout(60):
                await waiting
        await store.close()

    asyncio.run(main())


def test_a_stuck_gateway_is_not_waited_for_without_end(tmp_path: Path) -> None:
    folder = tmp_path / "tables"

    async def main() -> None:
        store = await SqliteStore.open(tmp_path / "mizzen.db", clock=lambda: NOW, new_id=lambda: os.urandom(8).hex())
        loop = asyncio.get_running_loop()
        traffic = GatewayTraffic(folder, clock=loop.time, patience=3600.0)
        tables = TablePublisher(store, tmp_path / "table.json", on_published=traffic.on_published)
        take(folder, "gateway-0", 0)
        async with running(tables):
            moved = await made_current(store, "m", "1")
            await eventually(lambda: tables.covers(moved.meta.resource_version))
            async with asyncio.timeout(60):
                await TrafficBarrier(tables, traffic, patience=0.05)(moved.meta.resource_version)
            assert not traffic.is_current()
        await store.close()

    asyncio.run(main())
