"""Work that never ends, begun anew when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

SHORTEST_DELAY: Final = 0.02
LONGEST_DELAY: Final = 5.0


async def persist(
    work: Callable[[], Awaitable[NoReturn]], failure: str, log: logging.Logger, *, shortest: float = SHORTEST_DELAY
) -> NoReturn:
    """Until cancelled. Begins again after a failure, later each time that failures follow each other closely; `failure`
    says in the log what could not be done."""
    clock = asyncio.get_running_loop().time
    delay = shortest
    while True:
        begun = clock()
        try:
            await work()
        except Exception:  # whatever it is, the next state may be good
            delay = min(delay * 2, LONGEST_DELAY) if clock() - begun < LONGEST_DELAY else shortest
            log.exception("%s; again in %.2f s", failure, delay)
            await asyncio.sleep(delay)
