"""Messages between the nodes of a graph: lists of tensors, each an entry as INFER frames have them (`v2.Entry`).

They come from clients, in whatever encoding these chose, and from models as bytes; clients get them as they asked for.
Entries are never changed, nor are their shapes, which many of them share. Nearly all are of a few values: these are
read and written without numpy, which a gateway has only once something large needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from math import isfinite, prod
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from mizzen.protocol import plain_elements, v1, v2
from mizzen.protocol.frames.framing import JSON, RAW

if TYPE_CHECKING:
    from mizzen.protocol.tensors import Array

Message = list[v2.Entry]

_LENGTH = struct.Struct("<I")
_REMEMBERED = 1024
"""Texts that are kept of each sort: those of one model mostly differ in numbers of rows only."""
_LONG = 4 << 10
"""Bytes of a text that is not kept."""
_LARGE = 64 << 10
"""Bytes of JSON from which on it is measured before it is decoded (`protocol/json_size.py`)."""

Described = tuple[str, str, list[int], int]
"""Name, datatype, shape and bytes of an output."""


class _Parameters(msgspec.Struct, gc=False):
    binary_data_size: Annotated[int, msgspec.Meta(ge=0)]


class _Output(msgspec.Struct, gc=False):
    name: str
    datatype: v2.Datatype
    shape: list[int]
    parameters: _Parameters


_described: dict[bytes, tuple[int, list[Described]]] = {}
_heads: dict[tuple[str | int, ...], bytes] = {}
_decode_outputs = msgspec.json.Decoder(list[_Output]).decode
_decode_flat = {leaf: msgspec.json.Decoder(list[leaf]).decode for leaf in set(plain_elements.LEAVES.values())}  # type: ignore[valid-type]
_decode_any = msgspec.json.Decoder().decode


def of_reply(payload: bytes) -> Message:
    """What a model answered to who asked for all outputs as bytes. ValueError when that is not what this is."""
    if len(payload) < 4:
        raise ValueError(f"an answer of {len(payload)} bytes")
    at = _LENGTH.unpack_from(payload)[0] + 4
    text = payload[4:at]
    known = _described.get(text) or _describe(text)
    if len(payload) - at != known[0]:
        raise ValueError(f"{len(payload) - at} bytes of outputs, where {known[0]} are announced")
    if len(known[1]) == 1:  # what nearly all are
        name, datatype, shape, _ = known[1][0]
        return [(name, datatype, shape, RAW, memoryview(payload)[at:])]
    view = memoryview(payload)
    entries: Message = []
    for name, datatype, shape, size in known[1]:
        entries.append((name, datatype, shape, RAW, view[at : at + size]))
        at += size
    return entries


def _describe(text: bytes) -> tuple[int, list[Described]]:
    found: list[Described] = [
        (output.name, output.datatype, output.shape, output.parameters.binary_data_size)
        for output in _decode_outputs(text)
    ]
    known = sum([described[3] for described in found]), found
    if len(text) <= _LONG:
        if len(_described) >= _REMEMBERED:
            _described.clear()
        _described[text] = known
    return known


def legible(entries: Message) -> Message:
    """Text as JSON has it, as far as it is text: a model gets `str` then, as from who calls it directly."""
    for entry in entries:
        if entry[1] == "BYTES":
            break
    else:
        return entries
    return [_legible(entry) if entry[1] == "BYTES" and entry[3] == RAW else entry for entry in entries]


def _legible(entry: v2.Entry) -> v2.Entry:
    name, datatype, shape, _, data = entry
    try:
        texts = [str(value, "utf-8") for value in plain_elements.unpacked(datatype, shape, data)]
    except UnicodeDecodeError:
        return entry
    return name, datatype, shape, JSON, memoryview(v2.to_json(texts))


def described(text: bytes) -> list[Described]:
    """What a reply says of its outputs. ValueError."""
    return (_described.get(text) or _describe(text))[1]


def of_v1(body: bytes, declared: Sequence[v1.Declared]) -> tuple[Message, str]:
    """The inputs of a request in V1, and its style: `v1.ROWS` or `v1.COLUMNS`. ValueError is for the caller.

    Numbers come as bytes. Text comes as JSON, because a model gets `str` then, as it does from who calls it directly.
    """
    given, style = v1.read(body, declared)
    return [_entry(one) for one in given], style


def _entry(given: v1.Given) -> v2.Entry:
    name, datatype, shape, values = given
    if datatype == "BYTES" and not any(isinstance(value, bytes) for value in values):
        return name, datatype, shape, JSON, memoryview(v2.to_json(values))
    try:
        return name, datatype, shape, RAW, memoryview(plain_elements.packed(datatype, values))
    except ValueError as error:
        raise ValueError(f"input '{name}': {error}") from None


def to_payload(entries: Sequence[v2.Entry], style: bool | Sequence[str] | None = None) -> bytes:
    """As a model would answer it in this style (`runtime/outputs.py`). ValueError names what JSON cannot carry.

    None, or no names: the JSON text of the V2 `outputs` list; True, or names of outputs: with their data as bytes.
    """
    texts, data = [], []
    for entry in entries:
        if style is True or (style and entry[0] in style):
            part = raw_of(entry)
            texts.append(b'%b,"parameters":{"binary_data_size":%d}}' % (_head(entry), len(part)))
            data.append(part)
        else:
            texts.append(b'%b,"data":%b}' % (_head(entry), v2.to_json(_carried(entry))))
    text = b"[%b]" % b",".join(texts)
    return b"".join((_LENGTH.pack(len(text)), text, *data)) if style else text


def _head(entry: v2.Entry) -> bytes:
    key: tuple[str | int, ...] = (entry[0], entry[1], *entry[2])
    head = _heads.get(key)
    if head is None:
        if len(_heads) >= _REMEMBERED:
            _heads.clear()
        name, datatype, shape = map(v2.to_json, entry[:3])
        head = _heads[key] = b'{"name":%b,"datatype":%b,"shape":%b' % (name, datatype, shape)
    return head


def v1_answer(outputs: Sequence[tuple[str, Sequence[v2.Entry] | str]], style: str) -> bytes:
    """The whole answer in V1, of what each output node gave, by its key: tensors, or the text of its error.

    Of one node it reads as that of a model; of several it is a map by their keys. ValueError as for `to_payload`.
    """
    if len(outputs) == 1 and not isinstance(outputs[0][1], str):
        return v1.answer(_answered(outputs[0][1], style), style)
    said = {key: {"error": given} if isinstance(given, str) else _answered(given, style) for key, given in outputs}
    return v1.answer(said, style)


def _answered(entries: Sequence[v2.Entry], style: str) -> Any:
    values = {entry[0]: plain_elements.nested(_carried(entry), entry[2]) for entry in entries}
    return v1.answered(values, {entry[0]: entry[2] for entry in entries}, style)


def _carried(entry: v2.Entry) -> Sequence[Any]:
    """Its elements as JSON carries them."""
    name, datatype, _, encoding, _ = entry
    try:
        values = elements_of(entry)
    except ValueError as error:
        raise ValueError(f"output '{name}': {error}") from None
    if encoding == JSON:
        return values
    if datatype == "BYTES":
        try:
            return [value.decode() for value in values]
        except UnicodeDecodeError:
            raise ValueError(f"output '{name}' holds bytes that are no UTF-8 text, which JSON cannot carry") from None
    if datatype[0] == "F" and not all(map(isfinite, values)):
        raise ValueError(f"output '{name}' holds NaN or Infinity, which JSON cannot carry")
    return values


def elements_of(entry: v2.Entry) -> Sequence[Any]:
    """In a flat list. Elements of BYTES are `str` where they came as JSON, else `bytes`. ValueError says what is wrong.

    Of a tensor of any size a Python object is made for each element: `array_of` is for large ones.
    """
    _, datatype, shape, encoding, data = entry
    if encoding == RAW:
        return plain_elements.unpacked(datatype, shape, data)
    if len(data) > _LARGE:
        flat: list[Any] = array_of(entry).reshape(-1).tolist()
        return flat
    leaf = plain_elements.LEAVES[datatype]
    try:
        values = _decode_flat[leaf](data)
    except ValueError:  # nested, or wrong
        values = _unnested(datatype, shape, data)
    if len(values) != prod(shape):
        raise ValueError(f"data does not fit shape {shape}: {len(values)} elements where it says {prod(shape)}")
    if leaf is int or leaf is float:
        plain_elements.packed(datatype, values)  # what is beyond its range would be answered, but taken by no model
    return values


def _unnested(datatype: str, shape: list[int], data: memoryview) -> list[Any]:
    try:
        _, found, values = plain_elements.flattened(datatype, _decode_any(data))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"data must hold {plain_elements.WORDS[plain_elements.LEAVES[datatype]]} for {datatype}: {error}"
        ) from None
    if found != (shape[: shape.index(0) + 1] if 0 in shape else shape):
        raise ValueError(f"data does not fit shape {shape}: its lists have {found}")
    return values


def raw_of(entry: v2.Entry) -> bytes | memoryview:
    """Its data as bytes. ValueError says what is wrong with it."""
    _, datatype, _, encoding, data = entry
    if encoding == RAW:
        return data
    try:
        if len(data) <= _LARGE:
            return plain_elements.packed(datatype, elements_of(entry))
        from mizzen.protocol import tensors

        return tensors.encode_raw(tensors.DATATYPES[datatype], array_of(entry))
    except ValueError as error:
        raise ValueError(f"output '{entry[0]}': {error}") from None


def array_of(entry: v2.Entry) -> Array:
    """ValueError says what is wrong with it."""
    from mizzen.protocol import tensors

    _, datatype, shape, encoding, data = entry
    if encoding == RAW:
        return tensors.decode_raw(datatype, shape, data)
    return tensors.decode_json(datatype, shape, bytes(data))


def renamed(entries: Sequence[v2.Entry], name: str) -> Message:
    """The only tensor of a message, by another name."""
    (entry,) = entries
    return [(name, *entry[1:])]


def prefixed(key: str, entries: Sequence[v2.Entry]) -> Message:
    """As they are called where several nodes answer, or are merged: `<key>.<tensor>`."""
    return [(f"{key}.{entry[0]}", *entry[1:]) for entry in entries]


class Unwanted(ValueError):
    """An output that somebody wants is not there: their fault, and not that of who answered."""


def chosen(entries: Message, names: Sequence[str] | None) -> Message:
    """Those of these names, in their order; all where none are named. Unwanted names one that is not there."""
    if not names:
        return entries
    found = {entry[0]: entry for entry in entries}
    for name in names:
        if name not in found:
            there = ", ".join(f"'{v2.cited(one)}'" for one in found) or "none"
            raise Unwanted(f"no output '{v2.cited(name)}'; there is {there}")
    return [found[name] for name in names]


def error_entry(key: str, text: str) -> v2.Entry:
    """What stands in an answer for an output node that was skipped."""
    return f"{key}.error", "BYTES", [1], RAW, memoryview(plain_elements.packed("BYTES", [text]))


def size_of(entries: Sequence[v2.Entry]) -> int:
    """Bytes of all data."""
    return sum([entry[4].nbytes for entry in entries])
