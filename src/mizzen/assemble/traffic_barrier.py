"""A decision about traffic is answered when traffic follows it: whoever made a version current and asks at once is
answered by that version. The decision itself is durable before, so a gateway that is stuck does not undo it: it is
waited for as long as `traffic.PATIENCE`, and no longer.
"""

from __future__ import annotations

import asyncio
import contextlib

from mizzen.controllers.table_acks import PATIENCE, Traffic
from mizzen.controllers.table_publisher import TablePublisher

LOOK_EVERY = 0.01
"""Seconds. Gateways look for a new Table every 50 ms."""


class Carrying:
    def __init__(self, tables: TablePublisher, traffic: Traffic, *, patience: float = PATIENCE) -> None:
        self._tables = tables
        self._traffic = traffic
        self._patience = patience

    async def __call__(self, position: str) -> None:
        """Returns when every gateway goes by what the store held at this resource version, or when it was waited for
        long enough."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                # What a gateway goes by is a file, which tells nobody that it changed.
                while not (self._tables.says(position) and self._traffic.knows_newest()):  # noqa: ASYNC110
                    await asyncio.sleep(LOOK_EVERY)
