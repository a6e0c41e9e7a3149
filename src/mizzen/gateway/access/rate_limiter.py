"""So many requests a second: one count for all gateways of a plane, in memory that they share.

Of each who is limited one number is kept, the time at which all they have asked would have been asked at the even pace
of their limit (GCRA): whoever is further ahead of now than a burst is, waits. It stands in a file that all gateways
have mapped; two of them that look within the same microsecond may both say yes. The clock is the machine's, and begins
anew with it: a time that lies further ahead than any burst is of an older one.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
from pathlib import Path

from mizzen.access.limits import Limit

PLACES = 1 << 14
"""How many may be limited at once; who finds no place has a count in each gateway."""
TRIED = 64
"""Places that are looked at for a name, one after the other."""
_EACH = 2
"""Numbers of a place: whose it is, and the time."""


class Rates:
    """The file, mapped. Nothing of it is worth keeping: it lies with what a running plane has."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = PLACES * _EACH * 8
        if os.fstat(self._file).st_size != size:
            os.ftruncate(self._file, size)
        self._map = mmap.mmap(self._file, size)
        self._whose = memoryview(self._map).cast("Q")
        self._times = memoryview(self._map).cast("d")

    def pace(self, actor: str, limit: Limit) -> Pace:
        place = self._place(actor)
        return Pace(limit, memoryview(bytearray(8)).cast("d") if place is None else self._times[place : place + 1])

    def _place(self, actor: str) -> int | None:
        """Where their time stands; the same in all gateways. None when all that may be theirs are others'."""
        name = int.from_bytes(hashlib.blake2b(actor.encode(), digest_size=8).digest(), "big") or 1
        fcntl.flock(self._file, fcntl.LOCK_EX)  # two may look for a place at once; no more than that is done with it
        try:
            for step in range(TRIED):
                place = (name + step) % PLACES * _EACH
                if not self._whose[place]:
                    self._whose[place] = name
                if self._whose[place] == name:
                    return place + 1
            return None
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class Pace:
    """One's own time, and how it moves."""

    __slots__ = ("_ahead", "_each", "_time", "at_once")

    def __init__(self, limit: Limit, time: memoryview[float]) -> None:
        self.at_once = limit.at_once
        self._each = 1.0 / limit.per_second
        self._ahead = self.at_once * self._each
        self._time = time

    def wait(self, now: float) -> float:
        """0 when one more may be asked now, which is then counted; else the seconds until one may."""
        time = self._time[0]
        if time < now or time > now + self._ahead + self._each:
            time = now
        time += self._each
        wait = time - now - self._ahead
        if wait > 1e-9:  # what is left of adding up
            return wait
        self._time[0] = time
        return 0.0

    def left(self, now: float) -> tuple[int, float]:
        """How many more may be asked at once, and in how many seconds all may be that ever may."""
        ahead = max(0.0, self._time[0] - now)
        if ahead > self._ahead + self._each:
            ahead = 0.0
        return int((self._ahead - ahead) / self._each + 1e-6), ahead
