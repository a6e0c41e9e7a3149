"""Copies of requests for shadows: answered, compared with what the caller got, measured and dropped.

Nobody waits for one. It has the time that its request has, and takes its place in the shadow's own queue, so the worst
it can do to anybody is to be one more call of that model.
"""

from __future__ import annotations

from typing import Any

from mizzen.gateway.graphs.node_stats import NodeTally
from mizzen.gateway.graphs.targets import Errand, Target
from mizzen.gateway.inference.calls import BAD_REQUEST, OK, Placed
from mizzen.graph.executor import Entries


class Copy(Errand):
    __slots__ = ("_ours", "_tally", "_theirs")

    def __init__(self, tally: NodeTally) -> None:
        self._tally = tally
        self._ours: bytes | None = None
        self._theirs: bytes | None = None
        self.live = True

    def begin(self, target: Target, call: Placed, entries: Entries, form: tuple[Any, Any], now: float) -> None:
        """`form`: which outputs are asked for and how, the same as of whoever answers the caller."""
        self.sent(target, call, now, call.deadline)
        self.request = None  # it is for nobody: whatever becomes of it, the request does not learn it
        self.size = call.size
        signature, (names, raw) = target.signature, form
        if signature is not None:
            try:
                entries = signature.adapt(entries)
            except ValueError as fault:
                self.settle(BAD_REQUEST, str(fault).encode(), now)
                return
        self.item = (entries, names, raw) if raw else (entries, names)
        target.submit(self)

    def answered(self, payload: bytes) -> None:
        """What the caller's own answer was made of, in the same form."""
        self._ours = payload
        self._compare()

    def ended(self, code: int, payload: bytes, now: float, retry: int, lacking: bytes) -> None:
        self._tally.shadowed[code] += 1
        self._tally.shadow_seconds += now - self.began
        if code == OK:
            self._theirs = payload
            self._compare()

    def cancel(self, now: float) -> None:
        """Nobody does: it goes on when the caller has gone."""

    def _compare(self) -> None:
        if self._ours is None or self._theirs is None:
            return
        if self._ours == self._theirs:
            self._tally.agreed += 1
        else:
            self._tally.differed += 1
