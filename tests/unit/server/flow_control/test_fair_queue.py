"""The queue of execution slots as a state machine: whatever happens in whatever order, no slot is lost or doubled."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from mizzen.server.flow_control.fair_queue import FairQueue, Turn, TurnState
from tests.support.examples import examples

ACTORS = ("ada", "ben", "cy")
PER_ACTOR, TOTAL, LONGEST = 2, 4, 3


class FairQueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.queue = FairQueue(per_actor=PER_ACTOR, total=TOTAL, longest=LONGEST)
        self.turns: list[Turn] = []
        self.notified: list[Turn] = []

    open_turns = Bundle("open_turns")

    @rule(target=open_turns, actor=st.sampled_from(ACTORS), admitted=st.booleans())
    def enter(self, actor: str, admitted: bool) -> object:
        full = self.queue.waiting_of(actor) >= LONGEST
        turn: Turn | None = None
        turn = self.queue.enter(actor, lambda: self.notified.append(turn) if turn else None, admitted=admitted)
        assert (turn is None) == (full and not admitted)
        if turn is None:
            return multiple()
        self.turns.append(turn)
        return turn

    @rule(turn=consumes(open_turns))
    def leave(self, turn: Turn) -> None:
        self.queue.leave(turn)
        self.turns = [one for one in self.turns if one is not turn]  # a stop may have removed it
        assert turn.state is TurnState.ENDED

    @rule(turn=consumes(open_turns))
    def leave_twice(self, turn: Turn) -> None:
        self.leave(turn)
        self.queue.leave(turn)

    @rule()
    def stop(self) -> None:
        self.queue.end_waiting()
        self.turns = [turn for turn in self.turns if turn.state is not TurnState.ENDED]

    @invariant()
    def limits_hold(self) -> None:
        executing = [turn for turn in self.turns if turn.is_executing]
        assert len(executing) == self.queue.executing <= TOTAL
        for actor in ACTORS:
            own = sum(turn.actor == actor for turn in executing)
            assert own == self.queue.executing_of(actor) <= PER_ACTOR

    @invariant()
    def no_slot_is_idle_while_a_turn_could_use_it(self) -> None:
        for turn in self.turns:
            if turn.state is TurnState.WAITING:
                assert self.queue.executing == TOTAL or self.queue.executing_of(turn.actor) == PER_ACTOR

    @invariant()
    def nothing_is_kept_of_actors_without_turns(self) -> None:
        assert set(self.queue.actors) == {turn.actor for turn in self.turns}
        assert self.queue.waiting == sum(turn.state is TurnState.WAITING for turn in self.turns)

    def teardown(self) -> None:
        for turn in list(self.turns):
            self.queue.leave(turn)
        assert self.queue.actors == ()
        assert self.queue.executing == 0


TestFairQueue = FairQueueMachine.TestCase
TestFairQueue.settings = settings(max_examples=examples(), stateful_step_count=40, deadline=None)


def test_actors_take_turns() -> None:
    order: list[str] = []
    queue = FairQueue(per_actor=1, total=1, longest=10)
    first = queue.enter("ada", lambda: None)
    waiting: dict[str, list[Turn]] = {"ada": [], "ben": []}
    for actor in ("ada", "ada", "ada", "ben", "ben"):
        turn = queue.enter(actor, lambda actor=actor: order.append(actor))  # type: ignore[misc]
        assert turn is not None
        waiting[actor].append(turn)
    assert first is not None
    queue.leave(first)
    while len(order) < 5:
        queue.leave(waiting[order[-1]].pop(0))
    assert order in (["ben", "ada", "ben", "ada", "ada"], ["ada", "ben", "ada", "ben", "ada"])


def test_a_request_that_executed_before_is_served_first() -> None:
    order: list[str] = []
    queue = FairQueue(per_actor=1, total=9, longest=1)
    turns = [queue.enter("ada", lambda: None), queue.enter("ada", lambda: order.append("new"))]
    again = queue.enter("ada", lambda: order.append("again"), admitted=True)
    assert turns[0] is not None
    assert again is not None
    queue.leave(turns[0])
    queue.leave(again)
    assert order == ["again", "new"]


def test_an_actor_below_its_limit_does_not_wait_for_a_burst_of_another() -> None:
    queue = FairQueue(per_actor=2, total=16, longest=256)
    for _ in range(200):
        queue.enter("ada", lambda: None)
    turn = queue.enter("ben", lambda: None)
    assert turn is not None
    assert turn.is_executing
