"""V2 (Open Inference Protocol) messages in JSON, read and written without touching a single tensor value.

`decode` promises that what it returns can be served: names are there and unique, shapes are sane, data is a list. What
it cannot read it explains in a ValueError whose text is fit for the caller. Whether the values of `data` match shape
and datatype is for the runtime to say: here they stay the bytes that came in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Annotated, Any, Literal, Protocol, TypeVar
from urllib.parse import quote

import msgspec

MAX_ELEMENTS = 2**31
MAX_ID = 256
MAX_TENSORS = 1024
"""Inputs of a request, and outputs that it asks for. Wider tables come as one tensor."""
MAX_DIMS = 32
MAX_NAME = 1024
MAX_CITED = 200
"""Characters of what a caller sent that are repeated to them."""

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


class Given(Protocol):
    """An input, as far as it can be judged by itself."""

    name: str
    shape: list[int]
    data: Any


Entry = tuple[str, str, list[int], int, memoryview]
"""An input in an INFER frame: name, datatype, shape, encoding, data."""

Request = TypeVar("Request")


class InferRequest(msgspec.Struct, gc=False):
    inputs: Annotated[list[InputTensor], msgspec.Meta(min_length=1, max_length=MAX_TENSORS)]
    id: Annotated[str, msgspec.Meta(max_length=MAX_ID)] | None = None
    parameters: dict[str, Any] | None = None
    outputs: Outputs | None = None


def decode(body: bytes) -> InferRequest:
    """ValueError, worded for the caller, when this is no servable request."""
    try:
        request = _decode(body)
    except (ValueError, RecursionError) as error:
        raise _explained(error, body) from error
    inputs = request.inputs
    for tensor in inputs:
        if memoryview(tensor.data)[0] != _BRACKET or prod(tensor.shape) > MAX_ELEMENTS:
            raise ValueError(_first_fault(inputs))
    if len(inputs) > 1 or request.outputs:
        check(inputs, request.outputs)
    return request


def read(decode: Callable[[bytes], Request], body: bytes) -> Request:
    """What a decoder makes of it; its complaints in words for the caller."""
    try:
        return decode(body)
    except (ValueError, RecursionError) as error:
        raise _explained(error, body) from error


def check(inputs: Sequence[Given], outputs: list[RequestedOutput] | None) -> None:
    """ValueError for what is wrong with a request beyond the types of its fields."""
    for tensor in inputs:
        if prod(tensor.shape) > MAX_ELEMENTS:
            raise ValueError(_first_fault(inputs))
    if len(inputs) > 1 and len({tensor.name for tensor in inputs}) < len(inputs):
        raise ValueError(_first_fault(inputs))
    if outputs and len({output.name for output in outputs}) < len(outputs):
        raise ValueError(_first_repeated(outputs))


def timeout_seconds(parameters: dict[str, Any] | None) -> float | None:
    """The V2 parameter `timeout`, which is in microseconds. ValueError when it is anything but a positive integer."""
    if parameters is None or "timeout" not in parameters:
        return None
    value = parameters["timeout"]
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError("parameters.timeout: expected a positive integer, in microseconds")
    return min(value, 10**12) / 1e6  # JSON has integers beyond what a float can hold


def answer_head(name: str, version: str) -> bytes:
    """The start of each answer of one served version, up to where its id goes."""
    return b'{"model_name":%b,"model_version":%b,"id":' % (to_json(name), to_json(version))


def answer(head: bytes, id_json: bytes, outputs: bytes) -> bytes:
    """`outputs` is the JSON text of the list, just as the runtime sent it."""
    return b'%b%b,"outputs":%b}' % (head, id_json, outputs)


def error(text: str) -> bytes:
    return b'{"error":%b}' % to_json(text)


def cited(text: str) -> str:
    """What a caller sent, as far as they are told of it again."""
    return text if len(text) <= MAX_CITED else text[:MAX_CITED] + "..."


def header_text(text: str) -> bytes:
    """An id as the value of a header: what is not printable ASCII is percent-encoded, so it can end no header."""
    if text.isascii() and text.isprintable() and text == text.strip():
        return text.encode()
    return quote(text, safe=_PRINTABLE).encode()


to_json = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(InferRequest).decode
_BRACKET = ord("[")
_PRINTABLE = "".join(map(chr, range(0x21, 0x7F)))

_PLACED = re.compile(r"^(?P<what>.*) - at `\$\.?(?P<where>[^`]*)`$", re.DOTALL)
_MISSING = re.compile(r"^Object missing required field `(?P<field>\w+)`$")
_TOO_MANY = "Expected `array` of at most length"
"""Of inputs that are skimmed: nothing else here is such an array, and where it is, is not said."""
_EXPECTED = {
    "inputs": f"expected a list with at least one tensor, and {MAX_TENSORS} at most",
    "inputs[]": "expected an object",
    "name": f"expected a string that is not empty, of at most {MAX_NAME} characters",
    "shape": f"expected a list of integers, {MAX_DIMS} at most",
    "shape[]": f"expected an integer from 0 to {MAX_ELEMENTS}",
    "datatype": "expected one of " + ", ".join(Datatype.__args__),  # type: ignore[attr-defined]
    "parameters": "expected an object",
    "outputs": f"expected a list of objects with a name, {MAX_TENSORS} at most",
    "outputs[]": "expected an object with a name",
    "id": f"expected a string of at most {MAX_ID} characters",
}


def _explained(error: Exception, body: bytes) -> ValueError:
    if isinstance(error, msgspec.ValidationError):
        return ValueError(_explain(str(error)))
    if isinstance(error, RecursionError):
        return ValueError("the body is nested too deeply")
    return ValueError(f"the body is not JSON: {error}" if body else "the body is empty")


def _explain(message: str) -> str:
    """msgspec's words in ours: `inputs[0].shape: expected a list of integers`."""
    placed = _PLACED.match(message)
    what, where = (placed["what"], placed["where"]) if placed else (message, "")
    if missing := _MISSING.match(what):
        field = missing["field"]
        return f"{where}.{field}: is missing" if where else f"{field}: is missing"
    if what.startswith(_TOO_MANY):
        return f"inputs: {_EXPECTED['inputs']}"
    if not where:
        return "the body: expected an object"
    field = re.sub(r"\[\d+\]$", "[]", where.rpartition(".")[2])
    return f"{where}: {_EXPECTED.get(field, what)}"


def _first_fault(inputs: Sequence[Given]) -> str:
    """Only called when there is one: the way without faults is the hot one."""
    seen: set[str] = set()
    for at, tensor in enumerate(inputs):
        if tensor.name in seen:
            return f"inputs[{at}].name: '{cited(tensor.name)}' is there twice"
        seen.add(tensor.name)
        if prod(tensor.shape) > MAX_ELEMENTS:
            return f"inputs[{at}].shape: more than {MAX_ELEMENTS} elements"
        if isinstance(tensor.data, msgspec.Raw) and memoryview(tensor.data)[0] != _BRACKET:
            return f"inputs[{at}].data: expected a list"
    raise AssertionError("no fault")


def _first_repeated(outputs: list[RequestedOutput]) -> str:
    seen: set[str] = set()
    for at, output in enumerate(outputs):
        if output.name in seen:
            return f"outputs[{at}].name: '{cited(output.name)}' is there twice"
        seen.add(output.name)
    raise AssertionError("no fault")
