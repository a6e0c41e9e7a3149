"""V2 (Open Inference Protocol) messages in JSON, read and written without touching tensor values.

A request that `decode` returns can be served: names are present and unique, shapes are sane, data is a list. For other
requests it raises a ValueError whose text is meant for the caller. The runtime checks whether the values of `data`
match shape and datatype: here they stay bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, Any, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

from mizzen.protocol import json_keys

MAX_ELEMENTS = 2**31
MAX_ID = 256
MAX_TENSORS = 1024
"""Inputs, and requested outputs, of one request. Wider tables must be sent as one tensor."""
MAX_DIMS = 32
MAX_NAME = 1024
MAX_QUOTED = 200
"""Characters of a caller's text that error messages repeat."""

Datatype = Literal[
    "BOOL", "UINT8", "UINT16", "UINT32", "UINT64", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BYTES"
]  # fmt: skip
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NAME)]
Size = Annotated[int, msgspec.Meta(ge=0, le=MAX_ELEMENTS)]
Shape = Annotated[list[Size], msgspec.Meta(max_length=MAX_DIMS)]


class InputTensor(msgspec.Struct, gc=False):
    name: Name
    shape: Shape
    datatype: Datatype
    data: msgspec.Raw
    parameters: dict[str, Any] | None = None


class RequestedOutput(msgspec.Struct, gc=False):
    name: Name
    parameters: dict[str, Any] | None = None


Outputs = Annotated[list[RequestedOutput], msgspec.Meta(max_length=MAX_TENSORS)]


class InputFields(Protocol):
    """The fields of an input that the checks use."""

    name: str
    shape: list[int]
    datatype: Any
    data: Any
    parameters: dict[str, Any] | None


Entry = tuple[str, str, list[int], int, memoryview]
"""An input in an INFER frame: name, datatype, shape, encoding, data."""

Request = TypeVar("Request")


class InferRequest(msgspec.Struct, gc=False):
    inputs: Annotated[list[InputTensor], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)]
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] | None = None
    parameters: dict[str, Any] | None = None
    outputs: Outputs | None = None


class RequestFields(Protocol):
    """The fields of a request that `check_keys` uses."""

    id: str | None
    parameters: dict[str, Any] | None
    outputs: list[RequestedOutput] | None

    @property
    def inputs(self) -> Sequence[InputFields]: ...


def decode(body: bytes) -> InferRequest:
    """Raises ValueError, with a text for the caller, if this is not a valid request."""
    try:
        request = _decode(body)
    except (ValueError, RecursionError) as error:
        raise _caller_error(error, body) from error
    inputs = request.inputs
    for tensor in inputs:
        if memoryview(tensor.data)[0] != _BRACKET or prod(tensor.shape) > MAX_ELEMENTS:
            raise ValueError(_first_fault(inputs))
    if body.count(b":") != 1 + 4 * len(inputs):  # more keys than required, or colons in text
        check_keys(body, request)
    if len(inputs) > 1 or request.outputs:
        check(inputs, request.outputs)
    return request


def decode_with(decode: Callable[[bytes], Request], body: bytes) -> Request:
    """Call a decoder, and turn its errors into ValueErrors for the caller."""
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise _caller_error(error, body) from error


def check_keys(text: bytes, request: RequestFields) -> None:
    """Raises ValueError if a key is repeated."""
    parameters, outputs = request.parameters, request.outputs
    keys = 1 if request.id is None else 2
    if parameters is not None:
        keys += 1 + len(parameters)
    if outputs is not None:
        keys += 1 + sum([1 if one.parameters is None else 2 + len(one.parameters) for one in outputs])
    inputs = request.inputs
    for tensor in inputs:
        keys += 3 if tensor.data is _UNSET else 4
        if tensor.parameters is not None:
            keys += 1 + len(tensor.parameters)
    colons = text.count(b":")
    if colons != keys and colons - _colons_in_strings(text, request) != keys:
        json_keys.search(text)


def _colons_in_strings(text: bytes, request: RequestFields) -> int:
    """Count colons in the data and the id of a request, or fewer."""
    found = 0 if request.id is None or b"\\" in text else request.id.count(":")
    for tensor in request.inputs:
        if tensor.datatype == "BYTES" and tensor.data is not msgspec.UNSET:
            found += bytes(tensor.data).count(b":")
    return found


