"""quotas.db: how much of their quotas everybody has used, in a file that gateways write and the plane reads.

One row per subject and day or month (`limits.named`). What a gateway has taken for itself and not used yet is in it.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from mizzen.access import limits
from mizzen.access.limits import Period

FILE = "quotas.db"
"""In the data dir."""
BUSY_SECONDS = 1.0
"""How long one waits for another to write; each takes a fraction of a millisecond."""

_TABLE = (
    "CREATE TABLE IF NOT EXISTS used (subject TEXT NOT NULL, period TEXT NOT NULL, count INTEGER NOT NULL,"
    " PRIMARY KEY (subject, period)) WITHOUT ROWID"
)
_PERIODS: tuple[Period, ...] = ("day", "month")


def opened(path: Path) -> sqlite3.Connection:
    """Survives every process that uses it; a power cut may forget its last seconds. sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(_TABLE)
    return connection


def count(connection: sqlite3.Connection, subject: str, period: str) -> int:
    found = connection.execute("SELECT count FROM used WHERE subject = ? AND period = ?", (subject, period)).fetchall()
    return int(found[0][0]) if found else 0


def write(connection: sqlite3.Connection, subject: str, period: str, number: int) -> None:
    connection.execute("INSERT OR REPLACE INTO used VALUES (?, ?, ?)", (subject, period, number))


def forget_before(connection: sqlite3.Connection, subject: str, period: str) -> None:
    """Periods of the same sort, which the length of its name tells."""
    connection.execute(
        "DELETE FROM used WHERE subject = ? AND period < ? AND length(period) = length(?)", (subject, period, period)
    )


def now(path: Path, subject: str, wall: float) -> dict[str, int]:
    """Of this day and this month; nothing where it is not counted."""
    if not path.exists():
        return {}
    try:
        connection = opened(path)
        try:
            found = {period: count(connection, subject, limits.named(period, wall)) for period in _PERIODS}
        finally:
            connection.close()
    except sqlite3.Error:
        return {}
    return {period: number for period, number in found.items() if number}
