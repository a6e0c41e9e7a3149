"""The entry point of planes and gateways, run by the supervisor."""

from __future__ import annotations

import importlib
import json
import logging
import os
import sys

import uvloop

from mizzen.errors import MizzenError
from mizzen.settings import Settings


def main() -> None:
    """Run by the supervisor as `python -m mizzen.assemble plane|gateway`."""
    settings = Settings.from_json(os.environ["MIZZEN_SETTINGS"])
    listeners: dict[str, int] = json.loads(os.environ["MIZZEN_LISTENERS"])
    _set_up_log(settings.log_level)
    role = importlib.import_module(f"mizzen.assemble.{sys.argv[1]}")
    try:
        uvloop.run(role.run(settings, listeners))
    except MizzenError as error:
        # These are the last lines of the log, which `mizzen up` shows when the start fails.
        sys.exit(f"error: {error.message}\nhint: {error.hint}" if error.hint else f"error: {error.message}")


def _set_up_log(level: str) -> None:
    logging.basicConfig(
        level=level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr
    )
    for name in ("httpx2", "httpcore2"):  # they log every URL, even one that contains a signature
        logging.getLogger(name).setLevel(logging.WARNING)


if __name__ == "__main__":
    main()
