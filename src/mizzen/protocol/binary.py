"""The binary tensor extension of V2: data as bytes behind the JSON, whose length a header tells.

An input then has `parameters.binary_data_size` in place of `data`; its bytes follow in the order of the inputs. Outputs
come back the same way where they are asked for so: all of them by `binary_data_output` of the request, single ones by
`binary_data` of the output.
"""

from __future__ import annotations

import re
import struct
from typing import Annotated, Any

import msgspec

from mizzen.protocol import json_precheck, v2
from mizzen.protocol.frames import framing

HEADER = b"inference-header-content-length"

_DIGITS = re.compile(rb"[0-9]{1,12}")
_LENGTH = struct.Struct("<I")
_NOT_OFFERED = {
    "classification": "ask for probabilities as an output",
    "shared_memory_region": "the answer carries the data",
}
"""Parameters of outputs that would be answered wrongly if they were overlooked."""


class OpenTensor(msgspec.Struct, gc=False):
    """An input whose data may be elsewhere."""

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
    """The request and the entries of its inputs. `length` is what the header says. ValueError is for the caller."""
    size = int(length) if _DIGITS.fullmatch(length) else -1
    if not 0 < size <= len(body):
        raise ValueError(f"header Inference-Header-Content-Length: expected a number from 1 to {len(body)}, the body's")
    text = body[:size]
    datas: list[memoryview] | None = None
    if size > json_precheck.LARGE:
        text, datas = json_precheck.skim(text)
    request = v2.read(_decode, text)
    v2.check(request.inputs, request.outputs)
    rest = memoryview(body)[size:]
    entries: list[v2.Entry] = []
    at = 0
    for place, tensor in enumerate(request.inputs):
        size = _size(tensor, place)
        if size < 0:
            assert not isinstance(tensor.data, msgspec.UnsetType)
            data = memoryview(tensor.data) if datas is None else datas[place]
            if data[0] != ord("["):
                raise ValueError(f"inputs[{place}].data: expected a list")
            entries.append((tensor.name, tensor.datatype, tensor.shape, framing.JSON, data))
            continue
        if at + size > len(rest):
            told = v2.cited(str(size))
            raise ValueError(
                f"inputs[{place}].parameters.binary_data_size: {told} bytes, of which {len(rest) - at} came"
            )
        entries.append((tensor.name, tensor.datatype, tensor.shape, framing.RAW, rest[at : at + size]))
        at += size
    if at != len(rest):
        raise ValueError(f"the body has {len(rest) - at} bytes more than its inputs say")
    return request, entries


def _size(tensor: OpenTensor, place: int) -> int:
    """Of its bytes; -1 when its data is in the JSON."""
    size = (tensor.parameters or {}).get("binary_data_size")
    if size is None:
        if isinstance(tensor.data, msgspec.UnsetType):
            raise ValueError(f"inputs[{place}].data: is missing, and so is parameters.binary_data_size")
        return -1
    if tensor.data is not msgspec.UNSET:
        raise ValueError(f"inputs[{place}]: has both data and parameters.binary_data_size")
    if type(size) is not int or size < 0:
        raise ValueError(f"inputs[{place}].parameters.binary_data_size: expected a number of bytes")
    return size


def raw_outputs(parameters: dict[str, Any] | None, outputs: list[v2.RequestedOutput] | None) -> bool | list[str]:
    """Which outputs are wanted as bytes: True for all, [] for none. ValueError for what is no answer to that."""
    every = _flag(parameters, "binary_data_output", "parameters", default=False)
    if not outputs:
        return every or []
    names = []
    for at, output in enumerate(outputs):
        where = f"outputs[{at}].parameters"
        for name, instead in _NOT_OFFERED.items():
            if output.parameters and name in output.parameters:
                raise ValueError(f"{where}.{name}: is not offered here; {instead}")
        if _flag(output.parameters, "binary_data", where, default=every):
            names.append(output.name)
    return len(names) == len(outputs) or names


def _flag(parameters: dict[str, Any] | None, name: str, where: str, *, default: bool) -> bool:
    value = default if parameters is None else parameters.get(name, default)
    if not isinstance(value, bool):
        raise ValueError(f"{where}.{name}: expected true or false")  # noqa: TRY004 - bad data, not a bad call
    return value


def answer(head: bytes, id_json: bytes, payload: bytes) -> tuple[bytes, int]:
    """The body of an answer with raw outputs, and the length of its JSON. `payload` is as in a REPLY frame."""
    (length,) = _LENGTH.unpack_from(payload)
    start = _LENGTH.size + length
    text = v2.answer(head, id_json, payload[_LENGTH.size : start])
    return text + memoryview(payload)[start:], len(text)
