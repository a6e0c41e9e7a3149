"""So many requests in a day or a month: counted in a file of all gateways, which outlives them and the plane.

A gateway takes some of what is left at a time, and notes them as used at once: so there are never more answers than the
quota, whoever is killed when, and a request costs no more than a subtraction. What a gateway has taken and not used it
gives back a second after the last request, and when it stops; what a killed one had is lost to whose it was: at most a
64th of the quota, 1000 requests and a second's use. The less is left, the less is taken, in the end one by one.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Callable
from pathlib import Path

from mizzen.access import limits, quota_usage
from mizzen.access.limits import Period

MOST_TAKEN, PART = 1000, 64
"""At one time: a part of what is left, and no more than that."""
IDLE_SECONDS = 1.0
REFUSED_SECONDS = 1.0
"""Who was told that nothing is left is told so again for so long, before anybody looks for what others gave back."""

log = logging.getLogger(__name__)


class Quotas:
    """The file. It is opened when somebody has a quota."""

    def __init__(self, path: Path, *, call_later: Callable[[float, Callable[[], None]], object]) -> None:
        self._path = path
        self._call_later = call_later
        self._connection: sqlite3.Connection | None = None
        self._held: set[Share] = set()
        """What has been taken and not used, perhaps."""
        self._resting = False

    def share(self, subject: str, period: Period, most: int) -> Share:
        return Share(self, subject, period, most)

    def take(self, share: Share, name: str) -> int:
        """Some of what is left of this period, used from now on; 0: nothing is. OSError when it cannot be known."""
        try:
            connection = self._opened()
            if quota_usage.count(connection, share.subject, name) >= share.most:
                return 0  # who only reads waits for nobody, and makes nobody wait
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                before = quota_usage.count(connection, share.subject, name)
                left = share.most - before
                if left <= 0:
                    return 0
                taken = max(1, min(MOST_TAKEN, left // PART))
                quota_usage.write(connection, share.subject, name, before + taken)
                if not before:  # the first of a new day: those before it are past
                    quota_usage.forget_before(connection, share.subject, name)
        except sqlite3.Error as error:
            self._close()
            raise OSError(f"{self._path.name} cannot be written: {error}") from error
        self._hold(share)
        return taken

    def close(self) -> None:
        self._give_back()
        self._close()

    def _hold(self, share: Share) -> None:
        self._held.add(share)
        if not self._resting:
            self._resting = True
            self._call_later(IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        self._resting = False
        self._give_back(idle=True)
        if self._held and not self._resting:
            self._resting = True
            self._call_later(IDLE_SECONDS, self._rest)

    def _give_back(self, *, idle: bool = False) -> None:
        """Of those who have asked nothing since the last look, or of all."""
        over = {share for share in self._held if not idle or share.rested()}
        self._held -= over
        back = [(count, share.subject, name) for share in over for name, count in [share.returned()] if count]
        if not back:
            return
        try:
            connection = self._opened()
            with connection:
                connection.execute("BEGIN IMMEDIATE")
                connection.executemany("UPDATE used SET count = count - ? WHERE subject = ? AND period = ?", back)
        except (sqlite3.Error, OSError) as error:
            self._close()
            log.warning("what was taken of quotas and not used is lost: %s", error)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = quota_usage.opened(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Share:
    """What this gateway has taken for one who has a quota, of the period that is now."""

    __slots__ = ("_asked", "_end", "_left", "_name", "_quotas", "_refused_at", "most", "period", "subject")

    def __init__(self, quotas: Quotas, subject: str, period: Period, most: int) -> None:
        self._quotas = quotas
        self.subject = subject
        self.period: Period = period
        self.most = most
        self._left = 0
        self._name = ""
        self._end = 0.0
        """Of the period, in seconds since 1970."""
        self._refused_at = -math.inf
        self._asked = False

    def spend(self, wall: float) -> bool:
        """One more, if there is one. `wall`: seconds since 1970. OSError."""
        self._asked = True
        if wall >= self._end:
            self._left = 0  # of a day that is over
            self._refused_at = -math.inf
            self._name, self._end = limits.named(self.period, wall), limits.end(self.period, wall)
        if not self._left:
            if 0 <= wall - self._refused_at < REFUSED_SECONDS:
                return False
            self._left = self._quotas.take(self, self._name)
        if not self._left:
            self._refused_at = wall
            return False
        self._left -= 1
        return True

    def undo(self) -> None:
        """What was spent is not asked after all: another quota has ended."""
        self._left += 1

    def resets_in(self, wall: float) -> float:
        return self._end - wall

    def rested(self) -> bool:
        asked, self._asked = self._asked, False
        return not asked

    def returned(self) -> tuple[str, int]:
        left, self._left = self._left, 0
        return self._name, left
