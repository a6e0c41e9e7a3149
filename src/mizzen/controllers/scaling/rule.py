"""The rule: as many replicas as `ceil(in flight / target)`, at once when that grows, and when it shrinks, down to the
most that was needed within the last `quiet` seconds. Never outside of [least, most]. Pure.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from mizzen.kinds.serving import InferenceModelSpec

TARGET = 4
"""Requests in flight for each replica, where neither a target nor a batch size is given."""


@dataclass(frozen=True, slots=True)
class Rule:
    least: int
    most: int
    target: int = TARGET
    quiet: float = 300.0
    """Seconds."""
    standby: int = 0
    """Replicas beyond those that are needed."""

    def needed(self, in_flight: float, *, asked: bool = False) -> int:
        """Before any limit. `asked`: somebody waits for the first replica, or was sent away to come again, or has just
        been answered."""
        # A mean of many samples is hardly ever exact.
        return max(math.ceil(in_flight / self.target - 1e-9), 1 if asked else 0)

    def limited(self, needed: int) -> int:
        return min(max(needed + self.standby, self.least), self.most)


class History:
    """How many replicas were needed, and when: only what can still be the most of some time to come."""

    def __init__(self) -> None:
        self._peaks: deque[tuple[float, int]] = deque()
        """By time, and each higher than all after it."""

    def add(self, at: float, needed: int) -> None:
        while self._peaks and self._peaks[-1][1] <= needed:
            self._peaks.pop()
        if needed:
            self._peaks.append((at, needed))

    @property
    def empty(self) -> bool:
        """Is nothing known, of the time that was asked for last?"""
        return not self._peaks

    def most(self, since: float) -> int:
        """From that moment on; 0 where nothing is known. What was before is forgotten."""
        while self._peaks and self._peaks[0][0] <= since:
            self._peaks.popleft()
        return self._peaks[0][1] if self._peaks else 0


def decide(history: History, now: float, rule: Rule) -> int:
    """How many replicas there should be."""
    return rule.limited(history.most(now - rule.quiet))


def rule_of(spec: InferenceModelSpec) -> Rule | None:
    """None: nothing scales it."""
    scale = spec.scaling
    if scale is None:
        return None
    batch = spec.batching.batch_size if spec.batching is not None else TARGET
    # What `auto` will find out is not known here.
    target = scale.target or (TARGET if batch == "auto" else batch)
    return Rule(scale.min_replicas, scale.max_replicas, target, scale.quiet_seconds, scale.standby)
