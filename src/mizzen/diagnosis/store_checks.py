"""Databases, their marks, and the files that the plane derives from them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from mizzen.access import access_file, quota_usage
from mizzen.diagnosis.defects import Defect, Patient
from mizzen.graph import table_types
from mizzen.kinds.schema.resource import parse_time
from mizzen.selection import state_db
from mizzen.stores.marks import verification
from mizzen.stores.sqlite import schema

DATABASE: Final = "mizzen.db"
_AHEAD: Final = timedelta(minutes=5)
_RESTORE: Final = "stop the plane; put the newest copy of its files back, or restore a backup into a new data dir"
_ACCEPT: Final = "; 'mizzen doctor --accept-older-store' continues with what is there"
_DERIVED: Final = "start the plane: it writes the file again"


def check_store(patient: Patient) -> Iterator[Defect]:
    """The database, its log, and how far it has come."""
    path = patient.root / DATABASE
    found = verification.examine(path, deep=True)
    if found.problem:
        yield Defect("store", found.problem, str(path), _RESTORE + (_ACCEPT if found.acceptable else ""))
        return
    for note in found.notes:
        yield Defect("marks", note, str(patient.root), _DERIVED)
    if found.held:
        yield Defect(
            "marks",
            f"files without a reference are kept, because {found.held}",
            str(patient.root / "blobs"),
            "check that nothing is missing; then 'mizzen doctor --collect' on the stopped plane lets them be collected",
        )
    if path.exists():
        yield from _check_versions(path)
        yield from _check_clock(path)


def check_derived(patient: Patient) -> Iterator[Defect]:
    """table.json, access.json, and small files of the supervisor. A running plane writes the first two by itself."""
    for name, decode in ((verification.TABLE, table_types.decode), (verification.ACCESS, access_file.decode)):
        path = patient.root / name
        try:
            decode(path.read_bytes())
        except FileNotFoundError:
            if patient.running:
                yield Defect("tables", f"{name} is missing", str(path), "the plane writes it again; see its log")
        except (OSError, ValueError) as error:
            # Derived, and useless as it is: without it, gateways that start say that they have no table yet.
            defect = Defect("tables", f"{name} is damaged: {error}", str(path), _DERIVED)
            yield defect if patient.running else patient.mend(defect, lambda path=path: _remove(path))  # type: ignore[misc]
    ports = patient.home.ports
    if ports.exists() and not _is_json(ports):
        defect = Defect("tables", "ports.json is damaged", str(ports), "start the plane: it may pick other ports")
        yield patient.mend(defect, lambda: _remove(ports))


def check_other_databases(patient: Patient) -> Iterator[Defect]:
    """What bandits have learned, and the use of quotas."""
    for name, lost in (
        (state_db.FILE, "bandits start over from a backup's state, or from none"),
        (quota_usage.FILE, "quotas count from zero again"),
    ):
        path = patient.root / name
        problem = _find_problem(path) if path.exists() else ""
        if problem:
            action = f"stop the plane, put a copy back or move {name} and its -wal away ({lost}), and start it"
            yield Defect("databases", f"{name} is damaged: {problem}", str(path), action)
    if not (patient.root / state_db.FILE).exists() and any(patient.root.glob("records/*/*")):
        yield Defect(
            "databases",
            f"{state_db.FILE} is missing, though graphs have recorded answers for feedback",
            str(patient.root / state_db.FILE),
            "stop the plane and put a copy back; otherwise bandits start over",
        )


def _check_versions(path: Path) -> Iterator[Defect]:
    with closing(schema.open_untouched(path)) as connection:
        [(found,)] = connection.execute("PRAGMA user_version").fetchall()
    if found > schema.SCHEMA:
        what = f"a newer Mizzen wrote {path.name} (schema {found}; this version supports {schema.SCHEMA})"
        yield Defect("versions", what, str(path), "use the newer version")


def _check_clock(path: Path) -> Iterator[Defect]:
    with closing(schema.open_untouched(path)) as connection:
        try:
            [(newest,)] = connection.execute("SELECT max(time) FROM audit").fetchall()
        except sqlite3.OperationalError:  # of an early release
            return
    time = parse_time(newest) if newest else None
    if time is not None and time > datetime.now(UTC) + _AHEAD:
        what = f"the newest audit entry is of {newest}, which is in the future: the clock was wrong, or is now"
        yield Defect("clock", what, "this machine", "check the clock; entries keep the time that they were made with")


def _find_problem(path: Path) -> str:
    try:
        with closing(schema.open_untouched(path)) as connection:
            [(result,), *_] = connection.execute("PRAGMA quick_check(1)").fetchall()
    except sqlite3.Error as error:
        return str(error)
    return "" if result == "ok" else str(result)


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return True


def _remove(path: Path) -> str:
    path.unlink(missing_ok=True)
    return "removed; the next start writes it again"
