"""Publish the Table: compile what is served into the file that gateways read.

The file is replaced whole, from one agreeing state of the store: at the start, when there is something new to say, and
when somebody else has changed or removed it. When the store cannot be read, the last table stays: gateways serve on.

Objects that a table speaks of are kept in memory and changed by the store's events, so what a table costs grows with
what is served, and not with the models there are.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from mizzen.errors import Expired
from mizzen.graph import plan
from mizzen.graph.compile import compile_table
from mizzen.kinds.meta import Ref, Resource
from mizzen.stores.store import Event, Store

KINDS = ("Model", "InferenceModel", "Workload")
PAGE = 500
LONGEST_DELAY = 5.0

log = logging.getLogger(__name__)


class TablePublisher:
    def __init__(self, store: Store, path: Path, *, interval: float = 0.02, look_every: float = 30.0) -> None:
        """`interval`: seconds between two tables at least, so that a burst of changes becomes one. `look_every`:
        seconds after which the file is looked at when nothing changes.
        """
        self._store = store
        self._path = path
        self._interval = interval
        self._look_every = look_every
        self._published: plan.Table | None = None
        self._telling: dict[Ref, Resource] = {}
        """All objects that a table may say something of, as they are at `position`."""
        self._position = ""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._persist(self._follow), name="table: follow")
            tasks.create_task(self._persist(self._publish_changes), name="table: publish")

    async def publish(self) -> bool:
        """Write the table of the present state. False: the file says the same already, so nothing is written."""
        await self._read()
        return await self._write()

    async def _write(self) -> bool:
        table = self._compile()
        last = self._published
        if last is not None and table == msgspec.structs.replace(last, serial=table.serial):
            if await asyncio.to_thread(_holds, self._path, plan.encode(last)):
                return False
            log.warning("the table at %s is not the one that was published; writing it again", self._path)
        await asyncio.to_thread(_replace_file, self._path, plan.encode(table))
        self._published = table
        log.info("table %d: %d routes, %d servers", table.serial, len(table.routes), len(table.servers))
        return True

    async def _persist(self, work: Callable[[], Awaitable[NoReturn]]) -> NoReturn:
        """Begin again after a failure, later each time that failures follow each other closely."""
        clock = asyncio.get_running_loop().time
        delay = self._interval
        while True:
            begun = clock()
            try:
                await work()
            except Exception:  # whatever it is, gateways live on the last table, and the next state may be good
                delay = min(delay * 2, LONGEST_DELAY) if clock() - begun < LONGEST_DELAY else self._interval
                log.exception("the table cannot be published; again in %.2f s", delay)
                await asyncio.sleep(delay)

    async def _follow(self) -> NoReturn:
        while True:
            await self._read()
            self._changed.set()
            try:
                async for event in self._store.watch(None, self._position):
                    self._take(event)
            except Expired:
                continue
            raise RuntimeError("the watch ended by itself")

    async def _read(self) -> None:
        # Of one moment: else they may contradict each other, say by naming a server that is not there.
        telling: dict[Ref, Resource] = {}
        position = ""
        async with self._store.snapshot() as moment:
            for kind in KINDS:
                after: str | None = None
                while True:
                    page = await moment.list(kind, limit=PAGE, after=after)
                    telling |= {item.ref: item for item in page.items if told_of(item) is not None}
                    position, after = page.resource_version, page.next
                    if after is None:
                        break
        self._telling, self._position = telling, position

    def _take(self, event: Event) -> None:
        """One step further: after each event, what is kept is again of one moment."""
        resource = event.resource
        self._position = resource.meta.resource_version
        if resource.kind not in KINDS:
            return
        before = self._telling.pop(resource.ref, None)
        told = None if event.type == "DELETED" else told_of(resource)
        if told is not None:
            self._telling[resource.ref] = resource
        if told != (None if before is None else told_of(before)):
            self._changed.set()

    async def _publish_changes(self) -> NoReturn:
        if not self._position:
            await self._changed.wait()
        while True:
            # Not waiting the first time: it is also how a failed attempt is made up for.
            self._changed.clear()
            await self._write()
            await asyncio.sleep(self._interval)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_every):
                    await self._changed.wait()

    def _compile(self) -> plan.Table:
        models, inference_models, workloads = (
            [resource for resource in self._telling.values() if resource.kind == kind] for kind in KINDS
        )
        return compile_table(models, inference_models, workloads, serial=int(self._position))


def told_of(resource: Resource) -> object:
    """What a table may say because of this object; None: nothing. Equal for two states that make no difference, such as
    those of a model which gets one more version."""
    if resource.deleting:
        return None
    status = resource.status
    match resource.kind:
        case "Model":
            told = {field: status.get(field) for field in ("current", "aliases", "aliasOf") if status.get(field)}
            return told or None
        case "InferenceModel":
            return resource.spec, status.get("servingVersion"), status.get("targetVersion")
        case _:
            return resource.spec, status.get("replicas")


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.read_bytes() == data
    except OSError:
        return False


def _replace_file(path: Path, data: bytes) -> None:
    """Readers see the old file or the new one; after a power cut, too."""
    temporary = path.with_name(f".{path.name}.new")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
