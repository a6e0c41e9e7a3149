"""The Table on disk -> the routes in force. A new file is taken whole; what it keeps is not touched.

Where others take over from somebody who answers, be it another version or other processes of the same one, they are
connected to first: the Table comes into force when they have said hello, so that no request finds nobody there. Then
those that it does not name are let go, and the plane is told, who ends them.

The file is looked at every 50 ms. One that is missing or broken is reported once and changes nothing: gateways serve
the last good Table for as long as it takes. One that has had none yet answers 503, for it cannot know what is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from mizzen.access.policy import Target
from mizzen.gateway.cache import cached_queue
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.factory import Making, heard
from mizzen.gateway.inference.calls import CEILING_SECONDS, NOBODY, UNAVAILABLE, Call, Placed
from mizzen.gateway.inference.default_outputs import default_of
from mizzen.gateway.inference.inference import Service
from mizzen.gateway.inference.protocols import V1
from mizzen.gateway.inference.response_parameters import Notes
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.replica_connection import Replica
from mizzen.gateway.route_table import DEFAULT_NAMESPACE, Endpoint, Name, Routes
from mizzen.gateway.watched_file import WatchedFile
from mizzen.graph import plan_submit, table_types
from mizzen.protocol import v2
from mizzen.selection.records.record import what_of

Key = tuple[str, str, str]
"""A served version: the server's id, its version, and what that is made of. Another one behind an id is another queue,
with connections of its own, also to the same replica: it answers each with what it was greeted with."""

Place = tuple[Key, str]
"""A replica: whose, and its address."""

UNSERVED = table_types.Plan(servers=())
OVERLAP_SECONDS = 1.0
"""A Table does not wait longer for those who take over: they answered the plane, and may have been lost since."""


class Fleet:
    """The queues of all served versions and the connections to their replicas."""

    def __init__(
        self,
        service: Service,
        new_queue: Callable[[table_types.Server, Callable[[Call], bool]], Queue],
        loop: asyncio.AbstractEventLoop,
        taken: Callable[[int], None],
        *,
        graphs: Making,
        room: cached_queue.Room = cached_queue.ENDLESS,
    ) -> None:
        """`taken` is told the serial of each Table that has come into force. `graphs`: what there is once for all of
        them. `room`: for those who wait for the calls of others."""
        self.queues: dict[Key, Queue] = {}
        self._service = service
        self._new_queue = new_queue
        self._loop = loop
        self._taken = taken
        self._graphs = graphs
        self._room = room
        self._replicas: dict[Place, Replica] = {}
        self._next: table_types.Table | None = None
        """Comes into force when all of `_awaited` are ready, or with `_timer`."""
        self._awaited: list[Replica] = []
        self._timer: asyncio.TimerHandle | None = None
        self._bound: dict[tuple[str, str, int], BoundGraph] = {}
        """Graphs of the routes that are being made, which several endpoints may stand for."""
        self._expected: frozenset[tuple[str, str, str]] = frozenset()
        """Namespace, model and version of all that something serves, or is about to."""

    def take(self, table: table_types.Table) -> None:
        """Put this Table in force, as soon as nobody is missed. ValueError, with nothing changed, when it contradicts
        itself."""
        wanted = {_key(server): server for server in table.servers}
        by_id = {server.id: key for key, server in wanted.items()}
        for used in (each for route in table.routes for each in (route.plan, *route.versions.values())):
            if missing := [id_ for id_ in used.servers if id_ not in by_id]:
                raise ValueError(f"a plan names server '{missing[0]}', which is not in the table")
        for key, server in wanted.items():
            if key not in self.queues:
                self.queues[key] = self._new_queue(server, _offer)
        for key, address in _places(wanted) - self._replicas.keys():
            self._replicas[key, address] = Replica(address, self.queues[key], self._loop, self._look)
        self._next = table
        self._awaited = [self._replicas[place] for place in self._successors(table, wanted, by_id)]
        if self._timer is None:  # else one waits already: it must not wait anew for each Table that comes meanwhile
            self._timer = self._loop.call_later(OVERLAP_SECONDS, self._enforce)
        self._look()

    def _look(self) -> None:
        if self._next is not None and all(replica.ready for replica in self._awaited):
            self._enforce()

    def _successors(
        self, table: table_types.Table, wanted: dict[Key, table_types.Server], by_id: dict[str, Key]
    ) -> set[Place]:
        """Those that are to answer where somebody else does now."""
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
                was = before.asked(asked)
                keys = {by_id[server] for server in used.servers}
                if was is not None and was.ready and served.isdisjoint(keys):
                    successors |= keys
        return _places({key: wanted[key] for key in successors})

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
        self._graphs.take(table.services)
        self._service.replace(routes=self._routes(table, {key[0]: self.queues[key] for key in wanted}))
        for place in self._replicas.keys() - _places(wanted):
            self._replicas.pop(place).retire()
        for queue in gone:
            queue.retire(self._rehouse)
        # After the move of what waited, which is counted where it moved to.
        named = (
            (route.namespace, route.name, {route.version, *route.versions, *route.aliases.values()})
            for route in table.routes
        )
        self._service.metrics.keep({(space, name, version) for space, name, all_ in named for version in all_})
        plans = (each for route in table.routes for each in (route.plan, *route.versions.values()))
        self._graphs.keep(self._service.routes, [each.kept for each in plans if each.kept is not None])
        self._taken(table.serial)

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await asyncio.gather(*(replica.abort() for replica in self._replicas.values()))
        self._replicas.clear()
        await self._graphs.close()

    def _routes(self, table: table_types.Table, queues: dict[str, Queue]) -> Routes:
        routes = Routes()
        self._bound = {}
        self._expected = _expected(table)
        for route in table.routes:
            current = self._endpoint(route, route.version, None, route.plan, queues)
            plans = {route.version: route.plan} | route.versions
            versions = {
                version: self._endpoint(route, version, version, plan, queues) for version, plan in plans.items()
            }
            # An alias is a URL of its own, which answers with the version that it stands for.
            aliases = {
                alias: self._endpoint(route, version, alias, plans.get(version, UNSERVED), queues, alias=alias)
                for alias, version in route.aliases.items()
            }
            routes.names[route.namespace, route.name] = Name(current, versions, aliases)
            for prefix in _prefixes(route.namespace):
                base = f"{prefix}/v2/models/{quote(route.name, safe='')}"
                routes.hot[f"{base}/infer".encode()] = current
                for version, endpoint in (aliases | versions).items():
                    routes.hot[f"{base}/versions/{quote(version, safe='')}/infer".encode()] = endpoint
            _add_v1(routes.hot, routes.names[route.namespace, route.name])
        self._graphs.bind(routes)
        routes.heard = heard(routes)
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
        def find(server: str) -> plan_submit.Caller[Call]:
            return cached_queue.before(queues[server], self._service.clock, self._room)

        mine = tuple(queues[server] for server in plan.servers)
        if plan.graph is not None:
            return self._graph_endpoint(route, version, asked, plan, alias)
        models = frozenset({route.name, route.model} - {""})
        owner = route.model or route.name
        unserved = "" if mine or (route.namespace, owner, version) in self._expected else _unserved(route, version)
        timeouts = (queue.server.timeout_ms / 1000 for queue in mine if queue.server.timeout_ms is not None)
        keeper = self._graphs.keeper(plan.kept)
        alone = len(mine) == 1 and keeper is None
        return Endpoint(
            namespace=route.namespace,
            name=route.name,
            version=version,
            asked_version=asked,
            target=Target(route.namespace, "Model", route.name, models=models, alias=alias),
            queues=mine,
            submit=plan_submit.run(plan, find) if mine else self._refuse,
            timeout=min((CEILING_SECONDS, *timeouts)),
            head=v2.answer_head(route.name, version),
            counters=self._service.metrics.counters(route.namespace, route.name, version, route.model),
            new_id=self._service.new_id if keeper is None else keeper.new_id,
            unserved=unserved,
            cache=mine[0].cache if alone and mine[0].server.cache_bytes else None,
            default=default_of(plan.default),
            notes=None if keeper is None else Notes({}, keeper, what_of(0, (), [("", version)])),
            kept=plan.kept,
        )

    def _graph_endpoint(
        self, route: table_types.Route, version: str, asked: str | None, plan: table_types.Plan, alias: str
    ) -> Endpoint:
        """Its `submit` is that of a graph which knows what it calls, once all endpoints are there."""
        graph = plan.graph
        assert graph is not None
        key = route.namespace, route.name, graph.generation
        bound = self._bound.get(key)
        if bound is None:
            bound = self._bound[key] = self._graphs.bound(route.namespace, route.name, graph, plan.kept)
        timeout = CEILING_SECONDS if graph.timeout_ms is None else min(CEILING_SECONDS, graph.timeout_ms / 1000)
        models = frozenset({route.name, route.model} - {""})
        return Endpoint(
            namespace=route.namespace,
            name=route.name,
            version=version,
            asked_version=asked,
            target=Target(route.namespace, "Model", route.name, models=models, alias=alias),
            queues=(),
            submit=bound.submit,
            timeout=timeout,
            head=v2.answer_head(route.name, version),
            counters=self._service.metrics.counters(route.namespace, route.name, version, route.model),
            new_id=self._service.new_id if bound.keeper is None else bound.keeper.new_id,
            default=default_of(plan.default),
            bound=bound,
            kept=plan.kept,
        )

    def _rehouse(self, calls: Iterable[Call]) -> None:
        """Calls that waited for a version that is served no more go to what their name stands for now."""
        for call, party in [(each, party) for each in calls for party in each.parties()]:
            assert isinstance(party, Placed)
            call.let_go(party)
            was = party.endpoint
            name = self._service.routes.names.get((was.namespace, was.name))
            now = None if name is None else name.asked(was.asked_version)
            if now is None:
                self._refuse(party)
            else:
                party.move(now)

    def _refuse(self, call: Call) -> None:
        assert isinstance(call, Placed)
        now, unserved = self._service.clock(), call.endpoint.unserved
        if unserved:
            call.settle(UNAVAILABLE, unserved.encode(), now, retry=0, lacking=NOBODY)
        else:
            call.settle(UNAVAILABLE, b"nothing that could answer is running yet", now, lacking=NOBODY)


class TableFile(WatchedFile):
    """Hands over each good Table."""

    def __init__(self, path: Path, take: Callable[[table_types.Table], None], loop: asyncio.AbstractEventLoop) -> None:
        def load(data: bytes) -> str:
            table = table_types.decode(data)
            take(table)
            return f"table {table.serial}: {len(table.routes)} names, {len(table.servers)} served versions"

        super().__init__("table", path, load, loop)


def _offer(call: Call) -> bool:
    """Another server of its version takes it, if one is ready. Of a call that several wait for, those whose name has
    such a server are taken there; False while any is left."""
    left = False
    for party in call.parties():
        assert isinstance(party, Placed)
        if party.endpoint.ready:
            call.let_go(party)
            party.endpoint.submit(party)
        else:
            left = True
    return not left


def _key(server: table_types.Server) -> Key:
    return server.id, server.version, server.files


def _expected(table: table_types.Table) -> frozenset[tuple[str, str, str]]:
    served = {(server.id.partition("/")[0], server.model, server.version) for server in table.servers}
    # What still starts has a name of its own, and nobody behind it.
    return frozenset(served | {(route.namespace, route.model, route.version) for route in table.routes if route.model})


def _unserved(route: table_types.Route, version: str) -> str:
    model = route.model or route.name
    place = "" if route.namespace == DEFAULT_NAMESPACE else f" --namespace {route.namespace}"
    return f"version {version} of '{model}' is not served; 'mizzen serve {model} {version}{place}' serves it"


def _places(servers: dict[Key, table_types.Server]) -> set[Place]:
    return {(key, address) for key, server in servers.items() for address in server.addresses}


def _add_v1(hot: dict[bytes, Endpoint], name: Name) -> None:
    """The same endpoints by the paths of V1, where a label is an alias and only that."""
    asked = {
        "": name.current,
        **{f"/versions/{quote(version, safe='')}": each for version, each in (name.aliases | name.versions).items()},
        **{f"/labels/{quote(alias, safe='')}": each for alias, each in name.aliases.items()},
    }
    spoken = {place: endpoint.spoken(V1) for place, endpoint in asked.items()}
    for prefix in _prefixes(name.current.namespace):
        base = f"{prefix}/v1/models/{quote(name.current.name, safe='')}"
        hot.update((f"{base}{place}:predict".encode(), endpoint) for place, endpoint in spoken.items())


def _prefixes(namespace: str) -> tuple[str, ...]:
    spelled = f"/ns/{quote(namespace, safe='')}"
    return ("", spelled) if namespace == DEFAULT_NAMESPACE else (spelled,)
