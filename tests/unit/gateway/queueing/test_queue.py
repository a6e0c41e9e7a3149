"""The queue by itself, in virtual time: what goes out when, and how calls end."""

from __future__ import annotations

from mizzen.gateway.queueing.call import EXPIRED, OK, UNAVAILABLE
from tests.support.gateway.virtual import BYTE_LIMIT, HELLO, Hand, Recorded, World


def test_all_calls_of_one_tick_go_out_together() -> None:
    world, hand = World(), Hand()
    world.queue.on_ready(hand, HELLO)
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
    world.queue.on_ready(hand, HELLO)
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
    world.queue.on_ready(hand, HELLO)
    assert world.timers == 0
    world.queue.submit(Recorded(1, 200.0))
    world.wait(0.1)
    assert world.timers == 1
    hand.answer(world.queue)
    world.wait(0.1)
    assert world.timers == 0


def test_deadlines_waiting_and_out() -> None:
    world, hand = World(batch_size=1), Hand()
    world.queue.on_ready(hand, HELLO)
    out, waits, patient = Recorded(1, 100.5), Recorded(2, 100.3), Recorded(3, 102.0)
    for call in (out, waits, patient):
        world.queue.submit(call)
    world.wait(0.4)
    assert waits.ends[0][0] == EXPIRED
    assert out.pending
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
    world.queue.on_ready(hand, HELLO)
    world.wait(5.0)
    world.queue.on_disconnect(hand)
    world.wait(0.9)
    late = Recorded(2, 200.0)
    world.queue.submit(late)
    assert late.pending
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
    assert calls[5].pending
    world.hand()
    assert world.queue.waiting == 1


def test_the_bytes_that_wait_are_bounded() -> None:
    world = World()
    calls = [Recorded(n, 200.0, BYTE_LIMIT // 2) for n in range(4)]
    for call in calls[:3]:
        world.queue.submit(call)
    assert [call.pending for call in calls[:3]] == [True, True, False]
    assert calls[2].ends == [(UNAVAILABLE, b"the queue of 'm' is full")]
    calls[0].cancel(world.now)
    world.wait(1 / 16)  # until it looks again
    world.queue.submit(calls[3])
    assert (world.queue.waiting, world.queue.waiting_bytes) == (2, BYTE_LIMIT)
    assert calls[1].pending
    assert calls[3].pending


def test_what_is_larger_than_the_bound_is_taken_where_nothing_waits() -> None:
    world, hand = World(), Hand()
    world.queue.on_ready(hand, HELLO)
    large, other = Recorded(1, 200.0, BYTE_LIMIT + 1), Recorded(2, 200.0)
    world.queue.submit(large)
    world.queue.submit(other)
    assert other.ends[0][0] == UNAVAILABLE
    world.turn()
    assert hand.batch == [large]
    assert world.queue.waiting_bytes == 0
