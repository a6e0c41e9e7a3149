"""Who asked: the callers of a batch, for the log and for models in Python that want to know.

A batch holds what several callers sent. The gateway tells their request ids, and their place in a trace where they
brought one (W3C trace context); nothing of it is looked at unless somebody asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # numpy must not be loaded by whoever imports the package: the number of threads is set first
    from mizzen.protocol.tensors import Array

NAMED = 8
"""Request ids in one line of the log, at most."""


class Caller(NamedTuple):
    request_id: str
    """What the answer has as `Mizzen-Request-Id`; empty when it is not known."""
    rows: int
    """How many rows of each input are this caller's, in the order of the callers. All of the first input where a model
    is not batched, for then there is one caller."""
    traceparent: str
    """As W3C's trace context has it, valid; empty when the caller brought none."""
    tracestate: str


class Callers:
    """Those of one or more INFER frames, by their place in what was merged of them."""

    __slots__ = ("_ids", "_told", "_traces")

    def __init__(self, told: Iterable[tuple[int, Mapping[str, Any]]] = ()) -> None:
        """`told`: of each frame how many requests it has, and what stands at its end about who sent them."""
        self._told = tuple(told)
        self._ids: dict[int, str] | None = None
        self._traces: dict[int, tuple[str, str]] = {}

    def id(self, place: int) -> str:
        return self._read().get(place, "")

    def trace(self, place: int) -> tuple[str, str]:
        self._read()
        return self._traces.get(place, ("", ""))

    def describe(self, places: Sequence[int]) -> str:
        """For a line of the log."""
        ids = [self.id(place) or "unknown" for place in places[:NAMED]]
        more = len(places) - len(ids)
        return f"{'request' if len(places) == 1 else 'requests'} {', '.join(ids)}{f' and {more} more' if more else ''}"

    def _read(self) -> dict[int, str]:
        if self._ids is None:
            self._ids = {}
            start = 0
            for count, told in self._told:
                ids = told.get("ids", b"").decode("ascii", "backslashreplace").split("\n")
                if len(ids) == count:
                    self._ids.update(enumerate(ids, start))
                for place, parent, state in told.get("traces", ()):
                    self._traces[start + place] = str(parent), str(state)
                start += count
        return self._ids


class _Call(NamedTuple):
    """One call of the model."""

    callers: Callers
    places: Sequence[int]
    rows: Sequence[int]
    """Of all places of the batch; below 0 where rows mean nothing."""
    inputs: Mapping[str, Array]


_now: _Call | None = None
"""The one that runs. There is one at a time, whichever thread of the model's looks."""


def begin(callers: Callers, places: Sequence[int], rows: Sequence[int], inputs: Mapping[str, Array]) -> None:
    """The model is called with `inputs`, which belong to the callers at `places`."""
    global _now  # noqa: PLW0603 - a process has one model, which is called by one thread
    _now = _Call(callers, places, rows, inputs)


def end() -> None:
    global _now  # noqa: PLW0603
    _now = None


def callers() -> list[Caller]:
    """Whose rows the present call of the model has, in their order. Empty outside of a call, as in a warm-up."""
    call = _now
    if call is None:
        return []
    return [Caller(call.callers.id(place), _rows(call, place), *call.callers.trace(place)) for place in call.places]


def _rows(call: _Call, place: int) -> int:
    if call.rows[place] >= 0:
        return call.rows[place]
    first = next(iter(call.inputs.values()), None)
    return len(first) if first is not None and first.ndim else 1


def describe_callers() -> str:
    """Those of the present call, for a line of the log; empty outside of one."""
    call = _now
    return "" if call is None else call.callers.describe(call.places)
