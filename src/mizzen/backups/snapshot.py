"""A copy of a SQLite store as it is at one moment, while a plane goes on writing to it; and of what its bandits know.

All that was acknowledged before `copied` is called is in it. Pages are copied as they are: rows keep their places,
by which a store knows the order of some of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mizzen.blobs import digest_references
from mizzen.errors import BadRequest, NotFound, Unavailable
from mizzen.selection import state_db
from mizzen.stores.sqlite import codec, read_ops, schema

_PAGES: Final = 4096
"""Copied between two words about progress."""

GAP: Final = 1_000_000_000
"""By how much resource versions go on after a restore: no plane made so many changes since a backup that is of use."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    schema: int
    resource_version: int
    digests: frozenset[str]
    """Of all files that its objects name."""


def copy_store(store: Path, to: Path, told: Callable[[int, int], None]) -> Snapshot:
    """Make `to`. `told(done, total)` is told of pages. NotFound; Unavailable."""
    if not store.is_file():
        raise NotFound(f"{store.parent} holds no plane", hint="--data-dir names another folder")
    with _explain_errors(store, to), closing(schema.open_reader(store)) as source:
        # One read transaction from here on: what is written meanwhile is not seen, and holds nobody up.
        source.execute("BEGIN")
        found, _ = read_ops.position(source)
        _copy_pages(source, to, told)
    with _explain_errors(to), closing(sqlite3.connect(to)) as copy:
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        rv, _ = read_ops.position(copy)
        assert rv == found, "a snapshot is of one moment"
        return Snapshot(int(version), rv, frozenset(_digests_in(copy)))


def copy_selection_state(learnt: Path, to: Path, told: Callable[[int, int], None]) -> None:
    """Make `to`: what bandits know, with all feedback that was acknowledged before. BadRequest; Unavailable."""
    hint = "move it away with the plane stopped: its bandits begin anew, and all else can be backed up"
    with _explain_errors(learnt, to, damaged=hint), closing(schema.open_reader(learnt)) as source:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # with the first read the moment is chosen
        _copy_pages(source, to, told)


def admit(store: Path) -> None:
    """Make a restored copy ready to be a store: check it, and let its versions go on beyond all that were ever given.

    Whoever watched the plane that the backup is of may know of changes after it. Their places are none here: they are
    told to list again, and never mistake a new change for one that they have seen. BadRequest; Unavailable.
    """
    with _explain_errors(store), closing(sqlite3.connect(store, isolation_level=None)) as copy:
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        if version > schema.SCHEMA:
            raise BadRequest(
                f"the backup is of a newer Mizzen (schema {version}; this one knows {schema.SCHEMA})",
                hint="restore it with the newer version",
            )
        _check_pages(copy, "the database")
        copy.execute("BEGIN")
        copy.execute("UPDATE state SET rv = rv + ?, horizon = rv + ?", (GAP, GAP))
        copy.execute("DELETE FROM events")
        copy.execute("COMMIT")


def admit_learnt(learnt: Path) -> None:
    """BadRequest when gateways could not go on with it."""
    with _explain_errors(learnt), closing(sqlite3.connect(learnt, isolation_level=None)) as copy:
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        if version > state_db.SCHEMA:
            raise BadRequest(
                f"what bandits know is of a newer Mizzen (schema {version}; this one knows {state_db.SCHEMA})",
                hint="restore it with the newer version",
            )
        _check_pages(copy, "what bandits know")


def _copy_pages(source: sqlite3.Connection, to: Path, told: Callable[[int, int], None]) -> None:
    """Of a source that has begun to read; it is done with that afterwards."""
    with closing(sqlite3.connect(to)) as target:
        source.backup(target, pages=_PAGES, progress=lambda _status, left, total: told(total - left, total), sleep=0.01)
        # In one file: a copy that keeps a log beside it could be taken apart.
        target.execute("PRAGMA journal_mode = DELETE")
    source.execute("ROLLBACK")


def _check_pages(copy: sqlite3.Connection, what: str) -> None:
    [(said,)] = copy.execute("PRAGMA quick_check(1)").fetchall()
    if said != "ok":
        raise BadRequest(f"{what} in the backup is damaged: {said}", hint="take another backup")


def _digests_in(copy: sqlite3.Connection) -> Iterator[str]:
    marks = ", ".join("?" for _ in digest_references.NAMING)
    with closing(copy.execute(f"SELECT body FROM objects WHERE kind IN ({marks})", digest_references.NAMING)) as found:  # noqa: S608
        for (body,) in found:
            yield from digest_references.digests(codec.decode(body).spec)


@contextmanager
def _explain_errors(store: Path, to: Path | None = None, *, damaged: str = "take another backup") -> Iterator[None]:
    """`to`: what is written meanwhile, if that is another one. `damaged`: what to do when `store` is."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            folder = (to or store).parent
            raise Unavailable(
                f"{folder} has no room for the database", hint="make room on its disk, or name another folder"
            ) from error
        raise Unavailable(f"{store} cannot be read: {error}", hint="look for a full disk, or a damaged file") from error
    except sqlite3.Error as error:
        raise BadRequest(f"{store} is damaged: {error}", hint=damaged) from error
