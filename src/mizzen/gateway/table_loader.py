"""Loads the Table from disk and puts its routes in force. Queues and connections that stay the same are kept.

If replicas replace others that answer now, of another version or of the same one, the gateway connects to them first.
The Table comes into force when their hellos have arrived, so that every request finds a ready replica. Then the gateway
retires the connections that the Table does not name, and acknowledges the Table, so that the plane can stop the old
replicas.

The file is polled every 50 ms. A missing or invalid file is logged once and changes nothing: gateways serve the last
valid Table indefinitely. A gateway that had no Table yet answers 503, because it cannot know what is served.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from mizzen.access.policy import Target
from mizzen.gateway.cache import cached_queue
from mizzen.gateway.context import GatewayContext
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.factory import GraphFactory, headers_read_by
from mizzen.gateway.inference.default_outputs import default_output_of
from mizzen.gateway.inference.endpoint import Endpoint, NamedCall
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.inference.response_parameters import ResponseParameters
from mizzen.gateway.queueing.call import MAX_SECONDS, NOT_READY, UNAVAILABLE, Call
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.replica_connection import ReplicaConnection
from mizzen.gateway.request.url_paths import DEFAULT_NAMESPACE
from mizzen.gateway.route_table import NamedRoute, Routes
from mizzen.gateway.watched_file import WatchedFile
from mizzen.graph import plan_submit, table_types
from mizzen.protocol import v2
from mizzen.selection.records.record import encode_record

QueueKey = tuple[str, str, str]
"""A served version: the id of the server, its version, and the digest of its files. Another version or other files get
another queue, with its own connections even to the same replica: a connection keeps the version of its hello."""

ReplicaKey = tuple[QueueKey, str]
"""A replica: its queue and its address."""

EMPTY_PLAN = table_types.Plan(servers=())
MAX_OVERLAP_SECONDS = 1.0
"""A Table waits no longer for new replicas: they were ready for the plane, but may have been lost since."""


class TableLoader:
    """The queues of all served versions and the connections to their replicas."""

    def __init__(
        self,
        service: GatewayContext,
        new_queue: Callable[[table_types.Server, Callable[[Call], bool]], Queue],
        loop: asyncio.AbstractEventLoop,
        taken: Callable[[int], None],
        *,
        graphs: GraphFactory,
        room: cached_queue.WaitLimits = cached_queue.UNLIMITED,
    ) -> None:
        """`taken` is called with the serial of each Table that comes into force. `graphs` has the state that all
        graphs share. `room` limits the callers that wait for a call of another caller."""
        self.queues: dict[QueueKey, Queue] = {}
        self._service = service
        self._new_queue = new_queue
        self._loop = loop
        self._on_enforced = taken
        self._graphs = graphs
        self._room = room
        self._replicas: dict[ReplicaKey, ReplicaConnection] = {}
        self._next: table_types.Table | None = None
        """Comes into force when all of `_awaited` are ready, or when `_timer` fires."""
        self._awaited: list[ReplicaConnection] = []
        self._timer: asyncio.TimerHandle | None = None
        self._graphs_by_key: dict[tuple[str, str, int], BoundGraph] = {}
        """Graphs of the routes under construction; several endpoints may share one."""
        self._expected_versions: frozenset[tuple[str, str, str]] = frozenset()
        """Namespace, model and version of everything that is served or about to be."""

    def take(self, table: table_types.Table) -> None:
        """Put this Table in force as soon as its new replicas are ready. Raises ValueError, and changes nothing, if it
        contradicts itself."""
        wanted = {_key(server): server for server in table.servers}
        by_id = {server.id: key for key, server in wanted.items()}
        for used in (each for route in table.routes for each in (route.plan, *route.versions.values())):
            if missing := [id_ for id_ in used.servers if id_ not in by_id]:
                raise ValueError(f"a plan names server '{missing[0]}', which is not in the table")
        for key, server in wanted.items():
            if key not in self.queues:
                self.queues[key] = self._new_queue(server, _offer_elsewhere)
        for key, address in _replica_keys(wanted) - self._replicas.keys():
            self._replicas[key, address] = ReplicaConnection(
                address, self.queues[key], self._loop, self._enforce_if_ready
            )
        self._next = table
        self._awaited = [self._replicas[place] for place in self._successors(table, wanted, by_id)]
        if self._timer is None:  # else a Table waits already, and a newer one must not extend the wait
            self._timer = self._loop.call_later(MAX_OVERLAP_SECONDS, self._enforce)
        self._enforce_if_ready()

    def _enforce_if_ready(self) -> None:
        if self._next is not None and all(replica.ready for replica in self._awaited):
            self._enforce()

    def _successors(
        self, table: table_types.Table, wanted: dict[QueueKey, table_types.Server], by_id: dict[str, QueueKey]
    ) -> set[ReplicaKey]:
        """The replicas that replace others which answer now."""
        answering = {place for place, replica in self._replicas.items() if replica.ready}
        served = {key for key, server in wanted.items() if any((key, each) in answering for each in server.addresses)}
        successors = {key for key in wanted.keys() - served if self.queues[key].ready}
        for route in table.routes:
            before = self._service.routes.names.get((route.namespace, route.name))
            if before is None:
                continue
            plans = route.versions
            aliases = ((alias, plans[version]) for alias, version in route.aliases.items() if version in plans)
            for asked, used in ((None, route.plan), *plans.items(), *aliases):
                was = before.find(asked)
                keys = {by_id[server] for server in used.servers}
                if was is not None and was.ready and served.isdisjoint(keys):
                    successors |= keys
        return _replica_keys({key: wanted[key] for key in successors})

    def _enforce(self) -> None:
        table, self._next, self._awaited = self._next, None, []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        assert table is not None
        wanted = {_key(server): server for server in table.servers}
        gone = [self.queues.pop(key) for key in self.queues.keys() - wanted.keys()]
        for key, server in wanted.items():
            self.queues[key].update(server)
        self._graphs.update_services(table.services)
        self._service.replace(routes=self._routes(table, {key[0]: self.queues[key] for key in wanted}))
        for place in self._replicas.keys() - _replica_keys(wanted):
            self._replicas.pop(place).retire()
        for queue in gone:
            queue.retire(self._reroute)
        # After waiting calls have moved, because they count for the endpoint that they moved to.
        named = (
            (route.namespace, route.name, {route.version, *route.versions, *route.aliases.values()})
            for route in table.routes
        )
        self._service.metrics.retain({(space, name, version) for space, name, all_ in named for version in all_})
        plans = (each for route in table.routes for each in (route.plan, *route.versions.values()))
        self._graphs.retain(self._service.routes, [each.kept for each in plans if each.kept is not None])
        self._on_enforced(table.serial)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*(replica.abort() for replica in self._replicas.values()))
        self._replicas.clear()
        await self._graphs.close()

    def _routes(self, table: table_types.Table, queues: dict[str, Queue]) -> Routes:
        routes = Routes()
        self._graphs_by_key = {}
        self._expected_versions = _expected_versions(table)
        for route in table.routes:
            current = self._endpoint(route, route.version, None, route.plan, queues)
            plans = {route.version: route.plan} | route.versions
            versions = {
                version: self._endpoint(route, version, version, plan, queues) for version, plan in plans.items()
            }
            # An alias has a URL of its own, and answers with the version that it points to.
            aliases = {
                alias: self._endpoint(route, version, alias, plans.get(version, EMPTY_PLAN), queues, alias=alias)
                for alias, version in route.aliases.items()
            }
            routes.add(NamedRoute(current, versions, aliases))
        self._graphs.bind(routes)
        routes.graph_headers = headers_read_by(routes)
        return routes

    def _endpoint(
        self,
        route: table_types.Route,
        version: str,
        asked: str | None,
        plan: table_types.Plan,
        queues: dict[str, Queue],
        *,
        alias: str = "",
    ) -> Endpoint:
        def find(server: str) -> plan_submit.PlanTarget[Call]:
            return cached_queue.wrap_queue(queues[server], self._service.clock, self._room)

        models = frozenset({route.name, route.model} - {""})
        new_endpoint = partial(
            Endpoint,
            namespace=route.namespace,
            name=route.name,
            version=version,
            asked_version=asked,
            target=Target(route.namespace, "Model", route.name, models=models, alias=alias),
            response_prefix=v2.render_answer_head(route.name, version),
            counters=self._service.metrics.counters(route.namespace, route.name, version, route.model),
            codec=V2,
            default=default_output_of(plan.default),
            kept=plan.kept,
        )
        if plan.graph is not None:
            bound = self._bound_graph(route, plan.graph, plan.kept)
            timeout = (plan.graph.timeout_ms or math.inf) / 1000
            new_id = self._service.new_id if bound.writer is None else bound.writer.new_id
            return new_endpoint(
                queues=(), submit=bound.submit, timeout=min(MAX_SECONDS, timeout), new_id=new_id, bound=bound
            )
        mine = tuple(queues[server] for server in plan.servers)
        served = bool(mine) or (route.namespace, route.model or route.name, version) in self._expected_versions
        timeouts = (queue.server.timeout_ms / 1000 for queue in mine if queue.server.timeout_ms is not None)
        writer = self._graphs.record_writer(plan.kept)
        return new_endpoint(
            queues=mine,
            submit=plan_submit.submitter_of(plan, find) if mine else self._reject,
            timeout=min((MAX_SECONDS, *timeouts)),
            new_id=self._service.new_id if writer is None else writer.new_id,
            unserved="" if served else _unserved_message(route, version),
            cache=cached_queue.cache_of(mine[0]) if len(mine) == 1 and writer is None else None,
            notes=None if writer is None else ResponseParameters({}, writer, encode_record(0, (), [("", version)])),
        )

    def _bound_graph(
        self, route: table_types.Route, graph: table_types.CompiledGraph, limits: table_types.RecordLimits | None
    ) -> BoundGraph:
        """The graph of a route; it is bound to what it calls once all endpoints exist."""
        key = route.namespace, route.name, graph.generation
        bound = self._graphs_by_key.get(key)
        if bound is None:
            bound = self._graphs_by_key[key] = self._graphs.bind_graph(route.namespace, route.name, graph, limits)
        return bound

    def _reroute(self, calls: Iterable[Call]) -> None:
        """Move calls that waited for a version that is no longer served to the endpoint that now has their name."""
        for call, party in [(each, party) for each in calls for party in each.waiters()]:
            assert isinstance(party, NamedCall)
            call.detach(party)
            was = party.endpoint
            name = self._service.routes.names.get((was.namespace, was.name))
            now = None if name is None else name.find(was.asked_version)
            if now is None:
                self._reject(party)
            else:
                party.move(now)

    def _reject(self, call: Call) -> None:
        assert isinstance(call, NamedCall)
        now, unserved = self._service.clock(), call.endpoint.unserved
        if unserved:
            call.finish(UNAVAILABLE, unserved.encode(), now, retry=0, lacking=NOT_READY)
        else:
            call.finish(UNAVAILABLE, b"no replica that could answer is running yet", now, lacking=NOT_READY)


class TableFile(WatchedFile):
    """Loads each valid Table."""

    def __init__(self, path: Path, take: Callable[[table_types.Table], None], loop: asyncio.AbstractEventLoop) -> None:
        def load(data: bytes) -> str:
            table = table_types.decode(data)
            take(table)
            return f"table {table.serial}: {len(table.routes)} names, {len(table.servers)} served versions"

        super().__init__("table", path, load, loop)


def _offer_elsewhere(call: Call) -> bool:
    """Submit a call to another ready server of its version. If several callers share the call, those whose endpoint
    has a ready server move there. False if a caller is left."""
    left = False
    for party in call.waiters():
        assert isinstance(party, NamedCall)
        if party.endpoint.ready:
            call.detach(party)
            party.endpoint.submit(party)
        else:
            left = True
    return not left


def _key(server: table_types.Server) -> QueueKey:
    return server.id, server.version, server.files


def _expected_versions(table: table_types.Table) -> frozenset[tuple[str, str, str]]:
    served = {(server.id.partition("/")[0], server.model, server.version) for server in table.servers}
    # A version that is still starting has a route of its own, and no server yet.
    return frozenset(served | {(route.namespace, route.model, route.version) for route in table.routes if route.model})


def _unserved_message(route: table_types.Route, version: str) -> str:
    model = route.model or route.name
    place = "" if route.namespace == DEFAULT_NAMESPACE else f" --namespace {route.namespace}"
    return f"version {version} of '{model}' is not served; 'mizzen serve {model} {version}{place}' serves it"


def _replica_keys(servers: dict[QueueKey, table_types.Server]) -> set[ReplicaKey]:
    return {(key, address) for key, server in servers.items() for address in server.addresses}
