"""Encoding a model's outputs as the payload of a REPLY. ValueError names an output that JSON cannot carry.

The style of a response is None for the JSON text of the V2 `outputs` list. It is True, or the names of some outputs, if
data is requested as bytes; ROWS or COLUMNS of `protocol.v1` for a whole V1 response.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, islice, pairwise
from typing import Any, TypeAlias

from mizzen.protocol import plain_elements, tensors, v1
from mizzen.protocol.tensors import Array

Style: TypeAlias = bool | str | tuple[str, ...] | None

_LENGTH = struct.Struct("<I")


def encode_whole(outputs: Mapping[str, Array], style: Style = None) -> bytes:
    """Encode each whole output for one request."""
    if isinstance(style, str):
        return _encode_v1(outputs, style)
    texts, data = [], []
    for name, array in outputs.items():
        try:
            if _is_raw(name, style):
                kind, plain = tensors.as_datatype(array, text=False)
                data.append(tensors.encode_raw(kind, plain))
                texts.append(_encode_raw_head(name, kind.name, plain.shape, len(data[-1])))
            else:
                datatype, shape, text = tensors.encode_json(array)
                texts.append(_encode_head(name, datatype, shape) + text + b"}")
        except ValueError as error:
            raise ValueError(f"output '{name}' holds {error}") from None
    return _join_payload(texts, data, style)


def encode_rows(outputs: Mapping[str, Array], rows: Sequence[int], style: Style = None) -> list[bytes]:
    """Encode each request's share, `rows[i]` rows for the i-th; every output has exactly sum(rows) rows."""
    if isinstance(style, str):
        return [_encode_v1(share, style) for share in _split_shares(outputs, rows)]
    if style is None:
        columns = [_encode_column(name, array, rows) for name, array in outputs.items()]
        return [b"[" + b",".join(texts) + b"]" for texts in zip(*columns, strict=True)] or [b"[]"] * len(rows)
    texts, data = [], []
    for name, array in outputs.items():
        if _is_raw(name, style):
            heads, parts = _encode_raw_column(name, array, rows)
            texts.append(heads)
            data.append(parts)
        else:
            texts.append(_encode_column(name, array, rows))
    starts = _encode_starts(texts) if texts else [_join_payload([], [], style)] * len(rows)
    return [b"".join(parts) for parts in zip(starts, *data, strict=True)]


def _split_shares(outputs: Mapping[str, Array], rows: Sequence[int]) -> Iterator[dict[str, Array]]:
    at = 0
    for count in rows:
        yield {name: array[at : at + count] for name, array in outputs.items()}
        at += count


def _encode_starts(columns: list[list[bytes]]) -> list[bytes]:
    """Return the header before the raw data, for each request."""
    said = list(zip(*columns, strict=True))
    known = {texts: _join_payload(list(texts), [], True) for texts in set(said)}
    return [known[texts] for texts in said]


def _encode_raw_column(name: str, array: Array, rows: Sequence[int]) -> tuple[list[bytes], list[bytes]]:
    """Return the header of one output for each request, and its bytes."""
    try:
        kind, plain = tensors.as_datatype(array, text=False)
    except ValueError as error:
        raise ValueError(f"output '{name}' holds {error}") from None
    tail = plain.shape[1:]
    width = math.prod(tail)
    if kind.name == "BYTES":
        data = _join(plain_elements.pack_each(plain.reshape(-1).tolist()), [count * width for count in rows])
        sizes = list(zip(rows, map(len, data), strict=True))
        heads = {size: _encode_raw_head(name, kind.name, (size[0], *tail), size[1]) for size in set(sizes)}
        return [heads[size] for size in sizes], data
    whole, width = tensors.encode_raw(kind, plain), width * kind.dtype.itemsize
    counts = {count: _encode_raw_head(name, kind.name, (count, *tail), count * width) for count in set(rows)}
    return [counts[count] for count in rows], _cut(whole, width, rows, even=len(counts) == 1)


def _cut(whole: bytes, width: int, rows: Sequence[int], *, even: bool) -> list[bytes]:
    """Return the bytes of each request's rows; `even`: all have the same number of rows."""
    if even and (step := rows[0] * width):
        return [whole[at : at + step] for at in range(0, len(whole), step)]
    ends = accumulate([count * width for count in rows], initial=0)
    return [whole[at:end] for at, end in pairwise(ends)]


def _join(parts: list[bytes], counts: list[int]) -> list[bytes]:
    """Join as many parts for each as `counts` says."""
    if len(parts) == len(counts) and set(counts) <= {1}:
        return parts
    left = iter(parts)
    return [b"".join(islice(left, count)) for count in counts]


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
            head = heads[count] = _encode_head(name, kind.name, [count, *tail])
        end = at + count * width
        texts.append(head + write(flat[at:end]) + b"}")
        at = end
    return texts


def _is_raw(name: str, style: Style) -> bool:
    return style is True or (isinstance(style, tuple) and name in style)


def _join_payload(texts: list[bytes], data: list[bytes], style: Style) -> bytes:
    text = b"[" + b",".join(texts) + b"]"
    return text if style is None else b"".join((_LENGTH.pack(len(text)), text, *data))


def _encode_v1(outputs: Mapping[str, Array], style: str) -> bytes:
    values = {name: _list_values(name, array) for name, array in outputs.items()}
    shapes = {name: array.shape for name, array in outputs.items()}
    return v1.render_answer(v1.output_values(values, shapes, style), style)


def _list_values(name: str, array: Array) -> Any:
    try:
        plain = tensors.as_datatype(array)[1]
    except ValueError as error:
        raise ValueError(f"output '{name}' holds {error}") from None
    if not tensors.is_finite(plain):
        raise ValueError(f"output '{name}' holds NaN or Infinity, which JSON cannot carry")
    return plain.tolist()


def _encode_head(name: str, datatype: str, shape: Sequence[int]) -> bytes:
    sizes = ",".join(map(str, shape))
    return f'{{"name":{json.dumps(name)},"datatype":"{datatype}","shape":[{sizes}],"data":'.encode()


def _encode_raw_head(name: str, datatype: str, shape: Sequence[int], size: int) -> bytes:
    sizes = ",".join(map(str, shape))
    said = f'{{"name":{json.dumps(name)},"datatype":"{datatype}","shape":[{sizes}],'
    return f'{said}"parameters":{{"binary_data_size":{size}}}}}'.encode()
