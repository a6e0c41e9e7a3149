"""Consistent copies of a SQLite store and of bandit state, while a plane writes to them.

A copy includes every write acknowledged before the call. Pages are copied unchanged, so rows keep their rowids, which
a store uses to order some of them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mizzen.backups.manifest import damage_error
from mizzen.blobs import digest_references
from mizzen.errors import BadRequest, Unavailable
from mizzen.selection import state_db
from mizzen.stores.marks import verification
from mizzen.stores.marks.checkpoint import StoreCheckpoint, path_of
from mizzen.stores.sqlite import codec, read_ops, schema

_PAGES: Final = 4096
"""Pages copied between two progress reports."""

GAP: Final = 1_000_000_000
"""How far resource versions jump after a restore: more changes than any plane makes after a useful backup."""


@dataclass(frozen=True, slots=True)
class DatabaseCopy:
    schema: int
    resource_version: int
    digests: frozenset[str]
    """Digests of all files that its objects reference."""


def copy_store(store: Path, to: Path, report: Callable[[int, int], None]) -> DatabaseCopy:
    """Creates `to`. Calls `report(done, total)` with pages copied. Raises BadRequest or Unavailable."""
    with _explain_errors(store, to), closing(schema.open_reader(store)) as source:
        # One read transaction from here on: it does not see later writes, and blocks no writer.
        source.execute("BEGIN")
        found, _ = read_ops.position(source)
        _copy_pages(source, to, report)
    with _explain_errors(to), closing(sqlite3.connect(to)) as copy:
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        rv, _ = read_ops.position(copy)
        assert rv == found, "a snapshot is of one moment"
        return DatabaseCopy(int(version), rv, frozenset(_digests_in(copy)))


def copy_selection_state(learnt: Path, to: Path) -> None:
    """Copies bandit state to `to`, with all feedback acknowledged before. Raises BadRequest or Unavailable."""
    hint = "stop the plane and move it away: the bandits start over, and backups work again"
    with _explain_errors(learnt, to, advice=hint), closing(schema.open_reader(learnt)) as source:
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()  # the first read fixes the moment
        _copy_pages(source, to, lambda _done, _total: None)


def admit(store: Path) -> None:
    """Prepares a restored copy for use as a store: checks it, and moves its versions beyond all ever assigned.

    Watchers of the original plane may know of changes after the backup. Their positions are invalid here: they must
    list again, and never mistake a new change for one they have seen. The marks of the copy are written, too. Raises
    BadRequest or Unavailable.
    """
    with _open_checked(store, schema.SCHEMA, "the database") as copy:
        copy.execute("BEGIN")
        copy.execute("UPDATE state SET rv = rv + ?, horizon = rv + ?", (GAP, GAP))
        copy.execute("DELETE FROM events")
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        if version >= verification.FIRST_MARKED:
            copy.execute("UPDATE state SET commits = commits + ?", (GAP,))
        copy.execute("COMMIT")
        mark = read_ops.mark(copy) if version >= verification.FIRST_MARKED else None
    if mark is not None:
        StoreCheckpoint(path_of(store), mark).close(clean=True)


def admit_selection_state(learnt: Path) -> None:
    """Raises BadRequest if gateways could not use it."""
    with _open_checked(learnt, state_db.SCHEMA, "the bandit state"):
        pass


@contextmanager
def _open_checked(path: Path, newest: int, what: str) -> Iterator[sqlite3.Connection]:
    """Opens a restored database. Raises BadRequest if it is damaged, or its schema is newer than `newest`."""
    with _explain_errors(path), closing(sqlite3.connect(path, isolation_level=None)) as copy:
        [(version,)] = copy.execute("PRAGMA user_version").fetchall()
        if version > newest:
            raise BadRequest(
                f"a newer Mizzen wrote {what} in the backup (schema {version}; this version supports {newest})",
                hint="restore it with the newer version",
            )
        [(result,)] = copy.execute("PRAGMA quick_check(1)").fetchall()
        if result != "ok":
            raise damage_error(f"{what} in the backup is damaged: {result}")
        yield copy


def _copy_pages(source: sqlite3.Connection, to: Path, report: Callable[[int, int], None]) -> None:
    """Copies the pages of a source with an open read transaction, and ends that transaction."""
    with closing(sqlite3.connect(to)) as target:
        source.backup(
            target, pages=_PAGES, progress=lambda _status, left, total: report(total - left, total), sleep=0.01
        )
        # In one file: a copy with a separate log could lose it.
        target.execute("PRAGMA journal_mode = DELETE")
    source.execute("ROLLBACK")


def _digests_in(copy: sqlite3.Connection) -> Iterator[str]:
    marks = ", ".join("?" for _ in digest_references.NAMING)
    with closing(copy.execute(f"SELECT body FROM objects WHERE kind IN ({marks})", digest_references.NAMING)) as found:  # noqa: S608
        for (body,) in found:
            yield from digest_references.digests(codec.decode(body).spec)


@contextmanager
def _explain_errors(store: Path, to: Path | None = None, *, advice: str = "take another backup") -> Iterator[None]:
    """`to`: the file being written, if it is another one. `advice`: what to do if `store` is damaged."""
    try:
        yield
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
            folder = (to or store).parent
            raise Unavailable(
                f"{folder} has no room for the database", hint="free space on its disk, or name another folder"
            ) from error
        raise Unavailable(f"{store} cannot be read: {error}", hint="check for a full disk or a damaged file") from error
    except sqlite3.Error as error:
        raise BadRequest(f"{store} is damaged: {error}", hint=advice) from error
