"""Rate limits in requests per second, shared by all gateways of a plane through mapped memory.

Each limited caller has one number (GCRA): the time at which all its requests would have arrived at the even rate of
its limit. A caller that is further ahead of now than its burst has to wait. The number is in a file that all gateways
map; two gateways that look within the same microsecond may both say yes. The clock is the machine's monotonic clock,
which restarts at boot: a time further ahead than any burst is from an earlier boot.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
from pathlib import Path

from mizzen.access.limits import Limit

SLOTS = 1 << 14
"""Callers that can be limited at once; a caller without a slot is counted by each gateway alone."""
MAX_PROBES = 64
"""Slots that are probed for a name, one after the other."""
_SLOT_NUMBERS = 2
"""Numbers in a slot: the hash of its owner, and the time."""


class RateLimiter:
    """The mapped file. It needs no backup: it lies with the files of a running plane."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = SLOTS * _SLOT_NUMBERS * 8
        if os.fstat(self._file).st_size != size:
            os.ftruncate(self._file, size)
        self._map = mmap.mmap(self._file, size)
        self._owners = memoryview(self._map).cast("Q")
        self._times = memoryview(self._map).cast("d")

    def bucket_of(self, actor: str, limit: Limit) -> RateBucket:
        place = self._find_slot(actor)
        return RateBucket(
            limit, memoryview(bytearray(8)).cast("d") if place is None else self._times[place : place + 1]
        )

    def _find_slot(self, actor: str) -> int | None:
        """Returns the index of the actor's time, the same in all gateways; None if others own all its slots."""
        name = int.from_bytes(hashlib.blake2b(actor.encode(), digest_size=8).digest(), "big") or 1
        fcntl.flock(self._file, fcntl.LOCK_EX)  # only against two gateways that claim a slot at once
        try:
            for step in range(MAX_PROBES):
                place = (name + step) % SLOTS * _SLOT_NUMBERS
                if not self._owners[place]:
                    self._owners[place] = name
                if self._owners[place] == name:
                    return place + 1
            return None
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)


class RateBucket:
    """The GCRA time of one caller."""

    __slots__ = ("_burst_seconds", "_interval", "_time", "burst")

    def __init__(self, limit: Limit, time: memoryview[float]) -> None:
        self.burst = limit.burst_size
        self._interval = 1.0 / limit.per_second
        self._burst_seconds = self.burst * self._interval
        self._time = time

    def take(self, now: float) -> float:
        """Returns 0 and counts the request if it is allowed now; else the seconds until it would be."""
        time = self._time[0]
        if time < now or time > now + self._burst_seconds + self._interval:
            time = now
        time += self._interval
        wait = time - now - self._burst_seconds
        if wait > 1e-9:  # rounding errors of the sums
            return wait
        self._time[0] = time
        return 0.0

    def remaining(self, now: float) -> tuple[int, float]:
        """Returns the requests left in the burst, and the seconds until the burst is full again."""
        ahead = max(0.0, self._time[0] - now)
        if ahead > self._burst_seconds + self._interval:
            ahead = 0.0
        return int((self._burst_seconds - ahead) / self._interval + 1e-6), ahead
