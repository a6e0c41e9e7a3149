"""The binary tensor extension of V2: raw data follows the JSON, whose length is in a header.

An input then has `parameters.binary_data_size` in place of `data`; the bytes follow in the order of the inputs. Outputs
come back the same way on request: all of them with `binary_data_output` of the request, single ones with `binary_data`
of the output.
"""

from __future__ import annotations

import re
import struct
from typing import Annotated, Any

import msgspec

from mizzen.protocol import json_precheck, v2
from mizzen.protocol.frames import framing

HEADER = b"inference-header-content-length"

MAX_CHECKED, MAX_CHECKED_BYTES = 512, 2048
"""How many texts are remembered as free of repeated keys, and the maximum size of one: a client repeats them."""

_checked: set[bytes] = set()
_DIGITS = re.compile(rb"[0-9]{1,12}")
_LENGTH = struct.Struct("<I")
_NOT_OFFERED = {
    "classification": "ask for probabilities as an output",
    "shared_memory_region": "the answer carries the data",
}
"""Output parameters that would cause wrong answers if they were ignored."""


class OpenTensor(msgspec.Struct, gc=False):
    """An input whose data may be outside the JSON."""

    name: v2.Name
    shape: v2.Shape
    datatype: v2.Datatype
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    parameters: dict[str, Any] | None = None


class BinaryRequest(msgspec.Struct, gc=False):
    inputs: Annotated[list[OpenTensor], msgspec.Meta(min_length=1, max_length=v2.MAX_TENSORS)]
    id: Annotated[str, msgspec.Meta(max_length=v2.MAX_ID)] | None = None
    parameters: dict[str, Any] | None = None
    outputs: v2.Outputs | None = None


_decode = msgspec.json.Decoder(BinaryRequest).decode


def decode(body: bytes, length: bytes) -> tuple[BinaryRequest, list[v2.Entry]]:
    """Return the request and its input entries. `length`: value of the header. Raises ValueError for the caller."""
    size = int(length) if _DIGITS.fullmatch(length) else -1
    if not 0 < size <= len(body):
        raise ValueError(
            f"header Inference-Header-Content-Length: expected a number from 1 to {len(body)}, the length of the body"
        )
    text = body[:size]
    datas: list[memoryview] | None = None
    if size > json_precheck.LARGE:
        text, datas = json_precheck.split_large(text)
    request = v2.decode_with(_decode, text)
    if text not in _checked:
        _check_keys(text, request)
    v2.check(request.inputs, request.outputs)
    rest = memoryview(body)[size:]
    entries: list[v2.Entry] = []
    at = 0
    for place, tensor in enumerate(request.inputs):
        size = _size_of(tensor, place)
        if size < 0:
            assert not isinstance(tensor.data, msgspec.UnsetType)
            data = memoryview(tensor.data) if datas is None else datas[place]
            if data[0] != ord("["):
                raise ValueError(f"inputs[{place}].data: expected a list")
            entries.append((tensor.name, tensor.datatype, tensor.shape, framing.JSON, data))
            continue
        if at + size > len(rest):
            announced = v2.shorten(str(size))
            raise ValueError(
                f"inputs[{place}].parameters.binary_data_size: {announced} bytes, but only {len(rest) - at} arrived"
            )
        entries.append((tensor.name, tensor.datatype, tensor.shape, framing.RAW, rest[at : at + size]))
        at += size
    if at != len(rest):
        raise ValueError(f"the body has {len(rest) - at} bytes more than its inputs announce")
    return request, entries


def _check_keys(text: bytes, request: BinaryRequest) -> None:
    v2.check_keys(text, request)
    if len(text) <= MAX_CHECKED_BYTES:
        if len(_checked) >= MAX_CHECKED:
            _checked.clear()
        _checked.add(text)


def _size_of(tensor: OpenTensor, place: int) -> int:
    """Return the size of the raw data; -1 if the data is in the JSON. Raises ValueError."""
    size = (tensor.parameters or {}).get("binary_data_size")
    if size is None:
        if isinstance(tensor.data, msgspec.UnsetType):
            raise ValueError(f"inputs[{place}].data and parameters.binary_data_size are both missing")
        return -1
    if tensor.data is not msgspec.UNSET:
        raise ValueError(f"inputs[{place}]: has both data and parameters.binary_data_size")
    if type(size) is not int or size < 0:
        raise ValueError(f"inputs[{place}].parameters.binary_data_size: expected a number of bytes")
    return size


def raw_outputs_of(parameters: dict[str, Any] | None, outputs: list[v2.RequestedOutput] | None) -> bool | list[str]:
    """Return which outputs are requested as raw bytes: True for all, [] for none. Raises ValueError."""
    every = _read_flag(parameters, "binary_data_output", "parameters", default=False)
    if not outputs:
        return every or []
    names = []
    for at, output in enumerate(outputs):
        where = f"outputs[{at}].parameters"
        for name, instead in _NOT_OFFERED.items():
            if output.parameters and name in output.parameters:
                raise ValueError(f"{where}.{name}: is not supported; {instead}")
        if _read_flag(output.parameters, "binary_data", where, default=every):
            names.append(output.name)
    return len(names) == len(outputs) or names


def _read_flag(parameters: dict[str, Any] | None, name: str, where: str, *, default: bool) -> bool:
    value = default if parameters is None else parameters.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{where}.{name}: expected true or false")  # noqa: TRY004 - bad data, not a bad call
    return value


def render_answer(head: bytes, id_json: bytes, payload: bytes) -> tuple[bytes, int]:
    """Return the body of an answer with raw outputs, and the length of its JSON. `payload`: as in a REPLY frame."""
    (length,) = _LENGTH.unpack_from(payload)
    start = _LENGTH.size + length
    text = v2.render_answer(head, id_json, payload[_LENGTH.size : start])
    return text + memoryview(payload)[start:], len(text)
