"""`defaultOutput`: the answer that replaces the model's if none comes in time, or no replica is ready.

It is built on demand, in the form that the request asked for. An output defined for one row is repeated for each row of
the request; any other output is used unchanged. If the request names outputs that the default lacks, it gets the error
instead, because half an answer would look like a whole one. The same holds if the answer would be very large.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from mizzen.graph.table_types import ConstantOutput
from mizzen.protocol import plain_elements, v2

_LENGTH = struct.Struct("<I")
MAX_BYTES = 1 << 20
"""Limit of repeated rows. The event loop is blocked while they are written."""
MAX_V1_BODY, MAX_V1_COMMAS = 1 << 20, 1 << 17
"""Limits of a V1 request whose rows have to be counted: more would block the event loop too long."""


class _V1Request(msgspec.Struct):
    """The parts of a V1 request that are needed to count its rows."""

    instances: list[msgspec.Raw] | None = None
    inputs: list[msgspec.Raw] | dict[str, msgspec.Raw] | None = None


_decode_v1 = msgspec.json.Decoder(_V1Request).decode
_decode_column = msgspec.json.Decoder(list[msgspec.Raw]).decode


class DefaultOutput:
    """The constant outputs that replace the answer of a model."""

    def __init__(self, constants: Sequence[ConstantOutput]) -> None:
        self._constants = {constant.name: constant for constant in constants}
        self._row_bytes = {constant.name: _row_bytes(constant) for constant in constants if constant.each_row}

    def outputs(self, rows: int, names: Collection[str] | None, raw: bool | Collection[str] | None) -> bytes | None:
        """The outputs in V2, as a replica would send them; None if `names` has other outputs, or they are too large.

        `raw`: the outputs requested as bytes, or True for all; None: the form without binary data.
        """
        chosen = self._select(names)
        if chosen is None or not self._fits(chosen, rows):
            return None
        described: list[dict[str, Any]] = []
        data = b""
        for constant in chosen:
            times = rows if constant.each_row else 1
            shape = _shape(constant, rows)
            head = {"name": constant.name, "datatype": constant.datatype, "shape": shape}
            if raw is True or (raw and constant.name in raw):
                packed = plain_elements.pack(constant.datatype, constant.data) * times
                data += packed
                described.append({**head, "parameters": {"binary_data_size": len(packed)}})
            else:
                described.append({**head, "data": constant.data * times})
        text = v2.to_json(described)
        return text if raw is None else _LENGTH.pack(len(text)) + text + data

    def predictions(self, body: bytes) -> bytes | None:
        """The whole V1 answer to this request; None if there is none."""
        try:
            asked = _decode_request(body)
            rows = _count_rows(asked)
        except ValueError:
            return None
        constants = self._constants.values()
        if not self._fits(constants, rows):
            return None
        values = {constant.name: _values(constant, rows) for constant in constants}
        only = next(iter(values.values())) if len(values) == 1 else None
        if asked.instances is None:
            return v2.to_json({"outputs": values if only is None else only})
        if any(_shape(constant, rows)[:1] != [rows] for constant in constants):
            return None  # V1 needs one prediction per instance
        if only is not None:
            return v2.to_json({"predictions": only})
        made = 1 if len(self._row_bytes) == len(values) else rows  # identical rows are built once
        by_row = [dict(zip(values, row, strict=True)) for row in islice(zip(*values.values(), strict=True), made)]
        return v2.to_json({"predictions": by_row if made == rows else by_row * rows})

    def _select(self, names: Collection[str] | None) -> list[ConstantOutput] | None:
        if not names:
            return list(self._constants.values())
        if any(name not in self._constants for name in names):
            return None
        return [self._constants[name] for name in names]

    def _fits(self, constants: Iterable[ConstantOutput], rows: int) -> bool:
        return rows * sum(self._row_bytes.get(constant.name, 0) for constant in constants) <= MAX_BYTES


def default_output_of(constants: Sequence[ConstantOutput]) -> DefaultOutput | None:
    return DefaultOutput(constants) if constants else None


def _row_bytes(constant: ConstantOutput) -> int:
    """The size of a row in its largest form."""
    text = v2.to_json({constant.name: plain_elements.nest(constant.data, constant.shape[1:])})
    return max(len(text), len(plain_elements.pack(constant.datatype, constant.data)))


def _shape(constant: ConstantOutput, rows: int) -> list[int]:
    return [rows, *constant.shape[1:]] if constant.each_row else list(constant.shape)


def _values(constant: ConstantOutput, rows: int) -> Any:
    """The values as V1 has them. A repeated row is built once."""
    if constant.each_row:
        return [plain_elements.nest(constant.data, constant.shape[1:])] * rows
    return plain_elements.nest(constant.data, constant.shape)


def _decode_request(body: bytes) -> _V1Request:
    """Raises ValueError."""
    if len(body) > MAX_V1_BODY or body.count(b",") > MAX_V1_COMMAS:
        raise ValueError("too large")
    return _decode_v1(body)


def _count_rows(asked: _V1Request) -> int:
    if asked.instances is not None:
        return len(asked.instances)
    if isinstance(asked.inputs, dict):
        return len(_decode_column(next(iter(asked.inputs.values()), msgspec.Raw(b"[]"))))
    return len(asked.inputs or ())
