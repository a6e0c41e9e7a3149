"""Environments of a data dir: their build settings, retention and listing."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mizzen.engines.local.engine import LocalEngine
from mizzen.engines.local.environments import spec
from mizzen.engines.local.environments.lifecycle import BuildSettings
from mizzen.settings import Settings

_EVERY = 900.0
"""Seconds between two removals of unused environments, and until the first: by then all workloads have been applied."""

log = logging.getLogger(__name__)


def build_settings_of(settings: Settings) -> BuildSettings:
    wheels = str(settings.root / settings.environment_wheels) if settings.environment_wheels else ""
    return BuildSettings(settings.environment_tool, wheels, settings.environment_minutes * 60)


async def keep_clearing(engine: LocalEngine, hours: float) -> None:
    while True:
        await asyncio.sleep(_EVERY)
        try:
            for key in await engine.clear_environments(hours * 3600):
                log.info("removed environment %s: unused for %g hours", key, hours)
        except OSError:
            log.exception("cannot remove unused environments; retrying later")


def list_environments(data_dir: Path) -> list[dict[str, Any]]:
    """The data of each environment, most recently used first. Blocking."""
    return [asdict(one) for one in spec.list_stored(data_dir)]
