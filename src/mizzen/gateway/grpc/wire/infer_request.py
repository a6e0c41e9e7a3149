"""Parses ModelInferRequest messages.

Two requests of one client mostly differ only in id and raw data. The bytes of everything else are the key of a cache of
parsed and validated descriptions. A request with typed contents in place of raw data is parsed each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from mizzen import protobuf_wire
from mizzen.protobuf_wire import BYTES, CUT_OFF, Malformed
from mizzen.protocol import binary, v2

MAX_CACHED, MAX_CACHED_BYTES = 512, 2048
"""How many descriptions are cached, and the maximum size of one."""
MAX_FIELDS = 8 * v2.MAX_TENSORS
"""Fields of a request, except those that hold data."""
UNAUTHORIZED_BYTES, UNAUTHORIZED_FIELDS = 1024, 16
"""A description up to this size is parsed before authorization, so that a refusal can name the model."""

_ID, _RAW = 3 << 3 | BYTES, 7 << 3 | BYTES
_TOO_MANY = "it has too many fields"
_KNOWN = frozenset(number << 3 | BYTES for number in range(1, 8))


class RequestDescription(NamedTuple):
    """Everything in a request except its id and raw data."""

    model: str
    version: str
    request: binary.BinaryRequest | None
    """None: `fault` explains why the request is invalid."""
    names: list[str] | None = None
    """Names of the requested outputs."""
    contents: list[list[memoryview]] | None = None
    """Typed contents of each input, if any input has them."""
    seconds: float | None = None
    fault: str = ""


class InferRequestMessage(NamedTuple):
    id: bytes
    described: RequestDescription
    raw: list[memoryview]

    @property
    def typed_bytes(self) -> int:
        """Bytes of typed contents."""
        return sum(len(piece) for each in self.described.contents or () for piece in each)


class InferRequestParser:
    """Parses requests, and caches their descriptions."""

    def __init__(self) -> None:
        self._cache: dict[bytes, RequestDescription] = {}

    def parse(self, message: bytes, authorize: Callable[[], object] = bool) -> InferRequestMessage:
        """Raises Malformed for bytes that are not a message; `described.fault` has other errors. `authorize` is called
        before much is parsed, and raises for callers without any access."""
        id_ = b""
        raw: list[memoryview] = []
        rest: list[bytes] = []
        view, at, end = memoryview(message), 0, len(message)
        try:
            while at < end:
                tag, size = message[at], message[at + 1]
                start = at + 2
                if tag in _KNOWN:
                    if size > 127:
                        size, start = protobuf_wire.read_varint(message, at + 1)
                    stop = start + size
                    if tag == _RAW:
                        raw.append(view[start:stop])
                    elif tag == _ID:
                        id_ = message[start:stop]
                    else:
                        rest.append(message[at:stop])
                else:
                    rest.append(b"")  # counts toward the limit
                    stop = protobuf_wire.field_end(view, at)
                at = stop
                if len(rest) + len(raw) > MAX_FIELDS:
                    raise Malformed(_TOO_MANY)
        except IndexError as error:
            raise Malformed(CUT_OFF) from error
        if at > end:
            raise Malformed(CUT_OFF)
        return InferRequestMessage(id_, self._describe(b"".join(rest), len(rest), authorize), raw)

    def _describe(self, fields: bytes, parts: int, authorize: Callable[[], object]) -> RequestDescription:
        described = self._cache.get(fields)
        if described is None:
            if len(fields) > UNAUTHORIZED_BYTES or parts > UNAUTHORIZED_FIELDS:
                authorize()
            described = _parse_description(fields)
            if described.request is not None and described.contents is None and len(fields) <= MAX_CACHED_BYTES:
                if len(self._cache) >= MAX_CACHED:
                    self._cache.clear()
                self._cache[fields] = described
        return described


def _parse_description(fields: bytes) -> RequestDescription:
    model = version = ""
    inputs: list[dict[str, Any]] = []
    contents: list[list[memoryview]] = []
    outputs: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {}
    left = iter(range(MAX_FIELDS))
    for number, _, value in protobuf_wire.iter_fields(fields):
        _count_field(left)
        if number == 1:
            model = protobuf_wire.text_of(value)
        elif number == 2:
            version = protobuf_wire.text_of(value)
        elif number == 4:
            _add_parameter(parameters, protobuf_wire.message_of(value), left)
        elif number in (5, 6) and max(len(inputs), len(outputs)) > v2.MAX_TENSORS:
            raise Malformed(_TOO_MANY)
        elif number == 5:
            tensor, pieces = _parse_input(protobuf_wire.message_of(value), left)
            inputs.append(tensor)
            contents.append(pieces)
        elif number == 6:
            outputs.append(_parse_output(protobuf_wire.message_of(value), left))
    _require_short(model, "model_name")
    _require_short(version, "model_version")
    given = contents if any(contents) else None
    try:
        request = _validate(inputs, outputs, parameters)
        seconds = v2.timeout_seconds(request.parameters)
        names = [output.name for output in request.outputs] if request.outputs else None
    except ValueError as fault:
        return RequestDescription(model, version, None, fault=str(fault))
    return RequestDescription(model, version, request, names, given, seconds)


def _validate(
    inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], parameters: dict[str, Any]
) -> binary.BinaryRequest:
    """Validate by the same rules, and with the same messages, as JSON requests. Raises ValueError."""
    message = {"inputs": inputs, "outputs": outputs or None, "parameters": parameters or None}
    request = v2.decode_with(lambda _: msgspec.convert(message, binary.BinaryRequest), b"-")
    v2.check(request.inputs, request.outputs)
    for at, tensor in enumerate(request.inputs):
        if tensor.parameters and "shared_memory_region" in tensor.parameters:
            raise ValueError(f"inputs[{at}].parameters.shared_memory_region: is not supported; send the data")
    binary.raw_outputs_of(request.parameters, request.outputs)
    return request


def _parse_input(message: memoryview, left: Iterator[int]) -> tuple[dict[str, Any], list[memoryview]]:
    tensor: dict[str, Any] = {"name": "", "datatype": "", "shape": []}
    parameters: dict[str, Any] = {}
    contents: list[memoryview] = []
    for number, kind, value in protobuf_wire.iter_fields(message):
        _count_field(left)
        if number == 1:
            tensor["name"] = protobuf_wire.text_of(value)
        elif number == 2:
            tensor["datatype"] = protobuf_wire.text_of(value)
        elif number == 3:
            for size in protobuf_wire.iter_numbers(kind, value):
                _count_field(left)
                tensor["shape"].append(size)
        elif number == 4:
            _add_parameter(parameters, protobuf_wire.message_of(value), left)
        elif number == 5:
            contents.append(protobuf_wire.message_of(value))
    tensor["parameters"] = parameters or None
    return tensor, contents


def _parse_output(message: memoryview, left: Iterator[int]) -> dict[str, Any]:
    name = ""
    parameters: dict[str, Any] = {}
    for number, _, value in protobuf_wire.iter_fields(message):
        _count_field(left)
        if number == 1:
            name = protobuf_wire.text_of(value)
        elif number == 2:
            _add_parameter(parameters, protobuf_wire.message_of(value), left)
    return {"name": name, "parameters": parameters or None}


def _add_parameter(parameters: dict[str, Any], entry: memoryview, left: Iterator[int]) -> None:
    name, chosen = "", memoryview(b"")
    for number, _, value in protobuf_wire.iter_fields(entry):
        _count_field(left)
        if number == 1:
            name = protobuf_wire.text_of(value)
        elif number == 2:
            chosen = protobuf_wire.message_of(value)
    parameters[name] = None
    for number, _, value in protobuf_wire.iter_fields(chosen):
        _count_field(left)
        if number == 1:
            parameters[name] = bool(protobuf_wire.signed_of(value))
        elif number == 2:
            parameters[name] = protobuf_wire.signed_of(value)
        elif number == 3:
            parameters[name] = protobuf_wire.text_of(value)
        elif number == 4:
            parameters[name] = protobuf_wire.double_of(value)
        elif number == 5:
            parameters[name] = protobuf_wire.signed_of(value) & 0xFFFF_FFFF_FFFF_FFFF


def _require_short(name: str, where: str) -> None:
    """Raises Malformed. Names are cache keys, so they must be short."""
    if len(name) > v2.MAX_NAME:
        raise Malformed(f"its {where} is longer than {v2.MAX_NAME} characters")


def _count_field(left: Iterator[int]) -> None:
    if next(left, None) is None:
        raise Malformed(_TOO_MANY)
