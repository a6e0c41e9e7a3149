"""Endless work that is restarted when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

SHORTEST_DELAY: Final = 0.02
LONGEST_DELAY: Final = 5.0


async def retry_forever(
    work: Callable[[], Awaitable[NoReturn]], failure: str, log: logging.Logger, *, shortest: float = SHORTEST_DELAY
) -> NoReturn:
    """Run `work` until cancelled, and restart it after failures, with growing delays while they follow each other
    closely. `failure` is the log message."""
    clock = asyncio.get_running_loop().time
    delay = shortest
    while True:
        begun = clock()
        try:
            await work()
        except Exception:  # whatever the error is, the next attempt may succeed
            delay = min(delay * 2, LONGEST_DELAY) if clock() - begun < LONGEST_DELAY else shortest
            log.exception("%s; retrying in %.2f s", failure, delay)
            await asyncio.sleep(delay)
