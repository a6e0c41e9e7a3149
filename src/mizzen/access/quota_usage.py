"""quotas.db: the used quota of each subject, in a file that gateways write and the plane reads.

One row per subject and day or month (`limits.period_name`). Counts include requests that gateways have reserved only.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from mizzen.access import limits
from mizzen.access.limits import Period

FILE = "quotas.db"
"""The file's name in the data dir."""
BUSY_SECONDS = 1.0
"""How long a writer waits for another one; each write takes a fraction of a millisecond."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS used (subject TEXT NOT NULL, period TEXT NOT NULL, count INTEGER NOT NULL,"
    " PRIMARY KEY (subject, period)) WITHOUT ROWID"
)
_PERIODS: tuple[Period, ...] = ("day", "month")


def connect(path: Path) -> sqlite3.Connection:
    """The data survives crashes of processes; a power cut may lose the last seconds. Raises sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_TABLE)
    return connection


def read_count(connection: sqlite3.Connection, subject: str, period: str) -> int:
    found = connection.execute("SELECT count FROM used WHERE subject = ? AND period = ?", (subject, period)).fetchall()
    return int(found[0][0]) if found else 0


def write_count(connection: sqlite3.Connection, subject: str, period: str, number: int) -> None:
    connection.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (subject, period, number))


def delete_before(connection: sqlite3.Connection, subject: str, period: str) -> None:
    """Deletes earlier periods of the same sort; the length of the name tells days from months."""
    connection.execute(
        "DELETE FROM used WHERE subject = ? AND period < ? AND length(period) = length(?)", (subject, period, period)
    )


def current_usage(path: Path, subject: str, wall: float) -> dict[str, int]:
    """Returns the counts of the current day and month; without those that are zero or not counted."""
    if not path.exists():
        return {}
    try:
        with closing(connect(path)) as connection:
            used = {period: read_count(connection, subject, limits.period_name(period, wall)) for period in _PERIODS}
    except sqlite3.Error:
        return {}
    return {period: number for period, number in used.items() if number}
