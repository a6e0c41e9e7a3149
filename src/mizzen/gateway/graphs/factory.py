"""Creates and binds the graphs of a gateway, with their shared state: bandit selectors, record logs, service pools."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from mizzen.gateway.feedback.record_keeper import RecordWriter
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.fast_paths import submit_of
from mizzen.gateway.graphs.node_stats import GraphStats
from mizzen.gateway.graphs.targets import CallTarget, name_of
from mizzen.gateway.inference.endpoint import Endpoint
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.route_table import Routes
from mizzen.gateway.services.pool import ServicePool
from mizzen.graph import table_types
from mizzen.selection.cached_state import Selector, StateCache
from mizzen.selection.records.writer import RecordLog

SelectorKey = tuple[str, str, table_types.Policy, tuple[str, ...]]
"""The uid of a graph, a node, its policy and its arms."""


@dataclass(slots=True, eq=False, kw_only=True)
class GraphFactory:
    view: StateCache
    records: Path
    """The folder of all records."""
    gateway: int
    """The number of this process among those that write there."""
    limit: int
    """Calls that may wait for one service."""
    sweeper: DeadlineTimer
    loop: asyncio.AbstractEventLoop
    clock: Callable[[], float]
    wall: Callable[[], float]
    rng: Random
    stats: GraphStats = field(default_factory=GraphStats)
    pools: dict[str, ServicePool] = field(default_factory=dict)
    _record_writers: dict[table_types.RecordLimits, RecordWriter] = field(default_factory=dict)
    _selectors: dict[SelectorKey, Selector] = field(default_factory=dict)
    """Of bandits. Creating one reads a file and may wait for a lock, so the next Table reuses it."""
    _used_selectors: set[SelectorKey] = field(default_factory=set)
    """Selectors that the routes under construction use."""

    def record_writer(self, limits: table_types.RecordLimits | None) -> RecordWriter | None:
        """Returns the writer for these record settings; it is reused until they change."""
        if limits is None:
            return None
        found = self._record_writers.get(limits)
        if found is None:
            found = self._record_writers[limits] = RecordWriter(
                RecordLog(self.records, self.gateway, limits, wall=self.wall)
            )
        return found

    def bind_graph(
        self, namespace: str, name: str, graph: table_types.CompiledGraph, limits: table_types.RecordLimits | None
    ) -> BoundGraph:
        """Returns the graph without targets; `bind` adds them."""
        return BoundGraph(
            graph,
            node_stats=self.stats.nodes_of(namespace, name, graph),
            clock=self.clock,
            rng=self.rng,
            select=lambda node, policy, arms: self._selector((graph.uid, node, policy, arms)),
            writer=self.record_writer(limits),
        )

    def update_services(self, services: Iterable[table_types.Service]) -> None:
        """Keeps pools for exactly the services of a Table that takes effect."""
        wanted = {service.id: service for service in services}
        for id_ in self.pools.keys() - wanted.keys():
            self.pools.pop(id_).retire()
        for id_, service in wanted.items():
            pool = self.pools.get(id_)
            if pool is None:
                self.pools[id_] = ServicePool(
                    service, loop=self.loop, clock=self.clock, sweeper=self.sweeper, limit=self.limit
                )
            else:
                pool.update(service)

    def bind(self, routes: Routes) -> None:
        """Binds all graphs of these routes to endpoints of the same routes."""
        graphs: dict[int, tuple[BoundGraph, list[Endpoint]]] = {}
        for name in routes.names.values():
            for endpoint in (name.current, *name.versions.values(), *name.aliases.values()):
                bound = endpoint.bound
                if isinstance(bound, BoundGraph):
                    graphs.setdefault(id(bound), (bound, []))[1].append(endpoint)
        for bound, endpoints in graphs.values():
            bound.bind(self._finder(routes, endpoints[0].namespace))
        if any(node.merge is not None for bound, _ in graphs.values() for node in bound.graph.nodes):
            importlib.import_module("mizzen.protocol.tensors")  # loads numpy now, not at the first large merge
        # Only now: the fast path of a graph depends on its targets.
        for bound, endpoints in graphs.values():
            submit = submit_of(bound)
            for endpoint in endpoints:
                endpoint.submit = submit

    def retain(self, routes: Routes, limits: Iterable[table_types.RecordLimits]) -> None:
        """Drops all state that these routes and record settings do not use."""
        self.stats.retain({key for key, name in routes.names.items() if name.current.bound is not None})
        wanted = set(limits)
        for gone in self._record_writers.keys() - wanted:
            self._record_writers.pop(gone).log.close()
        self._selectors = {key: self._selectors[key] for key in self._used_selectors}
        self._used_selectors = set()

    async def close(self) -> None:
        await asyncio.gather(*(pool.abort() for pool in self.pools.values()))
        self.pools.clear()
        for writer in self._record_writers.values():
            writer.log.close()
        self.view.close()

    def _selector(self, chosen: SelectorKey) -> Selector:
        self._used_selectors.add(chosen)
        found = self._selectors.get(chosen)
        if found is None:
            found = self._selectors[chosen] = self.view.selector_for(*chosen)
        return found

    def _finder(self, routes: Routes, namespace: str) -> Callable[[table_types.Callee], CallTarget]:
        def find(callee: table_types.Callee) -> CallTarget:
            if callee.service:
                pool = self.pools.get(callee.service)
                return CallTarget(pool=pool, missing="" if pool is not None else f"no service '{callee.service}'")
            name = routes.names.get((namespace, callee.name))
            if name is None:
                return CallTarget(missing=f"nothing called '{callee.name}' is served")
            endpoint = name.find(callee.version or None)
            if endpoint is None:
                return CallTarget(missing=f"'{name_of(callee)}' is not served")
            return CallTarget(endpoint)

        return find


def headers_read_by(routes: Routes) -> frozenset[bytes]:
    """Returns the headers that graphs route by or forward."""
    found: set[bytes] = set()
    for name in routes.names.values():
        graph = name.current.graph
        if graph is None:
            continue
        found.add(b"mizzen-user")
        found |= {header.encode() for header in graph.headers}
        keys = [node.route.key for node in graph.nodes if node.route is not None]
        found |= {key.removeprefix("header:").encode() for key in keys if key.startswith("header:")}
    return frozenset(found)
