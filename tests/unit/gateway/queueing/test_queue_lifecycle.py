"""Whatever happens in whatever order, each call ends once and with what is its own."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from mizzen.gateway.queueing.call import BAD_REQUEST, EXPIRED, FAILED, LOST, OK, UNAVAILABLE, Call
from mizzen.gateway.queueing.queue import MAX_RETRIED_BYTES, Queue
from mizzen.gateway.queueing.scale_from_zero import HoldLimits
from mizzen.protocol.frames import framing
from tests.support.examples import examples
from tests.support.gateway.virtual import HELLO, LARGE, Hand, Recorded, World

STATUSES = {framing.OK: OK, framing.BAD_INPUT: BAD_REQUEST, framing.MODEL_FAILED: FAILED}
FRAME_BYTES = 1 << 20


class Watched(Hand):
    """Of one queue. It looks at what it is sent, and its answer to a call tells which one it was."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.queue = world.queue
        self.leaves = False
        """It answers what it has, and gets no more."""
        self._world = world

    def send(self, batch: list[Call]) -> None:
        super().send(batch)
        assert not self.leaves
        assert all(call.deadline > self._world.now for call in batch), "sent after its time"
        assert len(batch) <= self.queue.server.batch_size
        assert len(batch) == 1 or not any(call.retry_alone for call in batch), (
            "beside one that may take its process down"
        )
        assert len(batch) == 1 or sum(call.size for call in batch) <= FRAME_BYTES

    def answer(self, queue: Queue, seconds: float = 1.0) -> None:
        assert self.batch is not None
        batch, self.batch = self.batch, None
        queue.on_reply(self, [(status_of(call), str(call.item).encode()) for call in batch], seconds)


def status_of(call: Call) -> int:
    number: int = call.item
    return tuple(STATUSES)[number % len(STATUSES)]


