"""What is counted of batches."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.queueing.batch_stats import BatchStats
from mizzen.gateway.queueing.call import Call
from mizzen.protocol.gateway_files.counts import BOUNDS

NOW = 1000.0
# Powers of two of seconds: what is subtracted and added is exact.
WAITS = st.integers(0, 40 * 1024).map(lambda parts: parts / 1024)


def call(began: float) -> Call:
    made = Call()
    made.began = began
    return made


@given(st.lists(st.lists(WAITS, min_size=1, max_size=40), max_size=5))
def test_waits_are_counted_as_one_by_one(batches: list[list[float]]) -> None:
    tally = BatchStats()
    wanted = [0] * (len(BOUNDS) + 1)
    for batch in batches:
        tally.on_sent([call(NOW - wait) for wait in batch], NOW)
        for wait in batch:
            wanted[bisect_left(BOUNDS, wait)] += 1
    assert tally.waits == wanted
    assert tally.waited_seconds == sum(map(sum, batches))
    assert tally.items == sum(map(len, batches)) == sum(tally.waits)
    assert tally.batches == len(batches) == sum(tally.sizes_by_bounds())


def test_sizes_by_bounds_and_seconds_by_size() -> None:
    tally = BatchStats()
    for size in (1, 2, 3, 4, 5, 5, 600):
        tally.on_sent([call(NOW)] * size, NOW)
        tally.on_reply(size, 0.5, NOW + 1)
    assert tally.sizes_by_bounds() == [1, 1, 2, 2, 0, 0, 0, 0, 0, 0, 1]
    assert tally.seconds_of == {1: 0.5, 2: 0.5, 3: 0.5, 4: 0.5, 5: 1.0, 600: 0.5}
    assert tally.compute_seconds == 0.5 * (1 + 2 + 3 + 4 + 5 + 5 + 600)
    assert tally.answered_at == NOW + 1
