"""One curve of a chart: points by step, thinned to a limit."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator

KEPT = 1000
"""A curve with twice this many points is thinned to this number; responses never have more."""
LARGEST_STEP = 2**53
"""Beyond it JSON parsers do not agree on numbers."""

Point = tuple[int, float, float]
"""Step, value, and time; seconds since 1970, 0 if unknown."""


class Curve:
    """Steps only grow: a repeated step restarts the curve there, as when a job resumes from a checkpoint."""

    __slots__ = ("_steps", "_times", "_values")

    def __init__(self) -> None:
        self._steps = array("q")
        self._values = array("d")
        self._times = array("d")

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Point]:
        return zip(self._steps, self._values, self._times, strict=True)

    def add(self, step: int, value: float, time: float) -> None:
        if not -LARGEST_STEP <= step <= LARGEST_STEP:
            return
        while self._steps and self._steps[-1] >= step:
            for column in (self._steps, self._values, self._times):
                column.pop()
        self._steps.append(step)
        self._values.append(value)
        self._times.append(time if math.isfinite(time) else 0.0)
        if len(self._steps) >= 2 * KEPT:
            self._keep(thin_out(list(self), KEPT))

    def extend(self, points: Iterable[Point]) -> None:
        for point in points:
            self.add(*point)

    def _keep(self, points: list[Point]) -> None:
        self._steps = array("q", (step for step, _, _ in points))
        self._values = array("d", (value for _, value, _ in points))
        self._times = array("d", (time for _, _, time in points))


def thin_out(points: list[Point], most: int) -> list[Point]:
    """Return at most `most` points, 4 at least: the first, the last, the lowest and the highest, and those of each
    part."""
    if len(points) <= max(most, 4):
        return points
    parts = max((most - 2) // 2, 1)
    inner = len(points) - 2
    kept = [points[0]]
    for part in range(parts):
        begin, end = 1 + inner * part // parts, 1 + inner * (part + 1) // parts
        numbers = [at for at in range(begin, end) if math.isfinite(points[at][1])]
        if numbers:
            low = min(numbers, key=lambda at: points[at][1])
            high = max(numbers, key=lambda at: points[at][1])
            kept += [points[at] for at in sorted({low, high})]
        elif begin < end:
            kept.append(points[begin])  # a gap stays a gap
    kept.append(points[-1])
    return kept
