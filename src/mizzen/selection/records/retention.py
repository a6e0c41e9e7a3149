"""Removes leftover records: of deleted graphs, of stopped gateways, and those that are too old."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from mizzen.selection.records import segments
from mizzen.selection.records.client_id_index import NAME
from mizzen.selection.records.writer import is_expired

log = logging.getLogger(__name__)


def sweep(folder: Path, alive: Mapping[str, float], now: float) -> None:
    """Remove leftovers. `alive`: the retention in seconds of each uid that stores records; records of all other uids
    are removed, unless they are new. `now`: seconds since 1970.

    For the uids that stay, removes segments in which every record is too old, of any gateway: a running gateway hands
    out no ids of such a segment. A gateway whose folder was removed creates it again on its next write.
    """
    for home in _folders(folder):
        max_seconds = alive.get(home.name)
        try:
            if max_seconds is None:
                # A new folder may belong to a graph that was created after `alive` was collected.
                if is_expired(home.stat().st_mtime, 0.0, now):
                    shutil.rmtree(home)
                continue
            for gateway in _folders(home):
                _sweep_gateway(gateway, max_seconds, now)
        except OSError as error:
            log.warning("expired records cannot be removed from %s: %s", home, error)


def _sweep_gateway(home: Path, max_seconds: float, now: float) -> None:
    left = False
    for path in sorted(home.iterdir()):
        if segments.serial_of(path.name) is None:
            continue
        try:
            over = is_expired(segments.read_header(path).until, max_seconds, now)
        except FileNotFoundError:
            continue
        except ValueError:  # foreign or truncated: removed once nothing in it can be recent enough
            over = is_expired(path.stat().st_mtime, max_seconds, now)
        if over:
            path.unlink(missing_ok=True)
        else:
            left = True
    if not left and is_expired(home.stat().st_mtime, 0.0, now):
        # The index is stale. If its gateway is running, it notices with its next segment.
        (home / NAME).unlink(missing_ok=True)
        if not any(home.iterdir()):
            home.rmdir()


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
