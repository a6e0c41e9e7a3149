"""The targets that graph nodes call, and one call of a target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

from mizzen.gateway.inference.endpoint import Endpoint, NamedCall
from mizzen.gateway.inference.inference import Inference
from mizzen.gateway.queueing.call import FAILED, NOT_READY, OK, UNAVAILABLE, Call
from mizzen.gateway.queueing.signature import Hello, SignatureCheck
from mizzen.gateway.services.pool import ServicePool
from mizzen.gateway.telemetry.counters import GONE
from mizzen.graph import table_types

log = logging.getLogger(__name__)


class CallTarget:
    """A model or graph of this gateway, a service, or a target that does not exist yet."""

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
    def signature(self) -> SignatureCheck | None:
        """Its declared inputs, if it is a model that has declared them; else None."""
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
        """Why it cannot be called now; empty if it can."""
        if self.missing:
            return self.missing
        if self.endpoint is not None:
            return "" if self.endpoint.ready else self.endpoint.reason or f"'{self.endpoint.name}' is not ready"
        return "" if self.ready else "no address answers"

    def lacks_output(self, names: Collection[str] | None) -> bool:
        """Whether a requested output is not one of its outputs. That is the caller's fault, not that of its input."""
        hello = self.hello
        known = set() if hello is None else {output.name for output in hello.outputs}
        return bool(names and known) and not known.issuperset(names or ())

    def _refuse(self, call: Call) -> None:
        call.finish(UNAVAILABLE, self.missing.encode(), call.began, lacking=NOT_READY)


def fail_request(call: NamedCall, now: float) -> None:
    """Ends a request after an internal error and abandons all work for it."""
    work, call.work = call.work, None
    if work is not None:
        work.abandon()
    call.finish(FAILED, b"internal error", now)


def request_of(call: NamedCall) -> Inference | None:
    if isinstance(call, Inference):
        return call
    return call.request if isinstance(call, NodeCall) else None


class NodeCall(NamedCall):
    """A call of a node's target, on behalf of a request. Subclasses implement `on_end`."""

    __slots__ = ("asks", "headers", "request", "route", "target")

    target: CallTarget
    request: Inference | None
    """The original request, through all nested graphs."""
    asks: dict[str, str] | None
    """Parameters in addition to its tensors, such as the nodes that a router may choose."""
    headers: tuple[tuple[bytes, bytes], ...]
    """Forwarded headers of the request."""
    route: str | None
    """The choice that a router answered."""

    def prepare(self, target: CallTarget, call: NamedCall, now: float, deadline: float) -> None:
        """Sets all fields before the call is submitted to `target`. `call`: the request that it is for."""
        self.target = target
        self.request = request_of(call)
        self.asks = None
        self.headers = ()
        self.route = None
        self.work = None
        self.retry_alone = False
        self.id = call.id
        self.head = call.head
        self.began = now
        self.deadline = min(deadline, now + target.timeout)
        endpoint = target.endpoint
        if endpoint is not None:
            self.endpoint = endpoint
            endpoint.counters.in_flight += 1

    def on_end(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        """Takes the result, as in `finish`. Called once for each submission, unless the call was cancelled."""
        raise NotImplementedError

    def finish(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if not self.pending:
            return
        self.pending = False
        self.item: Any = None
        endpoint = self.target.endpoint
        if endpoint is not None:
            endpoint.counters.record_end(code, now - self.began)
        try:
            self.on_end(code, payload, now, retry, lacking)
        except Exception:  # nothing else would end the request
            log.exception("failed during the execution of a graph")
            if self.request is not None:
                fail_request(self.request, now)

    def finish_from_cache(self, payload: bytes, now: float, mark: bytes) -> None:
        self.finish(OK, payload, now)

    def cancel(self, now: float) -> None:
        if not self.pending:
            return
        self.pending = False
        self.item = None
        target = self.target
        if target.endpoint is not None:
            target.endpoint.counters.record_end(GONE, now - self.began)
        elif target.pool is not None:
            target.pool.on_cancel(self)
        if self.work is not None:
            self.work.abandon()

    def move(self, endpoint: Endpoint) -> None:
        self.endpoint.counters.in_flight -= 1
        self.target = CallTarget(endpoint)
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)


def name_of(callee: table_types.Callee) -> str:
    """Returns the name as users write it: `name` or `name:version`."""
    return f"{callee.name}:{callee.version}" if callee.version else callee.name
