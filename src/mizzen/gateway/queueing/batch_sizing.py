"""The maximum size of the next batch: fixed by the server's spec, or adapted to how long recent batches took.

`Backlog.take` takes a batch of at most that size, of one large call while traffic is mixed, and of at most 1 MiB;
`DeadlineLane.take` picks its calls. Callers pass all times in.
"""

from __future__ import annotations

from collections import deque

from mizzen.graph.table_types import Server

MIN_SAMPLES = 8
"""Batches that must be measured before `known` is true."""
MAX_SAMPLES = 32
DEADLINE_SHARE = 0.4
"""The share of a deadline that a batch may spend in the model. In the worst case a call also waits for the whole batch
before its own; the rest is for transfer and variation."""


class ServiceTimes:
    """How long each of the last batches took, from sending to the reply."""

    __slots__ = ("_recent", "usual")

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=MAX_SAMPLES)
        self.usual = 0.0

    def note(self, seconds: float) -> None:
        recent = self._recent
        self.usual = self.usual * 0.875 + seconds * 0.125 if recent else seconds
        recent.append(seconds)

    @property
    def known(self) -> bool:
        return len(self._recent) >= MIN_SAMPLES

    @property
    def slowest(self) -> float:
        return max(self._recent, default=0.0)

    @property
    def quickest(self) -> float:
        """0 until enough batches were measured."""
        return min(self._recent) if self.known else 0.0


def time_budget(server: Server) -> float:
    """Seconds that a batch may spend in the model; 0 if the batch limit is fixed."""
    automatic = server.batch_auto and server.timeout_ms is not None
    return DEADLINE_SHARE * (server.timeout_ms or 0) / 1000 if automatic else 0.0


def first_batch_limit(server: Server, limit: int, *, adapted: bool) -> int:
    """The limit after a change of the server: fixed, or adapted from now on. `adapted`: `limit` already was."""
    if not time_budget(server):
        return server.batch_size
    return min(limit, server.batch_size) if adapted else 1


def next_batch_limit(room: int, most: int, items: int, seconds: float, budget: float) -> int:
    """The maximum size of the next batch, after one of `items` calls took the model `seconds`.

    AIMD with a fast start: a full batch doubles the limit if the doubled time stays within the budget, else adds one.
    A batch over the budget lowers the limit by a tenth. The runtime measures `seconds`. Time in transfer or in the
    queue would make a busy machine look like a slow model, and smaller batches would make a long queue longer.
    """
    if seconds > budget:
        return max(1, room * 9 // 10) if items > room // 2 else room
    if items < room:
        return room
    return min(most, 2 * room if 2 * seconds <= budget else room + 1)
