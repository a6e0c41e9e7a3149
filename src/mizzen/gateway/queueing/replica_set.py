"""The replicas behind one queue: who is ready, who is free, and who works on what. Each has one batch at a time."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from mizzen.gateway.inference.calls import Call
from mizzen.gateway.queueing.deadline_lane import Lane


class Worker(Protocol):
    """A replica that is ready, as its queue sees it."""

    def send(self, batch: list[Call]) -> None: ...

    def tell(self, feedback: bytes) -> bool:
        """The body of a FEEDBACK frame. False: it does not want any, or cannot take it now."""


Out = tuple[list[Call], Lane, float]
"""A batch that a replica works on, where it waited, and when it was sent."""


class Crew:
    __slots__ = ("idle", "in_flight", "out", "ready")

    def __init__(self) -> None:
        self.ready: set[Worker] = set()
        self.idle: deque[Worker] = deque()
        self.out: dict[Worker, Out] = {}
        """Also those that have left and still owe an answer."""
        self.in_flight = 0
        """Calls in all batches that are out."""

    def join(self, worker: Worker) -> None:
        self.ready.add(worker)
        self.idle.append(worker)

    def leave(self, worker: Worker) -> bool:
        """It gets no more batches, and still answers the one it has. False: it was not ready anyway."""
        if worker not in self.ready:
            return False
        self.ready.discard(worker)
        if worker in self.idle:
            self.idle.remove(worker)
        return True

    def leave_all(self) -> None:
        self.ready.clear()
        self.idle.clear()

    def send(self, batch: list[Call], lane: Lane, now: float) -> None:
        """To the one that has been free for longest."""
        worker = self.idle.popleft()
        self.out[worker] = batch, lane, now
        self.in_flight += len(batch)
        worker.send(batch)

    def back(self, worker: Worker) -> Out | None:
        """What it had, with an answer or without any. Whether it is free now is said by `rest`."""
        out = self.out.pop(worker, None)
        if out is not None:
            self.in_flight -= len(out[0])
        return out

    def rest(self, worker: Worker) -> bool:
        """It is free again, unless it has left."""
        if worker not in self.ready:
            return False
        self.idle.append(worker)
        return True

    def busy_since(self, lane: Lane) -> list[float]:
        """When those that are ready were sent what they work on of this lane. Others may be free any moment."""
        out = (self.out[worker] for worker in self.ready & self.out.keys())
        return [since for _, its, since in out if its is lane]
