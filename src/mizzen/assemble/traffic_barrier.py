"""The barrier that delays responses about traffic until gateways have applied the change: a caller who promotes a
version and calls it at once gets that version. The change is already durable, so a stuck gateway does not undo it: the
barrier waits at most `table_acks.ACK_TIMEOUT`.
"""

from __future__ import annotations

import asyncio
import contextlib

from mizzen.controllers.table_acks import ACK_TIMEOUT, GatewayTraffic
from mizzen.controllers.table_publisher import TablePublisher

POLL_INTERVAL = 0.01
"""Seconds. Gateways check for a new Table every 50 ms."""


class TrafficBarrier:
    def __init__(self, tables: TablePublisher, traffic: GatewayTraffic, *, patience: float = ACK_TIMEOUT) -> None:
        self._tables = tables
        self._traffic = traffic
        self._patience = patience

    async def __call__(self, position: str) -> None:
        """Return when every gateway has applied the state of the store at this resource version, or after a timeout."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                # Gateways acknowledge Tables in files, which trigger no event.
                while not (self._tables.covers(position) and self._traffic.is_current()):  # noqa: ASYNC110
                    await asyncio.sleep(POLL_INTERVAL)
