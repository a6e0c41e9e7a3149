"""Passing feedback to a model. No caller waits for the result."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

from mizzen.runtime.frameworks import registry
from mizzen.runtime.frameworks.model import LoadedModel
from mizzen.runtime.limits.watchdog import Running

log = logging.getLogger("mizzen.runtime")


def deliver(model: LoadedModel, body: Mapping[str, Any], running: Running) -> None:
    """Pass the body of a FEEDBACK frame to the model. Never raises because of the model."""
    hook = registry.feedback_hook(model)
    if hook is None:
        return
    running.since = time.monotonic()
    try:
        hook(body)
    except BaseException:
        log.exception("feedback for request %s", body.get("id", "unknown"))
    finally:
        running.since = None
