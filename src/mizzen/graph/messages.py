"""Messages between the nodes of a graph: lists of tensors, each an entry of an INFER frame (`v2.Entry`).

Clients send entries in any encoding; models send raw bytes. Each client gets the encoding it asked for. Entries and
their shapes are never changed, because many entries share a shape. Nearly all tensors have few values and are read and
written without numpy; a gateway imports numpy only for a large tensor.
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

Entries = list[v2.Entry]

_LENGTH = struct.Struct("<I")
_MAX_CACHED = 1024
"""Texts in each cache. The texts of one model mostly differ only in the number of rows."""
_MAX_CACHED_BYTES = 4 << 10
"""Longer texts are not cached."""
MAX_VALUES = 1 << 20
"""Maximum values of a message that a graph merges, or converts between bytes and JSON: each is an object, created while
the event loop is blocked."""
MAX_HEAD_BYTES = 256 << 10
"""Maximum bytes that describe the outputs of a reply."""
_LARGE_JSON = 64 << 10
"""From this many bytes on, JSON is measured before it is decoded (`protocol/json_size.py`)."""

OutputDescription = tuple[str, str, list[int], int]
"""Name, datatype, shape and byte size of an output."""


class _Parameters(msgspec.Struct, gc=False):
    binary_data_size: Annotated[int, msgspec.Meta(ge=0)]


class _Output(msgspec.Struct, gc=False):
    name: str
    datatype: v2.Datatype
    shape: v2.Shape
    parameters: _Parameters


_outputs_cache: dict[bytes, tuple[int, list[OutputDescription]]] = {}
_heads_cache: dict[tuple[str | int, ...], bytes] = {}
_decode_outputs = msgspec.json.Decoder(list[_Output]).decode
_decode_flat = {leaf: msgspec.json.Decoder(list[leaf]).decode for leaf in set(plain_elements.LEAVES.values())}  # type: ignore[valid-type]
_decode_any = msgspec.json.Decoder().decode


def parse_reply(payload: bytes) -> Entries:
    """Parse a model's reply with all outputs as raw bytes. Raises ValueError if it is malformed."""
    if len(payload) < 4:
        raise ValueError(f"the answer has only {len(payload)} bytes")
    at = _LENGTH.unpack_from(payload)[0] + 4
    text = payload[4:at]
    known = _outputs_cache.get(text) or _parse_outputs(text)
    if len(payload) - at != known[0]:
        raise ValueError(f"the outputs have {len(payload) - at} bytes, but the answer announces {known[0]}")
    if len(known[1]) == 1:  # the most common case
        name, datatype, shape, _ = known[1][0]
        return [(name, datatype, shape, RAW, memoryview(payload)[at:])]
    view = memoryview(payload)
    entries: Entries = []
    for name, datatype, shape, size in known[1]:
        entries.append((name, datatype, shape, RAW, view[at : at + size]))
        at += size
    return entries


def _parse_outputs(text: bytes) -> tuple[int, list[OutputDescription]]:
    if len(text) > MAX_HEAD_BYTES:
        raise ValueError(f"its outputs are described by {len(text)} bytes, more than {MAX_HEAD_BYTES}")
    found: list[OutputDescription] = [
        (output.name, output.datatype, output.shape, output.parameters.binary_data_size)
        for output in _decode_outputs(text)
    ]
    known = sum([described[3] for described in found]), found
    if len(text) <= _MAX_CACHED_BYTES:
        if len(_outputs_cache) >= _MAX_CACHED:
            _outputs_cache.clear()
        _outputs_cache[text] = known
    return known


def require_few(entries: Sequence[v2.Entry], times: int = 1) -> None:
    """Raises ValueError if a graph has to handle more than MAX_VALUES values. `times`: how often it handles each."""
    if size_of(entries) * times <= MAX_VALUES:  # no value takes less than a byte
        return
    values = sum([prod(entry[2]) for entry in entries]) * times
    if values > MAX_VALUES:
        raise ValueError(
            f"{values} values are too many for a graph to merge or convert, which takes at most {MAX_VALUES} at once;"
            " send fewer rows, or ask for the outputs as binary data"
        )


