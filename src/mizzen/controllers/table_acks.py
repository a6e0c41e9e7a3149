"""Which processes gateways send to, and which graphs they know: when all of them know one, and when none does any more.

What has just become ready counts as ready when every living gateway has taken a Table that names it: whoever reads so
and asks at once is answered. And were a process ended with the switch to the next, no request would fail, since one
that ends answers what it has; but those that come before a gateway has looked would have to wait. So it stays until all
living gateways have taken a Table without it. One that is stuck is not waited for without end, and one that comes back
begins with the newest Table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from mizzen.graph import table_types
from mizzen.graph.compile.plans import graph_mark
from mizzen.protocol.gateway_files import table_acks

PATIENCE = 5.0
"""Seconds after which a gateway that has not taken a Table is not waited for any more."""

Since: TypeAlias = tuple[int, float]
"""Serial and time of a Table."""


class Traffic:
    def __init__(self, folder: Path, *, clock: Callable[[], float], patience: float = PATIENCE) -> None:
        """`folder` is where gateways write down which Table they have taken."""
        self._folder = folder
        self._clock = clock
        self._patience = patience
        self._named: Mapping[str, Since] = {}
        """Addresses in the Table that was published last, with the first that named them without a gap."""
        self._newest: Since | None = None
        self._begun: Since | None = None
        """The first Table: what went before, went with it, for all that is known."""
        self._gone: dict[str, Since] = {}
        """Addresses that went of late, with the first Table without them."""

    def published(self, table: table_types.Table) -> None:
        """The Table that gateways find from now on."""
        now: Since = (table.serial, self._clock())
        named = set(_named(table))
        kept = {
            address: went
            for address, went in self._gone.items()
            if address not in named and now[1] - went[1] < self._patience
        }
        self._gone = kept | dict.fromkeys(self._named.keys() - named, now)
        self._named = {address: self._named.get(address, now) for address in named}
        self._begun, self._newest = self._begun or now, now

    def knows_newest(self) -> bool:
        """Does every gateway go by the Table that was published last?"""
        return self._newest is None or self._is_known((self._newest,))

    def reaches(self, addresses: Collection[str]) -> bool:
        """Does every gateway send to one of these?"""
        return any(self._is_known((since,)) for address in addresses if (since := self._named.get(address)))

    def has_left(self, addresses: Collection[str]) -> bool:
        """Does no gateway send to these any more?"""
        if self._begun is None or not self._named.keys().isdisjoint(addresses):
            return False
        # Those that are not remembered went so long ago that nobody is waited for.
        return self._is_known([self._gone.get(address, self._begun) for address in addresses])

    def _is_known(self, tables: Collection[Since]) -> bool:
        """Has every gateway that is waited for taken these Tables, or later ones?"""
        waited = [serial for serial, when in tables if self._clock() - when < self._patience]
        if not waited:
            return True
        return all(each.serial >= max(waited) for each in table_acks.living(self._folder))


def _named(table: table_types.Table) -> Iterator[str]:
    for server in table.servers:
        yield from server.addresses
    for service in table.services:
        yield from service.addresses
    for route in table.routes:
        if route.plan.graph is not None:
            yield graph_mark(route.plan.graph.uid, route.plan.graph.generation)
