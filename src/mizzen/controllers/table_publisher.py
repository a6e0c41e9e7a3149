"""Publisher of the Table: it compiles all served objects into the file that gateways read.

The file is replaced as a whole, from one consistent state of the store: at the start, when the table changes, and when
another process has changed or removed the file. When the store cannot be read, the last table stays and gateways keep
serving.

The objects that the table depends on are kept in memory and updated by the store's events. The cost of a table thus
grows with the number of served objects, not with the number of models.
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
from mizzen.reconcile.retry_forever import retry_forever
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
        check_interval: float = 30.0,
        look_interval: float = 0.25,
        on_published: Callable[[table_types.Table], None] = lambda table: None,
        store_id: str = "",
    ) -> None:
        """`interval`: minimum seconds between two tables, so that a burst of changes becomes one. `check_interval`:
        seconds between two comparisons with the content of the file when nothing changes. `look_interval`: seconds
        between two looks whether another process has replaced, changed or removed it. `on_published` is called with
        each published table. `store_id`: written into each table.
        """
        self._store_id = store_id
        self._store = store
        self._file = PublishedFile(path)
        self._interval = interval
        self._check_interval = check_interval
        self._look_interval = look_interval
        self._on_published = on_published
        self._published: table_types.Table | None = None
        self._resources: dict[Ref, Resource] = {}
        """All objects that the table may depend on, as they are at `_position`."""
        self._position = ""
        self._changed_at = 0
        """The store's position at the last change that may affect the table."""
        self._compiled_at = -1
        """The store's position of the last compiled table that was published, or that equaled the published one."""
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for name, work in (("table: follow", self._follow), ("table: publish", self._publish_changes)):
                tasks.create_task(retry_forever(work, FAILURE, log, shortest=self._interval), name=name)

    def snapshot(self) -> tuple[str, table_types.Table | None, list[Resource], list[Resource]]:
        """The store's position, the table published last, and all InferenceModels and Workloads."""
        _, servers, workloads, _ = self._resources_by_kind()
        return self._position, self._published, servers, workloads

    def covers(self, position: str) -> bool:
        """Whether the published table includes all that the store held at this position."""
        return bool(self._position) and int(self._position) >= int(position) and self._compiled_at >= self._changed_at

    async def publish(self) -> bool:
        """Write the table of the current state. False: the file already holds it, so nothing is written."""
        await self._read()
        return await self._write()

    async def _write(self) -> bool:
        table = self._compile()
        last = self._published
        if last is not None and table == msgspec.structs.replace(last, serial=table.serial):
            if await self._file.holds(table_types.encode(last)):
                self._compiled_at = table.serial
                return False
            log.warning("the table at %s is not the published one; writing it again", self._file.path)
        await self._file.replace(table_types.encode(table))
        self._published = table
        self._compiled_at = table.serial
        self._on_published(table)
        log.info("table %d: %d routes, %d servers", table.serial, len(table.routes), len(table.servers))
        return True

    async def _follow(self) -> NoReturn:
        while True:
            await self._read()
            self._mark_changed()
            try:
                async for event in self._store.watch(None, self._position):
                    self._apply_event(event)
            except Expired:
                continue
            raise RuntimeError("the watch ended by itself")

    async def _read(self) -> None:
        # From one snapshot: otherwise objects may contradict each other, for example by naming a missing server.
        relevant: dict[Ref, Resource] = {}
        position = ""
        async with self._store.snapshot() as moment:
            for kind in KINDS:
                after: str | None = None
                while True:
                    page = await moment.list(kind, limit=PAGE, after=after)
                    relevant |= {item.ref: item for item in page.items if table_inputs(item) is not None}
                    position, after = page.resource_version, page.next
                    if after is None:
                        break
        self._resources, self._position = relevant, position

    def _apply_event(self, event: Event) -> None:
        """Apply one event. After each event, the objects in memory are again a consistent state."""
        resource = event.resource
        self._position = resource.meta.resource_version
        if resource.kind not in KINDS:
            return
        before = self._resources.pop(resource.ref, None)
        inputs = None if event.type == "DELETED" else table_inputs(resource)
        if inputs is not None:
            self._resources[resource.ref] = resource
        if inputs != (None if before is None else table_inputs(before)):
            self._mark_changed()

    def _mark_changed(self) -> None:
        self._changed_at = int(self._position)
        self._changed.set()

    async def _publish_changes(self) -> NoReturn:
        if not self._position:
            await self._changed.wait()
        while True:
            # Without waiting the first time: this is also the retry of a failed attempt.
            self._changed.clear()
            await self._write()
            await asyncio.sleep(self._interval)
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Of the store or of the file; for `check_interval` at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._check_interval):
                while not self._changed.is_set() and await self._file.is_untouched():
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(self._look_interval):
                            await self._changed.wait()

    def _compile(self) -> table_types.Table:
        models, inference_models, workloads, graphs = self._resources_by_kind()
        table = compile_table(models, inference_models, workloads, serial=int(self._position), graphs=graphs)
        return msgspec.structs.replace(table, store=self._store_id)

    def _resources_by_kind(self) -> tuple[list[Resource], list[Resource], list[Resource], list[Resource]]:
        found: dict[str, list[Resource]] = {kind: [] for kind in KINDS}
        for resource in self._resources.values():
            found[resource.kind].append(resource)
        models, servers, workloads, graphs = found.values()
        return models, servers, workloads, graphs


def table_inputs(resource: Resource) -> object:
    """The parts of an object that the table depends on; None: the table does not depend on it. Equal for two states
    that make no difference, such as those before and after a model gets another version."""
    if resource.deleting:
        return None
    status = resource.status
    match resource.kind:
        case "Model":
            inputs = {field: status.get(field) for field in ("current", "aliases", "aliasOf") if status.get(field)}
            return inputs or None
        case "InferenceModel":
            fields = ("servingVersion", "servingWorkload", "servingFiles", "targetVersion")
            return resource.spec, *(status.get(field) for field in fields)
        case "MLGraph":
            # Not its spec: that one serves only once the status says so.
            away = [node for node in status.get("nodes", ()) if not node.get("ready")]
            return (resource.meta.uid, status["serving"], away) if status.get("serving") else None
        case _:
            return resource.spec, status.get("replicas")
