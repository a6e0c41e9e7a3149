"""The queue by itself, in virtual time: no sockets, no loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mizzen.gateway.queues import EXPIRED, LOST, OK, UNAVAILABLE, Call, Queue, Sweeper
from mizzen.gateway.signature import Hello
from mizzen.graph.plan import Server
from mizzen.protocol import frames

BYTE_LIMIT = 2_000_000
HELLO = Hello(state="ready")


class Recorded(Call):
    __slots__ = ("ends",)

    def __init__(self, item: Any, deadline: float, size: int = 10) -> None:
        self.item = item
        self.size = size
        self.deadline = deadline
        self.live = True
        self.alone = False
        self.ends: list[tuple[int, bytes]] = []

    def settle(self, code: int, payload: bytes, now: float) -> None:
        self.live = False
        self.ends.append((code, payload))

    def cancel(self, now: float) -> None:
        self.live = False


class Hand:
    """A worker that keeps what it is sent until the test answers."""

    def __init__(self) -> None:
        self.batch: list[Call] | None = None
        self.sent: list[list[Call]] = []

    def send(self, batch: list[Call]) -> None:
        assert self.batch is None, "one batch at a time"
        self.batch = batch
        self.sent.append(batch)

    def answer(self, queue: Queue, seconds: float = 1.0) -> None:
        assert self.batch is not None
        batch, self.batch = self.batch, None
        queue.answered(self, [(frames.OK, str(call.item).encode()) for call in batch], seconds)


class World:
    """Virtual time and the callbacks that wait for it."""

    def __init__(self, **server: Any) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], None]] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.sweeper = Sweeper(lambda: self.now, lambda after, do: self._later.append((self.now + after, do)))
        served: dict[str, Any] = {"addresses": ("unix:a",), "batch_size": 4} | server
        self.queue = Queue(
            Server(id="default/m", model="m", version="1", **served),
            limit=5,
            byte_limit=BYTE_LIMIT,
            hold_seconds=1.0,
            clock=lambda: self.now,
            call_soon=self._soon.append,
            sweeper=self.sweeper,
        )

    def turn(self) -> None:
        soon, self._soon[:] = self._soon[:], []
        for do in soon:
            do()

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        self.turn()
        while due := sorted((at, n) for n, (at, _) in enumerate(self._later) if at <= end):
            at, n = due[0]
            self.now = max(self.now, at)
            self._later.pop(n)[1]()
            self.turn()
        self.now = end

    @property
    def timers(self) -> int:
        return len(self._later)


def test_all_calls_of_one_tick_go_out_together() -> None:
    world, hand = World(), Hand()
    world.queue.joined(hand, HELLO)
    calls = [Recorded(n, 200.0) for n in range(5)]
    for call in calls:
        world.queue.submit(call)
    assert hand.sent == []
    world.turn()
    assert hand.sent == [calls[:4]]
    hand.answer(world.queue)
    assert hand.sent == [calls[:4], calls[4:]]
    hand.answer(world.queue)
    assert [call.ends for call in calls] == [[(OK, str(n).encode())] for n in range(5)]


def test_a_quick_model_waits_for_what_is_about_to_be_read() -> None:
    world, hand = World(), Hand()
    world.queue.joined(hand, HELLO)
    calls = [Recorded(n, 200.0) for n in range(3)]
    world.queue.submit(calls[0])
    world.turn()
    world.queue.submit(calls[1])
    hand.answer(world.queue, seconds=0.0001)
    world.turn()
    world.queue.submit(calls[2])  # read in the turn between
    assert hand.sent == [calls[:1]]
    world.turn()
    assert hand.sent == [calls[:1], calls[1:]]


def test_the_timer_runs_only_while_there_is_something_to_watch() -> None:
    world, hand = World(), Hand()
    world.queue.joined(hand, HELLO)
    assert world.timers == 0
    world.queue.submit(Recorded(1, 200.0))
    world.wait(0.1)
    assert world.timers == 1
    hand.answer(world.queue)
    world.wait(0.1)
    assert world.timers == 0


def test_deadlines_waiting_and_out() -> None:
    world, hand = World(batch_size=1), Hand()
    world.queue.joined(hand, HELLO)
    out, waits, patient = Recorded(1, 100.5), Recorded(2, 100.3), Recorded(3, 102.0)
    for call in (out, waits, patient):
        world.queue.submit(call)
    world.wait(0.4)
    assert waits.ends[0][0] == EXPIRED
    assert out.live
    world.wait(0.2)
    assert out.ends[0][0] == EXPIRED
    hand.answer(world.queue)  # late
    assert len(out.ends) == 1
    assert hand.batch == [patient]
    assert world.queue.expired == 2


def test_the_hold_counts_from_the_loss() -> None:
    world, hand = World(), Hand()
    world.wait(5.0)
    early = Recorded(1, 200.0)
    world.queue.submit(early)
    assert early.ends[0][0] == UNAVAILABLE, "never connected, and its hold is over"
    world.queue.joined(hand, HELLO)
    world.wait(5.0)
    world.queue.lost(hand)
    world.wait(0.9)
    late = Recorded(2, 200.0)
    world.queue.submit(late)
    assert late.live
    world.wait(0.2)
    assert late.ends[0][0] == UNAVAILABLE


def test_nobody_is_waited_for_without_addresses() -> None:
    world = World(addresses=())
    call = Recorded(1, 200.0)
    world.queue.submit(call)
    assert call.ends[0][0] == UNAVAILABLE


def test_calls_of_those_who_left_make_room() -> None:
    world = World()
    calls = [Recorded(n, 200.0) for n in range(6)]
    for call in calls[:5]:
        world.queue.submit(call)
    calls[0].cancel(world.now)
    world.queue.submit(calls[5])
    assert calls[5].live
    assert list(world.queue.waiting) == calls[1:]


def test_the_bytes_that_wait_are_bounded() -> None:
    world = World()
    calls = [Recorded(n, 200.0, BYTE_LIMIT // 2) for n in range(4)]
    for call in calls[:3]:
        world.queue.submit(call)
    assert [call.live for call in calls[:3]] == [True, True, False]
    assert calls[2].ends == [(UNAVAILABLE, b"the queue of 'm' is full")]
    calls[0].cancel(world.now)
    world.wait(1 / 16)  # until it looks again
    world.queue.submit(calls[3])
    assert list(world.queue.waiting) == [calls[1], calls[3]]


def test_what_is_larger_than_the_bound_is_taken_where_nothing_waits() -> None:
    world, hand = World(), Hand()
    world.queue.joined(hand, HELLO)
    large, other = Recorded(1, 200.0, BYTE_LIMIT + 1), Recorded(2, 200.0)
    world.queue.submit(large)
    world.queue.submit(other)
    assert other.ends[0][0] == UNAVAILABLE
    world.turn()
    assert hand.batch == [large]
    assert world.queue.waiting_bytes == 0


class Life(RuleBasedStateMachine):
    """Whatever happens in whatever order, each call ends once and with what is its own."""

    @initialize(idempotent=st.booleans(), batch_size=st.integers(1, 4))
    def begin(self, idempotent: bool, batch_size: int) -> None:
        self.world = World(idempotent=idempotent, batch_size=batch_size)
        self.calls: list[Recorded] = []
        self.hands: list[Hand] = []
        self.numbers = itertools.count()

    @rule(seconds=st.floats(0.01, 3.0), size=st.sampled_from([10, 10, 700_000]))
    def submit(self, seconds: float, size: int) -> None:
        call = Recorded(next(self.numbers), self.world.now + seconds, size)
        self.calls.append(call)
        self.world.queue.submit(call)

    @rule()
    def join(self) -> None:
        if len(self.hands) < 3:
            self.hands.append(Hand())
            self.world.queue.joined(self.hands[-1], HELLO)

    @precondition(lambda self: any(hand.batch for hand in self.hands))
    @rule(data=st.data(), seconds=st.sampled_from([0.0001, 1.0]))
    def answer(self, data: st.DataObject, seconds: float) -> None:
        data.draw(st.sampled_from([hand for hand in self.hands if hand.batch])).answer(self.world.queue, seconds)

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        hand = data.draw(st.sampled_from(self.hands))
        self.hands.remove(hand)
        self.world.queue.lost(hand)

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        hand = data.draw(st.sampled_from(self.hands))
        self.world.queue.drains(hand)
        if not hand.batch:
            self.hands.remove(hand)

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        data.draw(st.sampled_from(self.calls)).cancel(self.world.now)

    @rule(seconds=st.floats(0.0, 0.5))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def ends_are_single_and_right(self) -> None:
        for call in getattr(self, "calls", ()):
            assert len(call.ends) <= 1
            for code, payload in call.ends:
                assert code in (OK, LOST, UNAVAILABLE, EXPIRED)
                assert code != OK or payload == str(call.item).encode()

    @invariant()
    def counts_are_true(self) -> None:
        if hasattr(self, "world"):
            queue = self.world.queue
            assert queue.in_flight == sum(len(hand.batch) for hand in self.hands if hand.batch)
            assert queue.busy == queue.in_flight + len(queue.waiting)
            assert queue.waiting_bytes == sum(call.size for call in queue.waiting)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.wait(10.0)
            assert all(call.ends or not call.live for call in self.calls)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
