"""What nobody writes any more: records of graphs that are gone, and of gateways that run no more."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path

from mizzen.selection.records import segments
from mizzen.selection.records.client_id_index import NAME
from mizzen.selection.records.writer import expired

log = logging.getLogger(__name__)


def sweep(folder: Path, alive: Mapping[str, float], now: float) -> None:
    """`alive`: for how many seconds each uid keeps records that still does; those of all others are removed, unless
    they have just begun. `now`: seconds since 1970.

    Of the rest it removes segments in which everything is too old, of whichever gateway: one that runs gives no ids of
    such a segment away. A gateway whose folder is removed makes it anew when it has something to write.
    """
    for home in _folders(folder):
        max_seconds = alive.get(home.name)
        try:
            if max_seconds is None:
                # One that was just made may belong to a graph that was not there yet when the living were counted.
                if expired(home.stat().st_mtime, 0.0, now):
                    shutil.rmtree(home)
                continue
            for gateway in _folders(home):
                _sweep_gateway(gateway, max_seconds, now)
        except OSError as error:
            log.warning("records that are too old stay in %s: %s", home, error)


def _sweep_gateway(home: Path, max_seconds: float, now: float) -> None:
    left = False
    for path in sorted(home.iterdir()):
        if segments.serial_of(path.name) is None:
            continue
        try:
            over = expired(segments.header(path).until, max_seconds, now)
        except FileNotFoundError:
            continue
        except ValueError:  # not ours, or cut short: it goes when nothing in it could be young enough
            over = expired(path.stat().st_mtime, max_seconds, now)
        if over:
            path.unlink(missing_ok=True)
        else:
            left = True
    if not left and expired(home.stat().st_mtime, 0.0, now):
        # The index leads nowhere any more. If its gateway runs, it notices with its next segment.
        (home / NAME).unlink(missing_ok=True)
        if not any(home.iterdir()):
            home.rmdir()


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.is_dir())
    except FileNotFoundError:
        return []
