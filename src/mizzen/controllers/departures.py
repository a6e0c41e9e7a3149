"""When a process may end that answered until a moment ago: when no gateway goes by a Table that names it.

Were it ended with the switch, no request would fail, since a process that ends answers what it has; but those that come
before a gateway has looked would have to wait. So it stays until all living gateways have taken a Table without it. One
that is stuck is not waited for without end, and one that comes back begins with the newest Table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from mizzen.graph import plan
from mizzen.protocol import taken

PATIENCE = 5.0
"""Seconds after which a gateway that has not taken a Table is not waited for any more."""


class Departures:
    def __init__(self, folder: Path, *, clock: Callable[[], float], patience: float = PATIENCE) -> None:
        """`folder` is where gateways write down which Table they have taken."""
        self._folder = folder
        self._clock = clock
        self._patience = patience
        self._named: frozenset[str] = frozenset()
        """Addresses in the Table that was published last."""
        self._begun: tuple[int, float] | None = None
        """Serial and time of the first Table: what went before, went with it, for all that is known."""
        self._left: dict[str, tuple[int, float]] = {}
        """Addresses that went of late: serial and time of the first Table without them."""

    def published(self, table: plan.Table) -> None:
        """The Table that gateways find from now on."""
        now = self._clock()
        named = frozenset(address for server in table.servers for address in server.addresses)
        kept = {
            address: went
            for address, went in self._left.items()
            if address not in named and now - went[1] < self._patience
        }
        self._left = kept | dict.fromkeys(self._named - named, (table.serial, now))
        self._named = named
        self._begun = self._begun or (table.serial, now)

    def over(self, addresses: Collection[str]) -> bool:
        """Does no gateway send to these any more?"""
        if self._begun is None or not self._named.isdisjoint(addresses):
            return False
        # Those that are not remembered went so long ago that nobody is waited for.
        went = [self._left.get(address, self._begun) for address in addresses]
        waited = [serial for serial, when in went if self._clock() - when < self._patience]
        if not waited:
            return True
        return all(each.serial >= max(waited) for each in taken.living(self._folder))
