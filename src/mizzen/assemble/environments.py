"""Environments of a data dir: how they are made by its settings, how long they are kept, and which there are."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.environments import spec
from mizzen.engines.local.environments.lifecycle import Making
from mizzen.settings import Settings

_EVERY = 900.0
"""Seconds between two looks for environments that nothing needs; and until the first: by then all that is served has
been looked at."""

log = logging.getLogger(__name__)


def making(settings: Settings) -> Making:
    wheels = str(settings.root / settings.environment_wheels) if settings.environment_wheels else ""
    return Making(settings.environment_tool, wheels, settings.environment_minutes * 60)


async def keep_clearing(engine: LocalEngine, hours: float, *, every: float = _EVERY) -> None:
    while True:
        await asyncio.sleep(every)
        try:
            for key in await engine.clear_environments(hours * 3600):
                log.info("removed environment %s: nothing has needed it for %g hours", key, hours)
        except OSError:
            log.exception("cannot remove environments that nothing needs; trying again")


def kept(data_dir: Path) -> list[dict[str, Any]]:
    """What is known of each, the one that was used last first. Blocking."""
    return [asdict(one) for one in spec.kept(data_dir)]
