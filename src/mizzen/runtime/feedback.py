"""A model is told how well it did. Nobody waits for what comes of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.limits.watchdog import Running

log = logging.getLogger("mizzen.runtime")


def tell(model: LoadedModel, told: Mapping[str, Any], running: Running) -> None:
    """`told`: the body of a FEEDBACK frame. Never raises for what the model does."""
    heed = registry.feedback_hook(model)
    if heed is None:
        return
    running.since = time.monotonic()
    try:
        heed(told)
    except BaseException:
        log.exception("feedback for request %s", told.get("id", "unknown"))
    finally:
        running.since = None
