"""What the model gave, as the payload of a REPLY. ValueError names an output that JSON cannot carry.

The style of an answer is None for the JSON text of the V2 `outputs` list; True, or the names of some outputs, where
data is wanted as bytes; ROWS or COLUMNS for a whole answer in V1.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array

ROWS, COLUMNS = "rows", "columns"
"""The two formats of V1: `predictions`, one per instance, and `outputs` by name."""

Style: TypeAlias = bool | str | tuple[str, ...] | None

_LENGTH = struct.Struct("<I")


def encode_whole(outputs: Mapping[str, Array], style: Style = None) -> bytes:
    """All of each output, for one request."""
    if isinstance(style, str):
        return _v1(outputs, style)
    texts, data = [], []
    for name, array in outputs.items():
        try:
            if _is_raw(name, style):
                kind, plain = tensors.as_datatype(array, text=False)
                data.append(tensors.encode_raw(kind, plain))
                texts.append(_raw_head(name, kind.name, plain.shape, len(data[-1])))
            else:
                datatype, shape, text = tensors.encode_json(array)
                texts.append(_head(name, datatype, shape) + text + b"}")
        except ValueError as error:
            raise ValueError(f"output '{name}' holds {error}") from None
    return _payload(texts, data, style)


def encode_rows(outputs: Mapping[str, Array], rows: Sequence[int], style: Style = None) -> list[bytes]:
    """Each request's share, `rows[i]` rows for the i-th; every output has exactly sum(rows) rows."""
    if style is not None:
        return _each_whole(outputs, rows, style)
    columns = [_encode_column(name, array, rows) for name, array in outputs.items()]
    return [b"[" + b",".join(texts) + b"]" for texts in zip(*columns, strict=True)] or [b"[]"] * len(rows)


def _each_whole(outputs: Mapping[str, Array], rows: Sequence[int], style: Style) -> list[bytes]:
    answers, at = [], 0
    for count in rows:
        answers.append(encode_whole({name: array[at : at + count] for name, array in outputs.items()}, style))
        at += count
    return answers


def _encode_column(name: str, array: Array, rows: Sequence[int]) -> list[bytes]:
    kind, plain = tensors.as_datatype(array)
    if not tensors.is_finite(plain):
        raise ValueError(f"output '{name}' holds NaN or Infinity, which JSON cannot carry")
    flat = plain.reshape(-1).tolist()
    tail = plain.shape[1:]
    width = math.prod(tail)
    write = tensors.write_list
    heads: dict[int, bytes] = {}
    texts, at = [], 0
    for count in rows:
        head = heads.get(count)
        if head is None:
            head = heads[count] = _head(name, kind.name, [count, *tail])
        end = at + count * width
        texts.append(head + write(flat[at:end]) + b"}")
        at = end
    return texts


def _is_raw(name: str, style: Style) -> bool:
    return style is True or (isinstance(style, tuple) and name in style)


def _payload(texts: list[bytes], data: list[bytes], style: Style) -> bytes:
    text = b"[" + b",".join(texts) + b"]"
    return text if style is None else b"".join((_LENGTH.pack(len(text)), text, *data))


def _v1(outputs: Mapping[str, Array], style: str) -> bytes:
    """One output answers by itself, several by their names."""
    values = {name: _values(name, array) for name, array in outputs.items()}
    if style == COLUMNS:
        said = values if len(values) != 1 else next(iter(values.values()))
        return b'{"outputs":%b}' % _json(said)
    if len({array.shape[:1] for array in outputs.values()}) > 1 or any(not array.ndim for array in outputs.values()):
        shapes = ", ".join(f"'{name}' {list(array.shape)}" for name, array in outputs.items())
        raise ValueError(f"outputs differ in rows: {shapes}; ask by columns, with inputs in place of instances")
    if len(values) == 1:
        return b'{"predictions":%b}' % _json(next(iter(values.values())))
    return b'{"predictions":%b}' % _json(
        [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    )


def _values(name: str, array: Array) -> Any:
    try:
        plain = tensors.as_datatype(array)[1]
    except ValueError as error:
        raise ValueError(f"output '{name}' holds {error}") from None
    if not tensors.is_finite(plain):
        raise ValueError(f"output '{name}' holds NaN or Infinity, which JSON cannot carry")
    return plain.tolist()


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _head(name: str, datatype: str, shape: Sequence[int]) -> bytes:
    sizes = ",".join(map(str, shape))
    return f'{{"name":{json.dumps(name)},"datatype":"{datatype}","shape":[{sizes}],"data":'.encode()


def _raw_head(name: str, datatype: str, shape: Sequence[int], size: int) -> bytes:
    sizes = ",".join(map(str, shape))
    said = f'{{"name":{json.dumps(name)},"datatype":"{datatype}","shape":[{sizes}],'
    return f'{said}"parameters":{{"binary_data_size":{size}}}}}'.encode()
