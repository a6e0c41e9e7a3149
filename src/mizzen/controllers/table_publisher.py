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
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import msgspec

from mizzen.errors import Expired
from mizzen.graph import table_types
from mizzen.graph.compile.table import compile_table
from mizzen.kinds.schema.resource import Ref, Resource
from mizzen.reconcile.retry_forever import persist
from mizzen.stores.published_file import PublishedFile
from mizzen.stores.store import Event, Store

KINDS = ("Model", "InferenceModel", "Workload", "MLGraph")
PAGE = 500
FAILURE = "the table cannot be published"

log = logging.getLogger(__name__)


class TablePublisher:
    def __init__(
        self,
        store: Store,
        path: Path,
        *,
        interval: float = 0.02,
        look_every: float = 30.0,
        published: Callable[[table_types.Table], None] = lambda table: None,
    ) -> None:
        """`interval`: seconds between two tables at least, so that a burst of changes becomes one. `look_every`:
        seconds after which the file is looked at when nothing changes. `published` is called with each table that is
        published.
        """
        self._store = store
        self._file = PublishedFile(path)
        self._interval = interval
        self._look_every = look_every
        self._tell = published
        self._published: table_types.Table | None = None
        self._telling: dict[Ref, Resource] = {}
        """All objects that a table may say something of, as they are at `position`."""
        self._position = ""
        self._differed = 0
        """Where in the store the last change stands that a table may speak of."""
        self._said = -1
        """Where it stood when the last table was compiled that is published, or that said nothing new."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(persist(self._follow, FAILURE, log, shortest=self._interval), name="table: follow")
            tasks.create_task(
                persist(self._publish_changes, FAILURE, log, shortest=self._interval), name="table: publish"
            )

    def told(self) -> tuple[str, table_types.Table | None, list[Resource], list[Resource]]:
        """Where in the store it stands, the table that was published last, and the InferenceModels and Workloads that
        there are."""
        _, servers, workloads, _ = self._objects()
        return self._position, self._published, servers, workloads

    def says(self, position: str) -> bool:
        """Does what is published say all that the store held there?"""
        return bool(self._position) and int(self._position) >= int(position) and self._said >= self._differed

    async def publish(self) -> bool:
        """Write the table of the present state. False: the file says the same already, so nothing is written."""
        await self._read()
        return await self._write()

    async def _write(self) -> bool:
        table = self._compile()
        last = self._published
        if last is not None and table == msgspec.structs.replace(last, serial=table.serial):
            if await self._file.holds(table_types.encode(last)):
                self._said = table.serial
                return False
            log.warning("the table at %s is not the one that was published; writing it again", self._file.path)
        await self._file.replace(table_types.encode(table))
        self._published = table
        self._said = table.serial
        self._tell(table)
        log.info("table %d: %d routes, %d servers", table.serial, len(table.routes), len(table.servers))
        return True

    async def _follow(self) -> NoReturn:
        while True:
            await self._read()
            self._differs()
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
            self._differs()

    def _differs(self) -> None:
        self._differed = int(self._position)
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

    def _compile(self) -> table_types.Table:
        models, inference_models, workloads, graphs = self._objects()
        return compile_table(models, inference_models, workloads, serial=int(self._position), graphs=graphs)

    def _objects(self) -> tuple[list[Resource], list[Resource], list[Resource], list[Resource]]:
        found: dict[str, list[Resource]] = {kind: [] for kind in KINDS}
        for resource in self._telling.values():
            found[resource.kind].append(resource)
        models, servers, workloads, graphs = found.values()
        return models, servers, workloads, graphs


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
            fields = ("servingVersion", "servingWorkload", "servingFiles", "targetVersion")
            return resource.spec, *(status.get(field) for field in fields)
        case "MLGraph":
            # Not its spec: that answers only once the status says so.
            away = [node for node in status.get("nodes", ()) if not node.get("ready")]
            return (resource.meta.uid, status["serving"], away) if status.get("serving") else None
        case _:
            return resource.spec, status.get("replicas")
