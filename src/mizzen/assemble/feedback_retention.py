"""What feedback has taught, kept in bounds: what is known of graphs and models that are no more is forgotten, and so is
which feedback was given, once nobody can give it again.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from mizzen.errors import Invalid, MizzenError
from mizzen.kinds.graph.spec import MLGraphSpec
from mizzen.kinds.schema.resource import Resource
from mizzen.kinds.serving import Feedback, InferenceModelSpec
from mizzen.kinds.text.durations import seconds
from mizzen.selection import state_db
from mizzen.selection.records import FOLDER
from mizzen.selection.records.retention import sweep
from mizzen.stores.all_pages import whole
from mizzen.stores.store import Store, Where

_EVERY = 300.0
_LONGER = 2.0
"""Feedback is known for so many times as long as the record of what it was for."""
_DEFAULT = Feedback.model_validate({})

log = logging.getLogger(__name__)


async def keep_tidy(store: Store, root: Path, *, every: float = _EVERY) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(every)
        try:
            # Before the living are counted: what is made meanwhile is not among the dead.
            known = await asyncio.to_thread(_known, root)
            alive = await _alive(store)
            await asyncio.to_thread(_tidy, root, alive, known)
        except (OSError, sqlite3.Error, MizzenError):
            log.exception("cannot tidy up what was learnt from feedback; trying again")


async def _alive(store: Store) -> dict[str, float]:
    """For how many seconds each graph and model keeps records, if it may keep any."""
    found: dict[str, float] = {}
    for kind in ("MLGraph", "InferenceModel"):
        for resource in await whole(store, kind, Where()):
            found[resource.meta.uid] = _kept_seconds(resource)
    return found


def _kept_seconds(resource: Resource) -> float:
    try:
        spec = MLGraphSpec.of(resource) if resource.kind == "MLGraph" else InferenceModelSpec.of(resource)
    except Invalid:
        return seconds(_DEFAULT.max_age)
    return seconds((spec.feedback or _DEFAULT).max_age)


def _known(root: Path) -> set[str]:
    path = root / state_db.FILE
    if not path.exists():
        return set()
    with closing(state_db.opened(path)) as connection:
        return state_db.uids(connection)


def _tidy(root: Path, alive: Mapping[str, float], known: set[str]) -> None:
    now = time.time()
    sweep(root / FOLDER, alive, now)
    if not known:
        return
    with closing(state_db.opened(root / state_db.FILE)) as connection:
        state_db.prune(connection, now, _LONGER * max([seconds(_DEFAULT.max_age), *alive.values()]))
        gone = state_db.forget(connection, {*alive, *(state_db.uids(connection) - known)})
    if gone:
        log.info("forgot what %d graphs had learnt that are no more", len(gone))
