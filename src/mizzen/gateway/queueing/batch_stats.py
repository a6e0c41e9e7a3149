"""What is counted of the batches of one served version: how long their calls waited, how many there were in each, and
how long the model took. Two looks per batch, whatever is in it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

from mizzen.gateway.inference.calls import Call
from mizzen.protocol.gateway_files.counts import BATCH_BOUNDS, BOUNDS


class Tally:
    __slots__ = (
        "answered_at", "batches", "compute_seconds", "input_seconds", "items", "output_seconds", "seconds_of", "sizes",
        "waited_seconds", "waits",
    )  # fmt: skip

    def __init__(self) -> None:
        self.batches = self.items = 0
        """Batches that were sent, and the calls in them."""
        self.waits = [0] * (len(BOUNDS) + 1)
        """Calls by how long they waited, each bucket for itself."""
        self.waited_seconds = self.compute_seconds = 0.0
        """Of all calls that were sent: how long they waited, and how long their batch was in the model."""
        self.input_seconds = self.output_seconds = 0.0
        """Likewise: how long its runtime read it, and wrote the answers."""
        self.sizes: Counter[int] = Counter()
        """Batches by how many calls they had."""
        self.seconds_of: defaultdict[int, float] = defaultdict(float)
        """In the model, by the same: of batches, not of calls."""
        self.answered_at = 0.0
        """When the last batch was, by the gateway's clock; 0: none was."""

    def sent(self, batch: list[Call], now: float) -> None:
        items = len(batch)
        began = [call.began for call in batch]
        self.batches += 1
        self.items += items
        self.sizes[items] += 1
        self.waited_seconds += items * now - sum(began)
        # Those who came last waited least. In their order, a look per bucket that any is in tells how many are.
        began.sort()
        waits = self.waits
        place = bisect_left(BOUNDS, now - began[-1])
        while items and place < len(BOUNDS):
            longer = bisect_left(began, now - BOUNDS[place], 0, items)
            waits[place] += items - longer
            items = longer
            place += 1
        waits[-1] += items

    def answered(self, items: int, seconds: float, now: float, before: float = 0.0, after: float = 0.0) -> None:
        """`seconds`: in the model; in its runtime `before` and `after` that."""
        self.answered_at = now
        self.input_seconds += items * before
        self.output_seconds += items * after
        self.compute_seconds += items * seconds
        self.seconds_of[items] += seconds

    def sizes_by_bounds(self) -> list[int]:
        """Each bucket of BATCH_BOUNDS for itself."""
        buckets = [0] * (len(BATCH_BOUNDS) + 1)
        for size, count in self.sizes.items():
            buckets[bisect_left(BATCH_BOUNDS, size)] += count
        return buckets
