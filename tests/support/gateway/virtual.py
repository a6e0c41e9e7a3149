"""A queue by itself, in virtual time: no sockets, no loop. Replicas do what the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mizzen.gateway.queueing.call import Call
from mizzen.gateway.queueing.deadline_timer import DeadlineTimer
from mizzen.gateway.queueing.lane_scheduler import LARGE_BYTES
from mizzen.gateway.queueing.queue import Queue
from mizzen.gateway.queueing.scale_from_zero import UNLIMITED, HoldLimits
from mizzen.gateway.queueing.signature import Hello
from mizzen.graph.table_types import Server
from mizzen.protocol.frames import framing

BYTE_LIMIT = 2_000_000
LARGE = LARGE_BYTES + 1
HELLO = Hello(state="ready")


class Recorded(Call):
    __slots__ = ("ends", "retry", "sent")

    def __init__(self, item: Any, deadline: float, size: int = 10, began: float = 100.0) -> None:
        self.item = item
        self.size = size
        self.began = began
        self.deadline = deadline
        self.pending = True
        self.retry_alone = False
        self.ends: list[tuple[int, bytes]] = []
        self.retry = 0
        self.sent = 0

    def __repr__(self) -> str:
        return f"{self.item}"

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        self.pending = False
        self.ends.append((code, payload))
        self.retry = retry

    def cancel(self, now: float) -> None:
        self.pending = False

    @property
    def code(self) -> int:
        """How it ended; 0: not yet."""
        return self.ends[0][0] if self.ends else 0


class Hand:
    """A worker that keeps what it is sent until the test answers."""

    def __init__(self) -> None:
        self.batch: list[Call] | None = None
        self.sent: list[list[Call]] = []

    def send(self, batch: list[Call]) -> None:
        assert self.batch is None, "one batch at a time"
        for call in batch:
            assert call.pending, "nobody waits for what is sent"
            assert isinstance(call, Recorded)
            call.sent += 1
        self.batch = batch
        self.sent.append(batch)

    def tell(self, feedback: bytes) -> bool:
        return False

    def answer(self, queue: Queue, seconds: float = 1.0) -> None:
        """`seconds`: what the model took, as the runtime tells it."""
        assert self.batch is not None
        batch, self.batch = self.batch, None
        queue.on_reply(self, [(framing.OK, str(call.item).encode()) for call in batch], seconds)


class World:
    """Virtual time and the callbacks that wait for it."""

    def __init__(
        self, *, limit: int = 5, byte_limit: int = BYTE_LIMIT, held: HoldLimits = UNLIMITED, **server: Any
    ) -> None:
        self.now = 100.0
        self._soon: list[Callable[[], None]] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.sweeper = DeadlineTimer(lambda: self.now, self.later)
        served: dict[str, Any] = {"addresses": ("unix:a",), "batch_size": 4} | server
        self._limits = limit, byte_limit
        self._held = held
        self.woken = 0
        """How often the plane was told that somebody asks."""
        self.queue = self._made(Server(id="default/m", model="m", version="1", **served))

    def _made(self, server: Server) -> Queue:
        limit, byte_limit = self._limits
        return Queue(
            server,
            limit=limit,
            byte_limit=byte_limit,
            hold_seconds=1.0,
            clock=lambda: self.now,
            call_soon=self._soon.append,
            call_later=self.later,
            sweeper=self.sweeper,
            held=self._held,
            wake=self._wake,
        )

    def _wake(self) -> None:
        self.woken += 1

    def switch(self) -> Queue:
        """Another version answers from now on, also to what waits or has to be sent again. Returns the old queue."""
        old, self.queue = self.queue, self._made(self.queue.server)
        old.retire(self._take_over)
        return old

    def _take_over(self, calls: list[Call]) -> None:
        for call in calls:
            self.queue.submit(call)

    def hand(self) -> Hand:
        hand = Hand()
        self.queue.on_ready(hand, HELLO)
        return hand

    def ask(self, item: Any, seconds: float = 100.0, size: int = 10) -> Recorded:
        """A call that begins now."""
        call = Recorded(item, self.now + seconds, size, began=self.now)
        self.queue.submit(call)
        return call

    def learn(self, hand: Hand, seconds: float, *, size: int = 10, batches: int = 8) -> None:
        """Batches of one call that are out for so long each."""
        for _ in range(batches):
            self.ask("known", size=size)
            self.turn()
            self.wait(seconds)
            hand.answer(self.queue, seconds)
        hand.sent.clear()

    def later(self, after: float, do: Callable[[], None]) -> None:
        self._later.append((self.now + after, do))

    def turn(self) -> None:
        soon, self._soon[:] = self._soon[:], []
        for do in soon:
            do()

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        self.turn()
        while due := sorted((at, n) for n, (at, _) in enumerate(self._later) if at <= end):
            at, n = due[0]
            self.now = max(self.now, at)
            self._later.pop(n)[1]()
            self.turn()
        self.now = end

    @property
    def timers(self) -> int:
        return len(self._later)
