"""Services that speak the protocol of Seldon Core: one array, and the names of its columns.

Numbers are sent as `tensor`, all else as `ndarray`. Several tensors are sent as the columns of one table, if each has
one value per row. A router answers with the index of a branch among those it was offered: -1 is all, -2 is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import DecodedResponse, EncodedRequest, TensorRequest
from mizzen.gateway.services.tensor_values import json_values, output_of, parse_document
from mizzen.graph import messages
from mizzen.protocol import plain_elements, v2

ROUTE = b"mlgraph-route"
_ALL, _NONE = -1, -2
_UNSUPPORTED = ("jsonData", "strData", "binData")


def write(request: TensorRequest) -> EncodedRequest:
    if len(request.entries) != 1:
        return _encode(_build_table(request.entries))
    entry = request.entries[0]
    name, datatype, shape, _, _ = entry
    values = _json_values(entry)
    names = [name] if prod(shape[1:]) == 1 else []
    if datatype == "BYTES":
        return _encode({"names": names, "ndarray": plain_elements.nest(values, shape)})
    numbers = list(map(int, values)) if datatype == "BOOL" else values
    return _encode({"names": names, "tensor": {"shape": shape, "values": numbers}})


def read(request: TensorRequest, answer: HttpResponse) -> DecodedResponse:
    document = parse_document(answer.body)
    status = document.get("status")
    if isinstance(status, dict) and status.get("status") in ("FAILURE", 1):
        why = status.get("info") or status.get("reason") or "no reason given"
        raise ValueError(f"its body is an error: {v2.shorten(str(why))}")
    if kind := next((kind for kind in _UNSUPPORTED if document.get(kind) is not None), None):
        raise ValueError(f"its body has {kind}, which cannot become tensors: only data.tensor and data.ndarray can")
    data = document.get("data")
    routed = ROUTE in answer.headers
    if not isinstance(data, dict):
        if routed and data is None:
            return DecodedResponse([])
        raise ValueError("its body has no data")
    names = data.get("names") or []
    if data.get("tensor") is not None:
        outputs = [_parse_tensor(data["tensor"])]
    elif data.get("ndarray") is not None:
        outputs = _parse_array(data["ndarray"], names)
    else:
        raise ValueError("its data has neither tensor nor ndarray")
    if "routable_nodes" in request.asks and not routed:
        return DecodedResponse([], _parse_branch(outputs, request.asks["routable_nodes"]))
    return DecodedResponse(outputs)


def _build_table(entries: Sequence[v2.Entry]) -> dict[str, Any]:
    columns = {}
    for entry in entries:
        name, _, shape, _, _ = entry
        if not shape or prod(shape[1:]) != 1:
            raise ValueError(
                f"input '{v2.shorten(name)}' has shape {list(shape)}: with several inputs, "
                "each must have one value per row: Seldon's protocol sends them as columns of one table"
            )
        columns[name] = _json_values(entry)
    if len({len(column) for column in columns.values()}) > 1:
        shapes = ", ".join(f"'{v2.shorten(entry[0])}' {list(entry[2])}" for entry in entries)
        raise ValueError(f"inputs differ in rows: {shapes}")
    return {"names": list(columns), "ndarray": [list(row) for row in zip(*columns.values(), strict=True)]}


def _json_values(entry: v2.Entry) -> Sequence[Any]:
    name, datatype, _, _, _ = entry
    values = json_values(entry)
    if datatype == "BYTES" and values and isinstance(values[0], bytes):
        raise ValueError(f"input '{v2.shorten(name)}' holds bytes that are not valid UTF-8, which JSON cannot carry")
    return values


def _encode(data: dict[str, Any]) -> EncodedRequest:
    return EncodedRequest(b'{"data":%b}' % v2.to_json(data))


def _parse_tensor(tensor: Any) -> v2.Entry:
    shape, values = (tensor.get("shape"), tensor.get("values", [])) if isinstance(tensor, dict) else (None, None)
    if not isinstance(shape, list) or not isinstance(values, list):
        raise ValueError("its data.tensor is not an object with shape and values")  # noqa: TRY004
    if len(shape) > plain_elements.MAX_RANK or any(type(size) is not int or size < 0 for size in shape):
        raise ValueError("its data.tensor has an invalid shape")
    name, datatype, flat, encoding, data = output_of("", values)
    if len(flat) != 1 or prod(shape) != len(values):
        raise ValueError(f"its data.tensor has {len(values)} values; shape {shape} needs {prod(shape)}")
    return name, datatype, shape, encoding, data


def _parse_array(array: Any, names: Any) -> list[v2.Entry]:
    if not isinstance(array, list):
        raise ValueError("its data.ndarray is not a list")  # noqa: TRY004
    try:
        return [output_of("", array)]
    except ValueError:
        # Columns of different kinds become separate tensors if they have names.
        named = isinstance(names, list) and names and all(isinstance(name, str) and name for name in names)
        if not named or not all(isinstance(row, list) and len(row) == len(names) for row in array):
            raise
    return [output_of(name, [row[at] for row in array]) for at, name in enumerate(names)]


def _parse_branch(outputs: list[v2.Entry], offered: str) -> str:
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
        raise ValueError(
            f"it routes to {v2.shorten(str(list(values)))}, which is not one of its {len(nodes)} branches: {offered}"
        )
    return nodes[place]
