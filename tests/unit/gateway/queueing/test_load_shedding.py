"""What is refused when too much waits: no less than the queue can bear, and nothing that would have been answered."""

from __future__ import annotations

import heapq
import itertools
import math
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mizzen.gateway.queueing import batch_sizing
from mizzen.gateway.queueing.call import EXPIRED, OK, UNAVAILABLE
from mizzen.gateway.queueing.lane_scheduler import MIXED_SECONDS
from tests.support.examples import examples
from tests.support.gateway.virtual import BYTE_LIMIT, LARGE, Recorded, World


@pytest.mark.parametrize(("seconds", "retry"), [(0.01, 1), (0.5, 2), (1.0, 4), (40.0, 60)])
def test_retry_after_is_when_what_waits_will_have_been_answered(seconds: float, retry: int) -> None:
    world = World(limit=7, batch_size=2)
    world.learn(world.hand(), seconds)
    calls = [world.ask(n, seconds=1000) for n in range(3)]
    world.turn()  # two are out, one waits
    calls += [world.ask(n, seconds=1000) for n in range(6)]
    refused = world.ask("refused", seconds=1000)
    assert refused.ends == [(UNAVAILABLE, b"the queue of 'm' is full")]
    assert refused.retry == retry, "seven in batches of two"
    assert world.queue.shed == 1
    assert all(call.pending for call in calls)


def test_two_replicas_are_twice_as_fast() -> None:
    world = World(limit=8, batch_size=1)
    one = world.hand()
    world.learn(one, 3.0)
    two = world.hand()
    for n in range(10):
        world.ask(n, seconds=1000)
        world.turn()
    assert one.batch
    assert two.batch
    assert world.ask("refused", seconds=1000).retry == 12


def test_large_calls_count_by_their_own_pace() -> None:
    world = World(limit=99, batch_size=4)
    hand = world.hand()
    world.learn(hand, 5.0, size=LARGE)
    world.learn(hand, 0.1)
    for _ in range(3):
        world.ask("large", seconds=1000, size=LARGE)
        world.turn()
    refused = world.ask("refused", seconds=1000, size=BYTE_LIMIT)
    assert (refused.code, refused.retry) == (UNAVAILABLE, 15), "three of five seconds"


def test_large_calls_are_not_refused_for_their_deadline() -> None:
    """One may take a thousand times as long as another."""
    world = World(limit=99, batch_size=1)
    world.learn(world.hand(), 10.0, size=LARGE)
    assert all(world.ask(n, seconds=0.5, size=LARGE).pending for n in range(4))


def test_a_replica_that_works_on_something_else_may_be_free_any_moment() -> None:
    world = World(limit=99, batch_size=1)
    world.learn(world.hand(), 1.0)
    world.wait(MIXED_SECONDS)
    world.ask("large", size=LARGE)
    world.turn()
    assert all(world.ask(n, seconds=2.5).pending for n in range(2))
    assert not world.ask("late", seconds=2.5).pending


def test_a_deadline_that_cannot_be_met_is_refused_at_once() -> None:
    world = World(limit=99, batch_size=2)
    world.learn(world.hand(), 1.0)
    calls = [world.ask(n) for n in range(2)]
    world.turn()
    calls += [world.ask(n) for n in range(6)]
    late = world.ask("late", seconds=2.9)
    assert late.pending, "it is more urgent than those before it"
    calls += [world.ask(n, seconds=2.9) for n in range(3)]
    calls += [world.ask(n, seconds=1.9) for n in range(2)]
    assert all(call.pending for call in calls)
    hopeless = world.ask("hopeless", seconds=1.9)
    assert hopeless.ends == [(UNAVAILABLE, b"the queue of 'm' is too long for the deadline of this request")]
    assert hopeless.retry >= 1


def test_nothing_is_refused_for_its_deadline_before_the_pace_is_known() -> None:
    world = World(limit=99, batch_size=1)
    world.learn(world.hand(), 1.0, batches=7)
    assert all(world.ask(n, seconds=2.0).pending for n in range(50))


