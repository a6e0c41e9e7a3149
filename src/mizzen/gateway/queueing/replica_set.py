"""The replicas behind one queue: which are ready or idle, and what each works on. Each has one batch at a time."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_lane import DeadlineLane


class ReplicaHandle(Protocol):
    """A ready replica, as its queue sees it."""

    def send(self, batch: list[Call]) -> None: ...

    def tell(self, feedback: bytes) -> bool:
        """Send the body of a FEEDBACK frame. False: the replica takes no feedback, or cannot take it now."""


InFlightBatch = tuple[list[Call], DeadlineLane, float]
"""A batch that a replica works on, the lane it came from, and when it was sent."""


class ReplicaSet:
    __slots__ = ("batches", "idle", "in_flight", "ready")

    def __init__(self) -> None:
        self.ready: set[ReplicaHandle] = set()
        self.idle: deque[ReplicaHandle] = deque()
        self.batches: dict[ReplicaHandle, InFlightBatch] = {}
        """Includes replicas that have left and still owe a reply."""
        self.in_flight = 0
        """The number of calls in all these batches."""

    def add(self, replica: ReplicaHandle) -> None:
        self.ready.add(replica)
        self.idle.append(replica)

    def drain(self, replica: ReplicaHandle) -> bool:
        """Send it no more batches; it still answers the one it has. False: it was not ready."""
        if replica not in self.ready:
            return False
        self.ready.discard(replica)
        if replica in self.idle:
            self.idle.remove(replica)
        return True

    def drain_all(self) -> None:
        self.ready.clear()
        self.idle.clear()

    def send(self, batch: list[Call], lane: DeadlineLane, now: float) -> None:
        """Send to the replica that has been idle longest."""
        replica = self.idle.popleft()
        self.batches[replica] = batch, lane, now
        self.in_flight += len(batch)
        replica.send(batch)

    def take_batch(self, replica: ReplicaHandle) -> InFlightBatch | None:
        """Remove and return the batch of a replica, answered or lost. `mark_idle` then marks the replica as idle."""
        out = self.batches.pop(replica, None)
        if out is not None:
            self.in_flight -= len(out[0])
        return out

    def mark_idle(self, replica: ReplicaHandle) -> bool:
        """Mark it as idle. False: it has left."""
        if replica not in self.ready:
            return False
        self.idle.append(replica)
        return True

    def busy_since(self, lane: DeadlineLane) -> list[float]:
        """When each ready replica was sent its batch of this lane. Others may be idle at any moment."""
        out = (self.batches[replica] for replica in self.ready & self.batches.keys())
        return [since for _, its, since in out if its is lane]
