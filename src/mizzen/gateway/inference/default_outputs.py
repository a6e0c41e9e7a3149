"""The answer that takes the place of a model's when none comes in time, or nobody is there: `defaultOutput`.

It is made when it is needed, in the form that the request asked for. An output that is given for one row is repeated
for each row of the request; any other is answered as it stands. A request for outputs that the default lacks is not
answered by it: half an answer would read like a whole one. Nor is one whose answer would be very large.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Sequence
from itertools import islice
from typing import Any

import msgspec

from mizzen.graph.table_types import Constant
from mizzen.protocol import plain_elements, v2

_LENGTH = struct.Struct("<I")
MOST_BYTES = 1 << 20
"""Of what is repeated for each row. Nobody else is answered while it is written."""
MOST_BODY, MOST_COMMAS = 1 << 20, 1 << 17
"""Of a request in V1, whose rows have to be counted: above that it costs too much while others wait."""


class _Asked(msgspec.Struct):
    """A request in V1, as far as its rows can be counted."""

    instances: list[msgspec.Raw] | None = None
    inputs: list[msgspec.Raw] | dict[str, msgspec.Raw] | None = None


_decode_asked = msgspec.json.Decoder(_Asked).decode
_decode_column = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Default:
    """What is answered in place of a model."""

    def __init__(self, constants: Sequence[Constant]) -> None:
        self._constants = {constant.name: constant for constant in constants}
        self._row_bytes = {constant.name: _row_bytes(constant) for constant in constants if constant.each_row}

    def outputs(self, rows: int, names: Collection[str] | None, raw: bool | Collection[str] | None) -> bytes | None:
        """In V2, as a replica would send them; None when there are others among `names`. `raw`: those that are wanted
        as bytes, or True for all; None: the form is the one without any.
        """
        chosen = self._chosen(names)
        if chosen is None or not self._fit(chosen, rows):
            return None
        described: list[dict[str, Any]] = []
        data = b""
        for constant in chosen:
            times = rows if constant.each_row else 1
            shape = _shape(constant, rows)
            said = {"name": constant.name, "datatype": constant.datatype, "shape": shape}
            if raw is True or (raw and constant.name in raw):
                packed = plain_elements.packed(constant.datatype, constant.data) * times
                data += packed
                described.append({**said, "parameters": {"binary_data_size": len(packed)}})
            else:
                described.append({**said, "data": constant.data * times})
        text = v2.to_json(described)
        return text if raw is None else _LENGTH.pack(len(text)) + text + data

    def predictions(self, body: bytes) -> bytes | None:
        """In V1, the whole answer to this request; None when it cannot be one."""
        try:
            asked = _asked(body)
            rows = _rows(asked)
        except ValueError:
            return None
        constants = self._constants.values()
        if not self._fit(constants, rows):
            return None
        values = {constant.name: _values(constant, rows) for constant in constants}
        only = next(iter(values.values())) if len(values) == 1 else None
        if asked.instances is None:
            return v2.to_json({"outputs": values if only is None else only})
        if any(_shape(constant, rows)[:1] != [rows] for constant in constants):
            return None  # there is one prediction per instance
        if only is not None:
            return v2.to_json({"predictions": only})
        made = 1 if len(self._row_bytes) == len(values) else rows  # of rows that are all alike, one is enough
        by_row = [dict(zip(values, row, strict=True)) for row in islice(zip(*values.values(), strict=True), made)]
        return v2.to_json({"predictions": by_row if made == rows else by_row * rows})

    def _chosen(self, names: Collection[str] | None) -> list[Constant] | None:
        if not names:
            return list(self._constants.values())
        if any(name not in self._constants for name in names):
            return None
        return [self._constants[name] for name in names]

    def _fit(self, constants: Iterable[Constant], rows: int) -> bool:
        return rows * sum(self._row_bytes.get(constant.name, 0) for constant in constants) <= MOST_BYTES


def default_of(constants: Sequence[Constant]) -> Default | None:
    return Default(constants) if constants else None


def _row_bytes(constant: Constant) -> int:
    """In whichever form takes most."""
    text = v2.to_json({constant.name: plain_elements.nested(constant.data, constant.shape[1:])})
    return max(len(text), len(plain_elements.packed(constant.datatype, constant.data)))


def _shape(constant: Constant, rows: int) -> list[int]:
    return [rows, *constant.shape[1:]] if constant.each_row else list(constant.shape)


def _values(constant: Constant, rows: int) -> Any:
    """As V1 has them. A row that is repeated is made once."""
    if constant.each_row:
        return [plain_elements.nested(constant.data, constant.shape[1:])] * rows
    return plain_elements.nested(constant.data, constant.shape)


def _asked(body: bytes) -> _Asked:
    """ValueError."""
    if len(body) > MOST_BODY or body.count(b",") > MOST_COMMAS:
        raise ValueError("too large")
    return _decode_asked(body)


def _rows(asked: _Asked) -> int:
    if asked.instances is not None:
        return len(asked.instances)
    if isinstance(asked.inputs, dict):
        return len(_decode_column(next(iter(asked.inputs.values()), msgspec.Raw(b"[]"))))
    return len(asked.inputs or ())
