"""What a gateway has once for all its graphs: what bandits know, logs of records, pools of connections to services."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Callable, Iterable
from pathlib import Path
from random import Random

from mizzen.gateway.feedback.record_keeper import Keeper
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.fast_paths import submit_of
from mizzen.gateway.graphs.node_stats import Tallies
from mizzen.gateway.graphs.targets import Target, named
from mizzen.gateway.queueing.deadline_timer import Sweeper
from mizzen.gateway.route_table import Endpoint, Routes
from mizzen.gateway.services.pool import ServicePool
from mizzen.graph import table_types
from mizzen.selection.cached_state import Selector, View
from mizzen.selection.records.writer import Log

Chosen = tuple[str, str, table_types.Policy, tuple[str, ...]]
"""Between what: the uid of a graph, a node, its policy and its arms."""


class Making:
    def __init__(
        self,
        *,
        view: View,
        records: Path,
        gateway: int,
        limit: int,
        sweeper: Sweeper,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], float],
        wall: Callable[[], float],
        rng: Random,
    ) -> None:
        """`records`: the folder of all records; `gateway`: the number of this process among those that write there.
        `limit`: calls that may wait for one service."""
        self.tallies = Tallies()
        self.pools: dict[str, ServicePool] = {}
        self._view = view
        self._records = records
        self._gateway = gateway
        self._limit = limit
        self._sweeper = sweeper
        self._loop = loop
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._keepers: dict[table_types.Kept, Keeper] = {}
        self._selectors: dict[Chosen, Selector] = {}
        """Of bandits: to make one looks into a file and may wait for others, so the next Table goes on with it."""
        self._used: set[Chosen] = set()
        """Those of the routes that are being made."""

    def keeper(self, kept: table_types.Kept | None) -> Keeper | None:
        """One for as long as records are kept alike."""
        if kept is None:
            return None
        found = self._keepers.get(kept)
        if found is None:
            found = self._keepers[kept] = Keeper(Log(self._records, self._gateway, kept, wall=self._wall))
        return found

    def bound(self, namespace: str, name: str, graph: table_types.Graph, kept: table_types.Kept | None) -> BoundGraph:
        """Still without what its nodes call."""
        return BoundGraph(
            graph,
            tallies=self.tallies.of(namespace, name, graph),
            clock=self._clock,
            rng=self._rng,
            select=lambda node, policy, arms: self._selector((graph.uid, node, policy, arms)),
            keeper=self.keeper(kept),
        )

    def take(self, services: Iterable[table_types.Service]) -> None:
        """Of a Table that comes into force: connections to those it names, and to no others."""
        wanted = {service.id: service for service in services}
        for id_ in self.pools.keys() - wanted.keys():
            self.pools.pop(id_).retire()
        for id_, service in wanted.items():
            pool = self.pools.get(id_)
            if pool is None:
                self.pools[id_] = ServicePool(
                    service, loop=self._loop, clock=self._clock, sweeper=self._sweeper, limit=self._limit
                )
            else:
                pool.update(service)

    def bind(self, routes: Routes) -> None:
        """All graphs of these routes, to what the same routes lead to."""
        graphs: dict[int, tuple[BoundGraph, list[Endpoint]]] = {}
        for name in routes.names.values():
            for endpoint in (name.current, *name.versions.values(), *name.aliases.values()):
                bound = endpoint.bound
                if isinstance(bound, BoundGraph):
                    graphs.setdefault(id(bound), (bound, []))[1].append(endpoint)
        for bound, endpoints in graphs.values():
            bound.bind(self._finder(routes, endpoints[0].namespace))
        if any(node.merge is not None for bound, _ in graphs.values() for node in bound.graph.nodes):
            importlib.import_module("mizzen.protocol.tensors")  # numpy: not when the first large answers are merged
        # Only now: how a graph is asked goes by what it calls.
        for bound, endpoints in graphs.values():
            submit = submit_of(bound)
            for endpoint in endpoints:
                endpoint.submit = submit

    def keep(self, routes: Routes, kept: Iterable[table_types.Kept]) -> None:
        """Forget what none of these speak of."""
        self.tallies.keep({key for key, name in routes.names.items() if name.current.bound is not None})
        wanted = set(kept)
        for gone in self._keepers.keys() - wanted:
            self._keepers.pop(gone).log.close()
        self._selectors = {key: self._selectors[key] for key in self._used}
        self._used = set()

    async def close(self) -> None:
        await asyncio.gather(*(pool.abort() for pool in self.pools.values()))
        self.pools.clear()
        for keeper in self._keepers.values():
            keeper.log.close()
        self._view.close()

    def _selector(self, chosen: Chosen) -> Selector:
        self._used.add(chosen)
        found = self._selectors.get(chosen)
        if found is None:
            found = self._selectors[chosen] = self._view.of(*chosen)
        return found

    def _finder(self, routes: Routes, namespace: str) -> Callable[[table_types.Callee], Target]:
        def find(callee: table_types.Callee) -> Target:
            if callee.service:
                pool = self.pools.get(callee.service)
                return Target(pool=pool) if pool is not None else Target(missing=f"no service '{callee.service}'")
            name = routes.names.get((namespace, callee.name))
            if name is None:
                return Target(missing=f"nothing called '{callee.name}' is served")
            endpoint = name.asked(callee.version or None)
            if endpoint is None:
                return Target(missing=f"'{named(callee)}' is not served")
            return Target(endpoint)

        return find


def heard(routes: Routes) -> frozenset[bytes]:
    """Headers that graphs go by, or send on."""
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
