"""Retention of feedback state: the state of deleted graphs and models is removed. So are the ids of received feedback,
once its record is gone and it cannot be repeated.
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
_RETENTION_FACTOR = 2.0
"""Feedback ids are kept this many times as long as the records they refer to."""
_DEFAULT = Feedback.model_validate({})

log = logging.getLogger(__name__)


async def keep_pruning(store: Store, root: Path, *, every: float = _EVERY) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(every)
        try:
            # Read before the existing objects: state created in between must not count as that of deleted objects.
            known = await asyncio.to_thread(_list_known, root)
            alive = await _retention_by_uid(store)
            await asyncio.to_thread(_prune, root, alive, known)
        except (OSError, sqlite3.Error, MizzenError):
            log.exception("cannot prune feedback state; retrying later")


async def _retention_by_uid(store: Store) -> dict[str, float]:
    """The retention of records in seconds, for each existing graph and InferenceModel."""
    found: dict[str, float] = {}
    for kind in ("MLGraph", "InferenceModel"):
        for resource in await whole(store, kind, Where()):
            found[resource.meta.uid] = _retention_of(resource)
    return found


def _retention_of(resource: Resource) -> float:
    try:
        spec = MLGraphSpec.of(resource) if resource.kind == "MLGraph" else InferenceModelSpec.of(resource)
    except Invalid:
        return seconds(_DEFAULT.max_age)
    return seconds((spec.feedback or _DEFAULT).max_age)


def _list_known(root: Path) -> set[str]:
    path = root / state_db.FILE
    if not path.exists():
        return set()
    with closing(state_db.open_db(path)) as connection:
        return state_db.list_uids(connection)


def _prune(root: Path, alive: Mapping[str, float], known: set[str]) -> None:
    now = time.time()
    sweep(root / FOLDER, alive, now)
    if not known:
        return
    with closing(state_db.open_db(root / state_db.FILE)) as connection:
        state_db.prune(connection, now, _RETENTION_FACTOR * max([seconds(_DEFAULT.max_age), *alive.values()]))
        gone = state_db.forget(connection, {*alive, *(state_db.list_uids(connection) - known)})
    if gone:
        log.info("removed the feedback state of %d deleted objects", len(gone))
