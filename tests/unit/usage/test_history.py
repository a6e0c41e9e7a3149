from __future__ import annotations

import math
import sys
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mizzen.usage.history import COARSE_POINTS, COARSE_SECONDS, FINE_POINTS, History, Point, Ring
from mizzen.usage.rates import Figures

KEY = ("default", "iris", "1")
QUIET = Figures(
    requests=1.0, errors=0.0, codes={}, p50=None, p95=None, p99=None, in_flight=0, waiting=0, batch=None, shed=0.0,
    expired=0.0, retried=0.0, ready=1, wanted=1, memory=1, cpu=0.0,
)  # fmt: skip


def point(value: float) -> Point:
    return Point(*([value] * len(Point._fields)))


@given(capacity=st.integers(1, 8), values=st.lists(st.integers(0, 1000), max_size=30))
def test_a_ring_holds_the_last_points_in_order(capacity: int, values: list[int]) -> None:
    ring = Ring(capacity)
    for at, value in enumerate(values):
        ring.add(at, point(value))
    assert [(at, found.cpu) for at, found in ring.since(0)] == list(enumerate(values))[-capacity:]
    assert [at for at, _ in ring.since(len(values) - 2)] == list(range(len(values)))[-min(capacity, 2) :]
    assert ring.last() == (len(values) - 1 if values else -math.inf)


def test_what_is_not_there_stays_so() -> None:
    history = History()
    history.add(1.0, {KEY: QUIET})
    [(at, found)] = history.points_of(KEY, 0.0, fine=True)
    assert at == 1.0
    assert math.isnan(found.p50)
    assert (found.requests, found.memory) == (1.0, 1.0)


def test_of_half_a_minute_the_mean_of_what_waited_is_told() -> None:
    history = History()
    for second in range(0, COARSE_SECONDS, 2):
        history.add(1000.0 + second, {KEY: replace(QUIET, waiting=second)})
    history.add_coarse(1000.0 + COARSE_SECONDS - 2, {KEY: QUIET})
    [(_, found)] = history.points_of(KEY, 0.0, fine=False)
    assert found.waiting == 14.0
    assert found.requests == 1.0


def test_it_is_bounded_and_forgets_who_was_served_before_who_is() -> None:
    history = History(most=2)
    keys = [("default", "m", str(number)) for number in range(4)]
    history.add(0.0, {keys[0]: QUIET})
    history.add(1000.0, {keys[1]: QUIET, keys[2]: QUIET})
    history.add(1002.0, {keys[1]: QUIET, keys[2]: QUIET, keys[3]: QUIET})
    assert history.keys("default") == [keys[1], keys[2]]
    assert len(history) == 2
    history.add_coarse(1002.0 + COARSE_SECONDS * COARSE_POINTS + 1, {})
    assert len(history) == 0


def test_points_take_few_bytes() -> None:
    ring = Ring(FINE_POINTS)
    for at in range(3 * FINE_POINTS):
        ring.add(at, point(1.0))
    assert sys.getsizeof(ring._times) + sys.getsizeof(ring._values) <= FINE_POINTS * 52 * 1.2


def test_names_are_found_by_namespace_and_model() -> None:
    history = History()
    history.add(1.0, {KEY: QUIET, ("default", "rose", "1"): QUIET, ("lab", "iris", "1"): QUIET})
    assert history.keys("default", "iris") == [KEY]
    assert [key[1] for key in history.keys("default")] == ["iris", "rose"]
