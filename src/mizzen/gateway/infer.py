"""What an inference request is, whichever way it came in: how it starts, how long it may take, how its answer reads.

`front` and `app` derive from `Inference` and say only how bytes get back to the client.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from mizzen.access.policy import ANONYMOUS
from mizzen.gateway.intake import Intake
from mizzen.gateway.metrics import GONE, Metrics
from mizzen.gateway.permits import FORBIDDEN, PLANE, UNAUTHENTICATED, Credentials, Permits, Ruling
from mizzen.gateway.queues import BAD_REQUEST, OK, Call
from mizzen.gateway.refusals import Refusals
from mizzen.gateway.routes import Endpoint, Routes
from mizzen.protocol import frames, v2

_MILLISECONDS = re.compile(rb"[0-9]{1,12}(\.[0-9]{1,12})?")


class KnownHead(NamedTuple):
    """What a head amounts to that is allowed, keeps the connection open and says how long its body is."""

    endpoint: Endpoint
    length: int
    timeout_ms: bytes | None
    until: float | None
    """When the token in it ends, in seconds since 1970."""


class Service:
    """What all requests of one gateway process share."""

    __slots__ = (
        "clock", "heads", "intake", "max_body_bytes", "metrics", "new_id", "permits", "refusals", "routes", "wall",
    )  # fmt: skip

    def __init__(
        self,
        *,
        max_body_bytes: int,
        intake: Intake,
        metrics: Metrics,
        clock: Callable[[], float],
        wall: Callable[[], float],
        new_id: Callable[[], bytes],
        permits: Permits,
        refusals: Refusals,
    ) -> None:
        """`clock` measures, `wall` tells the time: seconds since 1970."""
        self.routes = Routes(from_table=False)
        self.permits = permits
        self.heads: dict[bytes, KnownHead] = {}
        """Heads of requests that were judged by these routes and permits, byte for byte."""
        self.refusals = refusals
        self.wall = wall
        self.max_body_bytes = max_body_bytes
        self.intake = intake
        self.metrics = metrics
        self.clock = clock
        self.new_id = new_id

    def replace(self, *, routes: Routes | None = None, permits: Permits | None = None) -> None:
        """A new Table has come, or a new access.json. What was judged by the old one is forgotten."""
        self.routes = routes or self.routes
        self.permits = permits or self.permits
        self.heads.clear()

    def note(self, asked: Asked, ruling: Ruling) -> None:
        """For the audit, when it is a refusal."""
        if ruling.code not in (UNAUTHENTICATED, FORBIDDEN):
            return
        target = PLANE if ruling.verb == "authenticate" else ruling.target
        self.refusals.note(
            ruling.code, ruling.reason, actor=ruling.actor, verb=ruling.verb, kind=target.kind,
            namespace=target.namespace, name=target.name, method=asked.method, path=asked.path,
        )  # fmt: skip

    def note_foreign(self, asked: Asked, reason: str) -> None:
        """A request that was refused for where it came from, before anybody asked whose it was."""
        self.note(asked, Ruling(FORBIDDEN, reason, ANONYMOUS.name, "authenticate", PLANE))


class Asked(NamedTuple):
    """A request, as far as it matters who sent it, and where to."""

    method: str
    path: str
    credentials: Credentials


class Inference(Call):
    """One inference request. It ends once: with `reply`, or silently when it is cancelled."""

    __slots__ = ("_began", "endpoint", "id", "id_json")

    endpoint: Endpoint
    id: bytes
    """Fit to be the value of a header."""
    id_json: bytes

    def reply(self, code: int, body: bytes) -> None:
        """Get the answer to the client. Called once at most."""
        raise NotImplementedError

    def start(self, service: Service, endpoint: Endpoint, body: bytes, timeout_ms: bytes | None) -> None:
        """`timeout_ms` is the header's value. The answer, also to a bad request, comes through `reply`."""
        self.endpoint = endpoint
        self.live = True
        self.alone = False
        self.id = b""
        self._began = service.clock()
        endpoint.counters.in_flight += 1
        try:
            request = v2.decode(body)
            if request.id:
                self.id = v2.header_text(request.id)
                self.id_json = v2.to_json(request.id)
            else:
                self.id = service.new_id()
                self.id_json = b'"%b"' % self.id
            seconds = endpoint.timeout
            if timeout_ms is not None or request.parameters is not None:
                seconds = _least_timeout(seconds, timeout_ms, request)
            signature = endpoint.queues[0].signature if endpoint.queues else None
            if signature is not None:
                signature.check(request)
        except ValueError as fault:
            self.id = self.id or service.new_id()
            self.settle(BAD_REQUEST, str(fault).encode(), service.clock())
            return
        self.deadline = self._began + seconds
        self.size = len(body)
        self.item = (
            [(each.name, each.datatype, each.shape, frames.JSON, memoryview(each.data)) for each in request.inputs],
            None if request.outputs is None else [output.name for output in request.outputs],
        )
        endpoint.submit(self)

    def settle(self, code: int, payload: bytes, now: float) -> None:
        if not self.live:
            return
        self.live = False
        self.item = None
        endpoint = self.endpoint
        endpoint.counters.ended(code, now - self._began)
        if code == OK:
            self.reply(OK, v2.answer(endpoint.head, self.id_json, payload))
        else:
            self.reply(code, v2.error(payload.decode(errors="replace")))

    def cancel(self, now: float) -> None:
        if self.live:
            self.live = False
            self.item = None
            self.endpoint.counters.ended(GONE, now - self._began)

    def move(self, endpoint: Endpoint) -> None:
        """The version it waited for is served no more; its name still is."""
        self.endpoint.counters.in_flight -= 1
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)


def _least_timeout(seconds: float, header: bytes | None, request: v2.InferRequest) -> float:
    if header is not None:
        milliseconds = float(header) if _MILLISECONDS.fullmatch(header) else 0.0
        if milliseconds <= 0:
            raise ValueError("header Mizzen-Timeout-Ms: expected a positive number")
        seconds = min(seconds, milliseconds / 1000)
    asked = v2.timeout_seconds(request)
    return seconds if asked is None else min(seconds, asked)
