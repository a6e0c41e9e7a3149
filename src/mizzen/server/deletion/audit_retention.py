"""Pruning of old audit entries, as the settings say: else a caller with many refusals could fill the disk."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import NoReturn

from mizzen.errors import MizzenError
from mizzen.stores.records.protocol import AuditPruning

log = logging.getLogger(__name__)


async def keep_pruning(
    audit: AuditPruning, now: Callable[[], datetime], *, days: int, refusals: int, every: float = 60.0
) -> NoReturn:
    """Runs forever, in the plane's task tree. Keeps allowed requests for `days`, or forever if that is 0; of refused
    ones, the newest `refusals`. Logs a failed pass; the next pass tries again."""
    while True:
        try:
            gone = await audit.prune(allowed_before=now() - timedelta(days=days) if days else None, refusals=refusals)
        except MizzenError as error:
            log.warning("cannot prune the audit: %s; trying again", error)
        else:
            if gone:
                log.info("dropped the %d oldest entries of the audit", gone)
        await asyncio.sleep(every)
