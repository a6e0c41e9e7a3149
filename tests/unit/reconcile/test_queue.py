from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from mizzen.kinds.schema.resource import Ref
from mizzen.reconcile.queue import LONGEST_DELAY, SHORTEST_DELAY, KeyedQueue, LoopTimer
from tests.support.examples import examples
from tests.support.reconcile import virtual

KEYS = tuple(Ref("Model", name) for name in "abcd")
A, B, C, _ = KEYS


class _Entry:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimer:
    """Time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 0.0
        self._entries: list[tuple[float, int, _Entry]] = []
        self._count = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> _Entry:
        entry = _Entry(callback)
        self._count += 1
        heapq.heappush(self._entries, (when, self._count, entry))
        return entry

    def advance(self, seconds: float) -> None:
        self.now += seconds
        while self._entries and self._entries[0][0] <= self.now:
            _, _, entry = heapq.heappop(self._entries)
            if entry.callback is not None:
                entry.callback()


class QueueMachine(RuleBasedStateMachine):
    """Random use, in hand-moved time. `owed` holds what was asked for and has not begun yet, `behind` what of it is
    merely due."""

    def __init__(self) -> None:
        super().__init__()
        self.timer = ManualTimer()
        self.queue = KeyedQueue(self.timer)
        self.owed: set[Ref] = set()
        self.behind: set[Ref] = set()
        self.last_row = ""
        self.due: dict[Ref, float] = {}
        self.held: set[Ref] = set()
        self.taken_while_waiting: dict[Ref, list[Ref]] = {}

    @property
    def waiting(self) -> set[Ref]:
        return self.owed - self.held

    @rule(key=st.sampled_from(KEYS))
    def add(self, key: Ref) -> None:
        self.queue.add(key)
        self._owe(key)

    @rule(key=st.sampled_from(KEYS))
    def add_behind(self, key: Ref) -> None:
        self.queue.add_low_priority(key)
        if key not in self.owed and key not in self.held:
            self.owed.add(key)
            self.behind.add(key)
            self.taken_while_waiting[key] = []
        else:
            self.owed.add(key)

    @rule(key=st.sampled_from(KEYS), seconds=st.sampled_from((0.0, 1.0, 2.0, 10.0)))
    def add_after(self, key: Ref, seconds: float) -> None:
        self.queue.add_after(key, seconds)
        self._later(key, seconds)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def fail(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        self._later(key, self.queue.retry(key))
        self._finish(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.held)))
        self.queue.forget(key)
        self._finish(key)

    @precondition(lambda self: self.waiting)
    @rule()
    def take(self) -> None:
        rows = {"behind" if key in self.behind else "front" for key in self.waiting}
        key = self._take_now()
        row = "behind" if key in self.behind else "front"
        assert key in self.owed, "nobody asked for it, or not yet"
        assert key not in self.held, "in two hands at once"
        assert len(rows) == 1 or row != self.last_row, "one row was served twice while the other waited"
        self.last_row = row
        self.owed.discard(key)
        self.behind.discard(key)
        self.held.add(key)
        self.taken_while_waiting.pop(key)
        for waiting, others in self.taken_while_waiting.items():
            if (waiting in self.behind) == (row == "behind"):
                assert key not in others, "a key was served twice while another waited"
                others.append(key)

    @rule(seconds=st.sampled_from((0.5, 1.0, 5.0)))
    def wait(self, seconds: float) -> None:
        self.timer.advance(seconds)
        for key in [key for key, when in self.due.items() if when <= self.timer.now]:
            del self.due[key]
            self._owe(key)

    @invariant()
    def hands_hold_what_was_taken(self) -> None:
        assert set(self.taken_while_waiting) == self.waiting

    def teardown(self) -> None:
        """Whatever happened: in the end every key that was asked for has had its turn."""
        while self.held or self.owed or self.due:
            for key in sorted(self.held):
                self._finish(key)
            while self.waiting:
                self.take()
                for key in sorted(self.held):
                    self._finish(key)
            self.wait(LONGEST_DELAY)

    def _take_now(self) -> Ref:
        try:
            self.queue.take().send(None)
        except StopIteration as result:
            key: Ref = result.value
            return key
        raise AssertionError("a key is owed, and none is handed out")

    def _finish(self, key: Ref) -> None:
        self.queue.done(key)
        self.held.discard(key)
        if key in self.owed:
            self.taken_while_waiting.setdefault(key, [])

    def _owe(self, key: Ref) -> None:
        self.owed.add(key)
        if key in self.behind:  # moves up, to the end of that row
            self.behind.discard(key)
            self.taken_while_waiting[key] = []
        if key not in self.held:
            self.taken_while_waiting.setdefault(key, [])

    def _later(self, key: Ref, seconds: float) -> None:
        self.due[key] = min(self.due.get(key, float("inf")), self.timer.now + seconds)


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(max_examples=examples(60), stateful_step_count=40, deadline=None)


def test_back_off_doubles_up_to_its_limit_and_starts_anew_when_forgotten() -> None:
    queue = KeyedQueue(ManualTimer())
    delays = [queue.retry(A) for _ in range(2000)]
    assert delays[:4] == pytest.approx([SHORTEST_DELAY, 0.1, 0.2, 0.4])
    assert delays[-1] == LONGEST_DELAY
    assert delays == sorted(delays)
    assert queue.retry(B) == SHORTEST_DELAY
    queue.forget(A)
    assert queue.retry(A) == SHORTEST_DELAY


def test_the_earliest_time_wins() -> None:
    async def main() -> float:
        queue = KeyedQueue(LoopTimer())
        for seconds in (7, 3, 5):
            queue.add_after(A, seconds)
        assert await queue.take() == A
        taken_at = asyncio.get_running_loop().time()
        queue.done(A)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(queue.take(), 60)
        return taken_at

    assert virtual.run(main()) == pytest.approx(3)


def test_a_waiting_worker_is_woken_and_a_cancelled_one_takes_nothing_away() -> None:
    async def main() -> None:
        queue = KeyedQueue(LoopTimer())
        first, second = asyncio.create_task(queue.take()), asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        queue.add(A)
        first.cancel()
        assert await second == A
        with pytest.raises(asyncio.CancelledError):
            await first

    virtual.run(main())


def test_a_key_added_while_it_is_worked_on_goes_behind_those_that_wait() -> None:
    async def main() -> list[Ref]:
        queue = KeyedQueue(LoopTimer())
        queue.add(A)
        assert await queue.take() == A
        for key in (B, A, A, C):
            queue.add(key)
        queue.done(A)
        return [await queue.take() for _ in range(3)]

    assert virtual.run(main()) == [B, C, A]


def test_what_is_merely_due_takes_every_second_turn() -> None:
    async def main() -> list[str]:
        queue = KeyedQueue(LoopTimer())
        for name in "abcde":
            queue.add_low_priority(Ref("Model", name))
        for name in "xyz":
            queue.add(Ref("Model", name))
        queue.add(Ref("Model", "d"))
        queue.add_low_priority(Ref("Model", "x"))
        return [(await queue.take()).name for _ in range(8)]

    assert virtual.run(main()) == ["x", "a", "y", "b", "z", "c", "d", "e"]