def test_those_who_left_do_not_count() -> None:
    world = World(limit=99, batch_size=1)
    world.learn(world.hand(), 1.0)
    calls = [world.ask(n, seconds=4.5) for n in range(4)]
    world.turn()
    assert world.ask("late", seconds=2.5).pending
    for call in calls:
        assert call.pending
        call.cancel(world.now)
    assert world.ask("in time", seconds=4.5).pending


class Drain:
    """Calls arrive at given moments; replicas take given times, which repeat. How does each end?"""

    def __init__(self, replicas: int, batch_size: int, times: list[int], *, learn: bool) -> None:
        addresses = tuple(f"unix:{n}" for n in range(replicas))
        self.world = World(limit=10_000, batch_size=batch_size, addresses=addresses)
        hands = [self.world.hand() for _ in range(replicas)]
        self.hands = hands
        if learn:
            for seconds in times * 8:
                self.world.ask("known", seconds=10_000)
                self.world.turn()
                self.world.wait(seconds / 100)
                self._answer_all(seconds / 100)
        self.start = self.world.now
        self.times = itertools.cycle(times)
        self.due: list[tuple[float, int]] = []

    def run(self, asked: list[tuple[int, int]]) -> list[Recorded]:
        """`asked`: (after, within) of each call, in hundredths of a second since the start."""
        calls = []
        for after, within in sorted(asked):
            self._until(self.start + after / 100)
            calls.append(self.world.ask("call", seconds=within / 100))
            self.world.turn()
            self._note_sent()
        self._until(self.start + 1000)
        return calls

    def _until(self, end: float) -> None:
        while self.due and self.due[0][0] <= end:
            at, n = heapq.heappop(self.due)
            self.world.wait(max(at - self.world.now, 0.0))
            self.hands[n].answer(self.world.queue, 1.0)
            self._note_sent()
        self.world.wait(max(end - self.world.now, 0.0))

    def _note_sent(self) -> None:
        out = {n for _, n in self.due}
        for n, hand in enumerate(self.hands):
            if hand.batch and n not in out:
                heapq.heappush(self.due, (self.world.now + next(self.times) / 100, n))

    def _answer_all(self, seconds: float) -> None:
        for hand in self.hands:
            if hand.batch:
                hand.answer(self.world.queue, max(seconds, 0.001))


asked = st.lists(st.tuples(st.integers(0, 200), st.integers(1, 150)), max_size=60)


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(1, 3), st.integers(1, 4), st.lists(st.integers(2, 30), min_size=1, max_size=4), asked)
def test_nothing_is_refused_that_would_have_been_answered(
    replicas: int, batch_size: int, times: list[int], asked: list[tuple[int, int]]
) -> None:
    with patch.object(batch_sizing, "MIN_SAMPLES", math.inf):
        before = Drain(replicas, batch_size, times, learn=False).run(asked)
    after = Drain(replicas, batch_size, times, learn=True).run(asked)
    if all(call.code == OK for call in before):
        assert all(call.code == OK for call in after)
    refused = [call for call in after if call.code == UNAVAILABLE]
    assert {call.code for call in after} <= {OK, EXPIRED, UNAVAILABLE}
    assert not refused or EXPIRED in {call.code for call in before}, "a refusal takes the place of a deadline missed"


def test_under_twice_the_load_the_same_number_is_answered_and_the_others_know_at_once() -> None:
    asked = [(after, 100) for after in range(0, 1000, 5)]  # twenty a second, for ten seconds; it can do ten
    with patch.object(batch_sizing, "MIN_SAMPLES", math.inf):
        before = [call.code for call in Drain(1, 1, [10], learn=False).run(asked)]
    after = [call.code for call in Drain(1, 1, [10], learn=True).run(asked)]
    assert after.count(OK) >= before.count(OK) - 1
    assert before.count(EXPIRED) > 80
    assert after.count(EXPIRED) <= 1
    assert after.count(UNAVAILABLE) > 80


def test_a_hand_that_joins_makes_room_for_more() -> None:
    world = World(limit=99, batch_size=1)
    world.learn(world.hand(), 1.0)
    for n in range(4):
        world.ask(n, seconds=4.5)
        world.turn()
    assert world.ask("late", seconds=2.9).pending
    assert not world.ask("late", seconds=2.9).pending
    world.hand()
    assert world.ask("in time", seconds=2.9).pending
