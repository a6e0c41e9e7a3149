"""A ModelInferRequest out of its bytes.

Of two requests of one client mostly the id and the raw data differ: all else, as the bytes it came in, is looked up
among what was read and checked before. What comes with its values in it, in place of raw data, is read anew each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from mizzen.gateway.grpc.wire import protobuf
from mizzen.gateway.grpc.wire.protobuf import BYTES, Malformed
from mizzen.protocol import binary, v2

REMEMBERED, LONGEST_TO_KEEP = 512, 2048
"""How many descriptions are kept, and how long one may be for that."""
MOST_PARTS = 8 * v2.MAX_TENSORS
"""Fields of a request beside those that hold data."""
UNASKED_BYTES, UNASKED_PARTS = 1024, 16
"""Of a description that is read whoever sends it, so that a refusal can name what was asked for."""

_ID, _RAW = 3 << 3 | BYTES, 7 << 3 | BYTES
_TOO_MANY, _CUT_OFF = "it has too many fields", "it is cut off"
_KNOWN = frozenset(number << 3 | BYTES for number in range(1, 8))


class Described(NamedTuple):
    """All that a request says beside its id and its raw data."""

    model: str
    version: str
    request: binary.BinaryRequest | None
    """None: `fault` says what is wrong with it."""
    names: list[str] | None = None
    """Of the outputs that are wanted."""
    contents: list[list[memoryview]] | None = None
    """Of each input, where any has its values in the message."""
    seconds: float | None = None
    fault: str = ""


class Request(NamedTuple):
    id: bytes
    described: Described
    raw: list[memoryview]

    @property
    def typed_bytes(self) -> int:
        """Of values that came one by one."""
        return sum(len(piece) for each in self.described.contents or () for piece in each)


class Requests:
    """Remembers what it has read."""

    def __init__(self) -> None:
        self._known: dict[bytes, Described] = {}

    def read(self, message: bytes, welcome: Callable[[], object] = bool) -> Request:
        """Malformed. What is wrong with a request that is a message is in it. `welcome`: refuses who may ask nothing,
        before much is read."""
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
                        size, start = protobuf.varint(message, at + 1)
                    stop = start + size
                    if tag == _RAW:
                        raw.append(view[start:stop])
                    elif tag == _ID:
                        id_ = message[start:stop]
                    else:
                        rest.append(message[at:stop])
                else:
                    rest.append(b"")  # it counts
                    stop = protobuf.behind(view, at)
                at = stop
                if len(rest) + len(raw) > MOST_PARTS:
                    raise Malformed(_TOO_MANY)
        except IndexError as error:
            raise Malformed(_CUT_OFF) from error
        if at > end:
            raise Malformed(_CUT_OFF)
        return Request(id_, self._described(b"".join(rest), len(rest), welcome), raw)

    def _described(self, said: bytes, parts: int, welcome: Callable[[], object]) -> Described:
        described = self._known.get(said)
        if described is None:
            if len(said) > UNASKED_BYTES or parts > UNASKED_PARTS:
                welcome()
            described = _described(said)
            if described.request is not None and described.contents is None and len(said) <= LONGEST_TO_KEEP:
                if len(self._known) >= REMEMBERED:
                    self._known.clear()
                self._known[said] = described
        return described


def _described(said: bytes) -> Described:
    model = version = ""
    inputs: list[dict[str, Any]] = []
    contents: list[list[memoryview]] = []
    outputs: list[dict[str, Any]] = []
    parameters: dict[str, Any] = {}
    left = iter(range(MOST_PARTS))
    for number, _, value in protobuf.fields(said):
        _count(left)
        if number == 1:
            model = protobuf.text(value)
        elif number == 2:
            version = protobuf.text(value)
        elif number == 4:
            _add_parameter(parameters, protobuf.inner(value), left)
        elif number in (5, 6) and max(len(inputs), len(outputs)) > v2.MAX_TENSORS:
            raise Malformed(_TOO_MANY)
        elif number == 5:
            tensor, pieces = _input(protobuf.inner(value), left)
            inputs.append(tensor)
            contents.append(pieces)
        elif number == 6:
            outputs.append(_output(protobuf.inner(value), left))
    _require_short(model, "model_name")
    _require_short(version, "model_version")
    given = contents if any(contents) else None
    try:
        request = _checked(inputs, outputs, parameters)
        seconds = v2.timeout_seconds(request.parameters)
        names = [output.name for output in request.outputs] if request.outputs else None
    except ValueError as fault:
        return Described(model, version, None, fault=str(fault))
    return Described(model, version, request, names, given, seconds)


def _checked(
    inputs: list[dict[str, Any]], outputs: list[dict[str, Any]], parameters: dict[str, Any]
) -> binary.BinaryRequest:
    """By the same rules, and in the same words, as what comes as JSON. ValueError."""
    said = {"inputs": inputs, "outputs": outputs or None, "parameters": parameters or None}
    request = v2.read(lambda _: msgspec.convert(said, binary.BinaryRequest), b"-")
    v2.check(request.inputs, request.outputs)
    for at, tensor in enumerate(request.inputs):
        if tensor.parameters and "shared_memory_region" in tensor.parameters:
            raise ValueError(f"inputs[{at}].parameters.shared_memory_region: is not offered here; send the data")
    binary.raw_outputs(request.parameters, request.outputs)
    return request


def _input(message: memoryview, left: Iterator[int]) -> tuple[dict[str, Any], list[memoryview]]:
    tensor: dict[str, Any] = {"name": "", "datatype": "", "shape": []}
    parameters: dict[str, Any] = {}
    contents: list[memoryview] = []
    for number, kind, value in protobuf.fields(message):
        _count(left)
        if number == 1:
            tensor["name"] = protobuf.text(value)
        elif number == 2:
            tensor["datatype"] = protobuf.text(value)
        elif number == 3:
            for size in protobuf.numbers(kind, value):
                _count(left)
                tensor["shape"].append(size)
        elif number == 4:
            _add_parameter(parameters, protobuf.inner(value), left)
        elif number == 5:
            contents.append(protobuf.inner(value))
    tensor["parameters"] = parameters or None
    return tensor, contents


def _output(message: memoryview, left: Iterator[int]) -> dict[str, Any]:
    name = ""
    parameters: dict[str, Any] = {}
    for number, _, value in protobuf.fields(message):
        _count(left)
        if number == 1:
            name = protobuf.text(value)
        elif number == 2:
            _add_parameter(parameters, protobuf.inner(value), left)
    return {"name": name, "parameters": parameters or None}


def _add_parameter(parameters: dict[str, Any], entry: memoryview, left: Iterator[int]) -> None:
    name, chosen = "", memoryview(b"")
    for number, _, value in protobuf.fields(entry):
        _count(left)
        if number == 1:
            name = protobuf.text(value)
        elif number == 2:
            chosen = protobuf.inner(value)
    parameters[name] = None
    for number, _, value in protobuf.fields(chosen):
        _count(left)
        if number == 1:
            parameters[name] = bool(protobuf.signed(value))
        elif number == 2:
            parameters[name] = protobuf.signed(value)
        elif number == 3:
            parameters[name] = protobuf.text(value)
        elif number == 4:
            parameters[name] = protobuf.double(value)
        elif number == 5:
            parameters[name] = protobuf.signed(value) & 0xFFFF_FFFF_FFFF_FFFF


def _require_short(name: str, where: str) -> None:
    """What is asked about a name is remembered by it."""
    if len(name) > v2.MAX_NAME:
        raise Malformed(f"{where} is longer than {v2.MAX_NAME} characters")


def _count(left: Iterator[int]) -> None:
    if next(left, None) is None:
        raise Malformed(_TOO_MANY)
