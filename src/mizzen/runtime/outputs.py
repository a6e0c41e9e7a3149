"""What the model gave, as the JSON text of the V2 `outputs` list. ValueError names an output that JSON cannot carry."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

from mizzen.protocol import tensors
from mizzen.protocol.tensors import Array


def encode_whole(outputs: Mapping[str, Array]) -> bytes:
    """All of each output, for one request."""
    texts = []
    for name, array in outputs.items():
        try:
            datatype, shape, data = tensors.encode_json(array)
        except ValueError as error:
            raise ValueError(f"output '{name}' holds {error}") from None
        texts.append(_head(name, datatype, shape) + data + b"}")
    return b"[" + b",".join(texts) + b"]"


def encode_rows(outputs: Mapping[str, Array], rows: Sequence[int]) -> list[bytes]:
    """Each request's share, `rows[i]` rows for the i-th; every output has exactly sum(rows) rows."""
    columns = [_encode_column(name, array, rows) for name, array in outputs.items()]
    return [b"[" + b",".join(texts) + b"]" for texts in zip(*columns, strict=True)] or [b"[]"] * len(rows)


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


def _head(name: str, datatype: str, shape: Sequence[int]) -> bytes:
    sizes = ",".join(map(str, shape))
    return f'{{"name":{json.dumps(name)},"datatype":"{datatype}","shape":[{sizes}],"data":'.encode()
