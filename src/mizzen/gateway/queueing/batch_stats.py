"""Statistics of the batches of one served version: waiting times, batch sizes and time in the model.

They are updated twice per batch, however many calls it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from mizzen.gateway.queueing.call import Call
from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS


@dataclass(slots=True, eq=False)
class BatchStats:
    batches: int = 0
    """Batches sent, and the calls in them."""
    items: int = 0
    waits: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))
    """Calls by waiting time; the buckets are not cumulative."""
    waited_seconds: float = 0.0
    """Sums over all calls sent: the waiting time, and the time that their batch spent in the model."""
    compute_seconds: float = 0.0
    input_seconds: float = 0.0
    """Sums over all calls sent: the time that the runtime took to read the batch, and to write the answers."""
    output_seconds: float = 0.0
    sizes: Counter[int] = field(default_factory=Counter)
    """Number of batches by size."""
    seconds_of: defaultdict[int, float] = field(default_factory=lambda: defaultdict(float))
    """Time in the model by batch size, summed over batches."""
    answered_at: float = 0.0
    """When the last batch was answered, by the gateway's clock; 0: never."""

    def on_sent(self, batch: list[Call], now: float) -> None:
        items = len(batch)
        began = [call.began for call in batch]
        self.batches += 1
        self.items += items
        self.sizes[items] += 1
        self.waited_seconds += items * now - sum(began)
        # The latest arrivals waited least. In sorted order, one bisection per bucket counts its calls.
        began.sort()
        waits = self.waits
        place = bisect_left(BOUNDS, now - began[-1])
        while items and place < len(BOUNDS):
            longer = bisect_left(began, now - BOUNDS[place], 0, items)
            waits[place] += items - longer
            items = longer
            place += 1
        waits[-1] += items

    def on_reply(self, items: int, seconds: float, now: float, before: float = 0.0, after: float = 0.0) -> None:
        """`seconds` in the model; `before` and `after` that in its runtime."""
        self.answered_at = now
        self.input_seconds += items * before
        self.output_seconds += items * after
        self.compute_seconds += items * seconds
        self.seconds_of[items] += seconds

    def sizes_by_bounds(self) -> list[int]:
        """Batches per bucket of BATCH_BOUNDS, not cumulative."""
        buckets = [0] * (len(BATCH_BOUNDS) + 1)
        for size, count in self.sizes.items():
            buckets[bisect_left(BATCH_BOUNDS, size)] += count
        return buckets
