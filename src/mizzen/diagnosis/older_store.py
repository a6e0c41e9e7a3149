"""Continuing with a store that is behind its marks, and ending the hold on garbage collection. For the owner only.

What was there is set aside first, so nothing is lost if a better copy turns up later.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

from mizzen.backups.snapshot import GAP
from mizzen.blobs.documents import FileDocuments
from mizzen.blobs.fs.fsync import sync_folder
from mizzen.diagnosis.examination import check_owner
from mizzen.diagnosis.store_checks import DATABASE
from mizzen.errors import Conflict, Unavailable
from mizzen.stores.marks import checkpoint, verification, wal
from mizzen.stores.marks.checkpoint import StoreCheckpoint
from mizzen.stores.records.protocol import AuditEntry
from mizzen.stores.sqlite import read_ops, schema
from mizzen.stores.sqlite.lock import Lock
from mizzen.stores.sqlite.store import SqliteStore
from mizzen.supervisor import launch
from mizzen.supervisor.data_dir import Home

SET_ASIDE: Final = "set-aside"
"""A folder of the data dir."""
_DRAFT: Final = ".accepting"


async def accept(data_dir: Path, now: Callable[[], datetime], new_id: Callable[[], str]) -> tuple[str, Path]:
    """Makes the store that is there the plane's store. Returns its problem, and where the files are set aside.

    Versions continue beyond all that were assigned, so watchers and marks of the newer store are behind it. Raises
    Conflict if the plane runs, the store is not damaged, or too damaged.
    """
    _check_stopped(data_dir)
    database = data_dir / DATABASE
    lock = await Lock.take(database)
    try:
        found = verification.examine(database, deep=True)
        if not found.problem:
            raise Conflict("the store is not behind its marks: there is nothing to accept", hint="run 'mizzen up'")
        if not found.acceptable:
            raise Conflict(f"this store cannot be used: {found.problem}", hint="restore a backup into a new data dir")
        aside = data_dir / SET_ASIDE / now().strftime("%Y%m%dT%H%M%SZ")
        try:
            _replace_store(database, aside, found.problem)
        except (sqlite3.Error, OSError) as error:
            raise Unavailable(
                f"the store cannot be accepted: {error}", hint="check the disk and its free space"
            ) from error
    finally:
        lock.release()
    await _record(database, f"accepted an older store: {found.problem}", now, new_id)
    return found.problem, aside


async def end_hold(data_dir: Path, now: Callable[[], datetime], new_id: Callable[[], str]) -> str:
    """Lets files without a reference be collected again. Returns why they were kept. Raises Conflict."""
    _check_stopped(data_dir)
    database = data_dir / DATABASE
    lock = await Lock.take(database)
    try:
        found = verification.verify(database)
        documents = FileDocuments(data_dir / "blobs")
        damaged = documents.list_damaged()
        held = found.held or "; ".join(f"the document {name}: {why}" for name, why in damaged.items())
        if not held or found.mark is None:
            raise Conflict("garbage collection is not on hold", hint="it runs while the plane runs")
        if damaged:
            documents.accept_lost()
        known = _read_checkpoint(database) or found.mark
        StoreCheckpoint(checkpoint.path_of(database), replace(known, held="")).close(clean=known.clean)
    finally:
        lock.release()
    await _record(database, f"ended the hold on garbage collection: {held}", now, new_id)
    return held


def _check_stopped(data_dir: Path) -> None:
    check_owner(data_dir)
    info = launch.alive(Home.of(data_dir))
    if info is not None:
        raise Conflict(f"a supervisor runs in {data_dir} (pid {info['pid']})", hint="run 'mizzen down' first")


def _replace_store(database: Path, aside: Path, problem: str) -> None:
    """Prepares a copy, sets the files aside, and puts the copy into their place."""
    draft = database.with_name(_DRAFT)
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    copy = draft / database.name
    for source, target in ((database, copy), (wal.path_of(database), wal.path_of(copy))):
        # A log that does not belong to the file would only damage it.
        if source.exists() and not (target != copy and verification.is_mixed(database)):
            shutil.copyfile(source, target)
            target.chmod(0o600)
    with closing(schema.open_writer(copy)) as connection:
        [(result,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise sqlite3.DatabaseError(str(result))
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE state SET rv = rv + ?, horizon = rv + ?, commits = commits + ?", (GAP, GAP, GAP))
        connection.execute("DELETE FROM events")
        connection.execute("COMMIT")
        mark = replace(
            read_ops.mark(connection),
            held=f"an older store was accepted ({problem[:300].encode('ascii', 'replace').decode()})",
        )
    aside.mkdir(mode=0o700, parents=True)
    names = (database, wal.path_of(database), database.with_name(f"{database.name}-shm"), checkpoint.path_of(database))
    for path in names:
        if path.exists():
            path.rename(aside / path.name)
    StoreCheckpoint(checkpoint.path_of(database), mark).close(clean=True)
    with copy.open("rb") as written:
        os.fsync(written.fileno())
    copy.rename(database)
    sync_folder(database.parent)
    shutil.rmtree(draft, ignore_errors=True)


def _read_checkpoint(database: Path) -> checkpoint.StoreMark | None:
    try:
        return checkpoint.read(checkpoint.path_of(database))
    except checkpoint.DamagedCheckpoint:
        return None


async def _record(database: Path, reason: str, now: Callable[[], datetime], new_id: Callable[[], str]) -> None:
    store = await SqliteStore.open(database, clock=now, new_id=new_id)
    try:
        entry = AuditEntry(now(), "admin", "admin", "Store", "", DATABASE, allowed=True, reason=reason, source="doctor")
        await store.audit.record(entry)
    finally:
        await store.close()
