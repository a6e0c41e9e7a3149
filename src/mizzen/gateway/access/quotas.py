"""Quotas of requests per day or month, counted in a file that all gateways share and that outlives the plane.

A gateway leases a part of the remaining quota and records it as used at once. So there are never more answers than the
quota, even if a process is killed, and a request costs only a subtraction. A gateway returns unused requests a second
after the last one, and when it stops. If a gateway is killed, the caller loses its lease: at most a 64th of the quota,
1000 requests and a second's use. The smaller the remaining quota, the smaller the leases, down to one request.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from mizzen.access import limits, quota_usage
from mizzen.access.limits import Period

MAX_LEASE, LEASE_DIVISOR = 1000, 64
"""The largest lease, and the part of the remaining quota that a lease takes."""
IDLE_SECONDS = 1.0
RECHECK_SECONDS = 1.0
"""After a quota was found empty, the gateway refuses for so long before it looks for requests that others returned."""

log = logging.getLogger(__name__)


class Quotas:
    """The quota file. It is opened when the first caller with a quota comes."""

    def __init__(self, path: Path, *, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._path = path
        self._call_later = call_later
        self._connection: sqlite3.Connection | None = None
        self._held: set[QuotaLease] = set()
        """Leases that may have unused requests."""
        self._timer_armed = False

    def lease(self, subject: str, period: Period, quota: int) -> QuotaLease:
        return QuotaLease(self, subject, period, quota)

    def take(self, lease: QuotaLease, name: str) -> int:
        """Takes a part of the remaining quota of this period; returns 0 if none is left. Raises OSError."""
        try:
            connection = self._open()
            if quota_usage.read_count(connection, lease.subject, name) >= lease.quota:
                return 0  # a read neither waits for a lock nor holds one
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                before = quota_usage.read_count(connection, lease.subject, name)
                left = lease.quota - before
                if left <= 0:
                    return 0
                taken = max(1, min(MAX_LEASE, left // LEASE_DIVISOR))
                quota_usage.write_count(connection, lease.subject, name, before + taken)
                if not before:  # the first of a new period: earlier ones are over
                    quota_usage.delete_before(connection, lease.subject, name)
        except sqlite3.Error as error:
            self._close()
            raise OSError(f"{self._path.name} cannot be written: {error}") from error
        self._hold(lease)
        return taken

    def close(self) -> None:
        self._give_back()
        self._close()

    def _hold(self, lease: QuotaLease) -> None:
        self._held.add(lease)
        if not self._timer_armed:
            self._timer_armed = True
            self._call_later(IDLE_SECONDS, self._return_idle)

    def _return_idle(self) -> None:
        self._timer_armed = False
        self._give_back(idle=True)
        if self._held and not self._timer_armed:
            self._timer_armed = True
            self._call_later(IDLE_SECONDS, self._return_idle)

    def _give_back(self, *, idle: bool = False) -> None:
        """Returns unused requests: of leases idle since the last check, or of all."""
        over = {lease for lease in self._held if not idle or lease.check_idle()}
        self._held -= over
        back = [(count, lease.subject, name) for lease in over for name, count in [lease.release()] if count]
        if not back:
            return
        try:
            connection = self._open()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("UPDATE used SET count = count - ? WHERE subject = ? AND period = ?", back)
        except (sqlite3.Error, OSError) as error:
            self._close()
            log.warning("unused requests of quotas cannot be returned and are lost: %s", error)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = quota_usage.connect(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


@dataclass(slots=True, eq=False)
class QuotaLease:
    """The requests that this gateway has leased for one caller in the current period."""

    quotas: Quotas
    subject: str
    period: Period
    quota: int
    _left: int = 0
    _name: str = ""
    _end: float = 0.0
    """End of the period, in seconds since 1970."""
    _refused_at: float = -math.inf
    _was_used: bool = False

    def spend(self, wall: float) -> bool:
        """Uses one request; returns False if none is left. `wall`: seconds since 1970. Raises OSError."""
        self._was_used = True
        if wall >= self._end:
            self._left = 0  # the lease was for a period that is over
            self._refused_at = -math.inf
            self._name, self._end = limits.period_name(self.period, wall), limits.period_end(self.period, wall)
        if not self._left:
            if 0 <= wall - self._refused_at < RECHECK_SECONDS:
                return False
            self._left = self.quotas.take(self, self._name)
        if not self._left:
            self._refused_at = wall
            return False
        self._left -= 1
        return True

    def undo(self) -> None:
        """Returns the request that `spend` took, because another quota of the caller is exhausted."""
        self._left += 1

    def resets_in(self, wall: float) -> float:
        return self._end - wall

    def check_idle(self) -> bool:
        was_used, self._was_used = self._was_used, False
        return not was_used

    def release(self) -> tuple[str, int]:
        left, self._left = self._left, 0
        return self._name, left
