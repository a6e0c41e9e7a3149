"""The codecs of V2 and V1: they read a request body into a call, and write the answer of the call.

A V2 body is decoded except for its tensor values. A V1 body is passed on whole, because its meaning depends on the
signature of the model. A ValueError is the caller's fault, worded for the caller.
"""

from __future__ import annotations

import re
from typing import Any

from mizzen.gateway.inference.default_outputs import DefaultOutput
from mizzen.gateway.inference.endpoint import Codec, InferenceCall
from mizzen.gateway.request.head import USER, RequestHead, parse_timeout
from mizzen.protocol import binary, json_tensor_split, v2
from mizzen.protocol.frames import framing

JSON = b"content-type: application/json\r\n"
RETRY = JSON + b"retry-after: %d\r\n"
"""The header lines of a 503."""
_BYTES = b"content-type: application/octet-stream\r\ninference-header-content-length: %d\r\n"
DEFAULT_HEADERS = b"mizzen-default: true\r\nmizzen-default-reason: %b\r\n"
_OBJECT = re.compile(rb"\s*\{")


class _V2:
    def read(self, call: InferenceCall, body: bytes, head: RequestHead) -> None:
        request: v2.InferRequest | binary.BinaryRequest
        entries: list[v2.Entry]
        if head.header_length is not None:
            request, entries = binary.decode(body, head.header_length)
        elif len(body) > json_tensor_split.LARGE:
            request, entries = json_tensor_split.decode(body)
        else:
            request = v2.decode(body)
            entries = [
                (each.name, each.datatype, each.shape, framing.JSON, memoryview(each.data)) for each in request.inputs
            ]
        endpoint = call.endpoint
        if request.id:
            call.id = v2.header_text(request.id)
            call.id_json = v2.to_json(request.id)
        elif head.id:
            call.id = head.id
            call.id_json = v2.to_json(head.id.decode())
        else:
            call.id = endpoint.new_id()
            call.id_json = b'"%b"' % call.id
            call.named = False
        parameters, outputs = request.parameters, request.outputs
        if endpoint.bound is not None:
            call.user = user_of(parameters, head)
        if head.timeout_ms is not None or parameters is not None:
            call.seconds = min(
                call.seconds, parse_timeout(head.timeout_ms), v2.timeout_seconds(parameters) or call.seconds
            )
        queues = endpoint.queues
        signature = queues[0].signature if queues else None
        if signature is not None:
            signature.check(request.inputs, outputs)
        if parameters is None and not outputs:
            call.plain = True
            call.item = (entries, None)
            return
        names = None if outputs is None else [output.name for output in outputs]
        raw = binary.raw_outputs_of(parameters, outputs)
        call.plain = not raw
        call.item = (entries, names, raw) if raw else (entries, names)

    def answer(self, call: InferenceCall, payload: bytes) -> tuple[bytes, bytes]:
        id_json = call.id_json if call.notes is None else call.id_json + call.notes.json
        return _binary_answer(call.endpoint.response_prefix, id_json, payload)

    def default(self, call: InferenceCall, default: DefaultOutput, why: bytes) -> tuple[bytes, bytes] | None:
        entries, names, *raw = call.item
        shape = entries[0][2]
        rows = shape[0] if shape else 1
        payload = default.outputs(rows, names, raw[0] if raw else None) if rows <= call.size else None
        if payload is None:  # or the shape claims more rows than the body has bytes
            return None
        id_json = b'%b,"parameters":{"default":true,"default_reason":"%b"}' % (call.id_json, why)
        if call.plain:
            body, kind = v2.render_answer(call.endpoint.response_prefix, id_json, payload), JSON
        else:
            body, kind = _binary_answer(call.endpoint.response_prefix, id_json, payload)
        return body, kind + DEFAULT_HEADERS % why


class _V1:
    def read(self, call: InferenceCall, body: bytes, head: RequestHead) -> None:
        call.named = bool(head.id)
        call.id = head.id or call.endpoint.new_id()
        if call.endpoint.bound is not None:
            call.user = user_of(None, head)
        if head.timeout_ms is not None:
            call.seconds = min(call.seconds, parse_timeout(head.timeout_ms))
        if not _OBJECT.match(body):
            raise ValueError("the body: expected an object" if body else "the body is empty")
        call.plain = False
        call.item = (body,)

    def answer(self, call: InferenceCall, payload: bytes) -> tuple[bytes, bytes]:
        return payload, JSON if call.notes is None else JSON + call.notes.header_lines

    def default(self, call: InferenceCall, default: DefaultOutput, why: bytes) -> tuple[bytes, bytes] | None:
        body = default.predictions(call.item[0])
        return None if body is None else (body, JSON + DEFAULT_HEADERS % why)


V2: Codec = _V2()
V1: Codec = _V1()


def _binary_answer(head: bytes, id_json: bytes, payload: bytes) -> tuple[bytes, bytes]:
    body, length = binary.render_answer(head, id_json, payload)
    return body, _BYTES % length


def user_of(parameters: dict[str, Any] | None, head: RequestHead) -> str:
    """The end user that the request names, if it does. Raises ValueError."""
    user = None if parameters is None else parameters.get("user")
    if user is None:
        return v2.shorten(head.header(USER).decode("latin-1")) if head.graph_headers else ""
    if not isinstance(user, str) or len(user) > v2.MAX_QUOTED:
        raise ValueError(f"parameters.user: expected a string of at most {v2.MAX_QUOTED} characters")
    return user
