"""Who goes first: the earliest deadline, small calls beside large ones, and what a lost process left."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_lane import DeadlineLane
from mizzen.gateway.queueing.lane_scheduler import GAP_SECONDS, MIXED_SECONDS, SMALL_CALLS_SHARE
from tests.support.gateway.virtual import LARGE, Hand, Recorded, World

deadlines = st.lists(st.integers(0, 9), max_size=30)


@given(deadlines, st.integers(0, 10))
def test_a_lane_is_sorted_by_deadline_and_stable(given: list[int], taken: int) -> None:
    lane = DeadlineLane()
    calls = [Recorded(n, float(deadline), size=n) for n, deadline in enumerate(given)]
    for call in calls:
        assert lane.before(call.deadline) == len([other for other in lane if other.deadline <= call.deadline])
        lane.put(call)
    order: list[Call] = sorted(calls, key=lambda call: call.deadline)
    assert list(lane) == order
    back = [lane.popleft() for _ in range(min(taken, len(lane)))]
    lane.bytes -= sum(call.size for call in back)
    lane.requeue(back)
    assert list(lane) == order
    assert lane.bytes == sum(call.size for call in calls)


@given(deadlines, deadlines)
def test_what_is_put_back_comes_before_those_of_its_deadline(first: list[int], later: list[int]) -> None:
    lane = DeadlineLane()
    old: list[Call] = [Recorded("old", float(deadline)) for deadline in sorted(first)]
    new = [Recorded("new", float(deadline)) for deadline in later]
    for call in new:
        lane.put(call)
    lane.requeue(old)
    assert list(lane) == sorted([*old, *new], key=lambda call: call.deadline)


def test_the_earliest_deadline_goes_first() -> None:
    world = World(batch_size=2)
    late, soon, later, sooner = (world.ask(n, seconds) for n, seconds in enumerate([5, 3, 6, 1]))
    hand = world.hand()
    assert hand.batch == [sooner, soon]
    hand.answer(world.queue)
    assert hand.batch == [late, later]


def test_a_lost_batch_goes_to_the_other_replica_at_once_and_in_its_order() -> None:
    world = World(batch_size=2, limit=9)
    one = world.hand()
    calls = [world.ask(n, seconds) for n, seconds in enumerate([5, 6])]
    world.turn()
    assert one.batch == calls
    other = world.hand()
    world.queue.on_disconnect(one)
    assert other.batch == [calls[0]], "each by itself"
    urgent, between = world.ask("urgent", 1), world.ask("between", 5.5)
    other.answer(world.queue)
    assert other.batch == [urgent, between], "those put back keep their deadline"
    other.answer(world.queue)
    assert other.batch == [calls[1]]
    other.answer(world.queue)
    assert world.queue.retried == 2
    assert [call.sent for call in (*calls, urgent, between)] == [2, 2, 1, 1]


def test_small_calls_pass_large_ones_for_a_share_of_the_time() -> None:
    world = World(limit=99, batch_size=1)
    hand = world.hand()
    small = [world.ask(n) for n in range(20)]
    large = [world.ask(f"large{n}", size=LARGE) for n in range(3)]
    world.turn()
    served: list[Call] = []
    while hand.batch:
        [call] = hand.batch
        served.append(call)
        world.wait(1.0 if call in large else 0.5)
        hand.answer(world.queue)
    between = [served.index(call) for call in large]
    assert between[0] == 0, "nobody has had more than their share yet"
    assert between[1] - between[0] - 1 == SMALL_CALLS_SHARE / 0.5
    assert between[2] - between[1] - 1 == SMALL_CALLS_SHARE / 0.5
    assert [call for call in served if call in small] == small


def test_a_large_call_whose_deadline_is_near_goes_first() -> None:
    world = World(limit=99, batch_size=1)
    hand = world.hand()
    world.learn(hand, 1.0, size=LARGE)
    world.ask("small")
    world.turn()
    near = world.ask("near", seconds=1.5, size=LARGE)
    others = [world.ask(n) for n in range(2)]
    hand.answer(world.queue)
    assert hand.batch == [near]
    hand.answer(world.queue)
    assert hand.batch == others[:1]


def test_a_replica_is_kept_for_small_calls_a_little_while() -> None:
    world = World(limit=99)
    hand = world.hand()
    world.learn(hand, 1.0, size=LARGE)
    world.ask("small")
    world.turn()
    large = world.ask("large", size=LARGE)
    hand.answer(world.queue)
    assert not hand.batch, "the next small ones may be on their way"
    world.wait(GAP_SECONDS / 2)
    small = world.ask("small")
    world.turn()
    assert hand.batch == [small]
    hand.answer(world.queue)
    world.wait(2 * GAP_SECONDS)
    assert hand.batch == [large], "none came"


def test_of_several_replicas_one_is_kept_from_large_calls() -> None:
    world = World(limit=99, addresses=("unix:a", "unix:b", "unix:c"))
    hands = [world.hand() for _ in range(3)]
    small = world.ask("small")
    world.turn()
    busy = next(hand for hand in hands if hand.batch)
    large = [world.ask(n, size=LARGE) for n in range(4)]
    busy.answer(world.queue)
    world.turn()
    assert [hand.batch for hand in hands if hand.batch] == [[large[0]], [large[1]]], "each by itself"
    [free] = [hand for hand in hands if not hand.batch]
    small = world.ask("small")
    world.turn()
    assert free.batch == [small]
    free.answer(world.queue)
    assert not free.batch
    next(hand for hand in hands if hand.batch).answer(world.queue)
    assert sum(hand.batch is not None for hand in hands) == 2


def test_where_no_small_calls_are_about_large_ones_have_all_replicas_and_share_batches() -> None:
    world = World(limit=99, addresses=("unix:a", "unix:b"))
    hands: list[Hand] = [world.hand(), world.hand()]
    world.ask("small")
    world.turn()
    next(hand for hand in hands if hand.batch).answer(world.queue)
    world.wait(MIXED_SECONDS)
    large = [world.ask(n, size=LARGE) for n in range(6)]
    world.turn()
    assert [hand.batch for hand in hands] in ([large[:4], large[4:]], [large[4:], large[:4]])


def test_a_lost_replica_is_no_longer_counted_as_busy_with_a_large_call() -> None:
    world = World(limit=99, addresses=("unix:a", "unix:b"), idempotent=False)
    one, two = world.hand(), world.hand()
    world.ask("small")
    world.turn()
    (one if one.batch else two).answer(world.queue)
    first, second = world.ask(1, size=LARGE), world.ask(2, size=LARGE)
    world.turn()
    lost, other = (one, two) if one.batch else (two, one)
    assert lost.batch == [first]
    world.queue.on_disconnect(lost)
    world.hand()
    assert second.sent == 1
    assert other.batch == [second]
