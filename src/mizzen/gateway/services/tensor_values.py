"""Conversion of tensors for services and back, without numpy unless they are large.

Functions raise ValueError with a message for the caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from mizzen.graph import messages
from mizzen.protocol import json_keys, plain_elements, v2
from mizzen.protocol.frames import framing

UNNAMED = "predictions"
"""The name of a tensor without a name, if the caller requested none."""
MAX_LISTS = 1_000_000
"""Limit for one answer: each list is an object of dozens of bytes, created while the event loop is blocked."""


def values_of(entry: v2.Entry) -> Sequence[Any]:
    """Returns the flat values of an input. If one string is not valid text, all stay bytes."""
    name, datatype, _, encoding, _ = entry
    try:
        messages.require_few([entry])
        found = messages.elements_of(entry)
    except ValueError as error:
        raise ValueError(f"input '{v2.shorten(name)}': {error}") from None
    if datatype != "BYTES" or encoding == framing.JSON:
        return found
    try:
        return [each.decode() for each in found]
    except UnicodeDecodeError:
        return found


def is_finite(datatype: str, values: Sequence[Any]) -> bool:
    return not datatype.startswith("FP") or all(map(isfinite, values))


def json_values(entry: v2.Entry) -> Sequence[Any]:
    """Like `values_of`; raises ValueError also for numbers that JSON cannot carry."""
    values = values_of(entry)
    if not is_finite(entry[1], values):
        raise ValueError(f"input '{v2.shorten(entry[0])}' holds NaN or Infinity, which JSON cannot carry")
    return values


def parse_document(text: bytes) -> dict[str, Any]:
    """Returns the JSON object in the body of an answer, within a size limit."""
    if text.count(b"[") + text.count(b"{") > MAX_LISTS:
        raise ValueError(f"its body holds more than {MAX_LISTS} lists and objects")
    if text.count(b",") >= messages.MAX_VALUES:
        from mizzen.protocol import json_size  # imports numpy

        if json_size.count_outside(text, b",") >= messages.MAX_VALUES:
            raise ValueError(f"its body holds more than {messages.MAX_VALUES} values")
    try:
        document = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("its body is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"its body is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise ValueError("its body is not an object")  # noqa: TRY004 - bad data, not a bad call
    try:
        json_keys.require_unique(text, document)
    except json_keys.RepeatedKey as error:
        raise ValueError(f"in its body, {error}") from None
    return document


def output_of(name: str, value: Any) -> v2.Entry:
    """Converts evenly nested lists; the values decide the datatype. An empty name means none."""
    try:
        datatype, shape, values = plain_elements.flatten(None, value)
        return name, datatype, shape, framing.RAW, memoryview(plain_elements.pack(datatype, values))
    except ValueError as error:
        raise ValueError(f"output '{v2.shorten(name or UNNAMED)}': {error}") from None


def select_outputs(outputs: list[v2.Entry], names: Sequence[str] | None) -> list[v2.Entry]:
    """Returns the requested outputs. A single output without a name gets the requested name."""
    if len(outputs) == 1:
        if not outputs[0][0]:
            outputs = messages.rename_tensor(outputs, names[0] if names and len(names) == 1 else UNNAMED)
    elif len({output[0] for output in outputs}) < len(outputs):
        raise ValueError("it has two outputs with the same name")
    return messages.select_outputs(outputs, names)