def bytes_to_text(entries: Entries) -> Entries:
    """Encode BYTES tensors that hold UTF-8 text as JSON: the model then gets `str`, as in a direct call."""
    for entry in entries:
        if entry[1] == "BYTES":
            break
    else:
        return entries
    require_few([entry for entry in entries if entry[1] == "BYTES"])
    return [_entry_to_text(entry) if entry[1] == "BYTES" and entry[3] == RAW else entry for entry in entries]


def _entry_to_text(entry: v2.Entry) -> v2.Entry:
    name, datatype, shape, _, data = entry
    try:
        texts = [str(value, "utf-8") for value in plain_elements.unpack(datatype, shape, data)]
    except UnicodeDecodeError:
        return entry
    return name, datatype, shape, JSON, memoryview(v2.to_json(texts))


def describe_outputs(text: bytes) -> list[OutputDescription]:
    """Return the outputs that the head of a reply describes. Raises ValueError."""
    return (_outputs_cache.get(text) or _parse_outputs(text))[1]


def parse_v1(body: bytes, declared: Sequence[v1.DeclaredInput]) -> tuple[Entries, str]:
    """Return the inputs of a V1 request and its style, `v1.ROWS` or `v1.COLUMNS`. Raises ValueError for the caller.

    Numbers are encoded as raw bytes. Text is encoded as JSON, so that the model gets `str`, as in a direct call.
    """
    given, style = v1.parse_request(body, declared, MAX_VALUES)
    return [_entry_of(one) for one in given], style


def _entry_of(given: v1.V1Input) -> v2.Entry:
    name, datatype, shape, values = given
    if not isinstance(values, list):  # an array
        return name, datatype, shape, RAW, memoryview(values.tobytes())
    if datatype == "BYTES" and not any(isinstance(value, bytes) for value in values):
        return name, datatype, shape, JSON, memoryview(v2.to_json(values))
    try:
        return name, datatype, shape, RAW, memoryview(plain_elements.pack(datatype, values))
    except ValueError as error:
        raise ValueError(f"input '{name}': {error}") from None


def to_payload(entries: Sequence[v2.Entry], style: bool | Sequence[str] | None = None) -> bytes:
    """Encode a reply as a model would in this style (`runtime/outputs.py`). ValueError names a value JSON cannot carry.

    None, or no names: the JSON text of the V2 `outputs` list. True, or output names: their data as raw bytes.
    """
    texts, data = [], []
    if style is not True:
        require_few([entry for entry in entries if not style or entry[0] not in style])
    for entry in entries:
        if style is True or (style and entry[0] in style):
            part = raw_of(entry)
            texts.append(b'%b,"parameters":{"binary_data_size":%d}}' % (_head_of(entry), len(part)))
            data.append(part)
        else:
            texts.append(b'%b,"data":%b}' % (_head_of(entry), v2.to_json(_json_elements(entry))))
    text = b"[%b]" % b",".join(texts)
    return b"".join((_LENGTH.pack(len(text)), text, *data)) if style else text


def _head_of(entry: v2.Entry) -> bytes:
    key: tuple[str | int, ...] = (entry[0], entry[1], *entry[2])
    head = _heads_cache.get(key)
    if head is None:
        if len(_heads_cache) >= _MAX_CACHED:
            _heads_cache.clear()
        name, datatype, shape = map(v2.to_json, entry[:3])
        head = _heads_cache[key] = b'{"name":%b,"datatype":%b,"shape":%b' % (name, datatype, shape)
    return head


def render_v1(outputs: Sequence[tuple[str, Sequence[v2.Entry] | str]], style: str) -> bytes:
    """Return the whole V1 answer. `outputs`: the key of each output node, and its tensors or its error text.

    One node's answer looks like a model's; several become a map by key. Raises ValueError as `to_payload` does.
    """
    if len(outputs) == 1 and not isinstance(outputs[0][1], str):
        return v1.render_answer(_v1_values(outputs[0][1], style), style)
    by_key = {key: {"error": given} if isinstance(given, str) else _v1_values(given, style) for key, given in outputs}
    return v1.render_answer(by_key, style)


def _v1_values(entries: Sequence[v2.Entry], style: str) -> Any:
    require_few(entries)
    values = {entry[0]: plain_elements.nest(_json_elements(entry), entry[2]) for entry in entries}
    return v1.output_values(values, {entry[0]: entry[2] for entry in entries}, style)


