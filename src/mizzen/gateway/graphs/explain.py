"""POST .../explain: runs a request through a graph and lists all calls that were made for it, with their times.

It is an ordinary prediction, and counted and recorded as one. Fast paths are not used, because they record no calls. A
failure is part of the explanation, so that the caller sees how far the request came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from mizzen.errors import Conflict
from mizzen.gateway.graphs.bound_graph import BoundGraph
from mizzen.gateway.graphs.execution import GraphExecution, NodeCallRecord
from mizzen.gateway.inference.default_outputs import DefaultOutput
from mizzen.gateway.inference.endpoint import Codec, Endpoint, InferenceCall, NamedCall
from mizzen.gateway.inference.protocols import V2
from mizzen.gateway.queueing.call import OK, Call
from mizzen.gateway.request.head import RequestHead
from mizzen.gateway.request.responses import Answer, Header
from mizzen.graph import messages
from mizzen.protocol import v2

MAX_SHOWN_BYTES = 64 << 10
"""Larger outputs of a call are described, but not shown."""
_ERROR_HEADER = b"retry-after"
"""A header of errors that is dropped, because an explanation is not an error."""


class _InferenceResponse(msgspec.Struct):
    parameters: dict[str, Any] = {}


class _ErrorResponse(msgspec.Struct):
    error: str


_read_answer = msgspec.json.Decoder(_InferenceResponse).decode
_read_refusal = msgspec.json.Decoder(_ErrorResponse).decode


class _JsonOnlyV2:
    """V2 that always answers in JSON, because the answer is embedded in the explanation."""

    def read(self, call: InferenceCall, body: bytes, head: RequestHead) -> None:
        V2.read(call, body, head)
        call.item = call.item[:2]
        call.plain = True

    def answer(self, call: InferenceCall, payload: bytes) -> tuple[bytes, bytes]:
        return V2.answer(call, payload)

    def default(self, call: InferenceCall, default: DefaultOutput, why: bytes) -> tuple[bytes, bytes] | None:
        return V2.default(call, default, why)


JSON_ONLY_V2: Codec = _JsonOnlyV2()


class Explanation:
    """One explained request. Send the request to `endpoint`, then pass its answer to `to_answer`."""

    def __init__(self, endpoint: Endpoint) -> None:
        """Raises Conflict if the endpoint is not a graph."""
        bound = endpoint.bound
        if not isinstance(bound, BoundGraph):
            raise Conflict(f"'{endpoint.name}' is not a graph; only requests to graphs can be explained")
        self.endpoint = replace(endpoint, submit=self._submit, codec=JSON_ONLY_V2, cache=None)
        self._bound = bound
        self._calls: list[NodeCallRecord] = []
        self._execution: GraphExecution | None = None

    def to_answer(self, answer: Answer, seconds: float) -> Answer:
        """`answer`: of the endpoint, after `seconds`. A request that could not be parsed stays refused."""
        execution = self._execution
        if execution is None:
            return answer
        about: dict[str, Any] = {
            "took_ms": _milliseconds(seconds),
            "nodes": [_render_call(each) for each in sorted(self._calls, key=_by_time)],
            "taken": [shape.name for shape in execution.nodes if execution.reached[shape.place]],
            "routing": _render_routing(execution),
        }
        if answer.code == OK:
            parameters = _read_answer(answer.body).parameters
            about = {"answer": msgspec.Raw(answer.body), "parameters": parameters, **about}
        else:
            about = {"error": _read_refusal(answer.body).error, "code": answer.code, **about}
        headers: tuple[Header, ...] = tuple(each for each in answer.headers if each[0] != _ERROR_HEADER)
        return replace(answer, code=OK, body=v2.to_json(about), headers=headers)

    def _submit(self, call: Call) -> None:
        assert isinstance(call, NamedCall)
        self._execution = self._bound.begin(call, self._calls)


def _render_call(seen: NodeCallRecord) -> dict[str, Any]:
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
        return {**about, "outputs": _render_outputs(messages.parse_reply(seen.payload))}
    except ValueError as fault:
        return {**about, "error": f"its answer cannot be shown: {fault}"}


def _render_outputs(entries: messages.Entries) -> msgspec.Raw | list[dict[str, Any]]:
    if messages.size_of(entries) <= MAX_SHOWN_BYTES:
        return msgspec.Raw(messages.to_payload(entries))
    return [
        {"name": name, "datatype": datatype, "shape": shape, "parameters": {"left_out_bytes": len(data)}}
        for name, datatype, shape, _, data in entries
    ]


def _render_routing(execution: GraphExecution) -> list[dict[str, Any]]:
    """Returns the choices as in answers, with the probability of each if it is known."""
    decisions = sorted(execution.decisions, key=lambda each: (each.place, each.order))
    return [
        {
            "node": each.key,
            "chosen": [execution.nodes[place].name for place in each.chosen],
            **({"probability": each.probability} if each.probability else {}),
        }
        for each in decisions
    ]


def _by_time(seen: NodeCallRecord) -> float:
    return seen.began


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
