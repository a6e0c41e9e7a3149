"""How right an answer was, by what it should have been: the answer as it was kept, and the truth as somebody sent it.

Integers, booleans and strings are right when all of them are: 1, else 0. Of floating-point numbers it is 1 less the
mean of how far they are off, and at least 0. Where the truth is given for outputs of both sorts, the worse of the two.
"""

from __future__ import annotations

import difflib
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from mizzen.gateway.feedback import record_keeper
from mizzen.protocol import plain_elements
from mizzen.protocol.v2 import Datatype, cited

_LENGTH = struct.Struct("<I")
_CLOSE = 0.75


class Output(NamedTuple):
    name: str
    datatype: str
    shape: Sequence[int]
    values: Sequence[Any]


class _Apart(msgspec.Struct, frozen=True):
    binary_data_size: int | None = None


class _Carried(msgspec.Struct):
    """An output of a V2 answer."""

    name: str
    datatype: Datatype
    shape: list[int]
    data: Any = None
    parameters: _Apart = _Apart()


_decode = msgspec.json.Decoder(list[_Carried]).decode


def accuracy(kept: bytes, truth: Any) -> float:
    """`kept`: an answer, as a record has it. `truth`: by the names of outputs, or that of the first one alone.

    ValueError, in words for who sent it, when the two cannot be compared.
    """
    try:
        kept = record_keeper.parts(kept)[1]
    except (msgspec.DecodeError, struct.error) as error:
        raise ValueError("the answer that was kept cannot be read") from error
    outputs = {output.name: output for output in outputs_of(kept)}
    if not outputs:
        raise ValueError("the answer has no outputs to compare it with")
    if not isinstance(truth, dict):
        return _judged([(next(iter(outputs.values())), truth)])
    if not truth:
        raise ValueError("expected at least one output, by its name")
    for name in truth:
        if name not in outputs:
            raise ValueError(f"'{cited(name)}' is no output of the answer{_meant(name, outputs)}")
    return _judged([(outputs[name], value) for name, value in truth.items()])


def outputs_of(kept: bytes) -> list[Output]:
    """ValueError when it is no answer."""
    form, payload = kept[:1], kept[1:]
    try:
        if form == record_keeper.JSON:
            return [_of_json(each) for each in _decode(payload)]
        if form == record_keeper.RAW:
            return _of_bytes(payload)
        if form == record_keeper.V1:
            return _of_v1(msgspec.json.decode(payload))
    except (msgspec.DecodeError, struct.error) as error:
        raise ValueError("the answer that was kept cannot be read") from error
    raise ValueError("the answer that was kept cannot be read")


def _of_bytes(payload: bytes) -> list[Output]:
    (length,) = _LENGTH.unpack_from(payload)
    at = _LENGTH.size + length
    found = []
    for each in _decode(payload[_LENGTH.size : at]):
        size = each.parameters.binary_data_size
        if size is None:
            found.append(_of_json(each))
            continue
        values = plain_elements.unpacked(each.datatype, each.shape, payload[at : at + size])
        found.append(Output(each.name, each.datatype, each.shape, [_text(value) for value in values]))
        at += size
    return found


def _of_json(each: _Carried) -> Output:
    return Output(each.name, each.datatype, each.shape, plain_elements.flattened(each.datatype, each.data)[2])


def _of_v1(answer: Any) -> list[Output]:
    """One output answers by itself, several by their names: in each row, or at the top."""
    if not isinstance(answer, dict) or len(answer) != 1:
        raise ValueError("the answer that was kept cannot be read")
    ((name, values),) = answer.items()
    if isinstance(values, list) and values and all(isinstance(row, dict) for row in values):
        values = {key: [row.get(key) for row in values] for key in values[0]}
    by_name = values if isinstance(values, dict) else {name: values}
    return [Output(key, *plain_elements.flattened(None, value)) for key, value in by_name.items()]


def _text(value: Any) -> Any:
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value


def _judged(pairs: Iterable[tuple[Output, Any]]) -> float:
    exact, errors = True, []
    for output, truth in pairs:
        values = _fitting(output, truth)
        if plain_elements.LEAVES.get(output.datatype) is float:
            errors += [abs(value - should) for value, should in zip(output.values, values, strict=True)]
        else:
            exact = exact and all(value == should for value, should in zip(output.values, values, strict=True))
    if not errors:
        return float(exact)
    mean = sum(errors) / len(errors)
    close = 1.0 - mean if mean < 1.0 else 0.0  # of a mean that is no number, too
    return close if exact else 0.0


def _fitting(output: Output, truth: Any) -> list[Any]:
    """The values of a truth that can be that of this output. ValueError."""
    where = f"for output '{cited(output.name)}'"
    try:
        kind, shape, values = plain_elements.flattened(None, truth)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    leaf = plain_elements.LEAVES[output.datatype]
    if not values or not output.values:
        raise ValueError(f"{where}: there is nothing to compare")
    wanted = {bool: ("BOOL",), str: ("BYTES",)}.get(leaf, ("INT64", "FP64"))
    if kind not in wanted:
        raise ValueError(f"{where}: expected {'numbers' if len(wanted) > 1 else plain_elements.WORDS[leaf]}")
    if len(values) != len(output.values) or (len(shape) > 1 and _plain(shape) != _plain(output.shape)):
        raise ValueError(f"{where}: shape {shape} does not fit {list(output.shape)}")
    return values


def _plain(shape: Sequence[int]) -> list[int]:
    return [size for size in shape if size != 1]


def _meant(name: str, outputs: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(outputs), n=1, cutoff=_CLOSE)
    return f"; did you mean '{close[0]}'?" if close else f"; there are {', '.join(outputs)}"
