"""Garbage: files that no version or document names any more, or that never got one, uploads that nobody went on with,
and what training left of models that are gone (`outliving.py`).

A file goes when nothing names it and nobody touched it for the grace time. Whoever registers a version or keeps a
checkpoint touches its files first, and has all of that time to write down what names them. So a file that is just being
named is never taken for one that nobody names, however the two are interleaved.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from mizzen.blobs import digest_references
from mizzen.blobs.file_store import FileBlobs
from mizzen.blobs.ingest.uploads import Uploads
from mizzen.errors import Expired, MizzenError
from mizzen.kinds.schema.resource import Resource
from mizzen.server.deletion import training_retention
from mizzen.stores.store import Store

log = logging.getLogger(__name__)

GRACE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Collected:
    files: int = 0
    size: int = 0
    uploads: int = 0
    left: int = 0
    """Documents and folders that training left."""


async def collect_garbage(
    store: Store, blobs: FileBlobs, now: datetime, grace: timedelta = GRACE, *, data_dir: Path | None = None
) -> Collected:
    """One pass. `data_dir`: where folders that training left are looked for."""
    before = now - grace
    left = await _collect_left(store, blobs, data_dir, before)
    # First the files, then what names them: a version written in between is seen, or its files were just touched.
    old = await asyncio.to_thread(lambda: {item.digest: item.size for item in blobs.stored() if item.touched < before})
    kept = await named_digests(store, blobs) if old else frozenset()
    gone = await asyncio.to_thread(
        lambda: {one: size for one, size in old.items() if one not in kept and blobs.remove(one, before)}
    )
    uploads = await asyncio.to_thread(Uploads(blobs).collect, before)
    try:
        gone |= await _collect_behind(store, blobs, before)
    except MizzenError as error:  # what is here makes room whether or not the store behind it answers
        log.warning("cannot collect files behind the disk: %s; trying again", error)
    return Collected(len(gone), sum(gone.values()), uploads, left)


async def _collect_left(store: Store, blobs: FileBlobs, data_dir: Path | None, before: datetime) -> int:
    old = await asyncio.to_thread(training_retention.Old.found, blobs.documents, data_dir, before)
    if old == training_retention.Old((), (), ()):
        return 0
    present = training_retention.Present()
    for kind in training_retention.KINDS:
        async for item in _each(store, kind):
            present.add(item)
    return await asyncio.to_thread(training_retention.remove, old, blobs.documents, present)


async def _collect_behind(store: Store, blobs: FileBlobs, before: datetime) -> dict[str, int]:
    """The sizes of files that were only behind by now. What is only here gets there: it was put before there
    was a store, or while it was away."""
    # What documents name that are only behind as yet is named, too.
    await asyncio.to_thread(blobs.documents.settle)
    behind = await asyncio.to_thread(lambda: {item.digest: item for item in blobs.stored_behind()})
    old = {digest: item.size for digest, item in behind.items() if item.touched < before}
    kept = await named_digests(store, blobs) if old else frozenset()

    def settle() -> dict[str, int]:
        for digest in [item.digest for item in blobs.stored() if item.digest not in behind]:
            blobs.put_behind(digest)
        return {one: size for one, size in old.items() if one not in kept and blobs.remove_behind(one)}

    return await asyncio.to_thread(settle)


async def keep_collecting(
    store: Store,
    blobs: FileBlobs,
    now: Callable[[], datetime],
    *,
    data_dir: Path | None = None,
    grace: timedelta = GRACE,
    every: float = 3600.0,
) -> None:
    """Runs for ever, in the plane's task tree. A pass that fails is told, and tried again with the next."""
    while True:
        await asyncio.sleep(every)
        try:
            done = await collect_garbage(store, blobs, now(), grace, data_dir=data_dir)
        except MizzenError as error:
            log.warning("cannot collect files that nobody names: %s; trying again", error)
            continue
        except Exception:  # a store behind may be anybody's code, and must not end the plane
            log.exception("cannot collect files that nobody names; trying again")
            continue
        if done != Collected():
            log.info(
                "collected %d files (%d bytes), %d uploads, and %d documents and folders of training",
                done.files, done.size, done.uploads, done.left,
            )  # fmt: skip


async def named_digests(store: Store, blobs: FileBlobs) -> frozenset[str]:
    """Every digest that an object or a document names."""
    found: set[str] = set()
    for kind in digest_references.NAMING:
        async for item in _each(store, kind):
            found.update(digest_references.digests(item.spec))
    return frozenset(found) | await asyncio.to_thread(training_retention.named_digests, blobs.documents)


async def _each(store: Store, kind: str) -> AsyncIterator[Resource]:
    """Each at least once."""
    after: str | None = None
    while True:
        try:
            page = await store.list(kind, limit=500, after=after)
        except Expired:
            after = None  # what was read stays read: too much is kept rather than too little
            continue
        for item in page.items:
            yield item
        after = page.next
        if after is None:
            return
