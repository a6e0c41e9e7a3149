"""Garbage collection: files that no version or document references, abandoned uploads, and leftovers of training of
deleted models (`training_retention.py`).

A file is removed if nothing references it and nothing touched it for the grace time. Registering a version or saving a
checkpoint touches its files first, and then has the whole grace time to write the reference. So collection never
removes a file that is just being referenced, however the two interleave.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from mizzen.blobs import digest_references
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import MizzenError
from mizzen.server.deletion import training_retention
from mizzen.stores.all_pages import each_at_least_once
from mizzen.stores.store import Store

log = logging.getLogger(__name__)

GRACE = timedelta(days=1)
PAGE = 500


@dataclass(frozen=True, slots=True)
class CollectionResult:
    files: int = 0
    size: int = 0
    uploads: int = 0
    left: int = 0
    """Leftover documents and folders of training."""


async def collect_garbage(
    store: Store, blobs: FileBlobs, now: datetime, grace: timedelta = GRACE, *, data_dir: Path | None = None
) -> CollectionResult:
    """Runs one pass. `data_dir`: the root of the folders that training leaves. Removes nothing if documents are damaged
    or lost, because what they reference is not known."""
    damaged = await asyncio.to_thread(blobs.documents.list_damaged)
    if damaged:
        name, why = next(iter(damaged.items()))
        log.warning(
            "files without a reference are kept: the document %s, of %d damaged ones, may name them: %s; "
            "see 'mizzen doctor'",
            name, len(damaged), why,
        )  # fmt: skip
        return CollectionResult()
    before = now - grace
    left = await _collect_training_leftovers(store, blobs, data_dir, before)
    # First list the files, then the references: a version written in between is seen, or its files were just touched.
    old = await asyncio.to_thread(lambda: {item.digest: item.size for item in blobs.stored() if item.touched < before})
    used = await list_referenced_digests(store, blobs) if old else frozenset()
    gone = await asyncio.to_thread(
        lambda: {one: size for one, size in old.items() if one not in used and blobs.remove(one, before)}
    )
    uploads = await asyncio.to_thread(Uploads(blobs).collect, before)
    try:
        gone |= await _collect_remote(store, blobs, before)
    except MizzenError as error:  # local files make room even if the remote store does not respond
        log.warning("cannot collect files of the remote store: %s; trying again", error)
    return CollectionResult(len(gone), sum(gone.values()), uploads, left)


async def _collect_training_leftovers(store: Store, blobs: FileBlobs, data_dir: Path | None, before: datetime) -> int:
    old = await asyncio.to_thread(training_retention.Leftovers.find, blobs.documents, data_dir, before)
    if old == training_retention.Leftovers((), (), ()):
        return 0
    present = training_retention.StoredObjects()
    for kind in training_retention.KINDS:
        async for item in each_at_least_once(store, kind, limit=PAGE):
            present.add(item)
    return await asyncio.to_thread(training_retention.remove, old, blobs.documents, present)


async def _collect_remote(store: Store, blobs: FileBlobs, before: datetime) -> dict[str, int]:
    """Removes files from the remote store and returns their sizes. Also uploads files that are only local: they were
    stored before there was a remote store, or while it was away."""
    # Documents that are only in the remote store hold references, too.
    await asyncio.to_thread(blobs.documents.settle)
    behind = await asyncio.to_thread(lambda: {item.digest: item for item in blobs.list_behind()})
    old = {digest: item.size for digest, item in behind.items() if item.touched < before}
    used = await list_referenced_digests(store, blobs) if old else frozenset()

    def settle() -> dict[str, int]:
        for digest in [item.digest for item in blobs.stored() if item.digest not in behind]:
            blobs.put_behind(digest)
        return {one: size for one, size in old.items() if one not in used and blobs.remove_behind(one)}

    return await asyncio.to_thread(settle)


async def keep_collecting(
    store: Store,
    blobs: FileBlobs,
    now: Callable[[], datetime],
    *,
    data_dir: Path | None = None,
    grace: timedelta = GRACE,
    every: float = 3600.0,
    held: Callable[[], str] = lambda: "",
) -> None:
    """Runs forever, in the plane's task tree. Logs a failed pass; the next pass tries again.

    `held` says why the references in the store may be incomplete. While it says anything, nothing is collected.
    """
    while True:
        if reason := held():
            log.warning(
                "files without a reference are kept: %s; after 'mizzen doctor' has found nothing else, "
                "'mizzen doctor --collect' on the stopped plane ends this",
                reason,
            )
        await asyncio.sleep(every)
        if held():
            continue
        try:
            done = await collect_garbage(store, blobs, now(), grace, data_dir=data_dir)
        except MizzenError as error:
            log.warning("cannot collect unreferenced files: %s; trying again", error)
            continue
        except Exception:  # a remote store may be third-party code, and must not end the plane
            log.exception("cannot collect unreferenced files; trying again")
            continue
        if done != CollectionResult():
            log.info(
                "collected %d files (%d bytes), %d uploads, and %d documents and folders of training",
                done.files, done.size, done.uploads, done.left,
            )  # fmt: skip


async def list_referenced_digests(store: Store, blobs: FileBlobs) -> frozenset[str]:
    """Returns every digest that an object or a document references.

    If reading starts over, what was read still counts: that keeps too much rather than too little.
    """
    found: set[str] = set()
    for kind in digest_references.NAMING:
        async for item in each_at_least_once(store, kind, limit=PAGE):
            found.update(digest_references.digests(item.spec))
    return frozenset(found) | await asyncio.to_thread(training_retention.list_referenced_digests, blobs.documents)
