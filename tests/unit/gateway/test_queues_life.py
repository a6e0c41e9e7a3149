"""Whatever happens in whatever order, each call ends once and with what is its own."""

from __future__ import annotations

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mizzen.gateway.calls import EXPIRED, LOST, OK, UNAVAILABLE
from tests.unit.gateway.virtual import HELLO, LARGE, Hand, Recorded, World


class Life(RuleBasedStateMachine):
    """Replicas join, answer, drain and are lost; callers ask, leave and run out of time."""

    @initialize(
        idempotent=st.booleans(), batch_size=st.integers(1, 4), auto=st.booleans(), wait=st.sampled_from([0.0, 0.2])
    )
    def begin(self, idempotent: bool, batch_size: int, auto: bool, wait: float) -> None:
        self.world = World(
            limit=8, idempotent=idempotent, batch_size=batch_size, batch_auto=auto, batch_wait=wait, timeout_ms=3000
        )
        self.calls: list[Recorded] = []
        self.left: dict[Recorded, int] = {}
        """Those whose caller has gone, and how often they had been sent by then."""
        self.hands: list[Hand] = []
        self.numbers = itertools.count()

    @rule(seconds=st.floats(0.01, 3.0), size=st.sampled_from([10, 10, LARGE, 700_000]))
    def submit(self, seconds: float, size: int) -> None:
        self.calls.append(self.world.ask(next(self.numbers), seconds, size))

    @rule()
    def join(self) -> None:
        if len(self.hands) < 3:
            self.hands.append(Hand())
            self.world.queue.joined(self.hands[-1], HELLO)

    @precondition(lambda self: any(hand.batch for hand in self.hands))
    @rule(data=st.data(), seconds=st.sampled_from([0.0001, 1.0, 2.0]))
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
        call = data.draw(st.sampled_from(self.calls))
        if call.live:
            self.left[call] = call.sent
        call.cancel(self.world.now)

    @rule(seconds=st.floats(0.0, 0.5))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def ends_are_single_and_right(self) -> None:
        for call in getattr(self, "calls", ()):
            assert len(call.ends) <= 1
            assert call.sent <= 2
            for code, payload in call.ends:
                assert code in (OK, LOST, UNAVAILABLE, EXPIRED)
                assert code != OK or payload == str(call.item).encode()

    @invariant()
    def who_has_gone_is_sent_no_more_and_told_nothing(self) -> None:
        for call, sent in getattr(self, "left", {}).items():
            assert call.sent == sent
            assert call.ends == []

    @invariant()
    def counts_are_true(self) -> None:
        if hasattr(self, "world"):
            queue = self.world.queue
            assert queue.in_flight == sum(len(hand.batch) for hand in self.hands if hand.batch)
            assert queue.busy == queue.in_flight + queue.waiting
            assert queue.waiting <= 8 + queue.retried
            assert queue.waiting_bytes >= sum(call.size for call in self.calls if call.live and not self.out(call))

    def out(self, call: Recorded) -> bool:
        return any(call in hand.batch for hand in self.hands if hand.batch)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.wait(10.0)
            assert all(call.ends or call in self.left for call in self.calls)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


class Crowd(RuleBasedStateMachine):
    """A neighbour that leaves, or is lost with its process, never costs another its answer: all have time enough, and
    there is always a replica that answers in the end.
    """

    @initialize(batch_size=st.integers(1, 4))
    def begin(self, batch_size: int) -> None:
        self.world = World(limit=10_000, byte_limit=1 << 40, batch_size=batch_size)
        self.stays: list[Recorded] = []
        self.leaves: list[Recorded] = []
        self.hands = [self.world.hand()]
        self.numbers = itertools.count()

    @rule(size=st.sampled_from([10, 10, LARGE]), leaves=st.booleans(), seconds=st.integers(1000, 2000))
    def ask(self, size: int, leaves: bool, seconds: int) -> None:
        (self.leaves if leaves else self.stays).append(self.world.ask(next(self.numbers), seconds, size))

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        if self.leaves:
            data.draw(st.sampled_from(self.leaves)).cancel(self.world.now)

    @rule(seconds=st.floats(0.0, 0.2))
    def turn(self, seconds: float) -> None:
        self.world.wait(seconds)

    @rule(data=st.data(), seconds=st.sampled_from([0.0001, 0.1]))
    def answer(self, data: st.DataObject, seconds: float) -> None:
        hand = data.draw(st.sampled_from(self.hands))
        if hand.batch:
            hand.answer(self.world.queue, seconds)

    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        """Each call survives the loss of one process."""
        hand = data.draw(st.sampled_from(self.hands))
        if not any(call.alone for call in hand.batch or ()):
            self.hands.remove(hand)
            self.world.queue.lost(hand)
            self.hands.append(self.world.hand())

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        for _ in range(10 * len(self.stays + self.leaves) + 10):
            self.world.wait(0.01)
            for hand in self.hands:
                if hand.batch:
                    hand.answer(self.world.queue, 0.1)
        assert [call.code for call in self.stays] == [OK] * len(self.stays)


TestCrowd = Crowd.TestCase
TestCrowd.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