def _json_elements(entry: v2.Entry) -> Sequence[Any]:
    """Return the elements as JSON values. Raises ValueError."""
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
            raise ValueError(f"output '{name}' holds bytes that are not valid UTF-8, which JSON cannot carry") from None
    if datatype[0] == "F" and not all(map(isfinite, values)):
        raise ValueError(f"output '{name}' holds NaN or Infinity, which JSON cannot carry")
    return values


def elements_of(entry: v2.Entry) -> Sequence[Any]:
    """Return the elements as a flat list. BYTES elements are `str` if sent as JSON, else `bytes`. Raises ValueError.

    Creates a Python object per element; use `array_of` for large tensors.
    """
    _, datatype, shape, encoding, data = entry
    if encoding == RAW:
        return plain_elements.unpack(datatype, shape, data)
    if len(data) > _LARGE_JSON:
        flat: list[Any] = array_of(entry).reshape(-1).tolist()
        return flat
    leaf = plain_elements.LEAVES[datatype]
    try:
        values = _decode_flat[leaf](data)
    except ValueError:  # nested, or wrong
        values = _flatten_nested(datatype, shape, data)
    if len(values) != prod(shape):
        raise ValueError(f"data does not fit shape {shape}: {len(values)} elements, expected {prod(shape)}")
    if leaf is int or leaf is float:
        plain_elements.pack(datatype, values)  # rejects values out of range, which no model would accept
    return values


def _flatten_nested(datatype: str, shape: list[int], data: memoryview) -> list[Any]:
    try:
        _, found, values = plain_elements.flatten(datatype, _decode_any(data))
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"data must hold {plain_elements.LEAF_NAMES[plain_elements.LEAVES[datatype]]} for {datatype}: {error}"
        ) from None
    if found != (shape[: shape.index(0) + 1] if 0 in shape else shape):
        raise ValueError(f"data does not fit shape {shape}: its lists have {found}")
    return values


def raw_of(entry: v2.Entry) -> bytes | memoryview:
    """Return the data as raw bytes. Raises ValueError."""
    _, datatype, _, encoding, data = entry
    if encoding == RAW:
        return data
    try:
        if len(data) <= _LARGE_JSON:
            return plain_elements.pack(datatype, elements_of(entry))
        from mizzen.protocol import tensors

        return tensors.encode_raw(tensors.DATATYPES[datatype], array_of(entry))
    except ValueError as error:
        raise ValueError(f"output '{entry[0]}': {error}") from None


def array_of(entry: v2.Entry) -> Array:
    """Return the data as an array. Raises ValueError."""
    from mizzen.protocol import tensors

    _, datatype, shape, encoding, data = entry
    if encoding == RAW:
        return tensors.decode_raw(datatype, shape, data)
    return tensors.decode_json(datatype, shape, bytes(data))


def rename_tensor(entries: Sequence[v2.Entry], name: str) -> Entries:
    """Rename the only tensor of a message."""
    (entry,) = entries
    return [(name, *entry[1:])]


def prefix_names(key: str, entries: Sequence[v2.Entry]) -> Entries:
    """Name tensors `<key>.<tensor>`, as they are called if several nodes answer or are merged."""
    return [(f"{key}.{entry[0]}", *entry[1:]) for entry in entries]


class UnknownOutput(ValueError):
    """The caller asked for an output that does not exist: the caller's fault, not the node's."""


def select_outputs(entries: Entries, names: Sequence[str] | None) -> Entries:
    """Return the outputs of these names, in this order; all if there are no names. Raises UnknownOutput."""
    if not names:
        return entries
    found = {entry[0]: entry for entry in entries}
    for name in names:
        if name not in found:
            there = ", ".join(f"'{v2.shorten(one)}'" for one in found) or "none"
            raise UnknownOutput(f"there is no output '{v2.shorten(name)}'; available: {there}")
    return [found[name] for name in names]


def error_entry(key: str, text: str) -> v2.Entry:
    """Return the tensor that replaces the output of a skipped node."""
    return f"{key}.error", "BYTES", [1], RAW, memoryview(plain_elements.pack("BYTES", [text]))


def size_of(entries: Sequence[v2.Entry]) -> int:
    """Return the byte size of all data."""
    return sum([entry[4].nbytes for entry in entries])
