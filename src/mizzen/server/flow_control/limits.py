"""The state that all requests share: the queues, the open streams of each actor, and what was counted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from mizzen.access.policy import ANONYMOUS, Actor
from mizzen.errors import TooManyRequests, Unavailable
from mizzen.server.flow_control.fair_queue import FairQueue

Work: TypeAlias = Literal["reading", "mutating"]
ActorClass: TypeAlias = Literal["admin", "user", "anonymous"]
READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
ACTORS_AT_ONCE: Final = 8
"""How many actors can have all of their slots at the same time."""


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """Limits of one actor."""

    reading: int = 2
    """Reads that execute at a time. They use threads that all reads share."""
    mutating: int = 4
    """Writes that execute at a time. More, because the store commits several together."""
    queued: int = 256
    """Requests that wait for one of these slots."""
    streams: int = 256
    """Requests that wait for the client or for an event: watches, followed logs, slow transfers."""


class FlowControl:
    def __init__(self, limits: FlowLimits, exempt: Actor) -> None:
        """`exempt`: an actor that takes turns like all others, but is never refused."""
        self.limits = limits
        self.exempt = exempt
        self.queues: dict[Work, FairQueue] = {
            "reading": _queue(limits.reading, limits.queued),
            "mutating": _queue(limits.mutating, limits.queued),
        }
        self.streams: Counter[str] = Counter()
        """Open streams by the name of their actor."""
        self.open_streams: Counter[ActorClass] = Counter()
        self.rejections: Counter[tuple[ActorClass, str]] = Counter()
        self.waits: Counter[tuple[ActorClass, Work]] = Counter()
        self.wait_seconds: dict[tuple[ActorClass, Work], float] = {}
        self.stopping = False

    def class_of(self, actor: Actor) -> ActorClass:
        if actor == self.exempt:
            return "admin"
        return "anonymous" if actor == ANONYMOUS else "user"

    def rejection(self, actor: Actor, what: Work | Literal["stream"]) -> Unavailable:
        if self.stopping:
            return Unavailable("the plane is stopping")
        self.rejections[self.class_of(actor), what] += 1
        if what == "stream":
            return TooManyRequests(
                f"'{actor.name}' has {self.limits.streams} watches, followed logs and transfers, which is the limit",
                hint="close some of them; an admin can raise api_streams_per_actor",
            )
        return TooManyRequests(
            f"{self.limits.queued} {what} requests of '{actor.name}' are waiting, which is the limit",
            hint="send fewer requests at a time; an admin can raise api_queued_per_actor",
        )

    def take_stream(self, actor: Actor) -> bool:
        if self.streams[actor.name] >= self.limits.streams and actor != self.exempt:
            return False
        self.streams[actor.name] += 1
        self.open_streams[self.class_of(actor)] += 1
        return True

    def return_stream(self, actor: Actor) -> None:
        self.open_streams[self.class_of(actor)] -= 1
        self.streams[actor.name] -= 1
        if not self.streams[actor.name]:
            del self.streams[actor.name]

    def count_wait(self, actor: Actor, work: Work, seconds: float) -> None:
        key = self.class_of(actor), work
        self.waits[key] += 1
        self.wait_seconds[key] = self.wait_seconds.get(key, 0.0) + seconds

    def stop(self) -> None:
        """From now on nothing waits for a slot: queued requests are refused."""
        self.stopping = True
        for queue in self.queues.values():
            queue.end_waiting()


def work_of(method: str) -> Work:
    return "reading" if method in READS else "mutating"


def _queue(per_actor: int, queued: int) -> FairQueue:
    return FairQueue(per_actor=per_actor, total=per_actor * ACTORS_AT_ONCE, longest=queued)
