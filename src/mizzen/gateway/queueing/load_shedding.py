"""When it is too late to wait, and when it is worth asking again: what follows from how fast batches were answered."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from mizzen.gateway.queueing.batch_sizing import Pace

MOST_RETRY = 60


def end_at_best(now: float, pace: Pace, *, batches: int, room: int, replicas: int, busy: Sequence[float]) -> float:
    """When a call behind so many full batches has its answer, at the earliest: if no batch is quicker than the quickest
    of late. `now`, where too little is known to say.

    `busy`: since when those of the replicas are busy that are.
    """
    quickest = pace.quickest
    if not quickest:
        return now
    free = [now] * (replicas - len(busy)) + sorted(max(now, since + quickest) for since in busy)
    rounds, nth = divmod(batches, replicas)
    # Of its own batch, which others may not fill, it is only known that it takes its share of a full one.
    return free[nth] + rounds * quickest + quickest / room


def retry_after(batches: Iterable[tuple[float, Pace]], replicas: int) -> int:
    """Whole seconds until so many batches will have been answered, at the usual pace of each kind."""
    seconds = sum(count * pace.usual for count, pace in batches) / max(replicas, 1)
    return max(1, min(math.ceil(seconds), MOST_RETRY))
