"""The scaling rule: `ceil(in flight / target)` replicas, within [min_replicas, max_replicas]. Pure.

The number grows at once. It shrinks to the peak that was needed within the last `quiet` seconds.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from mizzen.kinds.serving import InferenceModelSpec

TARGET = 4
"""Requests in flight per replica, when the spec sets neither a target nor a batch size."""


@dataclass(frozen=True, slots=True)
class ScalingRule:
    min_replicas: int
    max_replicas: int
    target: int = TARGET
    quiet: float = 300.0
    """Seconds."""
    standby: int = 0
    """Extra replicas beyond those that are needed."""

    def replicas_needed(self, in_flight: float, *, used: bool = False) -> int:
        """The number before limits. `used`: a request waits for the first replica, has to be retried, or has just
        completed."""
        # The tolerance absorbs rounding: a mean of many samples is hardly ever exact.
        return max(math.ceil(in_flight / self.target - 1e-9), 1 if used else 0)

    def clamp(self, needed: int) -> int:
        return min(max(needed + self.standby, self.min_replicas), self.max_replicas)


class DemandHistory:
    """The replicas needed over time, reduced to the values that can still be the peak of a later window."""

    def __init__(self) -> None:
        self._peaks: deque[tuple[float, int]] = deque()
        """(time, number), by time; each number is higher than all after it."""

    def add(self, at: float, needed: int) -> None:
        while self._peaks and self._peaks[-1][1] <= needed:
            self._peaks.pop()
        if needed:
            self._peaks.append((at, needed))

    @property
    def empty(self) -> bool:
        """Whether the window that was queried last has no demand."""
        return not self._peaks

    def peak_since(self, since: float) -> int:
        """The peak since then; 0 when nothing is known. Drops everything earlier."""
        while self._peaks and self._peaks[0][0] <= since:
            self._peaks.popleft()
        return self._peaks[0][1] if self._peaks else 0


def desired_replicas(history: DemandHistory, now: float, rule: ScalingRule) -> int:
    """The number of replicas there should be."""
    return rule.clamp(history.peak_since(now - rule.quiet))


def rule_of(spec: InferenceModelSpec) -> ScalingRule | None:
    """None: the server is not autoscaled."""
    scale = spec.scaling
    if scale is None:
        return None
    batch = spec.batching.batch_size if spec.batching is not None else TARGET
    # The batch size that `auto` will find is not known here.
    target = scale.target or (TARGET if batch == "auto" else batch)
    return ScalingRule(scale.min_replicas, scale.max_replicas, target, scale.quiet_seconds, scale.standby)