class Life(RuleBasedStateMachine):
    """Replicas join, answer, drain and are lost; callers ask, leave and run out of time; the Table changes, and another
    version takes over.
    """

    @initialize(
        idempotent=st.sampled_from([False, True]),
        batch_size=st.integers(1, 4),
        auto=st.booleans(),
        wait=st.sampled_from([0.0, 0.2]),
        wakes=st.booleans(),
    )
    def begin(self, idempotent: bool, batch_size: int, auto: bool, wait: float, wakes: bool) -> None:
        self.world = World(
            limit=8, idempotent=idempotent, batch_size=batch_size, batch_auto=auto, batch_wait=wait, timeout_ms=3000,
            held=HoldLimits(4, 1 << 20), scaled=wakes, wakes=wakes,
        )  # fmt: skip
        self.most_sent = 2 if idempotent else 1
        self.old: list[Queue] = []
        """Of versions that are served no more."""
        self.calls: list[Recorded] = []
        self.left: dict[Recorded, int] = {}
        """Those whose caller has gone, and how often they had been sent by then."""
        self.hands: list[Watched] = []
        self.numbers = itertools.count()
        self.join()
        self.join()

    @rule(
        asked=st.lists(
            st.tuples(st.floats(0.01, 3.0) | st.just(3.0), st.sampled_from([10, 10, LARGE, 700_000])),
            min_size=1,
            max_size=4,
        ),
        turn=st.booleans(),
    )
    def submit(self, asked: list[tuple[float, int]], turn: bool) -> None:
        self.calls += [self.world.ask(next(self.numbers), seconds, size) for seconds, size in asked]
        if turn:
            self.world.turn()

    @rule()
    def join(self) -> None:
        if len(self.hands) < 3:
            self.hands.append(Watched(self.world))
            self.world.queue.on_ready(self.hands[-1], HELLO)

    @precondition(lambda self: any(hand.batch for hand in self.hands))
    @rule(data=st.data(), seconds=st.sampled_from([0.0001, 1.0, 2.0]))
    def answer(self, data: st.DataObject, seconds: float) -> None:
        hand = data.draw(st.sampled_from([hand for hand in self.hands if hand.batch]))
        hand.answer(hand.queue, seconds)

    @rule()
    def answer_all(self) -> None:
        for hand in self.hands:
            if hand.batch:
                hand.answer(hand.queue, 0.1)
        self.world.turn()

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        hand = data.draw(st.sampled_from(self.hands))
        self.hands.remove(hand)
        hand.queue.on_disconnect(hand)

    @precondition(lambda self: any(hand.batch for hand in self.hands))
    @rule(data=st.data())
    def replace(self, data: st.DataObject) -> None:
        """A busy one is lost, and another one there at once: what was out is about to be sent again, or not."""
        hand = data.draw(st.sampled_from([hand for hand in self.hands if hand.batch]))
        self.hands.remove(hand)
        self.calls += [self.world.ask(next(self.numbers), 3.0) for _ in range(3)]
        hand.queue.on_disconnect(hand)
        self.hands.append(Watched(self.world))
        self.world.queue.on_ready(self.hands[-1], HELLO)
        self.world.turn()

    @precondition(lambda self: self.hands)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        hand = data.draw(st.sampled_from(self.hands))
        hand.leaves = True
        hand.queue.on_drain(hand)
        if not hand.batch:
            self.hands.remove(hand)

    @rule(addresses=st.sampled_from([(), ("unix:a",), ("unix:a", "unix:b")]), batch_size=st.integers(1, 4))
    def update(self, addresses: tuple[str, ...], batch_size: int) -> None:
        queue = self.world.queue
        queue.update(msgspec.structs.replace(queue.server, addresses=addresses, batch_size=batch_size))

    @precondition(lambda self: len(self.old) < 2 and any(hand.batch for hand in self.hands))
    @rule()
    def switch(self) -> None:
        old = self.world.switch()
        self.old.append(old)
        for hand in self.hands:
            hand.leaves = hand.leaves or hand.queue is old
        self.hands = [hand for hand in self.hands if hand.batch or hand.queue is not old]
        self.join()

    @precondition(lambda self: self.calls)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        call = data.draw(st.sampled_from(self.calls))
        if call.pending:
            self.left[call] = call.sent
        call.cancel(self.world.now)

    @rule(seconds=st.floats(0.0, 0.5))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)

    @invariant()
    def ends_are_single_and_right(self) -> None:
        for call in getattr(self, "calls", ()):
            assert len(call.ends) <= 1
            assert call.sent <= self.most_sent
            assert sum(call in hand.batch for hand in self.hands if hand.batch) <= 1, "with two replicas at once"
            for code, payload in call.ends:
                if payload == str(call.item).encode():
                    assert code == STATUSES[status_of(call)]
                    assert call.sent
                else:
                    assert code in (LOST, UNAVAILABLE, EXPIRED), (code, payload)

    @invariant()
    def who_has_gone_is_sent_no_more_and_told_nothing(self) -> None:
        for call, sent in getattr(self, "left", {}).items():
            assert call.sent == sent
            assert call.ends == []

    @invariant()
    def counts_are_true(self) -> None:
        if hasattr(self, "world"):
            queue = self.world.queue
            for each in (queue, *self.old):
                batches = [hand.batch for hand in self.hands if hand.batch and hand.queue is each]
                assert each.in_flight == sum(map(len, batches))
                assert each.busy == each.in_flight + each.waiting
            assert [old.waiting for old in self.old] == [0] * len(self.old)
            assert queue.waiting <= 8 + sum(each.retried for each in (queue, *self.old))
            assert queue.waiting_bytes >= sum(call.size for call in self.calls if call.pending and not self.out(call))

    @invariant()
    def whoever_waits_where_nobody_is_has_called_for_somebody(self) -> None:
        if hasattr(self, "world"):
            queue = self.world.queue
            if queue.server.wakes and queue.waiting and not queue.ready:
                assert queue.is_awaited(self.world.now)
                assert self.world.woken

    def out(self, call: Recorded) -> bool:
        return any(call in hand.batch for hand in self.hands if hand.batch)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.wait(10.0)
            assert all(call.ends or call in self.left for call in self.calls)
            for hand in self.hands:
                if hand.batch:
                    hand.answer(hand.queue)
            self.world.wait(1.0)
            for queue in (self.world.queue, *self.old):
                assert (queue.in_flight, queue.waiting, queue.waiting_bytes, queue.busy) == (0, 0, 0, 0)
            assert self.world.timers == 0


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=examples(100), stateful_step_count=40, deadline=None)


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
        if not any(call.retry_alone for call in hand.batch or ()):
            self.hands.remove(hand)
            self.world.queue.on_disconnect(hand)
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
TestCrowd.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_what_is_not_idempotent_is_sent_once() -> None:
    world = World(idempotent=False)
    hand, other = world.hand(), world.hand()
    call = world.ask(1)
    world.turn()
    world.queue.on_disconnect(hand)
    world.wait(0.1)
    assert (call.code, call.sent, other.batch) == (LOST, 1, None)


def test_who_leaves_answers_what_it_has_and_gets_no_more() -> None:
    world = World()
    hand = world.hand()
    first = world.ask(1)
    world.turn()
    world.queue.on_drain(hand)
    hand.answer(world.queue)
    second = world.ask(2)
    world.wait(0.1)
    assert (first.code, second.code, hand.batch) == (OK, 0, None)


def test_a_call_with_which_memory_ran_out_is_not_sent_again() -> None:
    world = World()
    hand, other = world.hand(), world.hand()
    call = world.ask(1)
    world.turn()
    world.queue.on_out_of_memory(hand, 0)
    world.queue.on_disconnect(hand)
    world.wait(0.1)
    assert (call.code, call.sent, other.batch) == (FAILED, 1, None)


def test_the_others_of_its_batch_are_sent_again_alone() -> None:
    world = World()
    hand = world.hand()
    world.ask(0)
    world.turn()
    calls = [world.ask(1), world.ask(2), world.ask(3)]
    hand.answer(world.queue)
    world.wait(0.1)
    assert hand.batch == calls
    world.queue.on_out_of_memory(hand, 1)
    world.queue.on_disconnect(hand)
    other = world.hand()
    for _ in range(2):
        world.wait(0.1)
        assert other.batch is not None
        assert len(other.batch) == 1
        other.answer(world.queue)
    assert [(call.code, call.sent) for call in calls] == [(OK, 2), (FAILED, 1), (OK, 2)]


def test_a_very_large_call_is_sent_once() -> None:
    world = World(byte_limit=1 << 30)
    hand = world.hand()
    call = world.ask(1, size=MAX_RETRIED_BYTES + 1)
    world.turn()
    world.queue.on_disconnect(hand)
    assert (call.code, call.sent) == (LOST, 1)
