"""POST .../explain: a request through a graph, with all that was called for it, and how long each took.

It is a prediction like any other, counted and recorded as such; only the straight ways are not taken, on which nobody
looks. What went wrong is part of what is told, so that one sees how far the request came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from mizzen.errors import Conflict
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.inference.calls import OK, Call, Placed
from mizzen.gateway.inference.protocols import V2, Dialect, Options
from mizzen.gateway.request.responses import Answer, Header
from mizzen.graph import messages
from mizzen.protocol import v2

if TYPE_CHECKING:
    from mizzen.gateway.graphs.execution import Seen, Walk
    from mizzen.gateway.inference.default_outputs import Default
    from mizzen.gateway.inference.inference import Inference, Service
    from mizzen.gateway.route_table import Endpoint

MOST_SHOWN = 64 << 10
"""Bytes of what one call gave that are told; of more, only what they are."""
_UNFIT = b"retry-after"
"""Of headers of an error: what is told here is none."""


class _Answered(msgspec.Struct):
    parameters: dict[str, Any] = {}


class _Refused(msgspec.Struct):
    error: str


_read_answer = msgspec.json.Decoder(_Answered).decode
_read_refusal = msgspec.json.Decoder(_Refused).decode


class _Plain:
    """V2, answered in JSON whatever is asked for: the answer stands within another."""

    def read(self, call: Inference, service: Service, body: bytes, options: Options) -> None:
        V2.read(call, service, body, options)
        call.item = call.item[:2]
        call.plain = True

    def answer(self, call: Inference, payload: bytes) -> tuple[bytes, bytes]:
        return V2.answer(call, payload)

    def default(self, call: Inference, default: Default, why: bytes) -> tuple[bytes, bytes] | None:
        return V2.default(call, default, why)


PLAIN: Dialect = _Plain()


class Explaining:
    """One request, on its way through a graph. Ask `endpoint`; what it answers is for `told`."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Conflict when it is no graph."""
        bound = endpoint.bound
        if not isinstance(bound, BoundGraph):
            raise Conflict(f"'{endpoint.name}' is no graph: what it does with a request is answer it")
        self.endpoint = replace(endpoint, submit=self._submit, dialect=PLAIN, cache=None)
        self._bound = bound
        self._seen: list[Seen] = []
        self._walk: Walk | None = None

    def told(self, answer: Answer, seconds: float) -> Answer:
        """`answer`: that of the endpoint, after so many seconds. What could not be read stays refused."""
        walk = self._walk
        if walk is None:
            return answer
        about: dict[str, Any] = {
            "took_ms": _milliseconds(seconds),
            "nodes": [_call(each) for each in sorted(self._seen, key=_by_time)],
            "taken": [shape.name for shape in walk.shapes if walk.taken[shape.place]],
            "routing": _routing(walk),
        }
        if answer.code == OK:
            parameters = _read_answer(answer.body).parameters
            about = {"answer": msgspec.Raw(answer.body), "parameters": parameters, **about}
        else:
            about = {"error": _read_refusal(answer.body).error, "code": answer.code, **about}
        headers: tuple[Header, ...] = tuple(each for each in answer.headers if each[0] != _UNFIT)
        return replace(answer, code=OK, body=v2.to_json(about), headers=headers)

    def _submit(self, call: Call) -> None:
        assert isinstance(call, Placed)
        self._walk = self._bound.begin(call, self._seen)


def _call(seen: Seen) -> dict[str, Any]:
    about = {
        "node": seen.node,
        "phase": seen.phase,
        "began_ms": _milliseconds(seen.began),
        "took_ms": _milliseconds(seen.seconds),
        "code": seen.code,
    }
    if seen.code != OK:
        return {**about, "error": seen.payload.decode(errors="replace")}
    try:
        return {**about, "outputs": _outputs(messages.of_reply(seen.payload))}
    except ValueError as fault:
        return {**about, "error": f"it answered what cannot be shown: {fault}"}


def _outputs(entries: messages.Message) -> msgspec.Raw | list[dict[str, Any]]:
    if messages.size_of(entries) <= MOST_SHOWN:
        return msgspec.Raw(messages.to_payload(entries))
    return [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"left_out_bytes": len(data)}}
        for name, datatype, shape, _, data in entries
    ]


def _routing(walk: Walk) -> list[dict[str, Any]]:
    """As answers tell it, and how likely each choice was, where that is known."""
    decisions = sorted(walk.decisions, key=lambda each: (each.place, each.order))
    return [
        {
            "node": each.key,
            "chosen": [walk.shapes[place].name for place in each.chosen],
            **({"probability": each.likely} if each.likely else {}),
        }
        for each in decisions
    ]


def _by_time(seen: Seen) -> float:
    return seen.began


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
