"""Services that speak the protocol of Seldon Core: one array, and the names of its columns.

Numbers go as `tensor`, all else as `ndarray`. Several tensors go as the columns of one table, if each has one value per
row. A router answers with the place of the branch among those it was offered: -1 is all of them, -2 is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mizzen.gateway.services.http_connection import Answer
from mizzen.gateway.services.requests import Asked, Said, Written
from mizzen.gateway.services.tensor_values import document, json_values, output_of
from mizzen.graph import messages
from mizzen.protocol import plain_elements, v2

ROUTE = b"mlgraph-route"
_ALL, _NONE = -1, -2
_REFUSED = ("jsonData", "strData", "binData")


def write(asked: Asked) -> Written:
    if len(asked.entries) != 1:
        return _written(_table(asked.entries))
    entry = asked.entries[0]
    name, datatype, shape, _, _ = entry
    values = _values(entry)
    names = [name] if prod(shape[1:]) == 1 else []
    if datatype == "BYTES":
        return _written({"names": names, "ndarray": plain_elements.nested(values, shape)})
    numbers = list(map(int, values)) if datatype == "BOOL" else values
    return _written({"names": names, "tensor": {"shape": shape, "values": numbers}})


def read(asked: Asked, answer: Answer) -> Said:
    said = document(answer.body)
    status = said.get("status")
    if isinstance(status, dict) and status.get("status") in ("FAILURE", 1):
        why = status.get("info") or status.get("reason") or "no reason given"
        raise ValueError(f"its body is an error: {v2.cited(str(why))}")
    if kind := next((kind for kind in _REFUSED if said.get(kind) is not None), None):
        raise ValueError(f"its body has {kind}, which cannot become tensors: only data.tensor and data.ndarray can")
    data = said.get("data")
    routed = ROUTE in answer.headers
    if not isinstance(data, dict):
        if routed and data is None:
            return Said([])
        raise ValueError("its body has no data")
    names = data.get("names") or []
    if data.get("tensor") is not None:
        outputs = [_tensor(data["tensor"])]
    elif data.get("ndarray") is not None:
        outputs = _array(data["ndarray"], names)
    else:
        raise ValueError("its data has neither tensor nor ndarray")
    if "routable_nodes" in asked.asks and not routed:
        return Said([], _branch(outputs, asked.asks["routable_nodes"]))
    return Said(outputs)


def _table(entries: Sequence[v2.Entry]) -> dict[str, Any]:
    columns = {}
    for entry in entries:
        name, _, shape, _, _ = entry
        if not shape or prod(shape[1:]) != 1:
            raise ValueError(
                f"input '{v2.cited(name)}' has shape {list(shape)}: of several, each must have one value per row, "
                "for they are the columns of one table in Seldon's protocol"
            )
        columns[name] = _values(entry)
    if len({len(column) for column in columns.values()}) > 1:
        shapes = ", ".join(f"'{v2.cited(entry[0])}' {list(entry[2])}" for entry in entries)
        raise ValueError(f"inputs differ in rows: {shapes}")
    return {"names": list(columns), "ndarray": [list(row) for row in zip(*columns.values(), strict=True)]}


def _values(entry: v2.Entry) -> Sequence[Any]:
    name, datatype, _, _, _ = entry
    values = json_values(entry)
    if datatype == "BYTES" and values and isinstance(values[0], bytes):
        raise ValueError(f"input '{v2.cited(name)}' holds bytes that are no UTF-8 text, which JSON cannot carry")
    return values


def _written(data: dict[str, Any]) -> Written:
    return Written(b'{"data":%b}' % v2.to_json(data))


def _tensor(given: Any) -> v2.Entry:
    shape, values = (given.get("shape"), given.get("values", [])) if isinstance(given, dict) else (None, None)
    if not isinstance(shape, list) or not isinstance(values, list):
        raise ValueError("its data.tensor is no object with shape and values")  # noqa: TRY004
    if len(shape) > plain_elements.MAX_RANK or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("its data.tensor has a shape that is none")
    name, datatype, flat, encoding, data = output_of("", values)
    if len(flat) != 1 or prod(shape) != len(values):
        raise ValueError(f"its data.tensor has {len(values)} values, where shape {shape} says {prod(shape)}")
    return name, datatype, shape, encoding, data


def _array(given: Any, names: Any) -> list[v2.Entry]:
    if not isinstance(given, list):
        raise ValueError("its data.ndarray is no list")  # noqa: TRY004
    try:
        return [output_of("", given)]
    except ValueError:
        # Columns of several kinds are tensors of their own, if they have names.
        named = isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
        if not named or not all(isinstance(row, list) and len(row) == len(names) for row in given):
            raise
    return [output_of(name, [row[at] for row in given]) for at, name in enumerate(names)]


def _branch(outputs: list[v2.Entry], offered: str) -> str:
    nodes = offered.split(",")
    values = messages.elements_of(outputs[0]) if len(outputs) == 1 else ()
    place = values[0] if len(values) == 1 else None
    if isinstance(place, float) and place.is_integer():
        place = int(place)
    if place == _ALL:
        return "*"
    if place == _NONE:
        return ""
    if type(place) is not int or not 0 <= place < len(nodes):
        raise ValueError(f"it routes to {v2.cited(str(list(values)))}, which is no branch of {len(nodes)}: {offered}")
    return nodes[place]
