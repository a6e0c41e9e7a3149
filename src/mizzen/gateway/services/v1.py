"""Services that speak V1, the protocol of TF Serving and of KServe before V2: values without shapes or datatypes.

Requests are in the row format, `instances`. Answers are `predictions`, one for each row, or `outputs` by columns; what
datatype they are is seen from the values.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from mizzen.gateway.services.http_connection import Answer
from mizzen.gateway.services.requests import Asked, Said, Written
from mizzen.gateway.services.tensor_values import document, json_values, output_of
from mizzen.protocol import plain_elements, v2
from mizzen.protocol.frames import framing

_B64 = "b64"
_MOST_LEVELS = 8
"""Of lists, below which {"b64": ...} is looked for."""


def write(asked: Asked) -> Written:
    if len(asked.entries) == 1:
        text = _rows_text(asked.entries[0])
        return Written(b'{"instances":%b}' % text)
    columns = {entry[0]: _rows(entry) for entry in asked.entries}
    if len({len(rows) for rows in columns.values()}) > 1:
        shapes = ", ".join(f"'{v2.cited(entry[0])}' {list(entry[2])}" for entry in asked.entries)
        raise ValueError(f"inputs differ in rows, which instances in V1 cannot: {shapes}")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Written(b'{"instances":%b}' % v2.to_json(rows))


def read(asked: Asked, answer: Answer) -> Said:
    said = document(answer.body)
    if _B64.encode() in answer.body:
        said = {name: _plain(value) for name, value in said.items()}
    if "predictions" in said:
        return Said(_of_rows(said["predictions"]))
    if "outputs" in said:
        given = said["outputs"]
        if isinstance(given, dict):
            return Said([output_of(name, value) for name, value in given.items()])
        return Said([output_of("", given)])
    if said.get("error") is not None:
        raise ValueError(f"its body is an error: {v2.cited(str(said['error']))}")
    raise ValueError("its body has neither predictions nor outputs")


def _rows_text(entry: v2.Entry) -> bytes:
    """The JSON of one input. What came as JSON and is nested as its shape goes on as it came."""
    _, datatype, shape, encoding, data = entry
    if encoding == framing.JSON and len(shape) == 1 and datatype != "BYTES":
        text = bytes(data)
        if text.find(b"[", 1) < 0:
            return text
    return v2.to_json(_rows(entry))


def _rows(entry: v2.Entry) -> list[Any]:
    name, datatype, shape, _, _ = entry
    if not shape:
        raise ValueError(f"input '{v2.cited(name)}' has no rows, and V1 takes nothing else")
    values = json_values(entry)
    if datatype == "BYTES" and values and isinstance(values[0], bytes):
        values = [{_B64: base64.b64encode(each).decode()} for each in values]
    rows: list[Any] = plain_elements.nested(values, shape)
    return rows


def _of_rows(rows: Any) -> list[v2.Entry]:
    if not isinstance(rows, list):
        raise ValueError("its predictions are no list")  # noqa: TRY004 - bad data, not a bad call
    if not rows or not isinstance(rows[0], dict):
        return [output_of("", rows)]
    names = rows[0].keys()
    for at, row in enumerate(rows):
        if not isinstance(row, dict) or row.keys() != names:
            raise ValueError(f"predictions[{at}] is no object with the names that predictions[0] has")
    return [output_of(name, [row[name] for row in rows]) for name in names]


def _plain(value: Any, depth: int = 0) -> Any:
    """Bytes where {"b64": ...} stands for them."""
    if isinstance(value, list) and depth <= _MOST_LEVELS and value and isinstance(value[0], dict | list):
        return [_plain(one, depth + 1) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {_B64}:
        try:
            return base64.b64decode(value[_B64], validate=True)
        except (binascii.Error, TypeError, ValueError):
            raise ValueError("b64 in it is no text in base64") from None
    return {name: _plain(one, depth + 1) for name, one in value.items()} if depth <= 1 else value
