"""Many who ask the same at once: how many may wait, what that costs, and how each of them ends. In virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from mizzen.gateway.cache.cached_queue import CachedQueue, WaitLimits
from mizzen.gateway.queueing.call import EXPIRED, OK, UNAVAILABLE
from mizzen.gateway.queueing.queue import CLEANUP_SECONDS
from mizzen.gateway.queueing.scale_from_zero import FIRST_START_SECONDS, HoldLimits
from mizzen.gateway.request.head import EMPTY_HEAD
from mizzen.gateway.telemetry.metrics import queue_counts
from tests.support.gateway.virtual import HELLO, Recorded, World

ASLEEP: dict[str, Any] = {"addresses": (), "scaled": True, "wakes": True, "phase": "one is starting"}


class Request(Recorded):
    __slots__ = ("_live",)

    looks = 0

    def __init__(self, value: int, deadline: float, began: float) -> None:
        super().__init__(([("x", "INT64", [1], 1, memoryview(b"%d" % value))], None), deadline, began=began)
        self.id = b"id"
        self.head = EMPTY_HEAD

    @property
    def pending(self) -> bool:
        Request.looks += 1
        return self._live

    @pending.setter
    def pending(self, live: bool) -> None:
        self._live = live

    def finish_from_cache(self, payload: bytes, now: float, mark: bytes) -> None:
        self.finish(OK, payload, now)


class Crowded(World):
    """A queue with a cache before it."""

    def __init__(self, *, room: int = 1 << 30, held: int = 1 << 30, **server: Any) -> None:
        super().__init__(limit=1 << 30, held=HoldLimits(held, 1 << 30), **server)
        self.cache = self.queue.cache = CachedQueue(self.queue, 1 << 20, lambda: self.now, WaitLimits(room, held))

    def request(self, value: int = 0, seconds: float = 100.0) -> Request:
        call = Request(value, self.now + seconds, self.now)
        self.cache.submit(call)
        return call


class _Hand:
    """Takes whatever it is sent."""

    def send(self, batch: Any) -> None:
        self.batch = batch

    def tell(self, feedback: bytes) -> bool:
        return False


def test_who_follows_another_is_held_within_the_same_bounds() -> None:
    world = Crowded(held=3, **ASLEEP)
    held = [world.request(), world.request(), world.request(1)]
    away = [world.request(), world.request(1), world.request(2)]
    assert [call.code for call in held + away] == [0, 0, 0] + [UNAVAILABLE] * 3
    assert b"one is starting, and too many requests already wait for one" in away[0].ends[0][1]
    assert away[0].retry == FIRST_START_SECONDS
    assert (world.queue.shed, world.cache.followers, world.queue.waiting) == (3, 1, 2)
    told = queue_counts(world.queue).cache
    assert told is not None
    assert told.followers == 1
    world.queue.on_ready(_Hand(), HELLO)
    assert world.request(2).code == 0, "awake, more may wait"


def test_who_follows_another_finds_a_full_queue_too() -> None:
    world = Crowded(room=2)
    first = world.request()
    assert (world.request().code, world.request().code, first.code) == (0, UNAVAILABLE, 0)
    assert world.queue.shed == 1


def test_followers_that_have_gone_leave_their_place_to_others() -> None:
    world = Crowded(held=100, **ASLEEP)
    stays = world.request()
    for _ in range(50):
        gone = [world.request() for _ in range(99)]
        last = world.request()
        assert last.code == UNAVAILABLE
        for call in gone:
            call.cancel(world.now)
        world.wait(2 * CLEANUP_SECONDS)
    assert world.request().code == 0
    assert (stays.code, world.cache.followers) == (0, 1)


def test_to_join_a_call_that_many_have_left_costs_no_more() -> None:
    world = Crowded()
    world.request()
    Request.looks = 0
    for _ in range(1000):
        world.request().cancel(world.now)
    assert Request.looks < 5000


def test_calls_that_nobody_joined_are_not_looked_at_all_the_time() -> None:
    world = Crowded()
    calls = [world.request(value) for value in range(100)]
    world.request(0, seconds=50.0)
    world.wait(0.1)
    Request.looks = 0
    for _ in range(100):
        world.now += 0.001
        world.cache.sweep(world.now)
    assert Request.looks == 0
    for call in calls:
        call.cancel(world.now)
    world.wait(60.0)
    assert (len(world.cache._open), world.cache.followers) == (0, 0), "nothing is kept of them"


@pytest.mark.parametrize("seconds", [(100.0, 10.0, 20.0), (10.0, 40.0, 20.0, 30.0), (10.0, 10.0, 10.0)])
def test_everybody_ends_at_their_own_deadline(seconds: tuple[float, ...]) -> None:
    world = Crowded()
    calls = [world.request(seconds=each) for each in seconds]
    world.queue.on_ready(_Hand(), HELLO)
    world.turn()
    for passed in range(5, 50, 5):
        world.wait(100.0 + passed + 0.1 - world.now)
        assert [call.code for call in calls] == [EXPIRED if each <= passed else 0 for each in seconds]


def test_whom_nobody_has_seen_is_told_to_come_again() -> None:
    world = Crowded(**ASLEEP)
    first, second = world.request(), world.request(seconds=2.0)
    world.wait(2.1)
    [(code, text)] = second.ends
    assert (code, first.code, world.queue.expired, world.cache.followers) == (UNAVAILABLE, 0, 1, 0)
    assert b"one is starting, and none became ready within the deadline of this request" in text
    assert second.retry == 3
