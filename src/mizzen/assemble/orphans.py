"""Ending processes that no Workload names: after a kill, or after the owner has accepted an older store."""

from __future__ import annotations

import asyncio
import logging

from mizzen.engines.local.engine import LocalEngine
from mizzen.errors import MizzenError
from mizzen.stores.all_pages import each_at_least_once
from mizzen.stores.store import Store

_EVERY = 30.0
_PAGE = 500

log = logging.getLogger(__name__)


async def keep_ending(store: Store, engine: LocalEngine, every: float = _EVERY) -> None:
    """Runs forever, in the plane's task tree; the first pass is at once."""

    async def known() -> frozenset[str]:
        return frozenset([item.meta.uid async for item in each_at_least_once(store, "Workload", limit=_PAGE)])

    while True:
        try:
            for key in await engine.end_unknown(known):
                log.warning("ended process %s: no workload names it", key)
        except MizzenError as error:
            log.warning("cannot look for processes that no workload names: %s; trying again", error)
        await asyncio.sleep(every)
