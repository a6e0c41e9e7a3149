"""The Table on disk -> the routes in force. A new file is taken whole; what it keeps is not touched.

The file is looked at every 50 ms. One that is missing or broken is reported once and changes nothing: gateways serve
the last good Table for as long as it takes. One that has had none yet answers 503, for it cannot know what is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import quote

from mizzen.access.policy import Target
from mizzen.gateway.calls import UNAVAILABLE, Call
from mizzen.gateway.dialects import V1
from mizzen.gateway.infer import Inference, Service
from mizzen.gateway.queues import Queue
from mizzen.gateway.routes import DEFAULT_NAMESPACE, Endpoint, Name, Routes
from mizzen.gateway.upstream import Replica
from mizzen.gateway.watched import WatchedFile
from mizzen.graph import execute, plan
from mizzen.protocol import v2

CEILING_SECONDS = 60.0
"""No request lives longer, whatever it asks for."""

Key = tuple[str, str]
"""A served version: the server's id and its version. A new version behind an id is another queue."""

NOBODY = plan.Plan(servers=())


class Fleet:
    """The queues of all served versions and the connections to their replicas."""

    def __init__(
        self, service: Service, new_queue: Callable[[plan.Server], Queue], loop: asyncio.AbstractEventLoop
    ) -> None:
        self.queues: dict[Key, Queue] = {}
        self._service = service
        self._new_queue = new_queue
        self._loop = loop
        self._replicas: dict[tuple[Key, str], Replica] = {}

    def take(self, table: plan.Table) -> None:
        """Put this Table in force. ValueError, with nothing changed, when it contradicts itself."""
        wanted = {(server.id, server.version): server for server in table.servers}
        by_id = {server.id: key for key, server in wanted.items()}
        for used in (each for route in table.routes for each in (route.plan, *route.versions.values())):
            if missing := [id_ for id_ in used.servers if id_ not in by_id]:
                raise ValueError(f"a plan names server '{missing[0]}', which is not in the table")
        gone = [self.queues.pop(key) for key in self.queues.keys() - wanted.keys()]
        for key, server in wanted.items():
            if key in self.queues:
                self.queues[key].update(server)
            else:
                self.queues[key] = self._new_queue(server)
        self._service.replace(routes=self._routes(table, {id_: self.queues[key] for id_, key in by_id.items()}))
        self._connect(wanted)
        for queue in gone:
            self._rehouse(queue.retire())
        # After the move of what waited, which is counted where it moved to.
        named = (
            (route.namespace, route.name, {route.version, *route.versions, *route.aliases.values()})
            for route in table.routes
        )
        self._service.metrics.keep({(space, name, version) for space, name, all_ in named for version in all_})

    async def close(self) -> None:
        await asyncio.gather(*(replica.abort() for replica in self._replicas.values()))
        self._replicas.clear()

    def _connect(self, wanted: dict[Key, plan.Server]) -> None:
        addresses = {(key, address) for key, server in wanted.items() for address in server.addresses}
        for place in self._replicas.keys() - addresses:
            self._replicas.pop(place).retire()
        for key, address in addresses - self._replicas.keys():
            self._replicas[key, address] = Replica(address, self.queues[key], self._loop)

    def _routes(self, table: plan.Table, queues: dict[str, Queue]) -> Routes:
        routes = Routes()
        for route in table.routes:
            current = self._endpoint(route, route.version, None, route.plan, queues)
            plans = {route.version: route.plan} | route.versions
            versions = {
                version: self._endpoint(route, version, version, plan, queues) for version, plan in plans.items()
            }
            # An alias is a URL of its own, which answers with the version that it stands for.
            aliases = {
                alias: self._endpoint(route, version, alias, plans.get(version, NOBODY), queues, alias=alias)
                for alias, version in route.aliases.items()
            }
            routes.names[route.namespace, route.name] = Name(current, versions, aliases)
            for prefix in _prefixes(route.namespace):
                base = f"{prefix}/v2/models/{quote(route.name, safe='')}"
                routes.hot[f"{base}/infer".encode()] = current
                for version, endpoint in (aliases | versions).items():
                    routes.hot[f"{base}/versions/{quote(version, safe='')}/infer".encode()] = endpoint
            _add_v1(routes.hot, routes.names[route.namespace, route.name])
        return routes

    def _endpoint(
        self,
        route: plan.Route,
        version: str,
        asked: str | None,
        plan: plan.Plan,
        queues: dict[str, Queue],
        *,
        alias: str = "",
    ) -> Endpoint:
        mine = tuple(queues[server] for server in plan.servers)
        models = frozenset({route.name, route.model} - {""})
        timeouts = (queue.server.timeout_ms / 1000 for queue in mine if queue.server.timeout_ms is not None)
        return Endpoint(
            namespace=route.namespace,
            name=route.name,
            version=version,
            asked_version=asked,
            target=Target(route.namespace, "Model", route.name, models=models, alias=alias),
            queues=mine,
            submit=execute.run(plan, queues.__getitem__) if mine else self._refuse,
            timeout=min((CEILING_SECONDS, *timeouts)),
            head=v2.answer_head(route.name, version),
            counters=self._service.metrics.counters(route.namespace, route.name, version),
        )

    def _rehouse(self, calls: Iterable[Call]) -> None:
        """Calls that waited for a version that is served no more go to what their name stands for now."""
        for call in calls:
            assert isinstance(call, Inference)
            was = call.endpoint
            name = self._service.routes.names.get((was.namespace, was.name))
            now = None if name is None else name.asked(was.asked_version)
            if now is None:
                self._refuse(call)
            else:
                call.move(now)

    def _refuse(self, call: Call) -> None:
        call.settle(UNAVAILABLE, b"nothing that could answer is running", self._service.clock())


class TableFile(WatchedFile):
    """Hands over each good Table."""

    def __init__(self, path: Path, take: Callable[[plan.Table], None], loop: asyncio.AbstractEventLoop) -> None:
        def load(data: bytes) -> str:
            table = plan.decode(data)
            take(table)
            return f"table {table.serial}: {len(table.routes)} names, {len(table.servers)} served versions"

        super().__init__("table", path, load, loop)


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
