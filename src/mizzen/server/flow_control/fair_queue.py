"""A pool of execution slots that actors share. It knows no clock, no task and no request.

Each actor holds a limited number of slots, and has a queue of its own. Actors that wait are served round-robin.

    enter ──> executing ──leave──> ended
      └─────> waiting ──its turn──> executing
                 └─────leave──────> ended
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto


class TurnState(Enum):
    WAITING = auto()
    EXECUTING = auto()
    ENDED = auto()


@dataclass(slots=True, eq=False)
class Turn:
    """One wish for a slot."""

    actor: str
    notify: Callable[[], None]
    """Called when a waiting turn gets its slot."""
    state: TurnState = TurnState.WAITING

    @property
    def is_executing(self) -> bool:
        return self.state is TurnState.EXECUTING


@dataclass(slots=True)
class _ActorQueue:
    executing: int = 0
    waiting: deque[Turn] = field(default_factory=deque)


class FairQueue:
    def __init__(self, *, per_actor: int, total: int, longest: int) -> None:
        """`longest`: the most turns of one actor that may wait."""
        self._per_actor = per_actor
        self._total = total
        self._longest = longest
        self._actors: dict[str, _ActorQueue] = {}
        """Actors that execute or wait; others leave nothing behind."""
        self._ready: OrderedDict[str, None] = OrderedDict()
        """Actors that wait although they are below their own limit, in the order of their next turns."""
        self.executing = 0

    def enter(
        self, actor: str, notify: Callable[[], None], *, admitted: bool = False, bounded: bool = True
    ) -> Turn | None:
        """Returns a turn, which may execute at once or wait; None if the actor's queue is full.

        `admitted`: the turn belongs to a request that executed before. It goes to the front, even of a full queue.
        """
        if bounded and not admitted and self.waiting_of(actor) >= self._longest:
            return None
        own = self._actors.setdefault(actor, _ActorQueue())
        turn = Turn(actor, notify)
        if admitted:
            own.waiting.appendleft(turn)
        else:
            own.waiting.append(turn)
        self._mark_ready(actor, own)
        self._dispatch(turn)
        return turn

    def leave(self, turn: Turn) -> None:
        """Gives the slot or the place in the queue back. The second time, it does nothing."""
        own = self._actors.get(turn.actor)
        if own is None or turn.state is TurnState.ENDED:
            return
        if turn.state is TurnState.EXECUTING:
            own.executing -= 1
            self.executing -= 1
        else:
            own.waiting.remove(turn)
        turn.state = TurnState.ENDED
        self._mark_ready(turn.actor, own)
        if not own.executing and not own.waiting:
            del self._actors[turn.actor]
        self._dispatch()

    def end_waiting(self) -> None:
        """Ends all waiting turns, and notifies them."""
        for actor, own in list(self._actors.items()):
            ended = list(own.waiting)
            own.waiting.clear()
            self._mark_ready(actor, own)
            if not own.executing:
                del self._actors[actor]
            for turn in ended:
                turn.state = TurnState.ENDED
                turn.notify()

    def waiting_of(self, actor: str) -> int:
        own = self._actors.get(actor)
        return len(own.waiting) if own else 0

    def executing_of(self, actor: str) -> int:
        own = self._actors.get(actor)
        return own.executing if own else 0

    @property
    def actors(self) -> tuple[str, ...]:
        return tuple(self._actors)

    @property
    def waiting(self) -> int:
        return sum(len(own.waiting) for own in self._actors.values())

    def _mark_ready(self, actor: str, own: _ActorQueue) -> None:
        if own.waiting and own.executing < self._per_actor:
            self._ready.setdefault(actor)
        else:
            self._ready.pop(actor, None)

    def _dispatch(self, quiet: Turn | None = None) -> None:
        """Gives free slots to waiting turns, one of each actor in turn. `quiet` is not notified: it just entered."""
        while self._ready and self.executing < self._total:
            actor, _ = self._ready.popitem(last=False)
            own = self._actors[actor]
            turn = own.waiting.popleft()
            turn.state = TurnState.EXECUTING
            own.executing += 1
            self.executing += 1
            self._mark_ready(actor, own)
            if turn is not quiet:
                turn.notify()
