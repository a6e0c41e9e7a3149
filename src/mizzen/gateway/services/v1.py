"""Services that speak V1, the protocol of TF Serving and of KServe before V2: values without shapes or datatypes.

Requests use the row format, `instances`. Answers are `predictions`, one for each row, or `outputs` by columns; their
values decide the datatype.
"""

from __future__ import annotations

import base64
from typing import Any

from mizzen.gateway.services.http_connection import HttpResponse
from mizzen.gateway.services.requests import DecodedResponse, EncodedRequest, TensorRequest
from mizzen.gateway.services.tensor_values import json_values, output_of, parse_document
from mizzen.protocol import plain_elements, v1, v2
from mizzen.protocol.frames import framing

_B64 = "b64"


def write(request: TensorRequest) -> EncodedRequest:
    if len(request.entries) == 1:
        text = _rows_text(request.entries[0])
        return EncodedRequest(b'{"instances":%b}' % text)
    columns = {entry[0]: _rows(entry) for entry in request.entries}
    if len({len(rows) for rows in columns.values()}) > 1:
        shapes = ", ".join(f"'{v2.shorten(entry[0])}' {list(entry[2])}" for entry in request.entries)
        raise ValueError(f"inputs differ in rows, which V1 instances cannot express: {shapes}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return EncodedRequest(b'{"instances":%b}' % v2.to_json(rows))


def read(request: TensorRequest, answer: HttpResponse) -> DecodedResponse:
    document = parse_document(answer.body)
    if _B64.encode() in answer.body:
        document = {name: v1.decode_b64(value) for name, value in document.items()}
    if "predictions" in document:
        return DecodedResponse(_parse_rows(document["predictions"]))
    if "outputs" in document:
        outputs = document["outputs"]
        if isinstance(outputs, dict):
            return DecodedResponse([output_of(name, value) for name, value in outputs.items()])
        return DecodedResponse([output_of("", outputs)])
    if document.get("error") is not None:
        raise ValueError(f"its body is an error: {v2.shorten(str(document['error']))}")
    raise ValueError("its body has neither predictions nor outputs")


def _rows_text(entry: v2.Entry) -> bytes:
    """Returns the JSON of one input. JSON that is already nested like its shape is passed on unchanged."""
    _, datatype, shape, encoding, data = entry
    if encoding == framing.JSON and len(shape) == 1 and datatype != "BYTES":
        text = bytes(data)
        if text.find(b"[", 1) < 0:
            return text
    return v2.to_json(_rows(entry))


def _rows(entry: v2.Entry) -> list[Any]:
    name, datatype, shape, _, _ = entry
    if not shape:
        raise ValueError(f"input '{v2.shorten(name)}' has no rows, which V1 requires")
    values = json_values(entry)
    if datatype == "BYTES" and values and isinstance(values[0], bytes):
        values = [{_B64: base64.b64encode(each).decode()} for each in values]
    rows: list[Any] = plain_elements.nest(values, shape)
    return rows


def _parse_rows(rows: Any) -> list[v2.Entry]:
    if not isinstance(rows, list):
        raise ValueError("its predictions are not a list")  # noqa: TRY004 - bad data, not a bad call
    if not rows or not isinstance(rows[0], dict):
        return [output_of("", rows)]
    names = rows[0].keys()
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != names:
            raise ValueError(f"predictions[{at}] is not an object with the same names as predictions[0]")
    return [output_of(name, [row[name] for row in rows]) for name in names]
