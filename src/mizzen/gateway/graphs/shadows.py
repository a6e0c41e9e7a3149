"""Calls of shadows with copies of requests: their answers are compared with the caller's answer, counted and dropped.

No request waits for a shadow call. It has the deadline of its request and waits in the shadow's own queue. So it costs
one more call of that model, and nothing else.
"""

from __future__ import annotations

from typing import Any

from mizzen.gateway.graphs.node_stats import NodeStats
from mizzen.gateway.graphs.targets import CallTarget, NodeCall
from mizzen.gateway.inference.endpoint import NamedCall
from mizzen.gateway.queueing.call import BAD_REQUEST, OK
from mizzen.graph.executor import Entries


class ShadowCall(NodeCall):
    __slots__ = ("_answer", "_shadow_answer", "_stats")

    def __init__(self, stats: NodeStats) -> None:
        self._stats = stats
        self._answer: bytes | None = None
        self._shadow_answer: bytes | None = None
        self.pending = True

    def begin(self, target: CallTarget, call: NamedCall, entries: Entries, form: tuple[Any, Any], now: float) -> None:
        """`form`: requested outputs and their format, the same as in the call that answers the caller."""
        self.prepare(target, call, now, call.deadline)
        self.request = None  # the result must never reach the request
        self.size = call.size
        signature, (names, raw) = target.signature, form
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.finish(BAD_REQUEST, str(fault).encode(), now)
                return
        self.item = (entries, names, raw) if raw else (entries, names)
        target.submit(self)

    def on_answer(self, payload: bytes) -> None:
        """Takes the payload of the caller's own answer, in the same form."""
        self._answer = payload
        self._compare()

    def on_end(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self._stats.shadowed[code] += 1
        self._stats.shadow_seconds += now - self.began
        if code == OK:
            self._shadow_answer = payload
            self._compare()

    def cancel(self, now: float) -> None:
        """Does nothing: a shadow call continues after its caller is gone."""

    def _compare(self) -> None:
        if self._answer is None or self._shadow_answer is None:
            return
        if self._answer == self._shadow_answer:
            self._stats.agreed += 1
        else:
            self._stats.differed += 1
