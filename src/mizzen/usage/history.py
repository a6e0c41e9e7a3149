"""The short history: for each served version, a point every two seconds for ten minutes and every 30 s for hours.

Its memory is bounded: 52 bytes per point, about 53 kB for a version that has been served for hours, and at most
`MAX_SERIES` versions. A version that is no longer served is kept as long as it has points.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from mizzen.usage.inventory import Key
from mizzen.usage.rates import Figures

FINE_SECONDS, FINE_POINTS = 2, 300
COARSE_SECONDS, COARSE_POINTS = 30, 720
MAX_SERIES = 500


class Point(NamedTuple):
    """The stored part of Figures; NaN where there is no value."""

    requests: float
    errors: float
    p50: float
    p95: float
    p99: float
    in_flight: float
    waiting: float
    batch: float
    ready: float
    memory: float
    cpu: float

    @classmethod
    def of(cls, figures: Figures) -> Point:
        values = map(figures.__getattribute__, cls._fields)
        return cls._make(math.nan if value is None else value for value in values)


_WIDTH = len(Point._fields)
_GAUGES = ("in_flight", "waiting", "ready", "memory")
"""Coarse points hold the mean of these: the value at the end of the interval may have lasted only briefly."""


class Ring:
    """A ring buffer of the last `capacity` points. It grows until it is full; then new points replace the oldest."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._times = array("d")
        self._values = array("f")
        self._next = 0
        """The index of the oldest point once it is full."""

    def __len__(self) -> int:
        return len(self._times)

    def add(self, at: float, point: Point) -> None:
        values = array("f", point)
        if len(self._times) < self._capacity:
            self._times.append(at)
            self._values.extend(values)
            return
        place = self._next
        self._times[place] = at
        self._values[place * _WIDTH : (place + 1) * _WIDTH] = values
        self._next = (place + 1) % self._capacity

    def since(self, at: float) -> Iterator[tuple[float, Point]]:
        """Oldest first."""
        count = len(self._times)
        for step in range(count):
            place = (self._next + step) % count
            if self._times[place] >= at:
                yield self._times[place], Point(*self._values[place * _WIDTH : (place + 1) * _WIDTH])

    def last(self) -> float:
        """The time of the newest point; minus infinity when there is none."""
        return self._times[self._next - 1] if self._times else -math.inf


class _Series:
    __slots__ = ("coarse", "fine")

    def __init__(self) -> None:
        self.fine = Ring(FINE_POINTS)
        self.coarse = Ring(COARSE_POINTS)

    def last(self) -> float:
        return max(self.fine.last(), self.coarse.last())


class History:
    def __init__(self, most: int = MAX_SERIES) -> None:
        self._most = most
        self._series: dict[Key, _Series] = {}

    def __len__(self) -> int:
        return len(self._series)

    def add(self, at: float, found: Mapping[Key, Figures]) -> None:
        """Add the points of two seconds."""
        for key, figures in found.items():
            if (series := self._of(key)) is not None:
                series.fine.add(at, Point.of(figures))

    def add_coarse(self, at: float, found: Mapping[Key, Figures]) -> None:
        """Add the points of 30 s. Their gauges are the means of the fine points since the last one."""
        for key, figures in found.items():
            if (series := self._of(key)) is not None:
                series.coarse.add(at, _with_mean_gauges(Point.of(figures), series.fine, at - COARSE_SECONDS))
        oldest_kept = at - COARSE_SECONDS * COARSE_POINTS
        self._series = {key: series for key, series in self._series.items() if series.last() >= oldest_kept}

    def points_of(self, key: Key, since: float, *, fine: bool) -> list[tuple[float, Point]]:
        series = self._series.get(key)
        return [] if series is None else list((series.fine if fine else series.coarse).since(since))

    def keys(self, namespace: str, model: str = "") -> list[Key]:
        """The keys of a namespace, or of one model in it; the one with the newest last point first."""
        found = [key for key in self._series if key[0] == namespace and model in ("", key[1])]
        return sorted(found, key=lambda key: (-self._series[key].last(), key))

    def _of(self, key: Key) -> _Series | None:
        """None when there is no room for another series: served versions take precedence over earlier ones."""
        found = self._series.get(key)
        if found is None:
            if len(self._series) >= self._most:
                newest = max(series.last() for series in self._series.values())
                oldest = min(self._series, key=lambda key: self._series[key].last())
                if self._series[oldest].last() >= newest - COARSE_SECONDS:
                    return None
                del self._series[oldest]
            found = self._series[key] = _Series()
        return found


def _with_mean_gauges(point: Point, fine: Ring, since: float) -> Point:
    before = [each for _, each in fine.since(since)]
    if not before:
        return point
    means = {name: sum(getattr(each, name) for each in before) / len(before) for name in _GAUGES}
    return point._replace(**means)
