"""Accuracy of a recorded answer, compared with the truth that a client sent.

Integers, booleans and strings score 1 if all of them are equal, else 0. Floating-point numbers score 1 minus their mean
absolute error, and at least 0. If the truth covers outputs of both sorts, the lower score counts.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from mizzen.gateway.feedback import record_keeper
from mizzen.protocol import plain_elements
from mizzen.protocol.v2 import Datatype, shorten

_LENGTH = struct.Struct("<I")
_CLOSE = 0.75


class AnswerOutput(NamedTuple):
    name: str
    datatype: str
    shape: Sequence[int]
    values: Sequence[Any]


class _OutputParameters(msgspec.Struct, frozen=True):
    binary_data_size: int | None = None


class _V2Output(msgspec.Struct):
    """One output of a V2 answer."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: Any = None
    parameters: _OutputParameters = _OutputParameters()


_decode = msgspec.json.Decoder(list[_V2Output]).decode


def compute_accuracy(recorded: bytes, truth: Any) -> float:
    """`recorded`: an answer as recorded. `truth`: values by output name, or the values of the first output alone.

    Raises ValueError, with a message for the client, if the two cannot be compared.
    """
    try:
        recorded = record_keeper.split_members(recorded)[1]
    except (msgspec.DecodeError, struct.error) as error:
        raise ValueError("the recorded answer cannot be read") from error
    outputs = {output.name: output for output in outputs_of(recorded)}
    if not outputs:
        raise ValueError("the answer has no outputs to compare it with")
    if not isinstance(truth, dict):
        return _score([(next(iter(outputs.values())), truth)])
    if not truth:
        raise ValueError("expected at least one output, by its name")
    for name in truth:
        if name not in outputs:
            raise ValueError(f"'{shorten(name)}' is not an output of the answer{_suggest(name, outputs)}")
    return _score([(outputs[name], value) for name, value in truth.items()])


def outputs_of(recorded: bytes) -> list[AnswerOutput]:
    """Raises ValueError if this is not a recorded answer."""
    form, payload = recorded[:1], recorded[1:]
    try:
        if form == record_keeper.JSON:
            return [_parse_json(each) for each in _decode(payload)]
        if form == record_keeper.RAW:
            return _parse_raw(payload)
        if form == record_keeper.V1:
            return _parse_v1(msgspec.json.decode(payload))
    except (msgspec.DecodeError, struct.error) as error:
        raise ValueError("the recorded answer cannot be read") from error
    raise ValueError("the recorded answer cannot be read")


def _parse_raw(payload: bytes) -> list[AnswerOutput]:
    (length,) = _LENGTH.unpack_from(payload)
    at = _LENGTH.size + length
    found = []
    for each in _decode(payload[_LENGTH.size : at]):
        size = each.parameters.binary_data_size
        if size is None:
            found.append(_parse_json(each))
            continue
        values = plain_elements.unpack(each.datatype, each.shape, payload[at : at + size])
        found.append(AnswerOutput(each.name, each.datatype, each.shape, [_text(value) for value in values]))
        at += size
    return found


def _parse_json(each: _V2Output) -> AnswerOutput:
    return AnswerOutput(each.name, each.datatype, each.shape, plain_elements.flatten(each.datatype, each.data)[2])


def _parse_v1(answer: Any) -> list[AnswerOutput]:
    """A single output has no name; several have names, in each row or at the top."""
    if not isinstance(answer, dict) or len(answer) != 1:
        raise ValueError("the recorded answer cannot be read")
    ((name, values),) = answer.items()
    if isinstance(values, list) and values and all(isinstance(row, dict) for row in values):
        values = {key: [row.get(key) for row in values] for key in values[0]}
    by_name = values if isinstance(values, dict) else {name: values}
    return [AnswerOutput(key, *plain_elements.flatten(None, value)) for key, value in by_name.items()]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _score(pairs: Iterable[tuple[AnswerOutput, Any]]) -> float:
    exact, errors = True, []
    for output, truth in pairs:
        values = _matching_values(output, truth)
        if plain_elements.LEAVES.get(output.datatype) is float:
            errors += [abs(value - should) for value, should in zip(output.values, values, strict=True)]
        else:
            exact = exact and all(value == should for value, should in zip(output.values, values, strict=True))
    if not errors:
        return float(exact)
    mean = sum(errors) / len(errors)
    close = 1.0 - mean if mean < 1.0 else 0.0  # 0 also if the mean is NaN
    return close if exact else 0.0


def _matching_values(output: AnswerOutput, truth: Any) -> list[Any]:
    """Returns the values of a truth that matches this output in kind and shape. Raises ValueError."""
    where = f"for output '{shorten(output.name)}'"
    try:
        kind, shape, values = plain_elements.flatten(None, truth)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    leaf = plain_elements.LEAVES[output.datatype]
    if not values or not output.values:
        raise ValueError(f"{where}: there is nothing to compare")
    expected = {bool: ("BOOL",), str: ("BYTES",)}.get(leaf, ("INT64", "FP64"))
    if kind not in expected:
        raise ValueError(f"{where}: expected {'numbers' if len(expected) > 1 else plain_elements.LEAF_NAMES[leaf]}")
    if len(values) != len(output.values) or (len(shape) > 1 and _squeeze(shape) != _squeeze(output.shape)):
        raise ValueError(f"{where}: shape {shape} does not fit {list(output.shape)}")
    return values


def _squeeze(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _suggest(name: str, outputs: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(outputs), n=1, cutoff=_CLOSE)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(outputs)}"
