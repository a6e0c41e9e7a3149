"""Tensors on their way to a service and back, without numpy unless they are large.

ValueError says what is wrong with them, in words for whoever called.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import msgspec

from mizzen.graph import messages
from mizzen.protocol import plain_elements, v2
from mizzen.protocol.frames import framing

UNNAMED = "predictions"
"""What a tensor is called that came without a name, to somebody who asked for none."""
MOST_LISTS = 1_000_000
"""Of one answer: each is an object of dozens of bytes, made while everybody else waits."""


def values_of(entry: v2.Entry) -> Sequence[Any]:
    """Of an input, flat. Strings that are no text stay bytes, and then all are."""
    name, datatype, _, encoding, _ = entry
    try:
        found = messages.elements_of(entry)
    except ValueError as error:
        raise ValueError(f"input '{v2.cited(name)}': {error}") from None
    if datatype != "BYTES" or encoding == framing.JSON:
        return found
    try:
        return [each.decode() for each in found]
    except UnicodeDecodeError:
        return found


def is_finite(datatype: str, values: Sequence[Any]) -> bool:
    return not datatype.startswith("FP") or all(map(isfinite, values))


def json_values(entry: v2.Entry) -> Sequence[Any]:
    """As `values_of`; ValueError also for numbers that JSON cannot carry."""
    values = values_of(entry)
    if not is_finite(entry[1], values):
        raise ValueError(f"input '{v2.cited(entry[0])}' holds NaN or Infinity, which JSON cannot carry")
    return values


def document(text: bytes) -> dict[str, Any]:
    """The object that is the body of an answer, if it is of bearable size."""
    if text.count(b"[") + text.count(b"{") > MOST_LISTS:
        raise ValueError(f"its body holds more than {MOST_LISTS} lists and objects")
    try:
        said = msgspec.json.decode(text)
    except RecursionError:
        raise ValueError("its body is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"its body is not JSON: {error}") from None
    if not isinstance(said, dict):
        raise ValueError("its body is no object")  # noqa: TRY004 - bad data, not a bad call
    return said


def output_of(name: str, value: Any) -> v2.Entry:
    """Lists that are nested evenly: what datatype they are is seen from what is in them. Empty name: it has none."""
    try:
        datatype, shape, values = plain_elements.flattened(None, value)
        return name, datatype, shape, framing.RAW, memoryview(plain_elements.packed(datatype, values))
    except ValueError as error:
        raise ValueError(f"output '{v2.cited(name or UNNAMED)}': {error}") from None


def chosen(outputs: list[v2.Entry], names: Sequence[str] | None) -> list[v2.Entry]:
    """Those that were asked for. One without a name is the one that was."""
    if len(outputs) == 1:
        if not outputs[0][0]:
            outputs = messages.renamed(outputs, names[0] if names and len(names) == 1 else UNNAMED)
    elif len({output[0] for output in outputs}) < len(outputs):
        raise ValueError("it has two outputs of one name")
    return messages.chosen(outputs, names)
