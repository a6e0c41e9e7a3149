"""Copies of requests for shadows: answered, compared with what the caller got, measured and dropped.

Nobody waits for one. It has the time that its request has, and takes its place in the shadow's own queue, so the worst
it can do to anybody is to be one more call of that model.
"""

from __future__ import annotations

from typing import Any

from mizzen.gateway.calls import BAD_REQUEST, OK, Placed
from mizzen.gateway.graphs.tally import NodeTally
from mizzen.gateway.graphs.targets import Target
from mizzen.gateway.routes import Endpoint
from mizzen.graph.run import Entries


class Copy(Placed):
    __slots__ = ("_ours", "_tally", "_target", "_theirs", "asks", "headers", "route")

    def __init__(self, tally: NodeTally, target: Target, call: Placed, entries: Entries, form: tuple[Any, Any]) -> None:
        """`form`: which outputs are asked for and how, the same as of whoever answers the caller."""
        self._tally = tally
        self._target = target
        self._ours: bytes | None = None
        self._theirs: bytes | None = None
        names, raw = form
        self.item: Any = (entries, names, raw) if raw else (entries, names)
        self.id = call.id
        self.options = call.options
        self.size = call.size
        self.deadline = call.deadline
        self.live = True
        self.alone = False
        self.work = None
        self.asks = None
        self.headers = ()
        self.route: str | None = None

    def begin(self, now: float) -> None:
        self.began = now
        endpoint, signature = self._target.endpoint, self._target.signature
        if endpoint is not None:
            self.endpoint = endpoint
            endpoint.counters.in_flight += 1
        if signature is not None:
            try:
                self.item = (signature.adapt(self.item[0]), *self.item[1:])
            except ValueError as fault:
                self.settle(BAD_REQUEST, str(fault).encode(), now)
                return
        self._target.submit(self)

    def answered(self, payload: bytes) -> None:
        """What the caller's own answer was made of, in the same form."""
        self._ours = payload
        self._compare()

    def settle(self, code: int, payload: bytes, now: float, retry: int = 1, *, lacking: bytes = b"") -> None:
        if not self.live:
            return
        self.live = False
        self.item = None
        if self._target.endpoint is not None:
            self._target.endpoint.counters.ended(code, now - self.began)
        self._tally.shadowed[code] += 1
        self._tally.shadow_seconds += now - self.began
        if code == OK:
            self._theirs = payload
            self._compare()

    def found(self, payload: bytes, now: float, mark: bytes) -> None:
        self.settle(OK, payload, now)

    def cancel(self, now: float) -> None:
        """Nobody does: it goes on when the caller has gone."""

    def move(self, endpoint: Endpoint) -> None:
        self.endpoint.counters.in_flight -= 1
        self._target = Target(endpoint)
        self.endpoint = endpoint
        endpoint.counters.in_flight += 1
        endpoint.submit(self)

    def _compare(self) -> None:
        if self._ours is None or self._theirs is None:
            return
        if self._ours == self._theirs:
            self._tally.agreed += 1
        else:
            self._tally.differed += 1
