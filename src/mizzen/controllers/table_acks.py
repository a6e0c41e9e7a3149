"""Tracking of the Tables that gateways have loaded: which addresses and graphs all gateways route to, and which none.

A new replica counts as ready once every live gateway has loaded a Table that names it: a caller that sees the ready
status and calls at once gets a response. An old replica stays until every live gateway has loaded a Table without it.
Stopping it at the switch would fail no request, since a stopping replica finishes its requests; but requests that
arrive before a gateway reloads would have to wait. A stuck gateway is waited for only until a timeout; when it comes
back, it starts with the newest Table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from mizzen.graph import table_types
from mizzen.graph.compile.plans import graph_mark
from mizzen.protocol.gateway_files import table_acks

ACK_TIMEOUT = 5.0
"""Seconds after which a gateway that has not loaded a Table is no longer waited for."""

Since: TypeAlias = tuple[int, float]
"""Serial and time of a Table."""


class GatewayTraffic:
    def __init__(self, folder: Path, *, clock: Callable[[], float], patience: float = ACK_TIMEOUT) -> None:
        """`folder` is where gateways record which Table they have loaded."""
        self._folder = folder
        self._clock = clock
        self._patience = patience
        self._named: Mapping[str, Since] = {}
        """Addresses in the newest Table, each with the first Table since which it was always named."""
        self._newest: Since | None = None
        self._first: Since | None = None
        """The first Table of this process: addresses removed earlier are assumed to be removed with it."""
        self._gone: dict[str, Since] = {}
        """Recently removed addresses, each with the first Table without it."""

    def on_published(self, table: table_types.Table) -> None:
        """Record the Table that gateways can load from now on."""
        now: Since = (table.serial, self._clock())
        named = set(_list_addresses(table))
        recent = {
            address: since
            for address, since in self._gone.items()
            if address not in named and now[1] - since[1] < self._patience
        }
        self._gone = recent | dict.fromkeys(self._named.keys() - named, now)
        self._named = {address: self._named.get(address, now) for address in named}
        self._first, self._newest = self._first or now, now

    def is_current(self) -> bool:
        """Whether every gateway has loaded the newest Table."""
        return self._newest is None or self._is_known((self._newest,))

    def reaches(self, addresses: Collection[str]) -> bool:
        """Whether every gateway routes to at least one of these."""
        return any(self._is_known((since,)) for address in addresses if (since := self._named.get(address)))

    def has_left(self, addresses: Collection[str]) -> bool:
        """Whether every gateway has stopped routing to these."""
        if self._first is None or not self._named.keys().isdisjoint(addresses):
            return False
        # Addresses that are not remembered were removed so long ago that no gateway is waited for.
        return self._is_known([self._gone.get(address, self._first) for address in addresses])

    def _is_known(self, tables: Collection[Since]) -> bool:
        """Whether every gateway has loaded these Tables or later ones, apart from those past the timeout."""
        waited = [serial for serial, when in tables if self._clock() - when < self._patience]
        if not waited:
            return True
        return all(each.serial >= max(waited) for each in table_acks.list_alive(self._folder))


def _list_addresses(table: table_types.Table) -> Iterator[str]:
    for server in table.servers:
        yield from server.addresses
    for service in table.services:
        yield from service.addresses
    for route in table.routes:
        if route.plan.graph is not None:
            yield graph_mark(route.plan.graph.uid, route.plan.graph.generation)
