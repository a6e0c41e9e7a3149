"""How large batches get, and how long they wait to fill."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.queueing.batch_sizing import DEADLINE_SHARE, next_batch_limit
from mizzen.gateway.queueing.call import OK
from mizzen.graph.table_types import Server
from tests.support.gateway.virtual import LARGE, World

AUTO: dict[str, Any] = {"batch_auto": True, "batch_size": 64, "timeout_ms": 1000}


def test_more_while_full_batches_stay_in_the_budget_and_a_tenth_less_when_not() -> None:
    assert next_batch_limit(10, 64, items=10, seconds=0.1, budget=0.2) == 20, "at worst it takes all of the budget"
    assert next_batch_limit(10, 64, items=10, seconds=0.11, budget=0.2) == 11
    assert next_batch_limit(40, 64, items=40, seconds=0.1, budget=0.2) == 64
    assert next_batch_limit(10, 64, items=9, seconds=0.1, budget=0.2) == 10, "it was not full"
    assert next_batch_limit(64, 64, items=64, seconds=0.1, budget=0.2) == 64
    assert next_batch_limit(20, 64, items=20, seconds=0.3, budget=0.2) == 18
    assert next_batch_limit(20, 64, items=1, seconds=0.3, budget=0.2) == 20, "no fewer would have helped"
    assert next_batch_limit(1, 64, items=1, seconds=9.0, budget=0.2) == 1


@given(st.floats(0.001, 0.05), st.floats(0.0, 0.1), st.integers(1, 200))
def test_it_finds_what_fits_the_budget(per_call: float, fixed: float, most: int) -> None:
    budget = 0.4
    fits = max(1, min(most, int((budget - fixed) / per_call + 1e-9)))
    room = 1
    for _ in range(1000):
        room = next_batch_limit(room, most, room, fixed + room * per_call, budget)
        assert 1 <= room <= most
        assert room <= fits + 1
    assert room >= fits * 0.8 - 1


def test_batches_grow_with_what_the_model_takes() -> None:
    world = World(limit=10_000, **AUTO)
    hand = world.hand()
    assert world.queue.batch_limit == 1
    calls = [world.ask(n) for n in range(2000)]
    world.turn()
    while hand.batch:
        size = len(hand.batch)
        world.wait(0.5)  # however long it is on the way
        hand.answer(world.queue, seconds=size * DEADLINE_SHARE / 20)
    assert all(call.code == OK for call in calls)
    assert 17 <= world.queue.batch_limit <= 21
    assert 17 <= max(map(len, hand.sent)) <= 21


def test_a_table_that_changes_something_else_does_not_start_it_over() -> None:
    world = World(limit=99, **AUTO)
    hand = world.hand()
    for n in range(20):
        world.ask(n)
    world.turn()
    while hand.batch:
        hand.answer(world.queue, seconds=0.01)
    room = world.queue.batch_limit
    assert room > 3
    again: dict[str, Any] = {"id": "default/m", "model": "m", "version": "1", "addresses": ("unix:b",)}
    world.queue.update(Server(**again, **AUTO))
    assert world.queue.batch_limit == room
    world.queue.update(Server(**again, **AUTO | {"batch_size": 2}))
    assert world.queue.batch_limit == 2
    world.queue.update(Server(**again, batch_size=9))
    assert world.queue.batch_limit == 9
    world.queue.update(Server(**again, **AUTO))
    assert world.queue.batch_limit == 1


def test_a_batch_waits_to_fill_from_its_oldest_member() -> None:
    world = World(limit=99, batch_wait=0.5)
    hand = world.hand()
    first = world.ask(0)
    world.turn()
    assert hand.batch == [first], "before anything is known of its pace, nothing waits"
    hand.answer(world.queue)
    world.learn(hand, 0.01, batches=7)
    one = world.ask(1)
    world.wait(0.3)
    two = world.ask(2, seconds=50.0)
    world.turn()
    assert not hand.batch
    world.wait(0.19)
    assert not hand.batch
    world.wait(0.02)
    assert hand.batch == [two, one]


def test_a_full_batch_does_not_wait() -> None:
    world = World(limit=99, batch_wait=50.0)
    hand = world.hand()
    world.learn(hand, 0.01)
    calls = [world.ask(n) for n in range(4)]
    world.turn()
    assert hand.batch == calls


def test_the_wait_leaves_the_time_that_the_slowest_run_took() -> None:
    world = World(limit=99, batch_wait=50.0)
    hand = world.hand()
    world.learn(hand, 0.1, batches=7)
    world.learn(hand, 0.4, batches=1)
    world.ask("patient")
    urgent = world.ask("urgent", seconds=1.0)
    world.wait(0.59)
    assert not hand.batch
    world.wait(0.02)
    assert hand.batch is not None
    assert hand.batch[0] is urgent
    world.wait(0.35)
    hand.answer(world.queue)
    assert urgent.code == OK


def test_what_goes_alone_does_not_wait() -> None:
    world = World(limit=99, batch_wait=0.5)
    hand = world.hand()
    world.learn(hand, 0.01, size=LARGE)
    world.learn(hand, 1.0)
    large = world.ask("large", size=LARGE)
    world.wait(0.01)
    assert hand.batch == [large]


def test_callers_who_left_are_not_waited_for() -> None:
    world = World(limit=99, batch_wait=0.5)
    hand = world.hand()
    world.learn(hand, 0.01)
    world.ask(1).cancel(world.now)
    world.wait(0.3)
    stays = world.ask(2)
    world.wait(0.3)
    assert not hand.batch, "its own wait is not over"
    world.wait(0.3)
    assert hand.batch == [stays]
