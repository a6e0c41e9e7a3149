"""What a node of a graph calls, and one call of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from mizzen.gateway.inference.calls import FAILED, NOBODY, OK, UNAVAILABLE, Call, Placed
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.inference.signature import Hello, Signature
from mizzen.gateway.route_table import Endpoint
from mizzen.gateway.services.pool import ServicePool
from mizzen.gateway.telemetry.metrics import GONE
from mizzen.graph import table_types
from mizzen.graph.executor import Message
from mizzen.graph.prepared_nodes import Shape

if TYPE_CHECKING:
    from mizzen.gateway.graphs.execution import Walk


log = logging.getLogger(__name__)


class Target:
    """Something served here, by its name; a service; or neither, yet."""

    __slots__ = ("endpoint", "missing", "pool", "submit", "timeout")

    def __init__(self, endpoint: Endpoint | None = None, pool: ServicePool | None = None, missing: str = "") -> None:
        self.endpoint = endpoint
        self.pool = pool
        self.missing = missing
        self.timeout = float("inf") if endpoint is None else endpoint.timeout
        self.submit: Callable[[Call], None] = self._refuse
        if endpoint is not None:
            self.submit = endpoint.submit
        elif pool is not None:
            self.submit = pool.submit

    @property
    def signature(self) -> Signature | None:
        """What it takes, where it has said so and takes nothing else."""
        queues = () if self.endpoint is None else self.endpoint.queues
        return queues[0].signature if queues else None

    @property
    def hello(self) -> Hello | None:
        return None if self.endpoint is None else self.endpoint.hello

    @property
    def version(self) -> str:
        return "" if self.endpoint is None else self.endpoint.version

    @property
    def ready(self) -> bool:
        if self.endpoint is not None:
            return self.endpoint.ready
        return self.pool is not None and self.pool.ready

    @property
    def callable(self) -> bool:
        return self.endpoint.callable if self.endpoint is not None else self.ready

    @property
    def reason(self) -> str:
        """Why it cannot be called at once; empty where it can."""
        if self.missing:
            return self.missing
        if self.endpoint is not None:
            return "" if self.endpoint.ready else self.endpoint.reason or f"'{self.endpoint.name}' is not ready"
        return "" if self.ready else "nobody answers there"

    def lacks(self, names: Collection[str] | None) -> bool:
        """Is one of these outputs, which a caller wants, none that it gives? That is no fault of what it was given."""
        hello = self.hello
        known = set() if hello is None else {output.name for output in hello.outputs}
        return bool(names and known) and not known.issuperset(names or ())

    def _refuse(self, call: Call) -> None:
        call.settle(UNAVAILABLE, self.missing.encode(), call.began, lacking=NOBODY)


def broken(call: Placed, now: float) -> None:
    """Something happened that should never: all that goes on for it is given up."""
    work, call.work = call.work, None
    if work is not None:
        work.abandon()
    call.settle(FAILED, b"internal error", now)


def request_of(call: Placed) -> Inference | None:
    if isinstance(call, Inference):
        return call
    return call.request if isinstance(call, Errand) else None


class Errand(Placed):
    """A call of what a node calls, for a request on its way. Whoever derives from it says what comes of its end."""

    __slots__ = ("asks", "headers", "request", "route", "target")

    target: Target
    request: Inference | None
    """Whatever graph asks for it: the request that all of it is for."""
    asks: dict[str, str] | None
    """What it is asked beside its tensors, such as which nodes a router may take."""
    headers: tuple[tuple[bytes, bytes], ...]
    """Of the request, which go on with it."""
    route: str | None
    """What a router said."""

    def sent(self, target: Target, call: Placed, now: float, deadline: float) -> None:
        """It is about to be handed to `target`. `call`: the request that it is for."""
        self.target = target
        self.request = request_of(call)
        self.asks = None
        self.headers = ()
        self.route = None
        self.work = None
        self.alone = False
        self.id = call.id
        self.options = call.options
        self.began = now
        self.deadline = min(deadline, now + target.timeout)
        endpoint = target.endpoint
        if endpoint is not None:
            self.endpoint = endpoint
            endpoint.counters.in_flight += 1

    def ended(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        """What comes of it, as in `settle`. Called once for each time that it was sent, unless it was cancelled."""
        raise NotImplementedError

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if not self.live:
            return
        self.live = False
        self.item: Any = None
        endpoint = self.target.endpoint
        if endpoint is not None:
            endpoint.counters.ended(code, now - self.began)
        try:
            self.ended(code, payload, now, retry, lacking)
        except Exception:  # nobody else would end the request
            log.exception("failed on the way through a graph")
            if self.request is not None:
                broken(self.request, now)

    def found(self, payload: bytes, now: float, mark: bytes) -> None:
        self.settle(OK, payload, now)

    def cancel(self, now: float) -> None:
        if not self.live:
            return
        self.live = False
        self.item = None
        target = self.target
        if target.endpoint is not None:
            target.endpoint.counters.ended(GONE, now - self.began)
        elif target.pool is not None:
            target.pool.gone(self)
        if self.work is not None:
            self.work.abandon()

    def move(self, endpoint: Endpoint) -> None:
        self.endpoint.counters.in_flight -= 1
        self.target = Target(endpoint)
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)


class Step(Errand):
    """What a node on a walk asks for."""

    __slots__ = ("message", "phase", "shape", "walk", "whole")

    def __init__(self, walk: Walk, shape: Shape, phase: int, message: Message) -> None:
        self.walk = walk
        self.shape = shape
        self.phase = phase
        self.message = message
        self.whole = False
        """Its answer is that to the request, in the form that was asked for."""
        self.live = True

    def ended(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self.walk.settled(self, code, payload, now, retry=retry, lacking=lacking)


def named(callee: table_types.Callee) -> str:
    """As people write it."""
    return f"{callee.name}:{callee.version}" if callee.version else callee.name
