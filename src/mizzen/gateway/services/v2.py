"""Services that speak V2 (Open Inference Protocol).

Tensors go out in JSON, which all of them take. What JSON cannot carry (NaN, bytes that are no text) goes as bytes
behind it, by the binary tensor extension; answers may come so, too.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from mizzen.gateway.services.http_connection import Answer
from mizzen.gateway.services.requests import JSON, Asked, Said, Written
from mizzen.gateway.services.tensor_values import is_finite, values_of
from mizzen.protocol import binary, plain_elements, v2
from mizzen.protocol.frames import framing

_BINARY = b"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %d\r\n"
_NESTED = b"["


class _Answer(msgspec.Struct, gc=False):
    outputs: Annotated[list[binary.OpenTensor], msgspec.Meta(max_length=v2.MAX_TENSORS)] | None = None
    parameters: dict[str, Any] | None = None
    error: Any = None


_decode = msgspec.json.Decoder(_Answer).decode


def write(asked: Asked) -> Written:
    inputs, behind = [], []
    for entry in asked.entries:
        name, datatype, shape, _, _ = entry
        text, raw = _data(entry)
        data = b'"data":%b' % text if raw is None else b'"parameters":{"binary_data_size":%d}' % len(raw)
        if raw is not None:
            behind.append(raw)
        inputs.append(
            b'{"name":%b,"datatype":"%b","shape":%b,%b}'
            % (v2.to_json(name), datatype.encode(), v2.to_json(shape), data)
        )
    parts = [b'{"inputs":[%b]' % b",".join(inputs)]
    if asked.id:
        parts.append(b'"id":%b' % v2.to_json(asked.id.decode("latin-1")))
    if asked.names is not None:
        parts.append(b'"outputs":%b' % v2.to_json([{"name": name} for name in asked.names]))
    if asked.asks:
        parts.append(b'"parameters":%b' % v2.to_json(asked.asks))
    text = b",".join(parts) + b"}"
    return Written(b"".join((text, *behind)), _BINARY % len(text)) if behind else Written(text, JSON)


def read(asked: Asked, answer: Answer) -> Said:
    body, behind = answer.body, memoryview(b"")
    length = answer.headers.get(binary.HEADER)
    if length is not None:
        if not length.isdigit() or int(length) > len(body):
            raise ValueError(f"its header Inference-Header-Content-Length is no length within {len(body)} bytes")
        body, behind = body[: int(length)], memoryview(body)[int(length) :]
    try:
        said = v2.read(_decode, body)
    except ValueError as error:
        raise ValueError(f"in its body, {error}" if str(error)[:8] != "the body" else str(error)) from None
    if said.error is not None and not said.outputs:
        raise ValueError(f"its body is an error: {v2.cited(str(said.error))}")
    outputs, at = [], 0
    for tensor in said.outputs or ():
        output, at = _output(tensor, behind, at)
        outputs.append(output)
    if at != len(behind):
        raise ValueError(f"its body has {len(behind) - at} bytes more than its outputs say")
    return Said(outputs, _route(said.parameters, required="routable_nodes" in asked.asks))


def _data(entry: v2.Entry) -> tuple[bytes, bytes | None]:
    """As JSON, or as bytes where it cannot be."""
    _, datatype, _, encoding, data = entry
    if encoding == framing.JSON:
        text = bytes(data)
        if text.find(_NESTED, 1) < 0:
            return text, None
        return v2.to_json(values_of(entry)), None
    values = values_of(entry)
    if not is_finite(datatype, values) or (datatype == "BYTES" and values and isinstance(values[0], bytes)):
        return b"", bytes(data)
    return v2.to_json(values), None


def _output(tensor: binary.OpenTensor, behind: memoryview, at: int) -> tuple[v2.Entry, int]:
    """And where the bytes of the next one begin."""
    name, datatype, shape = tensor.name, tensor.datatype, tensor.shape
    size = (tensor.parameters or {}).get("binary_data_size")
    if size is None:
        if isinstance(tensor.data, msgspec.UnsetType):
            raise ValueError(f"output '{v2.cited(name)}' has no data")
        return (name, datatype, shape, framing.JSON, memoryview(tensor.data)), at
    left = len(behind) - at
    if type(size) is not int or not 0 <= size <= left:
        raise ValueError(f"output '{v2.cited(name)}' says {v2.cited(str(size))} bytes, of which {left} came")
    data = behind[at : at + size]
    try:
        plain_elements.unpacked(datatype, shape, data)
    except ValueError as error:
        raise ValueError(f"output '{v2.cited(name)}': {error}") from None
    return (name, datatype, shape, framing.RAW, data), at + size


def _route(parameters: dict[str, Any] | None, *, required: bool) -> str | None:
    route = (parameters or {}).get("route")
    if route is None or isinstance(route, str):
        return route
    if required:
        raise ValueError("its parameter route is no string")
    return None  # of something else
