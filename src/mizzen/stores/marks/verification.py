"""What a start does before it opens a store: it compares the store with its marks, and refuses one that is behind.

The marks are the checkpoint file, table.json and access.json: each says which store it was derived from and how far
that had come. All of them are written after the commit, so a whole store is never behind them. The examination opens
the database read-only and changes nothing, so whatever is put back afterwards still fits.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from mizzen.errors import Conflict
from mizzen.stores.marks import checkpoint, wal
from mizzen.stores.marks.checkpoint import StoreMark
from mizzen.stores.sqlite import schema

TABLE: Final = "table.json"
ACCESS: Final = "access.json"
QUICK_BYTES: Final = 512 << 20
"""A database of up to this size is checked page by page at every start; a larger one after a kill or power loss."""
FIRST_MARKED: Final = 7
"""The first schema with an id and a number of commits."""
COMMITS: Final = 3
"""The column of `state`."""

LOST_CHECKPOINT: Final = "the checkpoint file was lost or damaged"

_HINT: Final = (
    "put the newest copy of its files back, or restore a backup into a new data dir ('mizzen restore'); "
    "'mizzen doctor' shows what is wrong; {accept}nothing was changed"
)
_ACCEPT: Final = "'mizzen doctor --accept-older-store' continues with what is there; "


@dataclass(frozen=True, slots=True)
class Examination:
    """Of the database of a store."""

    mark: StoreMark | None = None
    """How far the store has come; None: there is none yet, or an earlier release wrote it, or it cannot be read."""
    problem: str = ""
    """Why the store must not be used; empty: it is whole."""
    acceptable: bool = False
    """Whether the owner may continue in spite of the problem."""
    held: str = ""
    """Why files without a reference must be kept."""
    clean: bool = False
    """The store was closed properly."""
    notes: tuple[str, ...] = ()
    """Damage that the start repairs."""


@dataclass(frozen=True, slots=True)
class _Bound:
    """What a published file says of the store that it was derived from."""

    file: str
    store: str
    commits: int = 0
    resource_version: int = 0


def verify(database: Path) -> Examination:
    """Examines the store before a start. Raises Conflict, with instructions, if it must not be used."""
    found = examine(database)
    if found.problem:
        raise Conflict(
            f"the store is damaged: {found.problem}", hint=_HINT.format(accept=_ACCEPT if found.acceptable else "")
        )
    return found


def examine(database: Path, *, deep: bool = False) -> Examination:
    """Reads the database and its marks; changes nothing. `deep`: checks every page, whatever the size."""
    notes: list[str] = []
    try:
        point = checkpoint.read(checkpoint.path_of(database))
    except checkpoint.DamagedCheckpoint as error:
        notes.append(f"{error}; a start writes it again")
        point = None
    bounds = [bound for name in (TABLE, ACCESS) if (bound := _read_bound(database.with_name(name), notes))]
    if not database.exists() or database.stat().st_size == 0:
        return _explain_absence(database, point, notes)
    held = point.held if point is not None else ""
    clean = point is not None and point.clean
    fault = _find_header_fault(database)
    if fault:
        return Examination(problem=fault, notes=tuple(notes))
    mixed = False
    try:
        mark = _read_mark(database)
        problem = _compare(database, mark, point, bounds)
        if problem:
            return Examination(mark, problem, acceptable=True, held=held, notes=tuple(notes))
        if deep or not clean or database.stat().st_size <= QUICK_BYTES:
            fault = _find_damage(database)
    except (sqlite3.Error, ValueError) as error:
        fault, mixed = f"{database.name} cannot be read: {error}", wal.has_frames(database)
        if mixed:
            fault += f"; it and its write-ahead log ({wal.path_of(database).name}) may not belong together"
    if fault:
        return Examination(problem=fault, acceptable=mixed, held=held, notes=tuple(notes))
    if mark is not None and point is None and mark.commits > 1:
        held = LOST_CHECKPOINT
        if not checkpoint.path_of(database).exists():
            notes.append(f"{checkpoint.path_of(database).name} is missing; a start writes it again")
    return Examination(mark, held=held, clean=clean, notes=tuple(notes))


def is_mixed(database: Path) -> bool:
    """Whether the log does not belong to the file."""
    try:
        return bool(_find_mix(database))
    except (sqlite3.Error, ValueError):
        return True


def _explain_absence(database: Path, point: StoreMark | None, notes: list[str]) -> Examination:
    """An absent or empty database is fine only in a new data dir."""
    folder = database.parent
    blobs = folder / "blobs" / "sha256"
    signs = [
        name
        for name, exists in (
            (checkpoint.path_of(database).name, checkpoint.path_of(database).exists()),
            (TABLE, (folder / TABLE).exists()),
            (ACCESS, (folder / ACCESS).exists()),
            ("blobs", any(blobs.glob("*/*"))),
        )
        if exists
    ]
    if not signs:
        return Examination()
    state = "is empty" if database.exists() else "is missing"
    had = f" after {point.commits} changes" if point is not None else ""
    problem = f"{database} {state}, but {' and '.join(signs)} show that a store was here{had}"
    return Examination(problem=problem, acceptable=True, notes=tuple(notes))


def _compare(database: Path, mark: StoreMark | None, point: StoreMark | None, bounds: list[_Bound]) -> str:
    """Returns how the store is behind its marks; empty if it is not."""
    known = point.store if point is not None else next((bound.store for bound in bounds if bound.store), "")
    if mark is None:
        if not known:
            return ""  # of an earlier release
        return f"{database.name} is of an earlier release, and the plane has already used a newer one here"
    if point is not None and point.store != mark.store:
        return f"{database.name} is another store than the one that {checkpoint.path_of(database).name} names"
    behind = [
        f"{file} knows {kind} {reached}"
        for file, kind, reached, there in (
            *(((checkpoint.path_of(database).name, "change", point.commits, mark.commits),) if point else ()),
            *(
                (bound.file, kind, reached, there)
                for bound in bounds
                if bound.store == mark.store
                for kind, reached, there in (
                    ("change", bound.commits, mark.commits),
                    ("resource version", bound.resource_version, mark.resource_version),
                )
            ),
        )
        if reached > there
    ]
    if behind:
        return (
            f"{database.name} is older than it was: it ends with change {mark.commits} (resource version "
            f"{mark.resource_version}), but {', and '.join(behind)}; its write-ahead log ({database.name}-wal) is "
            "lost or damaged, or an older copy is in its place"
        )
    return _find_mix(database)


def _find_mix(database: Path) -> str:
    """Returns how the log does not belong to the file; empty if it does. SQLite would mix both without an error."""
    if not wal.has_frames(database):
        return ""
    with closing(schema.open_untouched(database)) as connection:
        [(page,)] = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'state'").fetchall()
    try:
        first = wal.first_commits(database, page, COMMITS)
    except ValueError:
        return ""  # SQLite does not use it either, and the store is not behind without it
    if first is None:
        return ""
    with closing(schema.open_untouched(database, without_log=True)) as base:
        try:
            [(there,)] = base.execute("SELECT commits FROM state").fetchall()
        except sqlite3.OperationalError:  # no table yet: all of the store is in its first log
            there = 0
    if first > there + 1:
        return (
            f"{database.name} is older than its write-ahead log: the file ends with change {there}, and "
            f"{database.name}-wal begins with change {first}"
        )
    return ""


def _read_mark(database: Path) -> StoreMark | None:
    """Raises sqlite3.Error."""
    with closing(schema.open_untouched(database)) as connection:
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        if version < FIRST_MARKED:
            return None
        [(store, commits, rv)] = connection.execute("SELECT id, commits, rv FROM state").fetchall()
        return StoreMark(store, commits, rv)


def _find_damage(database: Path) -> str:
    """Checks every page, and that no event is missing. Raises sqlite3.Error."""
    with closing(schema.open_untouched(database)) as connection:
        [(result,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            return f"{database.name}: {' '.join(str(result).split())}"
        [(version,)] = connection.execute("PRAGMA user_version").fetchall()
        if version == 0:
            return ""
        [(rv, horizon)] = connection.execute("SELECT rv, horizon FROM state").fetchall()
        [(events,)] = connection.execute("SELECT count(*) FROM events WHERE rv <= ?", (rv,)).fetchall()
    if events != rv - horizon:
        return f"{database.name} has {events} of {rv - horizon} events: a part of it is older than the rest"
    return ""


def _find_header_fault(database: Path) -> str:
    with database.open("rb") as file:
        header = file.read(100)
    if len(header) < 100 or header[:16] != b"SQLite format 3\0":
        return f"{database.name} is not a database any more"
    size = int.from_bytes(header[16:18], "big")
    pages = int.from_bytes(header[28:32], "big")
    if not wal.has_frames(database) and pages * (1 << 16 if size == 1 else size) > database.stat().st_size:
        return f"{database.name} is truncated"
    return ""


def _read_bound(path: Path, notes: list[str]) -> _Bound | None:
    """Published files are derived: a damaged one bounds nothing, and is written again."""
    try:
        data: Any = json.loads(path.read_bytes())
        store, serial, commits = str(data.get("store", "")), int(data.get("serial", 0)), int(data.get("commits", 0))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, AttributeError):
        notes.append(f"{path.name} is damaged; a start writes it again")
        return None
    return _Bound(path.name, store, commits, serial if path.name == TABLE else 0)