def check(inputs: Sequence[InputFields], outputs: list[RequestedOutput] | None) -> None:
    """Raises ValueError for errors in a request that are not type errors of single fields."""
    for tensor in inputs:
        if prod(tensor.shape) > MAX_ELEMENTS:
            raise ValueError(_first_fault(inputs))
    if len(inputs) > 1 and len({tensor.name for tensor in inputs}) < len(inputs):
        raise ValueError(_first_fault(inputs))
    if outputs and len({output.name for output in outputs}) < len(outputs):
        raise ValueError(_first_duplicate(outputs))


def timeout_seconds(parameters: dict[str, Any] | None) -> float | None:
    """Return the V2 parameter `timeout`, given in microseconds. Raises ValueError if it is not a positive integer."""
    if parameters is None or "timeout" not in parameters:
        return None
    value = parameters["timeout"]
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError("parameters.timeout: expected a positive integer, in microseconds")
    return min(value, 10**12) / 1e6  # JSON has integers beyond what a float can hold


def render_answer_head(name: str, version: str) -> bytes:
    """Return the start of each answer of one served version, up to the id."""
    return b'{"model_name":%b,"model_version":%b,"id":' % (to_json(name), to_json(version))


def render_answer(head: bytes, id_json: bytes, outputs: bytes) -> bytes:
    """`outputs`: the JSON text of the list, as the runtime sent it."""
    return b'%b%b,"outputs":%b}' % (head, id_json, outputs)


def render_error(text: str) -> bytes:
    return b'{"error":%b}' % to_json(text)


def shorten(text: str) -> str:
    """Shorten a caller's text for an error message."""
    return text if len(text) <= MAX_QUOTED else text[:MAX_QUOTED] + "..."


def header_text(text: str) -> bytes:
    """Return an id as a header value. All but printable ASCII is percent-encoded, so that it cannot end the header."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text.encode()
    return quote(text, safe=_PRINTABLE).encode()


to_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InferRequest).decode
_BRACKET = ord("[")
_UNSET = msgspec.UNSET
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

_PLACED = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<where>[^`]*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>\w+)`$")
_EXPECTED = {
    "inputs": f"expected a list of 1 to {MAX_TENSORS} tensors",
    "inputs[]": "expected an object",
    "name": f"expected a non-empty string of at most {MAX_NAME} characters",
    "shape": f"expected a list of at most {MAX_DIMS} integers",
    "shape[]": f"expected an integer from 0 to {MAX_ELEMENTS}",
    "datatype": "expected one of " + ", ".join(Datatype.__args__),  # type: ignore[attr-defined]
    "parameters": "expected an object",
    "outputs": f"expected a list of at most {MAX_TENSORS} objects with a name",
    "outputs[]": "expected an object with a name",
    "id": f"expected a string of at most {MAX_ID} characters",
}


def _caller_error(error: Exception, body: bytes) -> ValueError:
    if isinstance(error, msgspec.ValidationError):
        return ValueError(_explain(str(error)))
    if isinstance(error, RecursionError):
        return ValueError("the body is nested too deeply")
    return ValueError(f"the body is not JSON: {error}" if body else "the body is empty")


def _explain(message: str) -> str:
    """Rephrase msgspec's message: `inputs[0].shape: expected a list of integers`."""
    placed = _PLACED.match(message)
    what, where = (placed["what"], placed["where"]) if placed else (message, "")
    if missing := _MISSING.match(what):
        field = missing["field"]
        return f"{where}.{field}: is missing" if where else f"{field}: is missing"
    if not where:
        return "the body: expected an object"
    field = re.sub(r"\[\d+\]$", "[]", where.rpartition(".")[2])
    return f"{where}: {_EXPECTED.get(field, what)}"


def _first_fault(inputs: Sequence[InputFields]) -> str:
    """Describe the first fault. Only called if there is one, to keep the valid case fast."""
    seen: set[str] = set()
    for at, tensor in enumerate(inputs):
        if tensor.name in seen:
            return f"inputs[{at}].name: '{shorten(tensor.name)}' is used twice"
        seen.add(tensor.name)
        if prod(tensor.shape) > MAX_ELEMENTS:
            return f"inputs[{at}].shape: more than {MAX_ELEMENTS} elements"
        if isinstance(tensor.data, msgspec.Raw) and memoryview(tensor.data)[0] != _BRACKET:
            return f"inputs[{at}].data: expected a list"
    raise AssertionError("no fault")


def _first_duplicate(outputs: list[RequestedOutput]) -> str:
    seen: set[str] = set()
    for at, output in enumerate(outputs):
        if output.name in seen:
            return f"outputs[{at}].name: '{shorten(output.name)}' is used twice"
        seen.add(output.name)
    raise AssertionError("no fault")
