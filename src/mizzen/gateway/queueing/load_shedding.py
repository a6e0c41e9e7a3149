"""Estimates from recent service times: when a call could end at the earliest, and when a retry makes sense."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mizzen.gateway.queueing.batch_sizing import ServiceTimes

MAX_RETRY_SECONDS = 60


def earliest_end(
    now: float, pace: ServiceTimes, *, batches: int, room: int, replicas: int, busy: Sequence[float]
) -> float:
    """The earliest end of a call behind `batches` full batches, if none is faster than the fastest recent batch.

    `now` if too few batches were measured. `busy`: since when each busy replica works.
    """
    quickest = pace.quickest
    if not quickest:
        return now
    free = [now] * (replicas - len(busy)) + sorted(max(now, since + quickest) for since in busy)
    rounds, nth = divmod(batches, replicas)
    # Its own batch may not be full: that batch takes at least the share of one call in a full batch.
    return free[nth] + rounds * quickest + quickest / room


def retry_after(batches: Iterable[tuple[float, ServiceTimes]], replicas: int) -> int:
    """Whole seconds until these batches are answered, at the usual service time of each kind."""
    seconds = sum(count * pace.usual for count, pace in batches) / max(replicas, 1)
    return max(1, min(math.ceil(seconds), MAX_RETRY_SECONDS))
