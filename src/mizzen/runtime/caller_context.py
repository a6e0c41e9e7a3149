"""The callers of a batch, for the log and for models in Python.

A batch holds requests of several callers. The gateway sends their request ids, and their trace context (W3C) if they
have one. None of it is decoded unless it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # importing the package must not load numpy: the number of threads is set first
    from mizzen.protocol.tensors import Array

NAMED = 8
"""Maximum number of request ids in one log line."""


class Caller(NamedTuple):
    request_id: str
    """The response's `Mizzen-Request-Id`; empty if unknown."""
    rows: int
    """How many rows of each input are this caller's; the callers' rows follow each other in their order. For a model
    that is not batched, all rows of the first input, since there is only one caller."""
    traceparent: str
    """A valid W3C trace context; empty if the caller sent none."""
    tracestate: str


class Callers:
    """The callers of one or more INFER frames, by their index in the merged batch."""

    __slots__ = ("_frames", "_ids", "_traces")

    def __init__(self, frames: Iterable[tuple[int, Mapping[str, Any]]] = ()) -> None:
        """`frames`: for each frame, the number of its requests, and the trailer with the callers' ids and traces."""
        self._frames = tuple(frames)
        self._ids: dict[int, str] | None = None
        self._traces: dict[int, tuple[str, str]] = {}

    def id(self, place: int) -> str:
        return self._read().get(place, "")

    def trace(self, place: int) -> tuple[str, str]:
        self._read()
        return self._traces.get(place, ("", ""))

    def describe(self, places: Sequence[int]) -> str:
        """Describe these callers for a log line."""
        ids = [self.id(place) or "unknown" for place in places[:NAMED]]
        more = len(places) - len(ids)
        return f"{'request' if len(places) == 1 else 'requests'} {', '.join(ids)}{f' and {more} more' if more else ''}"

    def _read(self) -> dict[int, str]:
        if self._ids is None:
            self._ids = {}
            start = 0
            for count, trailer in self._frames:
                ids = trailer.get("ids", b"").decode("ascii", "backslashreplace").split("\n")
                if len(ids) == count:
                    self._ids.update(enumerate(ids, start))
                for place, parent, state in trailer.get("traces", ()):
                    self._traces[start + place] = str(parent), str(state)
                start += count
        return self._ids


class _Call(NamedTuple):
    """One call of the model."""

    callers: Callers
    places: Sequence[int]
    rows: Sequence[int]
    """Row counts for every index of the batch; negative where rows have no meaning."""
    inputs: Mapping[str, Array]


_now: _Call | None = None
"""The present call. There is only one at a time, whichever of the model's threads reads it."""


def begin(callers: Callers, places: Sequence[int], rows: Sequence[int], inputs: Mapping[str, Array]) -> None:
    """Record that the model is called with `inputs`, which belong to the callers at `places`."""
    global _now  # noqa: PLW0603 - a process has one model, which is called by one thread
    _now = _Call(callers, places, rows, inputs)


def end() -> None:
    global _now  # noqa: PLW0603
    _now = None


def callers() -> list[Caller]:
    """Return the callers whose rows are in the present call of the model, in order. Empty outside of a call, as in a
    warm-up."""
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
    """Describe the callers of the present call for a log line; empty outside of one."""
    call = _now
    return "" if call is None else call.callers.describe(call.places)
