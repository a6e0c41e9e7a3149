"""Services that speak V2 (Open Inference Protocol).

Tensors are sent in JSON, which all such services accept. Data that JSON cannot carry (NaN, bytes that are not text) is
sent as bytes after it, with the binary tensor extension; answers may use it too.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import JSON, DecodedResponse, EncodedRequest, TensorRequest
from mizzen.gateway.services.tensor_values import is_finite, values_of
from mizzen.graph import messages
from mizzen.protocol import binary, json_keys, json_precheck, plain_elements, v2
from mizzen.protocol.frames import framing

_BINARY = b"Content-Type: application/octet-stream\r\nInference-Header-Content-Length: %d\r\n"
_NESTED = b"["


_Ignored = msgspec.Raw | msgspec.UnsetType


class _V2Response(msgspec.Struct, gc=False):
    outputs: Annotated[list[binary.OpenTensor], msgspec.Meta(max_length=v2.MAX_TENSORS)] | None = None
    parameters: dict[str, Any] | None = None
    error: Any = None
    model_name: _Ignored = msgspec.UNSET
    model_version: _Ignored = msgspec.UNSET
    id: _Ignored = msgspec.UNSET


_decode = msgspec.json.Decoder(_V2Response).decode


def write(request: TensorRequest) -> EncodedRequest:
    inputs, behind = [], []
    for entry in request.entries:
        name, datatype, shape, _, _ = entry
        text, raw = _encode_data(entry)
        data = b'"data":%b' % text if raw is None else b'"parameters":{"binary_data_size":%d}' % len(raw)
        if raw is not None:
            behind.append(raw)
        inputs.append(
            b'{"name":%b,"datatype":"%b","shape":%b,%b}'
            % (v2.to_json(name), datatype.encode(), v2.to_json(shape), data)
        )
    parts = [b'{"inputs":[%b]' % b",".join(inputs)]
    if request.id:
        parts.append(b'"id":%b' % v2.to_json(request.id.decode("latin-1")))
    if request.names is not None:
        parts.append(b'"outputs":%b' % v2.to_json([{"name": name} for name in request.names]))
    if request.asks:
        parts.append(b'"parameters":%b' % v2.to_json(request.asks))
    text = b",".join(parts) + b"}"
    return EncodedRequest(b"".join((text, *behind)), _BINARY % len(text)) if behind else EncodedRequest(text, JSON)


def read(request: TensorRequest, answer: HttpResponse) -> DecodedResponse:
    body, behind = answer.body, memoryview(b"")
    length = answer.headers.get(binary.HEADER)
    if length is not None:
        if not length.isdigit() or int(length) > len(body):
            raise ValueError(f"its header Inference-Header-Content-Length is not a length within {len(body)} bytes")
        body, behind = body[: int(length)], memoryview(body)[int(length) :]
    datas: list[memoryview] | None = None
    try:
        if len(body) > json_precheck.LARGE:
            body, datas = json_precheck.split_large(body, b"outputs")
        response = v2.decode_with(_decode, body)
        if body.count(b":") != _count_keys(response):
            json_keys.search(body)
    except ValueError as error:
        raise ValueError(f"in its body, {error}" if str(error)[:8] != "the body" else str(error)) from None
    if response.error is not None and not response.outputs:
        raise ValueError(f"its body is an error: {v2.shorten(str(response.error))}")
    outputs, at = [], 0
    for place, tensor in enumerate(response.outputs or ()):
        output, at = _parse_output(tensor, behind, at, None if datas is None else datas[place])
        outputs.append(output)
    messages.require_few(outputs)
    if at != len(behind):
        raise ValueError(f"its body has {len(behind) - at} bytes more than its outputs announce")
    return DecodedResponse(outputs, _parse_route(response.parameters, required="routable_nodes" in request.asks))


def _encode_data(entry: v2.Entry) -> tuple[bytes, bytes | None]:
    """Returns JSON, or bytes for data that JSON cannot carry."""
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


def _count_keys(response: _V2Response) -> int:
    keys = sum([getattr(response, name) is not msgspec.UNSET for name in ("model_name", "model_version", "id")])
    keys += (response.outputs is not None) + (response.error is not None)
    if response.parameters is not None:
        keys += 1 + len(response.parameters)
    for tensor in response.outputs or ():
        keys += 3 if tensor.data is msgspec.UNSET else 4
        if tensor.parameters is not None:
            keys += 1 + len(tensor.parameters)
    return keys


def _parse_output(
    tensor: binary.OpenTensor, behind: memoryview, at: int, split: memoryview | None
) -> tuple[v2.Entry, int]:
    """Returns the output, and where the bytes of the next one begin. `split`: its data, if it was cut out."""
    name, datatype, shape = tensor.name, tensor.datatype, tensor.shape
    size = (tensor.parameters or {}).get("binary_data_size")
    if size is None:
        if isinstance(tensor.data, msgspec.UnsetType):
            raise ValueError(f"output '{v2.shorten(name)}' has no data")
        return (name, datatype, shape, framing.JSON, memoryview(tensor.data) if split is None else split), at
    left = len(behind) - at
    if type(size) is not int or not 0 <= size <= left:
        raise ValueError(f"output '{v2.shorten(name)}' announces {v2.shorten(str(size))} bytes; {left} arrived")
    data = behind[at : at + size]
    entry = name, datatype, shape, framing.RAW, data
    messages.require_few([entry])
    try:
        plain_elements.unpack(datatype, shape, data)
    except ValueError as error:
        raise ValueError(f"output '{v2.shorten(name)}': {error}") from None
    return entry, at + size


def _parse_route(parameters: dict[str, Any] | None, *, required: bool) -> str | None:
    route = (parameters or {}).get("route")
    if route is None or isinstance(route, str):
        return route
    if required:
        raise ValueError("its parameter route is not a string")
    return None  # a parameter with another meaning
